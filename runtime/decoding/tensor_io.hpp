// SPDX-License-Identifier: MIT
/// Reading and writing whole tensors of a program, as the sessions do.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "core/try.hpp"
#include "graph/program.hpp"

namespace vkformer::decoding {

template <class T>
Result<std::vector<T>> read_tensor(graph::Program& program, graph::Value tensor) {
    std::vector<T> values(program.plan().graph.shape(tensor).element_count());
    VKFORMER_CHECK(program.read(tensor, std::span<T>(values)));
    return values;
}

inline Result<std::vector<std::int32_t>> read_ints(graph::Program& program, graph::Value tensor) {
    return read_tensor<std::int32_t>(program, tensor);
}

/// Floats as their bits.
inline Result<std::vector<std::int32_t>> read_words(graph::Program& program, graph::Value tensor) {
    if (!is_real(program.plan().graph.dtype(tensor))) return read_ints(program, tensor);
    VKFORMER_TRY(const auto floats, read_tensor<float>(program, tensor));
    std::vector<std::int32_t> words(floats.size());
    std::ranges::transform(floats, words.begin(), [](float value) { return std::bit_cast<std::int32_t>(value); });
    return words;
}

inline Result<void> write_ints(graph::Program& program, graph::Value tensor, std::span<const std::int32_t> values) {
    return program.write(tensor, values);
}

inline Result<void> fill_ints(graph::Program& program, graph::Value tensor, std::int32_t value) {
    const std::vector<std::int32_t> values(program.plan().graph.shape(tensor).element_count(), value);
    return write_ints(program, tensor, values);
}

inline Result<void> write_floats(graph::Program& program, graph::Value tensor, std::span<const float> values) {
    return program.write(tensor, values);
}

}  // namespace vkformer::decoding
