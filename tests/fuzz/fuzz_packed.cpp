// SPDX-License-Identifier: MIT
/// Packed weights: a quantization_config, a zero byte, and a safetensors file.
#include "formats/safetensors.hpp"
#include "fuzz.hpp"
#include "models/packed_weights.hpp"

using namespace vkformer;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view whole = fuzz::text_of(data, size);
    const std::size_t end = whole.find('\0');
    if (end == whole.npos) return 0;
    const auto config =
        formats::Config::parse(R"({"quantization_config": )" + std::string(whole.substr(0, end)) + "}", "config.json");
    const auto bytes = fuzz::copy_of(data + end + 1, size - end - 1);
    auto file = formats::Safetensors::parse(*bytes, bytes, "x.safetensors");
    if (!config || !file) return 0;
    const auto weights = models::unpacked(*config, formats::Weights("x.safetensors", std::move(*file).tensors()));
    fuzz::require_message(weights);
    if (!weights) return 0;
    for (const auto& [name, tensor] : weights->tensors()) {
        fuzz::require(tensor.bytes.size() == bytes_of(tensor.dtype, tensor.shape.element_count()));
        fuzz::touch(tensor.bytes);
    }
    return 0;
}
