// SPDX-License-Identifier: MIT
#include "vulkan/shader_table.h"

#include <zlib.h>

#include <cstring>
#include <string>

namespace vkformer::vulkan {
namespace {

constexpr int kGzip = 16 + MAX_WBITS;  // inflateInit2: a gzip header is expected
constexpr std::size_t kTrailer = 8;    // CRC-32 and length, at the end of a gzip file
constexpr std::uint32_t kMagic = 0x07230203;

Error damaged(const ShaderBinary& shader) {
    return {ErrorCode::CorruptFile, "the shader " + std::string(shader.name) +
                                        " is damaged inside the vkformer library; install the library again"};
}

/// Bytes of the contents, little-endian in the last four of a gzip file.
std::size_t length_of(std::span<const unsigned char> gzip) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length |= std::size_t{gzip[gzip.size() - 4 + i]} << (8 * i);
    return length;
}

/// Whether the contents fill the bytes exactly; zlib checks the CRC.
bool inflate_into(std::span<unsigned char> bytes, std::span<const unsigned char> gzip) {
    z_stream stream{};
    stream.next_in = const_cast<unsigned char*>(gzip.data());  // zlib does not write there
    stream.avail_in = static_cast<uInt>(gzip.size());
    stream.next_out = bytes.data();
    stream.avail_out = static_cast<uInt>(bytes.size());
    if (inflateInit2(&stream, kGzip) != Z_OK) return false;
    const bool is_whole = inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.avail_out == 0;
    inflateEnd(&stream);
    return is_whole;
}

}  // namespace

Result<std::vector<std::uint32_t>> spirv_of(const ShaderBinary& shader) {
    const auto& [gzip, offset, bytes] = shader.module;
    if (gzip.size() < kTrailer) return damaged(shader);
    const std::size_t length = length_of(gzip);
    // DEFLATE makes nothing smaller than a 1032nd: a length beyond that is wrong, and is not allocated.
    if (length / 1032 > gzip.size() || bytes == 0 || bytes % 4 != 0 || std::size_t{offset} + bytes > length)
        return damaged(shader);
    std::vector<unsigned char> contents(length);
    if (!inflate_into(contents, gzip)) return damaged(shader);
    std::vector<std::uint32_t> words(bytes / 4);
    std::memcpy(words.data(), contents.data() + offset, bytes);
    if (words[0] != kMagic) return damaged(shader);
    return words;
}

}  // namespace vkformer::vulkan
