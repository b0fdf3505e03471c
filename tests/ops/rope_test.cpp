// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/must.hpp"
#include "support/op_case.hpp"

namespace vkformer::tests {
namespace {

using graph::RopePairing;
using graph::Value;

Value table_of(OpCase& c, std::uint64_t positions, std::uint64_t rotary_dim, double base = 10000) {
    const auto frequencies = graph::rope_frequencies(rotary_dim, base);
    return must(c.graph.weight("table", graph::rope_table(positions, frequencies), DType::f32));
}

// A workgroup has 32 invocations; from 256 tokens on it handles eight heads.
TEST_CASE("rope agrees with double precision", "[op][rope]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const auto pairing = GENERATE(RopePairing::interleaved, RopePairing::halves);
    const bool has_starts = GENERATE(false, true);
    struct Case {
        std::uint64_t batch, len, heads, head_dim, rotary_dim;
    };
    const auto [batch, len, heads, head_dim, rotary_dim] = GENERATE(values<Case>({{1, 1, 1, 2, 2},
                                                                                  {2, 3, 5, 64, 64},
                                                                                  {1, 1, 32, 128, 128},
                                                                                  {2, 4, 3, 66, 66},
                                                                                  {3, 2, 2, 80, 32},
                                                                                  {2, 5, 3, 17, 6},
                                                                                  {2, 3, 1, 9, 8},
                                                                                  {1, 256, 9, 8, 8},
                                                                                  {3, 100, 17, 20, 12},
                                                                                  {1, 2, 2, 256, 256}}));
    CAPTURE(backend.name(), to_string(dtype), static_cast<int>(pairing), has_starts, batch, len, heads, head_dim,
            rotary_dim);

    OpCase c;
    const Value x = c.floats("x", dtype, {batch, len, heads, head_dim});
    const Value starts = has_starts ? c.ints("starts", {batch}, c.random_ints(batch, 0, 9)) : Value{};
    c.expect(rope(c.graph, x, table_of(c, len + 9, rotary_dim), starts, pairing));
    c.check(backend);
}

TEST_CASE("rope makes rows of NaN for positions outside the table", "[op][rope]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), to_string(dtype));

    constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
    constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();
    constexpr std::size_t kToken = 2 * 10;
    OpCase c;
    const Value x = c.floats("x", dtype, {5, 3, 2, 10});
    const Value starts = c.ints("starts", {5}, {-1, 5, kLowest, kHighest, 4});
    const Value y = c.expect(rope(c.graph, x, table_of(c, 7, 6), starts, RopePairing::halves));
    c.check(backend);
    const std::vector<float> found = c.run(backend, y);
    CHECK(std::isnan(found[0]));               // position −1
    CHECK(std::isnan(found[9]));               // its part that is only copied
    CHECK(std::isfinite(found[kToken]));       // position 0
    CHECK(std::isnan(found[5 * kToken]));      // position 7
    CHECK(std::isfinite(found[14 * kToken]));  // position 6
}

// What the encoding is for (Su et al. 2021, eq. 16): a score depends on the distance of query and key alone.
TEST_CASE("rope makes scores depend on the distance alone", "[op][rope]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto pairing = GENERATE(RopePairing::interleaved, RopePairing::halves);
    CAPTURE(backend.name(), static_cast<int>(pairing));

    constexpr std::uint64_t kLen = 6, kDim = 32;
    OpCase c;
    const std::vector<float> one = c.random_floats(2 * kDim);  // a query, a key
    std::vector<float> queries, keys;
    for (std::uint64_t i = 0; i < kLen; ++i) {
        queries.insert(queries.end(), one.begin(), one.begin() + kDim);
        keys.insert(keys.end(), one.begin() + kDim, one.end());
    }
    const Value table = table_of(c, 64, kDim, 500);
    const Value starts = c.ints("starts", {1}, {40});
    const Value query =
        must(rope(c.graph, c.floats("q", DType::f32, {1, kLen, 1, kDim}, queries), table, starts, pairing));
    const Value key = must(rope(c.graph, c.floats("k", DType::f32, {1, kLen, 1, kDim}, keys), table, starts, pairing));
    const Value scores = c.expect(attention_scores(c.graph, query, key, 1));
    const std::vector<float> found = c.run(backend, scores);
    for (std::size_t i = 1; i < kLen; ++i)
        for (std::size_t j = 1; j < kLen; ++j)
            CHECK(std::abs(found[i * kLen + j] - found[(i - 1) * kLen + j - 1]) < 1e-4f);
    CHECK(std::abs(found[0] - found[1]) > 1e-3f);
}

// By hand: position 1, frequencies 1 and 1/100, a unit vector along each element.
TEST_CASE("rope pairs neighbours or halves", "[op][rope]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());

    const float c1 = std::cos(1.0f), s1 = std::sin(1.0f);
    const float c2 = std::cos(0.01f), s2 = std::sin(0.01f);
    OpCase c;
    const Value x = c.floats("x", DType::f32, {1, 1, 2, 4}, {1, 0, 1, 0, 0, 1, 0, 1});
    const Value table = table_of(c, 2, 4);
    const Value starts = c.ints("starts", {1}, {1});
    const Value interleaved = c.expect(rope(c.graph, x, table, starts, RopePairing::interleaved));
    const Value halves = c.expect(rope(c.graph, x, table, starts, RopePairing::halves));
    const std::vector<float> pairs = c.run(backend, interleaved), ends = c.run(backend, halves);
    const std::vector<float> expected_pairs{c1, s1, c2, s2, -s1, c1, -s2, c2};
    const std::vector<float> expected_ends{c1 - s1, 0, c1 + s1, 0, 0, c2 - s2, 0, c2 + s2};
    for (std::size_t i = 0; i < 8; ++i) {
        CHECK(std::abs(pairs[i] - expected_pairs[i]) < 1e-6f);
        CHECK(std::abs(ends[i] - expected_ends[i]) < 1e-6f);
    }
}

}  // namespace
}  // namespace vkformer::tests
