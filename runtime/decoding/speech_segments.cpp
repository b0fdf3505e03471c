// SPDX-License-Identifier: MIT
#include "decoding/speech_segments.hpp"

#include <algorithm>
#include <bit>

#include <zlib.h>

namespace vkformer::decoding {
namespace {

constexpr std::uint32_t kFramesPerTimestamp = 2;

}  // namespace

SpeechSegments cut_into_segments(std::span<const std::int32_t> tokens, std::int32_t first_timestamp,
                                 std::uint32_t frames) {
    const auto is_time = [&](std::size_t i) { return tokens[i] >= first_timestamp; };
    const auto frame_of = [&](std::size_t i) {
        return static_cast<std::uint32_t>(std::max(tokens[i] - first_timestamp, 0)) * kFramesPerTimestamp;
    };
    const std::size_t count = tokens.size();
    std::vector<std::size_t> cuts;
    for (std::size_t i = 1; i < count; ++i)
        if (is_time(i - 1) && is_time(i)) cuts.push_back(i);
    SpeechSegments result{.segments = {}, .advance = std::max(frames, 1u)};

    if (cuts.empty()) {
        std::uint32_t end = frames / kFramesPerTimestamp * kFramesPerTimestamp;
        for (std::size_t i = count; i-- > 0;) {
            if (!is_time(i)) continue;
            if (tokens[i] != first_timestamp) end = frame_of(i);
            break;
        }
        if (count > 0) result.segments.push_back({.start = 0, .end = end, .tokens = {tokens.begin(), tokens.end()}});
        return result;
    }

    const bool ends_in_one = !is_time(count - 2) && is_time(count - 1);
    if (ends_in_one)
        cuts.push_back(count);
    else
        ++cuts.back();  // both times go to the last segment
    std::size_t from = 0;
    for (const std::size_t cut : cuts) {
        const bool has_both = cut == cuts.back() && !ends_in_one;
        const auto own = tokens.subspan(from, cut - from);
        result.segments.push_back(
            {.start = frame_of(from), .end = frame_of(cut - (has_both ? 2 : 1)), .tokens = {own.begin(), own.end()}});
        from = cut;
    }
    if (!ends_in_one) result.advance = std::max(result.segments.back().end, 1u);
    return result;
}

std::vector<std::int32_t> previous_text(std::span<const std::vector<std::int32_t>> segments,
                                        std::int32_t first_timestamp, std::size_t most) {
    std::vector<std::int32_t> text;
    for (const auto& segment : segments) {
        const bool has_both =
            first_timestamp >= 0 && segment.size() > 2 && segment[segment.size() - 2] >= first_timestamp;
        text.insert(text.end(), segment.begin(), segment.end() - (has_both ? 1 : 0));
    }
    if (text.size() > most) text.erase(text.begin(), text.end() - static_cast<std::ptrdiff_t>(most));
    return text;
}

double compression_ratio(std::span<const std::int32_t> tokens, std::uint64_t vocab) {
    if (tokens.empty()) return 0;
    const unsigned bits = static_cast<unsigned>(std::bit_width(vocab)) - 1;  // ⌊log2⌋
    std::vector<Bytef> bytes;
    for (const std::int32_t token : tokens)
        for (unsigned i = 0; i <= bits / 8; ++i)
            bytes.push_back(static_cast<Bytef>(static_cast<std::uint32_t>(token) >> 8 * i & 0xFF));
    uLongf packed = compressBound(static_cast<uLong>(bytes.size()));
    std::vector<Bytef> scratch(packed);
    if (compress(scratch.data(), &packed, bytes.data(), static_cast<uLong>(bytes.size())) != Z_OK) return 0;
    return static_cast<double>(bytes.size()) / static_cast<double>(packed);
}

}  // namespace vkformer::decoding
