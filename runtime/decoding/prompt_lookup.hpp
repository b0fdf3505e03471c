// SPDX-License-Identifier: MIT
/// Guesses of the tokens that follow (prompt lookup decoding: Saxena 2023): a text that says something again is likely to go on as it did
/// before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vkformer::decoding {

/// What followed where the last tokens were seen before: at the place with the longest common run before it, of those the latest.
/// A text that repeats itself to its end is continued beyond it. Up to `most` tokens; none where no run of two is there twice.
/// O(tokens.size()).
std::vector<std::int32_t> look_up(std::span<const std::int32_t> tokens, std::size_t most);

}  // namespace vkformer::decoding
