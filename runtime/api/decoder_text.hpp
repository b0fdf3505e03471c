// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <memory>

#include "models/decoder_defaults.hpp"
#include "text/chat_template.hpp"
#include "text/tokenizer.hpp"

namespace vkformer::api {

/// What a language model's files say besides its weights.
struct DecoderText {
    std::unique_ptr<text::Tokenizer> tokenizer;
    models::DecoderDefaults defaults;
    Result<text::ChatTemplate> chat_template = Error{};  // its error is told when a conversation is to be answered
};

/// Of a Hugging Face folder or a GGUF file. Errors: those of its parts; a missing or broken chat template is none.
Result<DecoderText> load_decoder_text(const std::filesystem::path& path);

}  // namespace vkformer::api
