// SPDX-License-Identifier: MIT
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"

namespace vkformer::tests {
namespace {

using graph::Value;

struct RelativeSizes {
    std::uint64_t batch, heads, len, rows, reach;
};

// The shader's tiles are 32 queries × 32 keys. The index's numbers are any rows, and some are none.
TEST_CASE("relative_scores agrees with double precision", "[op][relative_scores]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto [has_c2p, has_p2c] = GENERATE(table<bool, bool>({{true, true}, {true, false}, {false, true}}));
    const RelativeSizes s = GENERATE(values<RelativeSizes>({
        {1, 1, 1, 1, 0},
        {3, 2, 1, 5, 4},
        {2, 3, 7, 1, 6},
        {2, 2, 31, 12, 3},
        {1, 3, 32, 64, 31},
        {2, 1, 33, 66, 40},
        {2, 5, 70, 16, 69},
    }));
    CAPTURE(backend.name(), has_c2p, has_p2c, s.batch, s.heads, s.len, s.rows, s.reach);
    OpCase c;
    const Shape shape{1, s.heads, s.batch * s.len, s.rows};
    Value c2p, p2c;
    if (has_c2p) c2p = c.floats("c2p", DType::f32, shape, 3);
    if (has_p2c) p2c = c.floats("p2c", DType::f32, shape, 3);
    const auto rows = static_cast<std::int32_t>(s.rows);
    const Value index =
        c.ints("index", {2 * s.reach + 1}, c.random_ints(2 * s.reach + 1, -1, rows));  // −1 and rows are no rows
    c.expect(relative_scores(c.graph, c2p, p2c, index, s.batch));
    c.check(backend);
}

TEST_CASE("relative_scores goes by the query's position minus the key's, and reads rows only",
          "[op][relative_scores]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
    constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();
    OpCase c;
    // two texts of two tokens, one head, rows for the distances −1, 0 and 1
    const Value c2p =
        c.floats("c2p", DType::f32, {1, 1, 4, 3}, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
    const Value p2c = c.floats("p2c", DType::f32, {1, 1, 4, 3},
                               std::vector<float>{100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1100, 1200});
    const Value index = c.ints("index", {3}, {kLowest, 1, kHighest});
    const Value y = c.expect(relative_scores(c.graph, c2p, p2c, index, 2));
    CHECK(c.run(backend, y) == std::vector<float>{202, 401, 306, 505, 808, 1007, 912, 1111});
}

TEST_CASE("relative_scores keeps NaN and infinities where they are", "[op][relative_scores]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    std::vector<float> c2p = c.random_floats(2 * 40 * 9), p2c = c.random_floats(2 * 40 * 9);
    c2p[100] = std::numeric_limits<float>::quiet_NaN();
    p2c[300] = std::numeric_limits<float>::infinity();
    const Value a = c.floats("c2p", DType::f32, {1, 2, 40, 9}, c2p),
                b = c.floats("p2c", DType::f32, {1, 2, 40, 9}, p2c);
    const Value index = c.ints("index", {79}, c.random_ints(79, 0, 8));
    c.expect(relative_scores(c.graph, a, b, index, 1));
    c.check(backend);
}

}  // namespace
}  // namespace vkformer::tests
