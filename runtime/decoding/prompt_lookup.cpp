// SPDX-License-Identifier: MIT
#include "decoding/prompt_lookup.hpp"

#include <algorithm>

namespace vkformer::decoding {
namespace {

constexpr std::size_t kShortestRun = 2;  // one token alone is followed by too many different ones
constexpr std::size_t kLongestRun = 8;   // the same for all purposes as a longer one

/// Tokens before `end` that are as those before the end of all, kLongestRun at most.
std::size_t common_run(std::span<const std::int32_t> tokens, std::size_t end) noexcept {
    const std::size_t most = std::min(kLongestRun, end);
    std::size_t run = 0;
    while (run < most && tokens[end - 1 - run] == tokens[tokens.size() - 1 - run]) ++run;
    return run;
}

}  // namespace

std::vector<std::int32_t> look_up(std::span<const std::int32_t> tokens, std::size_t most) {
    std::size_t best = 0, longest = kShortestRun - 1;
    for (std::size_t end = tokens.size(); end-- > kShortestRun && longest < kLongestRun;) {
        const std::size_t run = common_run(tokens, end);
        if (run <= longest) continue;
        best = end;
        longest = run;
    }
    std::vector<std::int32_t> guess;
    if (best == 0) return guess;
    const std::size_t period = tokens.size() - best;
    for (std::size_t i = 0; i < most; ++i) guess.push_back(i < period ? tokens[best + i] : guess[i - period]);
    return guess;
}

}  // namespace vkformer::decoding
