// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "cpu/operands.hpp"

namespace vkformer::cpu {

/// Which of the tokens of a run are a sequence's, and which row of the state is its own (graph::StatePlace).
struct OwnTokens {
    std::size_t count;
    std::optional<std::size_t> slot;  ///< of the state; none: zeros, and nothing is kept
    bool begins;                      ///< whatever the state holds, it counts as zeros
};

template <std::floating_point T>
OwnTokens own_tokens(const auto& op, const Operands<T>& operands, std::size_t sequence, std::size_t len) {
    const auto starts = operands.ints(op.starts), counts = operands.ints(op.counts), slots = operands.ints(op.slots);
    OwnTokens own = {.count = len, .slot = sequence, .begins = starts.empty() || starts[sequence] == 0};
    if (!counts.empty())
        own.count = static_cast<std::size_t>(std::clamp<std::int64_t>(counts[sequence], 0, static_cast<int>(len)));
    if (!slots.empty()) own.slot = static_cast<std::uint32_t>(slots[sequence]);  // a negative one is larger than any
    if (*own.slot >= operands.dim(op.state, 0)) own.slot.reset();
    return own;
}

}  // namespace vkformer::cpu
