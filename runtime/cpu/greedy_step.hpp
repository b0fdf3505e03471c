// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

namespace vkformer::cpu {

struct GreedyTensors {
    std::span<const std::int32_t> next;
    std::span<std::int32_t> tokens, starts, finished, history;  // history: [capacity, rows], the others: [rows]
};

/// Empty where there are none.
template <std::floating_point T>
struct GreedyExtras {
    std::span<const std::int32_t> given;  // [rows, positions]; −1: nothing
    std::span<const T> log_probs;         // [rows, vocab]
    std::span<T> scores;                  // [capacity, rows]
};

// Greedy search of Hugging Face generate: a finished row emits pad, another one its arg max; eos finishes a row. A token that is
// given for the next position goes before both, and neither finishes a row nor has a score.
template <std::floating_point T = float>
void greedy_step(const GreedyTensors& s, std::int32_t eos, std::int32_t pad, const GreedyExtras<T>& extras = {}) {
    const std::size_t rows = s.next.size();
    const std::size_t capacity = s.history.size() / rows;
    for (std::size_t r = 0; r < rows; ++r) {
        const bool was_finished = s.finished[r] != 0;
        const std::size_t positions = extras.given.size() / rows, vocab = extras.log_probs.size() / rows;
        const auto next = static_cast<std::size_t>(std::int64_t{s.starts[r]} + 1);  // a negative one is huge
        const bool is_given = next < positions && extras.given[r * positions + next] >= 0;
        const std::int32_t chosen = is_given ? extras.given[r * positions + next] : was_finished ? pad : s.next[r];
        if (eos >= 0 && chosen == eos && !is_given) s.finished[r] = 1;  // −1 is what was not chosen
        if (s.starts[r] >= 0 && static_cast<std::size_t>(s.starts[r]) < capacity) {
            const std::size_t at = static_cast<std::size_t>(s.starts[r]) * rows + r;
            s.history[at] = chosen;
            const bool is_scored = !is_given && !was_finished && static_cast<std::size_t>(chosen) < vocab;
            if (vocab > 0)
                extras.scores[at] = is_scored ? extras.log_probs[r * vocab + static_cast<std::size_t>(chosen)] : 0;
        }
        s.tokens[r] = chosen;
        ++s.starts[r];
    }
}

}  // namespace vkformer::cpu
