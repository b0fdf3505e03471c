// SPDX-License-Identifier: MIT
/// Images of another size, with the very bytes that Pillow's Image.resize gives.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "vkformer/image.hpp"

namespace vkformer::images {

/// Windows of interpolation, as wide as `support` pixels to each side; where the image shrinks, stretched by as much (antialiased).
enum class Resample : std::uint8_t {
    box,       ///< support 1/2
    bilinear,  ///< 1 − |x|, support 1
    bicubic,   ///< Keys 1981, a = −1/2; support 2
    lanczos,   ///< sinc(x) · sinc(x / 3), support 3
};

/// Pillow's number of a filter: 0 nearest, 1 Lanczos, 2 bilinear, 3 bicubic, 4 box, 5 Hamming; none where it is not implemented.
std::optional<Resample> resample_of(std::uint32_t number) noexcept;

/// Columns first, then rows; sums in fixed point with 22 fractional bits, rounded to bytes after each. Sides 1 to kLargestSide.
/// Errors: CorruptFile, beyond the limits of make_image.
Result<Image> resize(const Image& image, std::uint32_t width, std::uint32_t height, Resample filter);

/// The same without rounding, as PyTorch resizes floats: f32 [height, width, 3], 0 to 255 and, with bicubic and Lanczos, somewhat
/// beyond. Errors: as of resize.
Result<std::vector<float>> resize_values(const Image& image, std::uint32_t width, std::uint32_t height,
                                         Resample filter);

}  // namespace vkformer::images
