// SPDX-License-Identifier: MIT
// Exif 2.3, section 4.6: a TIFF file in an APP1 marker; tag 0x0112 of its first directory is the orientation.
#include "images/exif.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace vkformer::images {
namespace {

constexpr std::size_t kEntryBytes = 12;
constexpr std::uint32_t kOrientationTag = 0x0112;

/// Numbers of a TIFF file in its byte order; 0 outside of it.
class Tiff {
public:
    Tiff(std::span<const std::byte> bytes, bool is_little) : bytes_(bytes), is_little_(is_little) {}
    std::uint32_t number(std::size_t at, std::size_t size) const {
        std::uint32_t value = 0;
        if (at > bytes_.size() || size > bytes_.size() - at) return 0;
        for (std::size_t i = 0; i < size; ++i)
            value = value << 8 | std::to_integer<std::uint32_t>(bytes_[at + (is_little_ ? size - 1 - i : i)]);
        return value;
    }

private:
    std::span<const std::byte> bytes_;
    bool is_little_;
};

/// Bytes of a whole number of a TIFF type; 0 of what is none. Exif has a SHORT here; some writers put a BYTE or a LONG, which Pillow
/// takes, too.
constexpr std::size_t bytes_of_type(std::uint32_t type) noexcept {
    switch (type) {
    case 1: return 1;  // BYTE
    case 3: return 2;  // SHORT
    case 4: return 4;  // LONG
    default: return 0;
    }
}

/// 1 to 8; 1 where there is none.
std::uint32_t orientation_number(std::span<const std::byte> marker) {
    constexpr std::string_view kExif("Exif\0\0", 6);
    if (marker.size() < kExif.size() + 8 ||
        !std::ranges::equal(marker.first(kExif.size()), std::as_bytes(std::span(kExif))))
        return 1;
    const auto file = marker.subspan(kExif.size());
    const Tiff tiff(file, file[0] == std::byte{'I'});
    const std::size_t directory = tiff.number(4, 4);
    const std::size_t entries = tiff.number(directory, 2);
    for (std::size_t i = 0; i < entries; ++i) {
        const std::size_t entry = directory + 2 + i * kEntryBytes;
        if (entry >= file.size()) break;
        const std::size_t bytes = bytes_of_type(tiff.number(entry + 2, 2));
        if (tiff.number(entry, 2) != kOrientationTag || bytes == 0) continue;
        const std::uint32_t number = tiff.number(entry + 8, bytes);
        return number >= 1 && number <= 8 ? number : 1;
    }
    return 1;
}

}  // namespace

Orientation exif_orientation(std::span<const std::byte> marker) {
    constexpr std::array<Orientation, 8> kOrientations = {{{false, false, false},
                                                           {false, true, false},
                                                           {false, true, true},
                                                           {false, false, true},
                                                           {true, false, false},
                                                           {true, false, true},
                                                           {true, true, true},
                                                           {true, true, false}}};
    return kOrientations[orientation_number(marker) - 1];
}

Image upright(Image image, const Orientation& o) {
    if (!o.transposed && !o.mirrored_x && !o.mirrored_y) return image;
    Image turned{.width = image.width, .height = image.height, .rgb = std::vector<std::uint8_t>(image.rgb.size())};
    if (o.transposed) std::swap(turned.width, turned.height);
    auto out = turned.rgb.begin();
    for (std::size_t y = 0; y < turned.height; ++y)
        for (std::size_t x = 0; x < turned.width; ++x) {
            std::size_t from_x = o.transposed ? y : x, from_y = o.transposed ? x : y;
            if (o.mirrored_x) from_x = image.width - 1 - from_x;
            if (o.mirrored_y) from_y = image.height - 1 - from_y;
            out = std::copy_n(image.rgb.begin() + static_cast<std::ptrdiff_t>((from_y * image.width + from_x) * 3), 3,
                              out);
        }
    return turned;
}

}  // namespace vkformer::images
