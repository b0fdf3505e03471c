// SPDX-License-Identifier: MIT
// picture_check PICTURE.png [TABLE.csv ROWS]: whether a sample has drawn something, and written a line for each frame.
#include <png.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace {

std::vector<std::uint32_t> read_pixels(const char* path) {
    png_image image = {};
    image.version = PNG_IMAGE_VERSION;
    if (png_image_begin_read_from_file(&image, path) == 0) {
        std::fprintf(stderr, "%s: %s\n", path, image.message);
        std::exit(1);
    }
    image.format = PNG_FORMAT_RGBA;
    std::vector<std::uint32_t> pixels(std::size_t{image.width} * image.height);
    if (png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr) == 0) {
        std::fprintf(stderr, "%s: %s\n", path, image.message);
        std::exit(1);
    }
    return pixels;
}

/// More than a few colours, and the background is not nearly everything.
bool shows_something(const char* path) {
    const std::vector<std::uint32_t> pixels = read_pixels(path);
    std::map<std::uint32_t, std::size_t> counts;
    for (const std::uint32_t pixel : pixels) ++counts[pixel];
    std::size_t most = 0;
    for (const auto& [color, count] : counts) most = std::max(most, count);
    std::printf("%s: %zu colours, the commonest covers %zu of %zu pixels\n", path, counts.size(), most, pixels.size());
    return counts.size() >= 32 && most < pixels.size() / 100 * 97;
}

std::size_t count_rows(const char* path) {
    std::ifstream file(path);
    std::size_t rows = 0;
    for (std::string line; std::getline(file, line);) ++rows;
    return rows;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2 && argc != 4) return 2;
    if (!shows_something(argv[1])) return 1;
    if (argc == 2) return 0;
    const std::size_t rows = count_rows(argv[2]), expected = std::stoul(argv[3]) + 1;  // and the head line
    std::printf("%s: %zu lines, expected %zu\n", argv[2], rows, expected);
    return rows == expected ? 0 : 1;
}
