// SPDX-License-Identifier: MIT
/// What the tokens of a window of sound say: segments with times, how far to go on, whether to trust them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vkformer::decoding {

/// Part of what a decoder wrote down of a window. Times are frames of the window's spectrogram, two to a timestamp.
struct SpeechSegment {
    std::uint32_t start = 0, end = 0;
    std::vector<std::int32_t> tokens;  ///< times included; the last segment of a window may end in two
};

struct SpeechSegments {
    std::vector<SpeechSegment> segments;
    std::uint32_t advance = 0;  ///< frames from this window's begin to the next one's, at least one
};

/// Cuts the tokens of a window (without end token) where two times stand side by side. What follows the last pair is left for
/// the next window, which begins there; a window that ends in a single time, or has no pair, is over. `frames`: of the window that
/// are sound. Transformers 4.57, WhisperGenerationMixin._retrieve_segment, after OpenAI's transcribe().
SpeechSegments cut_into_segments(std::span<const std::int32_t> tokens, std::int32_t first_timestamp,
                                 std::uint32_t frames);

/// What the decoder may be reminded of: the last `most` tokens of the segments, where two times end one, the second left out.
std::vector<std::int32_t> previous_text(std::span<const std::vector<std::int32_t>> segments,
                                        std::int32_t first_timestamp, std::size_t most);

/// By how much zlib makes the tokens shorter, as bytes as few as the vocabulary needs: 1.35 and more is what repeats itself.
double compression_ratio(std::span<const std::int32_t> tokens, std::uint64_t vocab);

}  // namespace vkformer::decoding
