// SPDX-License-Identifier: MIT
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"

namespace vkformer::tests {
namespace {

using graph::Value;

struct AdditiveSizes {
    std::uint64_t batch, query_len, key_len, heads, dim;
};

// The shader's tiles are 1 × 64, 4 × 16 and 8 × 8 queries and keys, 32 deep; 1 × 8 on CPU-type devices for 1, 8 and 65 keys.
TEST_CASE("additive_scores agrees with double precision", "[op][additive_scores]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const AdditiveSizes s = GENERATE(values<AdditiveSizes>({
        {1, 1, 1, 1, 1},
        {3, 1, 63, 1, 31},
        {2, 1, 8, 1, 33},
        {2, 1, 575, 2, 33},
        {2, 1, 65, 2, 32},
        {2, 4, 17, 1, 33},
        {2, 3, 16, 3, 64},
        {1, 5, 8, 1, 7},
        {2, 8, 9, 2, 30},
        {1, 17, 131, 1, 97},
        {1, 2, 3, 1, 4096},
    }));
    CAPTURE(backend.name(), to_string(dtype), s.batch, s.query_len, s.key_len, s.heads, s.dim);
    OpCase c;
    const Value query = c.floats("query", dtype, {s.batch, s.query_len, s.heads, s.dim}, 3);
    const Value key = c.floats("key", dtype, {s.batch, s.key_len, s.heads, s.dim}, 3);
    const Value weight = c.floats("weight", dtype, {s.heads, s.dim});
    c.expect(additive_scores(c.graph, query, key, weight));
    c.check(backend);
}

TEST_CASE("additive_scores bears huge sums, and a NaN stays in its query", "[op][additive_scores]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    std::vector<float> query = c.random_floats(9 * 5, 3e38f), key = c.random_floats(11 * 5, 3e38f);
    query[4 * 5 + 2] = std::numeric_limits<float>::quiet_NaN();
    query[0] = std::numeric_limits<float>::infinity();
    for (std::size_t i = 5; i < 10; ++i) query[i] = 0;  // tiny sums, too
    for (std::size_t i = 0; i < 5; ++i) key[i] = 1e-20f;
    const Value q = c.floats("query", DType::f32, {1, 9, 1, 5}, query),
                k = c.floats("key", DType::f32, {1, 11, 1, 5}, key);
    const Value weight = c.floats("weight", DType::f32, {1, 5});
    c.expect(additive_scores(c.graph, q, k, weight));
    c.check(backend);
}

}  // namespace
}  // namespace vkformer::tests
