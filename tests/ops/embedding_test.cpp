// SPDX-License-Identifier: MIT
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"

namespace vkformer::tests {
namespace {

TEST_CASE("embedding agrees with double precision", "[op][embedding]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const auto [tokens, vocab, dim] = GENERATE(table<std::uint64_t, std::uint64_t, std::uint64_t>(
        {{1, 1, 1}, {2, 3, 63}, {5, 7, 64}, {3, 11, 65}, {17, 101, 513}, {70000, 13, 3}}));
    CAPTURE(backend.name(), to_string(dtype), tokens, vocab, dim);

    OpCase c;
    const graph::Value ids =
        c.ints("tokens", {1, tokens}, c.random_ints(tokens, 0, static_cast<std::int32_t>(vocab) - 1));
    const graph::Value table = c.floats("table", dtype, {vocab, dim});
    c.expect(embedding(c.graph, ids, table, 1.75f));
    c.check(backend);
}

TEST_CASE("embedding makes rows of NaN for tokens outside the vocabulary", "[op][embedding]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), to_string(dtype));

    constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
    constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();
    OpCase c;
    const graph::Value ids = c.ints("tokens", {2, 4}, {0, -1, 5, 4, kLowest, 3, kHighest, 1 << 30});
    const graph::Value table = c.floats("table", dtype, {5, 37});
    const graph::Value y = c.expect(embedding(c.graph, ids, table));
    c.check(backend);
    const std::vector<float> rows = c.run(backend, y);
    CHECK(std::isnan(rows[37]));
    CHECK(std::isfinite(rows[3 * 37]));
}

}  // namespace
}  // namespace vkformer::tests
