// SPDX-License-Identifier: MIT
/// Which way up a camera was held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "vkformer/image.hpp"

namespace vkformer::images {

/// How the stored image is made from the upright one, by Exif's numbers 1 to 8 less one: first the diagonal, then the mirrors.
struct Orientation {
    bool transposed = false;  ///< rows are columns: 5 to 8
    bool mirrored_x = false;  ///< left is right
    bool mirrored_y = false;  ///< top is bottom
};

/// The orientation in an APP1 marker's data; upright where it says nothing that makes sense. Reads nothing outside `marker`.
Orientation exif_orientation(std::span<const std::byte> marker);

Image upright(Image image, const Orientation& orientation);

}  // namespace vkformer::images
