// SPDX-License-Identifier: MIT
/// PNG and JPEG files.
#include "fuzz.hpp"
#include "vkformer/image.hpp"

using namespace vkformer;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto image = decode_image(std::as_bytes(std::span(data, size)));
    fuzz::require_message(image);
    if (image) fuzz::require(image->rgb.size() == std::size_t{image->width} * image->height * 3);
    return 0;
}
