// SPDX-License-Identifier: MIT
// Self-attention without parameters: one tensor is query, key and value at once.
#include <cmath>

#include "support/attention_case.hpp"
#include "support/backends.hpp"

namespace vkformer::tests {
namespace {

using graph::Value;

/// The three nodes and the one over these operands, in that order.
std::vector<Value> attend_twice(OpCase& c, Value query, Value key, Value value, float scale, bool causal) {
    const Value scores = c.expect(graph::attention_scores(c.graph, query, key, scale));
    const Value weights = c.expect(graph::masked_softmax(c.graph, scores, {.causal = causal}));
    const Value mixed = c.expect(graph::weighted_sum(c.graph, weights, value));
    return {scores, weights, mixed, c.expect(graph::attention(c.graph, query, key, value, {.causal = causal}, scale))};
}

TEST_CASE("one tensor may be query, key and value at once", "[op][attention][attention_scores]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const bool is_causal = GENERATE(false, true);
    const auto [batch, len, heads, dim] = GENERATE(table<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>(
        {{1, 1, 1, 1}, {2, 7, 1, 5}, {1, 33, 3, 20}, {3, 65, 2, 64}}));
    CAPTURE(backend.name(), to_string(dtype), is_causal, batch, len, heads, dim);
    const Shape shape{batch, len, heads, dim};
    const float scale = 1 / std::sqrt(static_cast<float>(dim));

    OpCase one;
    const std::vector<float> values = one.random_floats(shape.element_count());
    const Value x = one.floats("x", dtype, shape, values);
    const std::vector<Value> results = attend_twice(one, x, x, x, scale, is_causal);
    one.check(backend);

    OpCase three;  // the same contents in tensors of their own: bit for bit the same
    const Value query = three.floats("query", dtype, shape, values), key = three.floats("key", dtype, shape, values),
                value = three.floats("value", dtype, shape, values);
    const std::vector<Value> others = attend_twice(three, query, key, value, scale, is_causal);
    for (std::size_t i = 0; i < results.size(); ++i) {
        CAPTURE(i);
        CHECK(one.run(backend, results[i]) == three.run(backend, others[i]));
    }
}

}  // namespace
}  // namespace vkformer::tests
