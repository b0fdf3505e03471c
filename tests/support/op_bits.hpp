// SPDX-License-Identifier: MIT
/// Results that are compared bit for bit.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "support/op_case.hpp"

namespace vkformer::tests {

inline std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
    std::vector<std::uint32_t> bits(values.size());
    std::ranges::transform(values, bits.begin(), [](float v) { return std::bit_cast<std::uint32_t>(v); });
    return bits;
}

/// What each variant makes of `result`.
inline std::vector<std::vector<std::uint32_t>> runs_of(const OpCase& c, graph::Backend& backend, graph::Value result) {
    std::vector<std::vector<std::uint32_t>> runs;
    c.each_variant(backend, result, [&](const std::vector<float>& values) { runs.push_back(bits_of(values)); });
    return runs;
}

}  // namespace vkformer::tests
