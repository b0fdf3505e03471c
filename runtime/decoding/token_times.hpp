// SPDX-License-Identifier: MIT
/// When tokens were said: the heads of a decoder that look at what is being said, made into one monotonic path.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vkformer::decoding {

/// Cross-attention of some heads: of the query that writes each token, over the encoder's positions.
struct HeadWeights {
    std::span<const float> values;  ///< [heads, tokens, positions], rows that sum to at most 1
    std::size_t heads = 0, tokens = 0, positions = 0;
};

/// The position at which each token begins, never falling; one for each token. Weights are standardised over the tokens, smoothed over time
/// by a median of `median_width` (odd) positions, averaged over the heads, and the path through them with the greatest sum is taken
/// (dynamic time warping). Transformers 5.12, WhisperGenerationMixin._extract_token_timestamps, after Radford et al. 2022's code; that
/// takes the query that writes a token, as here, while transformers 5.12 takes the one behind it. Requires no size to be zero.
std::vector<std::uint32_t> token_positions(const HeadWeights& weights, std::uint32_t median_width);

}  // namespace vkformer::decoding
