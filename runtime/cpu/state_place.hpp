// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "cpu/operands.hpp"

namespace vkformer::cpu {

/// Which of the tokens of a run are a sequence's, and which rows of the state are its own (graph::StatePlace).
struct OwnTokens {
    std::size_t count;
    std::optional<std::size_t> before;  ///< row of the state that has what came before; none: zeros
    std::optional<std::size_t> behind;  ///< that what comes then is written to; none: nothing is kept
};

template <std::floating_point T>
OwnTokens own_tokens(const auto& op, const Operands<T>& operands, std::size_t sequence, std::size_t len) {
    const auto starts = operands.ints(op.starts), counts = operands.ints(op.counts), slots = operands.ints(op.slots);
    OwnTokens own = {.count = len, .before = sequence, .behind = sequence};
    if (!counts.empty())
        own.count = static_cast<std::size_t>(std::clamp<std::int64_t>(counts[sequence], 0, static_cast<int>(len)));
    if (!slots.empty()) {  // a negative one is larger than any
        own.before = static_cast<std::uint32_t>(slots[2 * sequence]);
        own.behind = static_cast<std::uint32_t>(slots[2 * sequence + 1]);
    }
    const std::size_t rows = operands.dim(op.state, 0);
    if (starts.empty() || starts[sequence] == 0 || *own.before >= rows) own.before.reset();
    if (*own.behind >= rows) own.behind.reset();
    return own;
}

/// Where a sequence with tokens works on its state: in the row that is kept, filled with what came before, or in `scratch` where nothing
/// is kept. rows(i): that part of row i of the state which is worked on.
template <std::floating_point T>
std::span<T> state_of(const OwnTokens& own, const auto& rows, std::span<T> scratch) {
    const std::span<T> state = own.behind ? rows(*own.behind) : scratch;
    if (!own.before)
        std::ranges::fill(state, T{0});
    else if (own.before != own.behind)
        std::ranges::copy(rows(*own.before), state.begin());
    return state;
}

}  // namespace vkformer::cpu
