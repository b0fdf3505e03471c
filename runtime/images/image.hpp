// SPDX-License-Identifier: MIT
/// Pictures in files to pixels in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "vkformer/image.hpp"

namespace vkformer::images {

/// What a file may ask for at most: more is refused before any memory is taken for it.
inline constexpr std::uint32_t kLargestSide = 1u << 15;                // pixels
inline constexpr std::uint64_t kMostPixels = std::uint64_t{1} << 26;   // 67 million: 192 MiB
inline constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 28;  // bytes

/// Errors: CorruptFile, beyond the limits above.
Result<void> check_size(std::uint64_t width, std::uint64_t height);
/// An image of that size, all black. Errors: CorruptFile, beyond the limits above.
Result<Image> make_image(std::uint64_t width, std::uint64_t height);

/// Errors: CorruptFile, with what the decoder says.
Result<Image> decode_png(std::span<const std::byte> file);
Result<Image> decode_jpeg(std::span<const std::byte> file);

}  // namespace vkformer::images
