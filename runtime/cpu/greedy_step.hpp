// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace vkformer::cpu {

struct GreedyTensors {
    std::span<const std::int32_t> next;
    std::span<std::int32_t> tokens, starts, finished, history;  // history: [capacity, rows], the others: [rows]
};

// Greedy search of Hugging Face generate: a finished row emits pad, another one its arg max; eos finishes a row.
inline void greedy_step(const GreedyTensors& s, std::int32_t eos, std::int32_t pad) {
    const std::size_t rows = s.next.size();
    const std::size_t capacity = s.history.size() / rows;
    for (std::size_t r = 0; r < rows; ++r) {
        const std::int32_t chosen = s.finished[r] ? pad : s.next[r];
        if (chosen == eos) s.finished[r] = 1;
        if (s.starts[r] >= 0 && static_cast<std::size_t>(s.starts[r]) < capacity)
            s.history[static_cast<std::size_t>(s.starts[r]) * rows + r] = chosen;
        s.tokens[r] = chosen;
        ++s.starts[r];
    }
}

}  // namespace vkformer::cpu
