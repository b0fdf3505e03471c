// SPDX-License-Identifier: MIT
#include "images/image.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "core/mapped_file.hpp"
#include "core/try.hpp"

namespace vkformer {
namespace {

bool starts_with(std::span<const std::byte> file, std::span<const std::uint8_t> magic) {
    return file.size() >= magic.size() &&
           std::equal(magic.begin(), magic.end(), file.begin(),
                      [](std::uint8_t expected, std::byte found) { return found == std::byte{expected}; });
}

constexpr std::array<std::uint8_t, 8> kPng = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
constexpr std::array<std::uint8_t, 3> kJpeg = {0xFF, 0xD8, 0xFF};

}  // namespace

namespace images {

Result<void> check_size(std::uint64_t width, std::uint64_t height) {
    if (width == 0 || height == 0 || width > kLargestSide || height > kLargestSide || width * height > kMostPixels)
        return Error{ErrorCode::CorruptFile, "the image has " + std::to_string(width) + " × " + std::to_string(height) +
                                                 " pixels; 1 to " + std::to_string(kLargestSide) + " to a side and " +
                                                 std::to_string(kMostPixels) + " in all are read"};
    return {};
}

Result<Image> make_image(std::uint64_t width, std::uint64_t height) {
    VKFORMER_CHECK(check_size(width, height));
    Image image{.width = static_cast<std::uint32_t>(width), .height = static_cast<std::uint32_t>(height), .rgb = {}};
    image.rgb.resize(width * height * 3);
    return image;
}

}  // namespace images

Result<Image> decode_image(std::span<const std::byte> file) {
    if (file.size() > images::kLargestFile)
        return Error{ErrorCode::CorruptFile, "the image file has " + std::to_string(file.size()) + " bytes; at most " +
                                                 std::to_string(images::kLargestFile) + " are read"};
    if (starts_with(file, kPng)) return images::decode_png(file);
    if (starts_with(file, kJpeg)) return images::decode_jpeg(file);
    return Error{ErrorCode::CorruptFile, "this is neither a PNG nor a JPEG file"};
}

Result<Image> load_image(const std::filesystem::path& path) {
    VKFORMER_TRY(const auto file, MappedFile::read(path));
    auto image = decode_image(file->bytes());
    if (image) return image;
    Error error = std::move(image).error();
    error.message = path.string() + ": " + error.message;
    return error;
}

}  // namespace vkformer
