// SPDX-License-Identifier: MIT
// arg_max and top_k: the same order, so the same rows.
#include <cmath>
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"
#include "support/special_floats.hpp"

namespace vkformer::tests {
namespace {

using graph::Value;

void expect_choices(OpCase& c, Value x, std::uint32_t k) {
    c.expect(arg_max(c.graph, x));
    const auto best = top_k(c.graph, x, k);
    REQUIRE(best);
    c.expect(best->values);
    c.expect(best->indices);
}

// The shaders' workgroup has 128 invocations and handles a row; each keeps four elements of its 1/128 of the row.
TEST_CASE("arg_max and top_k choose what the double oracle chooses", "[op][arg_max][top_k]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto [rows, vocab, k] = GENERATE(table<std::uint64_t, std::uint64_t, std::uint32_t>({
        {1, 1, 1},
        {3, 7, 7},
        {2, 127, 3},
        {4, 128, 128},
        {3, 129, 127},
        {2, 1009, 1},
        {2, 5003, 64},
        {4, 58'101, 8},
        {66'000, 3, 2},
    }));
    const bool has_ties = GENERATE(false, true);
    CAPTURE(backend.name(), rows, vocab, k, has_ties);

    OpCase c;
    std::vector<float> logits = c.random_floats(rows * vocab, 10);
    if (has_ties)
        for (float& logit : logits) logit = std::round(logit / 4);
    expect_choices(c, c.floats("x", DType::f32, {rows, vocab}, logits), k);
    c.check(backend);
}

// Rows in which the best elements all belong to one invocation, which therefore runs out of kept ones again and again.
TEST_CASE("top_k finds elements that lie 128 apart, rising and falling rows, level rows", "[op][top_k]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto k = GENERATE(values<std::uint32_t>({3, 4, 5, 31, 128}));
    CAPTURE(backend.name(), k);

    constexpr std::uint64_t kVocab = 128 * 40 + 17;
    OpCase c;
    std::vector<float> logits = c.random_floats(4 * kVocab);
    for (std::size_t i = 0; i < kVocab; i += 128) logits[i] += 10;
    for (std::size_t i = 0; i < kVocab; ++i) {
        logits[kVocab + i] = static_cast<float>(i);
        logits[2 * kVocab + i] = -static_cast<float>(i);
        logits[3 * kVocab + i] = 0.5f;
    }
    expect_choices(c, c.floats("x", DType::f32, {4, kVocab}, logits), k);
    c.check(backend);
}

TEST_CASE("arg_max and top_k order NaN, infinities, zeros of both signs and subnormal numbers",
          "[op][arg_max][top_k]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());

    OpCase c;
    // clang-format off
    const Value x = c.floats("x", DType::f32, {5, 6}, {
        1, kInfinity, kNaN, 5, -kNaN, kInfinity,
        -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity,
        -0.0f, 0.0f, -0.0f, 0.0f, -1, -1,
        1e-40f, 2e-40f, -1e-40f, 0, -0.0f, 1e-38f,
        kNaN, kNaN, kNaN, kNaN, kNaN, kNaN,
    });
    // clang-format on
    const Value y = c.expect(arg_max(c.graph, x));
    const auto best = top_k(c.graph, x, 6);
    REQUIRE(best);
    c.expect(best->values);
    c.expect(best->indices);
    c.check(backend);
    CHECK(c.run_ints(backend, y) == std::vector<std::int32_t>{-1, 0, 0, 5, -1});
    // clang-format off
    CHECK(c.run_ints(backend, best->indices) == std::vector<std::int32_t>{
        2, 4, 1, 5, 3, 0,
        0, 1, 2, 3, 4, 5,
        0, 1, 2, 3, 4, 5,
        5, 1, 0, 3, 4, 2,
        0, 1, 2, 3, 4, 5,
    });
    // clang-format on
}

}  // namespace
}  // namespace vkformer::tests
