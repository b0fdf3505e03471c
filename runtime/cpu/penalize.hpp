// SPDX-License-Identifier: MIT
#pragma once

#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/ops.hpp"

namespace vkformer::cpu {

// counts[token] says what one row has of it: see graph::kInPrompt. One row; a token outside 0 … counts.size() − 1 is passed over.
inline void count_tokens(std::span<const std::int32_t> tokens, graph::TokenOrigin origin,
                         std::span<std::int32_t> counts) {
    for (const std::int32_t token : tokens) {
        if (token < 0 || static_cast<std::size_t>(token) >= counts.size()) continue;
        std::int32_t& count = counts[static_cast<std::size_t>(token)];
        if (origin == graph::TokenOrigin::prompt)
            count |= graph::kInPrompt;
        else
            ++count;
    }
}

struct Penalties {
    float repetition, presence, frequency;
};

// y = x + bias; of a token in the prompt or generated, y / repetition where y > 0, else y · repetition (Keskar et al. 2019, section
// 4.1, as Hugging Face has it); of one generated n ≥ 1 times, y − presence − frequency · n. One row; counts and bias may be empty.
template <std::floating_point T>
void penalize(std::span<const T> x, std::span<const std::int32_t> counts, std::span<const T> bias,
              const Penalties& penalties, std::span<T> y) {
    assert(y.size() == x.size());
    const auto repetition = static_cast<T>(penalties.repetition);
    for (std::size_t i = 0; i < x.size(); ++i) {
        y[i] = x[i] + (bias.empty() ? T{0} : bias[i]);
        if (counts.empty() || counts[i] == 0) continue;
        y[i] = y[i] > 0 ? y[i] / repetition : y[i] * repetition;
        const std::int32_t generated = counts[i] & (graph::kInPrompt - 1);
        if (generated > 0)
            y[i] -=
                static_cast<T>(penalties.presence) + static_cast<T>(penalties.frequency) * static_cast<T>(generated);
    }
}

}  // namespace vkformer::cpu
