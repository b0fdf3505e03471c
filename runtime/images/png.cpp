// SPDX-License-Identifier: MIT
// PNG by libpng, whose errors leave by longjmp: between setjmp and the end nothing with a destructor is made.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "core/try.hpp"
#include "images/exif.hpp"
#include "images/image.hpp"

namespace vkformer::images {
namespace {

/// What the callbacks share with the decoder.
struct Source {
    std::span<const std::byte> rest;
    std::jmp_buf leave{};
    std::string message;
};

constexpr png_alloc_size_t kLargestChunk = png_alloc_size_t{1} << 26;  // decompressed: colour profiles and texts
constexpr png_uint_32 kMostChunks = 256;                               // that libpng does not know but keeps

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
    auto& source = *static_cast<Source*>(png_get_error_ptr(png));
    source.message = message;
    std::longjmp(source.leave, 1);
}

void on_warning(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep to, std::size_t count) {
    auto& source = *static_cast<Source*>(png_get_io_ptr(png));
    if (count > source.rest.size()) png_error(png, "the file ends too early");
    std::memcpy(to, source.rest.data(), count);
    source.rest = source.rest.subspan(count);
}

/// Owns libpng's two objects.
struct Reader {
    png_structp png;
    png_infop info = nullptr;
    explicit Reader(Source& source)
        : png(png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, on_error, on_warning)) {
        if (png) info = png_create_info_struct(png);
    }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
};

/// Any PNG as 8-bit RGB, alpha dropped.
void ask_for_rgb(png_structp png, png_infop info) {
    png_set_expand(png);    // palettes, fewer than 8 bits, transparency as a colour
    png_set_strip_16(png);  // the upper byte, as Pillow has it
    png_set_gray_to_rgb(png);
    png_set_strip_alpha(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
}

struct Size {
    png_uint_32 width = 0, height = 0;
};

bool read_header(Reader& reader, Source& source, Size& size) {
    if (setjmp(source.leave)) return false;  // NOLINT(cert-err52-cpp): libpng knows no other way
    png_set_read_fn(reader.png, &source, read_bytes);
    png_set_user_limits(reader.png, kLargestSide, kLargestSide);
    png_set_chunk_malloc_max(reader.png, kLargestChunk);
    png_set_chunk_cache_max(reader.png, kMostChunks);
    png_read_info(reader.png, reader.info);
    size = {png_get_image_width(reader.png, reader.info), png_get_image_height(reader.png, reader.info)};
    ask_for_rgb(reader.png, reader.info);
    return true;
}

bool read_pixels(Reader& reader, Source& source, std::vector<png_bytep>& rows) {
    if (setjmp(source.leave)) return false;  // NOLINT(cert-err52-cpp)
    png_read_image(reader.png, rows.data());
    png_read_end(reader.png, reader.info);
    return true;
}

/// As the eXIf chunk says: what an APP1 marker of a JPEG has behind its name.
Orientation orientation_of(const Reader& reader) {
    png_uint_32 count = 0;
    png_bytep bytes = nullptr;
    if (png_get_eXIf_1(reader.png, reader.info, &count, &bytes) == 0) return {};
    constexpr std::string_view kName("Exif\0\0", 6);
    std::vector<std::byte> marker(kName.size() + count);
    std::ranges::copy(std::as_bytes(std::span(kName)), marker.begin());
    std::ranges::copy(std::as_bytes(std::span(bytes, count)), marker.begin() + kName.size());
    return exif_orientation(marker);
}

Error corrupt(const Source& source) { return {ErrorCode::CorruptFile, "the PNG file is damaged: " + source.message}; }

}  // namespace

Result<Image> decode_png(std::span<const std::byte> file) {
    Source source{.rest = file, .message = {}};
    Reader reader(source);
    if (!reader.png || !reader.info) return Error{ErrorCode::OutOfHostMemory, "no memory to read a PNG file"};
    Size size;
    if (!read_header(reader, source, size)) return corrupt(source);
    VKFORMER_TRY(Image image, make_image(size.width, size.height));
    const std::size_t pitch = std::size_t{size.width} * 3;
    if (png_get_rowbytes(reader.png, reader.info) != pitch)
        return Error{ErrorCode::CorruptFile, "the PNG file is of no kind that can be made RGB"};
    std::vector<png_bytep> rows(size.height);
    for (std::size_t y = 0; y < rows.size(); ++y) rows[y] = image.rgb.data() + y * pitch;
    if (!read_pixels(reader, source, rows)) return corrupt(source);
    return upright(std::move(image), orientation_of(reader));
}

}  // namespace vkformer::images
