// SPDX-License-Identifier: MIT
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/must.hpp"
#include "support/op_case.hpp"
#include "support/quantized.hpp"

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

TEST_CASE("embedding gives the dtype that is asked for", "[op][embedding]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType stored = GENERATE(DType::f32, DType::f16), result = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), to_string(stored), to_string(result));
    OpCase c;
    const graph::Value ids = c.ints("tokens", {6}, {3, 0, -1, 4, 4, 5});
    const graph::Value y = c.expect(embedding(c.graph, ids, c.floats("table", stored, {5, 37}), 3, result));
    CHECK(c.graph.dtype(y) == result);
    c.check(backend);
}

// The shader has 64 invocations of 16 elements.
TEST_CASE("embedding dequantises the rows that are asked for", "[op][embedding][quantized]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType format = GENERATE(DType::bf16, from_range(kBlockFormats));
    const DType result = GENERATE(DType::f32, DType::f16);
    const std::uint64_t dim = width_of(format, GENERATE(1u, 5u));
    CAPTURE(backend.name(), to_string(format), to_string(result), dim);
    constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
    OpCase c;
    const graph::Value ids = c.ints("tokens", {1, 7}, {2, 0, 6, -1, 7, kLowest, 1});
    const graph::Value table = random_weight(c, format, 7, dim);
    c.expect(embedding(c.graph, ids, table, 1.5f, result));
    c.check(backend);
}

TEST_CASE("one quantised table serves embedding and linear", "[op][embedding][quantized]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType format =
        GENERATE(DType::bf16, DType::q8_0, DType::q4_0, DType::q5_0, DType::mxfp4, DType::q4_k, DType::q6_k);
    CAPTURE(backend.name(), to_string(format));
    if (!takes_case(backend, 2)) return;
    OpCase c;
    const graph::Value table = random_weight(c, format, 37, width_of(format, 2));
    const graph::Value x = must(embedding(c.graph, c.ints("tokens", {3}, {36, 1, 8}), table));
    c.expect(linear(c.graph, x, table));
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
