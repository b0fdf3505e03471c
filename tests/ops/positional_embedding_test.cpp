// SPDX-License-Identifier: MIT
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"

namespace vkformer::tests {
namespace {

TEST_CASE("positional_embedding agrees with double precision", "[op][positional_embedding]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const bool has_starts = GENERATE(false, true);
    const auto [batch, len, dim] = GENERATE(table<std::uint64_t, std::uint64_t, std::uint64_t>(
        {{1, 1, 1}, {2, 3, 63}, {3, 5, 64}, {2, 7, 65}, {3, 31, 257}}));
    CAPTURE(backend.name(), to_string(dtype), has_starts, batch, len, dim);

    OpCase c;
    const graph::Value x = c.floats("x", dtype, {batch, len, dim});
    const graph::Value table = c.floats("table", DType::f32, {len + 9, dim});
    graph::Value starts;
    if (has_starts) starts = c.ints("starts", {batch}, c.random_ints(batch, 0, 9));
    c.expect(positional_embedding(c.graph, x, table, starts));
    c.check(backend);
}

TEST_CASE("positional_embedding takes the table of sinusoids as a weight", "[op][positional_embedding]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto layout = GENERATE(graph::SinusoidLayout::interleaved, graph::SinusoidLayout::halves);
    CAPTURE(backend.name());

    OpCase c;
    const graph::Value x = c.floats("x", DType::f32, {2, 6, 32});
    auto table = c.graph.weight("positions", graph::sinusoidal_table(20, 32, layout), DType::f32);
    REQUIRE(table);
    c.expect(positional_embedding(c.graph, x, *table, c.ints("starts", {2}, {3, 14})));
    c.check(backend);
}

TEST_CASE("positional_embedding makes rows of NaN for positions outside the table", "[op][positional_embedding]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), to_string(dtype));

    constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
    constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();
    OpCase c;
    const graph::Value x = c.floats("x", dtype, {5, 3, 33});
    const graph::Value table = c.floats("table", DType::f32, {7, 33});
    const graph::Value starts = c.ints("starts", {5}, {-1, 5, kLowest, kHighest, 4});
    const graph::Value y = c.expect(positional_embedding(c.graph, x, table, starts));
    c.check(backend);
    const std::vector<float> rows = c.run(backend, y);
    CHECK(std::isnan(rows[0]));           // position −1
    CHECK(std::isfinite(rows[33]));       // position 0
    CHECK(std::isnan(rows[5 * 33]));      // position 7
    CHECK(std::isfinite(rows[14 * 33]));  // position 6
}

}  // namespace
}  // namespace vkformer::tests
