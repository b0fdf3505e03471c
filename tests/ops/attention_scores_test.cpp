// SPDX-License-Identifier: MIT
#include "support/attention_case.hpp"
#include "support/backends.hpp"

namespace vkformer::tests {
namespace {

// The shader's tile has 32 queries, keys and elements of depth.
TEST_CASE("attention_scores agrees with double precision", "[op][attention_scores]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const AttentionSizes sizes = GENERATE(values<AttentionSizes>({
        {1, 1, 1, 1, 1, 1, 1},
        {2, 31, 33, 2, 2, 31, 1},
        {1, 32, 32, 3, 3, 32, 1},
        {2, 33, 31, 4, 2, 33, 1},
        {3, 5, 67, 6, 1, 7, 1},
        {1, 97, 2, 2, 1, 256, 1},
        {1, 3, 5, 1, 1, 1030, 1},
        {1, 130, 129, 2, 2, 64, 1},
    }));
    CAPTURE(backend.name(), to_string(dtype), to_string(sizes));

    OpCase c;
    const AttentionOperands o = attention_operands(c, sizes, dtype);
    c.expect(attention_scores(c.graph, o.query, o.key, 0.3f));
    c.check(backend);
}

TEST_CASE("attention_scores caps scores", "[op][attention_scores][soft_cap]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), to_string(dtype));
    OpCase c;
    const AttentionOperands o = attention_operands(c, {2, 33, 31, 4, 2, 33, 1}, dtype);
    c.expect(attention_scores(c.graph, o.query, o.key, 0.3f, 2));
    c.check(backend);
}

TEST_CASE("attention_scores shows a NaN where it belongs", "[op][attention_scores]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    std::vector<float> query = c.random_floats(40 * 5);
    query[3 * 5 + 2] = std::numeric_limits<float>::quiet_NaN();
    const graph::Value q = c.floats("query", DType::f32, {1, 40, 1, 5}, query);
    const graph::Value k = c.floats("key", DType::f32, {1, 35, 1, 5});
    c.expect(attention_scores(c.graph, q, k, 1));
    c.check(backend);
}

}  // namespace
}  // namespace vkformer::tests
