// SPDX-License-Identifier: MIT
/// Pictures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "vkformer/export.h"
#include "vkformer/result.hpp"

namespace vkformer {

/// Rows from top to bottom, pixels from left to right, red, green and blue of each.
struct Image {
    std::uint32_t width = 0, height = 0;
    std::vector<std::uint8_t> rgb{};  ///< [height, width, 3]
};

/// A PNG or JPEG file, told by its first bytes, with the pixels that Pillow's convert("RGB") gives: transparency is dropped, colour profiles
/// and gamma are not applied, greys and palettes become colours. Pictures come as Exif says, upright. Of hostile files:
/// at most 32768 pixels to a side and 67 million in all, files of at most 256 MiB. Errors: FileNotFound, CorruptFile (says what is wrong).
VKFORMER_API Result<Image> load_image(const std::filesystem::path& path);
/// The same for a file in memory.
VKFORMER_API Result<Image> decode_image(std::span<const std::byte> file);

}  // namespace vkformer
