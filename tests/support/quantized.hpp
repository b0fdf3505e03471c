// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <memory>

#include "core/block_format.hpp"
#include "core/dtype.hpp"
#include "support/must.hpp"
#include "support/op_case.hpp"

namespace vkformer::tests {

inline TensorData owned(std::vector<float> values, const Shape& shape) {
    const auto kept = std::make_shared<std::vector<float>>(std::move(values));
    return {.dtype = DType::f32, .shape = shape, .bytes = std::as_bytes(std::span(*kept)), .owner = kept};
}

/// Random weights in the format, with scales that differ from row to row.
inline graph::Value random_weight(OpCase& c, DType format, std::uint64_t out, std::uint64_t in) {
    std::vector<float> values = c.random_floats(out * in);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] *= 1 + static_cast<float>(i / in % 7);
    TensorData data = owned(std::move(values), {out, in});
    if (is_quantized(format)) data = must(quantized(data, format));
    return must(c.graph.weight("weight", std::move(data), format));
}

/// A width of some blocks that is no multiple of 512 elements.
inline std::uint64_t width_of(DType format, std::uint64_t blocks) {
    return blocks * std::max<std::uint64_t>(32, block_elements(format));
}

}  // namespace vkformer::tests
