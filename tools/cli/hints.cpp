// SPDX-License-Identifier: MIT
#include "hints.hpp"

#include <string_view>

namespace vkformer::cli {
namespace {

std::string_view advice(Hint hint) noexcept {
    switch (hint) {
    case Hint::none: return "";
    case Hint::other_device: return " (see: vkformer info)";
    case Hint::cpu_backend: return " (--device cpu)";
    case Hint::beams: return " (--beams N)";
    case Hint::sampling: return " (--temperature, --top-k, --top-p, --min-p)";
    case Hint::max_tokens: return " (-n, --max-tokens)";
    case Hint::cache_storage: return " (--cache-dtype dtype)";
    case Hint::float32: return " (--dtype f32)";
    case Hint::requantize: return " (llama-quantize --allow-requantize FILE NEW.gguf Q8_0)";
    case Hint::validate: return " (see: vkformer validate)";
    case Hint::encoder_decoder: return "; models of this type are for vkformer translate";
    case Hint::language_model: return "; models of this type are for vkformer generate and chat";
    case Hint::text_encoder: return "; models of this type are for vkformer embed and rerank";
    case Hint::cross_encoder: return "; models of this type are for vkformer rerank";
    case Hint::vision_model: return "; models of this type are for vkformer classify and embed";
    case Hint::clip_model: return "; models of this type are for vkformer classify and embed";
    case Hint::speech_model: return "; models of this type are for vkformer transcribe";
    }
    return "";
}

}  // namespace

std::string told(const Error& error) { return error.message + std::string(advice(error.hint)); }

}  // namespace vkformer::cli
