// SPDX-License-Identifier: MIT
#include <limits>
#include <numeric>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"

namespace vkformer::tests {
namespace {

using graph::Value;

struct LocalSizes {
    std::uint64_t batch, heads, query_len, key_len;
    std::uint32_t half_width;
};

// The workgroup has 32 invocations up to 64 keys, then 128.
const LocalSizes kLocalSizes[] = {{1, 1, 1, 1, 1},   {2, 1, 5, 31, 1},   {2, 3, 4, 64, 5},
                                  {3, 2, 3, 65, 10}, {2, 1, 7, 129, 40}, {1, 1, 2, 1031, 1u << 20}};

TEST_CASE("local_softmax agrees with double precision", "[op][local_softmax]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const bool is_relative = GENERATE(false, true), has_lengths = GENERATE(false, true);
    for (const LocalSizes& s : kLocalSizes) {
        CAPTURE(backend.name(), is_relative, has_lengths, s.batch, s.query_len, s.key_len, s.half_width);
        OpCase c;
        const Value scores = c.floats("scores", DType::f32, {s.batch, s.heads, s.query_len, s.key_len}, 9);
        graph::LocalWindow window{.half_width = s.half_width};
        const auto highest = static_cast<std::int32_t>(s.key_len);
        if (is_relative) {
            std::vector<float> relative = c.random_floats(s.batch * s.query_len, 0.5f);
            for (float& r : relative) r += 0.5f;
            window.relative = c.floats("relative", DType::f32, {s.batch, s.query_len}, relative);
        } else {
            window.positions =
                c.ints("positions", {s.batch, s.query_len}, c.random_ints(s.batch * s.query_len, -3, highest + 3));
        }
        if (has_lengths) window.key_lengths = c.ints("key_lengths", {s.batch}, c.random_ints(s.batch, 0, highest + 2));
        c.expect(local_softmax(c.graph, scores, window));
        c.check(backend);
    }
}

TEST_CASE("a window of local-m sums to 1, or to 0 beyond the last key", "[op][local_softmax]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    const Value scores = c.floats("scores", DType::f32, {1, 1, 5, 10}, 80);
    const Value positions = c.ints("positions", {1, 5}, {0, 4, 9, 11, 12});
    const Value y = c.expect(local_softmax(c.graph, scores, {.half_width = 2, .positions = positions}));
    const std::vector<float> weights = c.run(backend, y);
    const std::pair<std::size_t, std::size_t> windows[] = {{0, 3}, {2, 7}, {7, 10}, {9, 10}, {0, 0}};
    for (std::size_t row = 0; row < 5; ++row) {
        CAPTURE(row);
        const auto first = weights.begin() + static_cast<std::ptrdiff_t>(row * 10);
        CHECK(std::accumulate(first, first + 10, 0.0) == Approx(row == 4 ? 0 : 1).epsilon(1e-5));
        for (std::size_t j = 0; j < 10; ++j)
            if (j < windows[row].first || j >= windows[row].second) CHECK(weights[row * 10 + j] == 0);
    }
}

// By hand: length 8, p = 0.5 · 8 = 4, half width 2, σ = 1, equal scores: 1/5 times e^−2, e^−1/2, 1, e^−1/2, e^−2.
TEST_CASE("local-p follows the paper's Gaussian", "[op][local_softmax]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    const Value scores = c.floats("scores", DType::f32, {1, 1, 1, 11}, std::vector<float>(11, 3.0f));
    const Value relative = c.floats("relative", DType::f32, {1, 1}, std::vector<float>{0.5f});
    const Value lengths = c.ints("key_lengths", {1}, {8});
    const Value y =
        c.expect(local_softmax(c.graph, scores, {.half_width = 2, .relative = relative, .key_lengths = lengths}));
    const std::vector<float> weights = c.run(backend, y);
    const double expected[11] = {
        0, 0, 0.2 * std::exp(-2.0), 0.2 * std::exp(-0.5), 0.2, 0.2 * std::exp(-0.5), 0.2 * std::exp(-2.0), 0, 0, 0, 0};
    for (std::size_t j = 0; j < 11; ++j) {
        CAPTURE(j);
        CHECK(weights[j] == Approx(expected[j]).epsilon(1e-5));
    }
}

TEST_CASE("local_softmax bears any positions, lengths and scores", "[op][local_softmax]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
    constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();
    const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    const std::uint32_t half_width = GENERATE(1u, 7u, 1u << 20);
    CAPTURE(half_width);
    OpCase c;
    std::vector<float> values = c.random_floats(4 * 8 * 40, 5);
    values[13] = nan;
    for (std::size_t j = 0; j < 40; ++j) values[40 + j] = -infinity;
    const Value scores = c.floats("scores", DType::f32, {4, 1, 8, 40}, values);
    const Value lengths = c.ints("key_lengths", {4}, {kHighest, kLowest, 17, -1});
    std::vector<std::int32_t> positions;
    std::vector<float> relative;
    for (int b = 0; b < 4; ++b) {
        positions.insert(positions.end(), {kLowest, kHighest, 0, 12, 39, 40, kLowest + 1, kHighest - 1});
        relative.insert(relative.end(), {0.31f, 0.91f, nan, -1e30f, 1e30f, 1.01f, 0.01f, -0.01f});
    }
    c.expect(local_softmax(
        c.graph, scores,
        {.half_width = half_width, .positions = c.ints("positions", {4, 8}, positions), .key_lengths = lengths}));
    c.expect(local_softmax(c.graph, scores,
                           {.half_width = half_width,
                            .relative = c.floats("relative", DType::f32, {4, 8}, relative),
                            .key_lengths = lengths}));
    c.check(backend);
}

}  // namespace
}  // namespace vkformer::tests
