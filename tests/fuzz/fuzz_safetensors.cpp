// SPDX-License-Identifier: MIT
#include "formats/safetensors.hpp"
#include "fuzz.hpp"

using namespace vkformer;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto bytes = fuzz::copy_of(data, size);
    const auto file = formats::Safetensors::parse(*bytes, bytes, "x.safetensors");
    fuzz::require_message(file);
    if (!file) return 0;
    for (const auto& [name, tensor] : file->tensors()) {
        fuzz::require(tensor.bytes.size() == bytes_of(tensor.dtype, tensor.shape.element_count()));
        fuzz::touch(tensor.bytes);
    }
    return 0;
}
