// SPDX-License-Identifier: MIT
#include "support/attention_case.hpp"
#include "support/backends.hpp"

namespace vkformer::tests {
namespace {

// The shader's tile has 32 queries, columns and keys.
TEST_CASE("weighted_sum agrees with double precision", "[op][weighted_sum]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const AttentionSizes s = GENERATE(values<AttentionSizes>({
        {1, 1, 1, 1, 1, 1, 1},
        {2, 31, 33, 2, 2, 1, 31},
        {1, 32, 32, 3, 3, 1, 32},
        {2, 33, 31, 4, 2, 1, 33},
        {3, 5, 67, 6, 1, 1, 7},
        {1, 2, 97, 2, 1, 1, 256},
        {1, 3, 5, 1, 1, 1, 1030},
        {1, 130, 129, 2, 2, 1, 64},
    }));
    CAPTURE(backend.name(), to_string(dtype), to_string(s));

    OpCase c;
    const graph::Value weights = c.floats("weights", DType::f32, {s.batch, s.heads, s.query_len, s.key_len});
    const graph::Value value = c.floats("value", dtype, {s.batch, s.key_len, s.kv_heads, s.value_dim});
    c.expect(weighted_sum(c.graph, weights, value));
    c.check(backend);
}

}  // namespace
}  // namespace vkformer::tests
