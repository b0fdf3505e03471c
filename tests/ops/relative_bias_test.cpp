// SPDX-License-Identifier: MIT
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"

namespace vkformer::tests {
namespace {

TEST_CASE("relative_bias agrees with double precision", "[op][relative_bias]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const bool has_starts = GENERATE(false, true);
    const auto [batch, heads, reach, query_len, key_len] =
        GENERATE(table<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>(
            {{1, 1, 0, 1, 1}, {2, 3, 4, 7, 9}, {3, 5, 128, 1, 65}, {2, 2, 31, 33, 64}, {1, 7, 3, 5, 257}}));
    CAPTURE(backend.name(), has_starts, batch, heads, reach, query_len, key_len);

    OpCase c;
    const graph::Value table = c.floats("table", DType::f32, {heads, 2 * reach + 1});
    graph::Value starts;
    if (has_starts) starts = c.ints("starts", {batch}, c.random_ints(batch, 0, static_cast<int>(key_len)));
    c.expect(relative_bias(c.graph, table, starts, query_len, key_len));
    c.check(backend);
}

TEST_CASE("relative_bias goes from the keys behind a query to those before it", "[op][relative_bias]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
    constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();
    OpCase c;
    const std::vector<float> distances = {-2, -1, 0, 1, 2};
    auto table =
        c.graph.weight("table", TensorData{.shape = {1, 5}, .bytes = std::as_bytes(std::span(distances))}, DType::f32);
    REQUIRE(table);
    const graph::Value starts = c.ints("starts", {3}, {1, kLowest, kHighest});
    const graph::Value y = c.expect(relative_bias(c.graph, *table, starts, 1, 5));
    CHECK(c.run(backend, y) == std::vector<float>{-1, 0, 1, 2, 2, 2, 2, 2, 2, 2, -2, -2, -2, -2, -2});
}

}  // namespace
}  // namespace vkformer::tests
