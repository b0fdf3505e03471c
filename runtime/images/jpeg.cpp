// SPDX-License-Identifier: MIT
// JPEG by libjpeg-turbo, whose errors leave by longjmp: between setjmp and the end nothing with a destructor is made.
#include <cstdio>  // jpeglib.h needs it and does not include it

#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <span>
#include <string>
#include <vector>

#include "core/try.hpp"
#include "images/exif.hpp"
#include "images/image.hpp"

namespace vkformer::images {
namespace {

constexpr int kMostScans = 500;  // a progressive file of a few bytes each decodes the whole image that often
constexpr unsigned kExifMarkerBytes = 0xFFFF;

struct Failure : jpeg_error_mgr {
    std::jmp_buf leave{};
    char message[JMSG_LENGTH_MAX] = {};
};

[[noreturn]] void on_error(j_common_ptr common) {
    auto& failure = *static_cast<Failure*>(common->err);
    failure.format_message(common, failure.message);
    std::longjmp(failure.leave, 1);
}

/// Where data are missing or damaged libjpeg only warns, and fills in grey: here they are errors. Other warnings do no harm: bytes that no
/// one asked for, an odd Adobe marker.
void on_message(j_common_ptr common, int level) {
    const int code = common->err->msg_code;
    const bool loses_pixels = code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE;
    if (level < 0 && loses_pixels) on_error(common);
}

void on_progress(j_common_ptr common) {
    const auto& decompress = *reinterpret_cast<j_decompress_ptr>(common);
    auto& failure = *static_cast<Failure*>(common->err);
    if (decompress.input_scan_number <= kMostScans) return;
    std::snprintf(failure.message, sizeof failure.message, "it has more than %d scans", kMostScans);
    std::longjmp(failure.leave, 1);
}

struct Decoder {
    Failure failure;
    jpeg_progress_mgr progress{};
    jpeg_decompress_struct decompress{};

    Decoder() {
        decompress.err = jpeg_std_error(&failure);
        failure.error_exit = on_error;
        failure.emit_message = on_message;
        failure.output_message = [](j_common_ptr) {};
        progress.progress_monitor = on_progress;
    }
    Decoder(const Decoder&) = delete;
    Decoder& operator=(const Decoder&) = delete;
    ~Decoder() { jpeg_destroy_decompress(&decompress); }
};

bool read_header(Decoder& decoder, std::span<const std::byte> file) {
    if (setjmp(decoder.failure.leave)) return false;  // NOLINT(cert-err52-cpp): libjpeg knows no other way
    jpeg_decompress_struct& d = decoder.decompress;
    jpeg_create_decompress(&d);
    d.progress = &decoder.progress;
    jpeg_mem_src(&d, reinterpret_cast<const unsigned char*>(file.data()), static_cast<unsigned long>(file.size()));
    jpeg_save_markers(&d, JPEG_APP0 + 1, kExifMarkerBytes);
    jpeg_read_header(&d, TRUE);
    const bool is_cmyk = d.jpeg_color_space == JCS_CMYK || d.jpeg_color_space == JCS_YCCK;
    d.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
    jpeg_calc_output_dimensions(&d);
    return true;
}

/// A line of what libjpeg gives as RGB.
void store_line(const jpeg_decompress_struct& d, const std::uint8_t* line, std::uint8_t* pixels) {
    if (d.out_color_space == JCS_RGB) {
        std::copy_n(line, std::size_t{d.output_width} * 3, pixels);
        return;
    }
    // Adobe's files, which are all there are, store 255 − ink; red = (255 − cyan) · (255 − black) / 255
    for (std::size_t x = 0; x < d.output_width; ++x)
        for (std::size_t c = 0; c < 3; ++c)
            pixels[3 * x + c] = static_cast<std::uint8_t>((line[4 * x + c] * line[4 * x + 3] + 127) / 255);
}

/// `line` has room for a line of what libjpeg gives; `pixels` gets RGB.
bool read_pixels(Decoder& decoder, std::uint8_t* const line, std::uint8_t* const pixels) {
    if (setjmp(decoder.failure.leave)) return false;  // NOLINT(cert-err52-cpp)
    jpeg_decompress_struct& d = decoder.decompress;
    jpeg_start_decompress(&d);
    while (d.output_scanline < d.output_height) {
        const std::size_t y = d.output_scanline;
        JSAMPROW row = line;
        jpeg_read_scanlines(&d, &row, 1);
        store_line(d, line, pixels + y * d.output_width * 3);
    }
    jpeg_finish_decompress(&d);
    return true;
}

Error corrupt(const Decoder& decoder) {
    return {ErrorCode::CorruptFile, "the JPEG file is damaged: " + std::string(decoder.failure.message)};
}

/// The marker that is Exif's: XMP has the same number, and may come before it.
std::span<const std::byte> exif_of(const jpeg_decompress_struct& d) {
    constexpr std::array<JOCTET, 6> kName = {'E', 'x', 'i', 'f', 0, 0};
    for (auto marker = d.marker_list; marker; marker = marker->next) {
        const std::span data(marker->data, marker->data_length);
        if (marker->marker == JPEG_APP0 + 1 && data.size() >= kName.size() &&
            std::ranges::equal(data.first(kName.size()), kName))
            return std::as_bytes(data);
    }
    return {};
}

}  // namespace

Result<Image> decode_jpeg(std::span<const std::byte> file) {
    Decoder decoder;
    if (!read_header(decoder, file)) return corrupt(decoder);
    const jpeg_decompress_struct& d = decoder.decompress;
    VKFORMER_TRY(Image image, make_image(d.output_width, d.output_height));
    const Orientation orientation = exif_orientation(exif_of(d));
    std::vector<std::uint8_t> line(std::size_t{d.output_width} * 4);
    if (!read_pixels(decoder, line.data(), image.rgb.data())) return corrupt(decoder);
    return upright(std::move(image), orientation);
}

}  // namespace vkformer::images
