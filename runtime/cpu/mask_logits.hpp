// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace vkformer::cpu {

/// Token −1: nothing is forced.
struct ForcedTokens {
    std::int32_t first;  // the only token allowed where start == 0
    std::int32_t last;   // the only token allowed where start == last_start; goes before `first` where both apply
    std::int32_t last_start;
};

// y = x with −∞ for the banned tokens; where a token is forced, 0 for it and −∞ for all others. One row of logits.
// The processors of Hugging Face generate: bans, then forced first token, then forced last token. A banned token outside the row
// is passed over.
template <std::floating_point T>
void mask_logits(std::span<const T> x, std::int32_t start, std::span<const std::int32_t> banned,
                 const ForcedTokens& forced_tokens, std::span<T> y) {
    assert(y.size() == x.size());
    constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();
    std::int32_t forced = start == 0 ? forced_tokens.first : -1;
    if (start == forced_tokens.last_start && forced_tokens.last >= 0) forced = forced_tokens.last;
    if (forced >= 0) {
        std::ranges::fill(y, kMinusInfinity);
        y[static_cast<std::size_t>(forced)] = 0;
        return;
    }
    std::ranges::copy(x, y.begin());
    for (const std::int32_t token : banned)
        if (static_cast<std::size_t>(token) < y.size()) y[static_cast<std::size_t>(token)] = kMinusInfinity;
}

}  // namespace vkformer::cpu
