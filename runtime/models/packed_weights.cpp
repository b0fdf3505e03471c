// SPDX-License-Identifier: MIT
#include "models/packed_weights.hpp"

#include <utility>

#include "core/try.hpp"
#include "models/packed_layers.hpp"

namespace vkformer::models {

using formats::Config;
using formats::Weights;

Result<Weights> unpacked(const Config& config, Weights weights) {
    if (!config.has("quantization_config")) return weights;
    VKFORMER_TRY(const Config quantization, config.object("quantization_config"));
    if (quantization.is_empty()) return weights;
    VKFORMER_TRY(const std::string method, quantization.string("quant_method", ""));
    if (method == "gptq") return packed::unpack_gptq(quantization, std::move(weights));
    if (method == "awq") return packed::unpack_awq(quantization, std::move(weights));
    if (method == "fp8") return packed::unpack_fp8(quantization, std::move(weights));
    if (method == "compressed-tensors") return packed::unpack_compressed(quantization, std::move(weights));
    if (method == "mxfp4") return weights;
    return quantization.unsupported("quant_method", "awq, compressed-tensors, fp8, gptq, mxfp4 (of gpt-oss)");
}

Result<Weights> open_folder_weights(const Config& config, const std::filesystem::path& folder) {
    VKFORMER_TRY(Weights weights, formats::open_weights(folder));
    return unpacked(config, std::move(weights));
}

}  // namespace vkformer::models
