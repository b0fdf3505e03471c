// SPDX-License-Identifier: MIT
// short_convolution, gated_delta_rule and selective_scan: what they keep of a sequence, and of which tokens.
#include <cmath>
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"

namespace vkformer::tests {
namespace {

using graph::StatePlace;
using graph::Value;

constexpr std::int32_t kLowestInt = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t kHighestInt = std::numeric_limits<std::int32_t>::max();

/// Sequences that begin and that go on, with all, some, none and impossible numbers of tokens, in rows of the state that are mixed up, from one
/// row into another, and in rows that are not there.
StatePlace hard_places(OpCase& c, std::uint64_t batch, bool with_slots) {
    const auto filled = [&](std::initializer_list<std::int32_t> pattern) {
        std::vector<std::int32_t> values;
        for (std::uint64_t b = 0; b < batch; ++b) values.push_back(pattern.begin()[b % pattern.size()]);
        return values;
    };
    StatePlace place;
    place.starts = c.ints("starts", {batch}, filled({5, 0, 1, 9, 0, kLowestInt, kHighestInt}));
    place.counts = c.ints("counts", {batch}, filled({1000, 2, 0, 1, -3, 4, kHighestInt}));
    const std::vector<std::int32_t> slots = {4, 3, 0, 0, 2, 8, 5, -1, 1, 1, 6, 9, kHighestInt, 7};  // read, written
    if (with_slots) place.slots = c.ints("slots", {batch, 2}, slots);
    return place;
}

TEST_CASE("short_convolution goes on where a sequence was", "[op][short_convolution]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const bool is_gated = GENERATE(false, true), with_slots = GENERATE(false, true);
    const std::uint64_t len = GENERATE(values<std::uint64_t>({1, 3, 5, 13})),
                        taps = GENERATE(values<std::uint64_t>({2, 4, 8}));
    CAPTURE(backend.name(), to_string(dtype), is_gated, with_slots, len, taps);
    constexpr std::uint64_t kBatch = 7, kWidth = 37, kSlots = 9;
    OpCase c;
    const Value x = c.floats("x", dtype, {kBatch, len, is_gated ? 3 * kWidth : kWidth});
    const Value weight = c.floats("weight", dtype, {kWidth, taps}), bias = c.floats("bias", dtype, {kWidth});
    const Shape shape{with_slots ? kSlots : kBatch, taps - 1, kWidth};
    const Value state = c.state("state", DType::f32, shape, c.random_floats(shape.element_count()));
    const auto y =
        short_convolution(c.graph, x, weight, len == 3 ? Value{} : bias, state, hard_places(c, kBatch, with_slots),
                          is_gated ? graph::Activation::none : graph::Activation::silu, is_gated);
    REQUIRE(y);
    c.check(backend);
}

struct DeltaSizes {
    std::uint64_t len, key_heads, heads, key_dim, value_dim;
};

TEST_CASE("gated_delta_rule goes on where a sequence was", "[op][gated_delta_rule]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const bool with_slots = GENERATE(false, true);
    const DeltaSizes s = GENERATE(values<DeltaSizes>({{1, 2, 4, 16, 8}, {5, 1, 3, 7, 5}, {19, 2, 2, 40, 11}}));
    CAPTURE(backend.name(), to_string(dtype), with_slots, s.len, s.key_dim);
    constexpr std::uint64_t kBatch = 7, kSlots = 9;
    OpCase c;
    const Value qkv = c.floats("qkv", DType::f32, {kBatch, s.len, 2 * s.key_heads * s.key_dim + s.heads * s.value_dim});
    const Value gates = c.floats("gates", DType::f32, {kBatch, s.len, 2 * s.heads});
    const Value decay = c.floats("decay", DType::f32, {2, s.heads});
    const Shape shape{with_slots ? kSlots : kBatch, s.heads, s.key_dim, s.value_dim};
    const Value state = c.state("state", DType::f32, shape, c.random_floats(shape.element_count()));
    REQUIRE(gated_delta_rule(
        c.graph, qkv, gates, decay, state, hard_places(c, kBatch, with_slots),
        {.key_heads = static_cast<std::uint32_t>(s.key_heads), .in_turns = with_slots, .result = dtype}));
    c.check(backend);
}

struct ScanSizes {
    std::uint64_t len, groups, heads, state_dim, head_dim;
    float least_step, most_step;
};

TEST_CASE("selective_scan goes on where a sequence was", "[op][selective_scan]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const bool with_slots = GENERATE(false, true);
    constexpr float kNoLimit = std::numeric_limits<float>::infinity();
    const ScanSizes s = GENERATE(values<ScanSizes>({{1, 2, 4, 16, 8, 0, kNoLimit},
                                                    {5, 1, 3, 7, 5, 0.6f, 0.9f},
                                                    {19, 2, 6, 40, 11, 0, 0.7f},
                                                    {9, 3, 3, 8, 65, 0.7f, kNoLimit}}));
    CAPTURE(backend.name(), to_string(dtype), with_slots, s.len, s.state_dim);
    constexpr std::uint64_t kBatch = 7, kSlots = 9;
    OpCase c;
    const Value xbc = c.floats("xbc", DType::f32, {kBatch, s.len, s.heads * s.head_dim + 2 * s.groups * s.state_dim});
    const Value steps = c.floats("steps", DType::f32, {kBatch, s.len, s.heads});
    const Value rates = c.floats("rates", DType::f32, {3, s.heads});
    const Shape shape{with_slots ? kSlots : kBatch, s.heads, s.state_dim, s.head_dim};
    const Value state = c.state("state", DType::f32, shape, c.random_floats(shape.element_count()));
    REQUIRE(selective_scan(c.graph, xbc, steps, rates, state, hard_places(c, kBatch, with_slots),
                           {.groups = static_cast<std::uint32_t>(s.groups),
                            .least_step = s.least_step,
                            .most_step = s.most_step,
                            .result = dtype}));
    c.check(backend);
}

TEST_CASE("selective_scan takes steps and decays of all sizes, and keeps NaN", "[op][selective_scan]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const auto width = GENERATE(values<std::uint64_t>({7, 8}));  // of the state: what no lanes share, and what they do
    CAPTURE(backend.name(), to_string(dtype), width);
    constexpr std::uint64_t kLen = 12, kHeads = 3, kHeadDim = 5;
    constexpr float kSteps[] = {-30, -20, -7, 0, 7, 20}, kLogRates[] = {-8, 0, 4};
    std::vector<float> steps, rates(3 * kHeads, 0.25f);
    for (std::uint64_t t = 0; t < kLen; ++t)
        for (std::uint64_t h = 0; h < kHeads; ++h) steps.push_back(kSteps[(t + h) % 6]);
    std::ranges::copy(kLogRates, rates.begin());
    OpCase c;
    const Value xbc = c.floats("xbc", DType::f32, {1, kLen, kHeads * kHeadDim + 2 * width});
    const Value rate = c.floats("rates", DType::f32, {3, kHeads}, rates);
    const auto scan = [&](const std::string& name, const std::vector<float>& raw) {
        const Value state = c.state(name + " state", DType::f32, {1, kHeads, width, kHeadDim},
                                    c.random_floats(kHeads * width * kHeadDim));
        // Without a place the sequence begins, whatever the state holds.
        return c.expect(selective_scan(c.graph, xbc, c.floats(name, DType::f32, {1, kLen, kHeads}, raw), rate, state,
                                       {}, {.result = dtype}));
    };
    scan("steps", steps);
    std::vector<float> broken = steps;
    broken[4 * kHeads + 1] = std::numeric_limits<float>::quiet_NaN();
    const Value y = scan("broken", broken);
    c.check(backend);
    const std::vector<float> found = c.run(backend, y);
    for (std::uint64_t t = 0; t < kLen; ++t)
        for (std::uint64_t i = 0; i < kHeads * kHeadDim; ++i) {
            const bool is_behind = t >= 4 && i / kHeadDim == 1;
            CHECK(std::isnan(found[t * kHeads * kHeadDim + i]) == is_behind);
        }
}

// One step, relative to itself: what a small one adds must not hide behind the rest.
TEST_CASE("small steps of selective_scan keep their digits", "[op][selective_scan]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const float raw = GENERATE(-20.0f, -7.0f, -1.0f, 0.5f, 7.0f, 100.0f);
    CAPTURE(backend.name(), raw);
    OpCase c;
    const Value state = c.state("state", DType::f32, {1, 1, 1, 1}, std::vector{0.0f});
    const Value y = c.expect(selective_scan(c.graph, c.floats("xbc", DType::f32, {1, 1, 3}, {1, 1, 1}),
                                            c.floats("steps", DType::f32, {1, 1, 1}, std::vector{raw}),
                                            c.floats("rates", DType::f32, {3, 1}, {0, 0, 0}), state, {}, {}));
    const double expected = std::max(double{raw}, 0.0) + std::log1p(std::exp(-std::abs(double{raw})));
    CHECK(std::abs(c.run_doubles(backend, y)[0] - expected) <= 6e-6 * expected);  // e^−20 may be off by 43 units
}

TEST_CASE("selective_scan refuses what does not fit", "[op][selective_scan]") {
    OpCase c;
    const auto message = [](const auto& result) {
        REQUIRE_FALSE(result);
        return result.error().message;
    };
    const Value xbc = c.floats("xbc", DType::f32, {2, 3, 12}), steps = c.floats("steps", DType::f32, {2, 3, 2});
    const Value rates = c.floats("rates", DType::f32, {3, 2});
    const Value state = c.state("state", DType::f32, {2, 2, 2, 4}, c.random_floats(32));
    const auto scan = [&](const graph::SelectiveScanOptions& options) {
        return selective_scan(c.graph, xbc, steps, rates, state, {}, options);
    };
    using Catch::Matchers::Contains;
    CHECK_THAT(message(scan({.groups = 3})), Contains("groups is 3"));
    CHECK_THAT(message(scan({.groups = 2})), Contains("expected [2, 3, 16]"));
    CHECK_THAT(message(scan({.least_step = 2, .most_step = 1})), Contains("least_step"));
    CHECK_THAT(message(scan({.result = DType::i32})), Contains("cannot be i32"));
    CHECK_THAT(message(selective_scan(c.graph, xbc, rates, rates, state, {}, {})), Contains("steps has shape"));
    CHECK_THAT(message(selective_scan(c.graph, xbc, steps, steps, state, {}, {})), Contains("rates has shape"));
    const Value large = c.state("large", DType::f32, {2, 2, 257, 4}, c.random_floats(2 * 2 * 257 * 4));
    CHECK_THAT(message(selective_scan(c.graph, xbc, steps, rates, large, {}, {})), Contains("state_dim is 257"));
    CHECK(scan({}));
}

TEST_CASE("Layers with a state refuse what does not fit", "[op][short_convolution][gated_delta_rule]") {
    OpCase c;
    const Value x = c.floats("x", DType::f32, {2, 3, 12}), weight = c.floats("weight", DType::f32, {12, 4});
    const Value state = c.state("state", DType::f32, {2, 3, 12}, c.random_floats(72));
    const Value slots = c.ints("slots", {2, 2}, {0, 0, 1, 4}), three = c.ints("three", {3}, {0, 1, 2});
    const auto convolve = [&](Value w, Value s, const StatePlace& place, bool is_gated = false) {
        return short_convolution(c.graph, x, w, {}, s, place, graph::Activation::none, is_gated);
    };
    const auto message = [](const auto& result) {
        REQUIRE_FALSE(result);
        return result.error().message;
    };
    using Catch::Matchers::Contains;
    CHECK_THAT(message(convolve(c.floats("w", DType::f32, {12, 9}), state, {})),
               Contains("taps is 9, expected 2 to 8"));
    CHECK_THAT(message(convolve(weight, state, {}, true)), Contains("expected [2, 3, 36]"));
    CHECK_THAT(message(convolve(weight, x, {})), Contains("is no state"));
    CHECK_THAT(message(convolve(weight, state, {.counts = three})), Contains("counts has shape [3], expected [2]"));
    const Value large = c.state("large", DType::f32, {5, 3, 12}, c.random_floats(180));
    CHECK_THAT(message(convolve(weight, large, {})), Contains("a row for each sequence"));
    CHECK(convolve(weight, large, {.slots = slots}));
    CHECK_THAT(message(convolve(weight, large, {.slots = c.ints("one each", {2}, {0, 1})})),
               Contains("slots has shape [2], expected [2, 2]"));

    const Value gates = c.floats("gates", DType::f32, {2, 3, 4}), decay = c.floats("decay", DType::f32, {2, 2});
    const Value matrices = c.state("matrices", DType::f32, {2, 2, 2, 4}, c.random_floats(32));
    CHECK_THAT(message(gated_delta_rule(c.graph, x, gates, decay, matrices, {}, {.key_heads = 3})),
               Contains("key_heads is 3"));
    CHECK_THAT(message(gated_delta_rule(c.graph, x, gates, decay, matrices, {}, {.key_heads = 2})),
               Contains("expected [2, 3, 16]"));
    CHECK_THAT(
        message(gated_delta_rule(c.graph, x, gates, decay, matrices, {}, {.key_heads = 1, .result = DType::i32})),
        Contains("cannot be i32"));
    CHECK(gated_delta_rule(c.graph, x, gates, decay, matrices, {}, {.key_heads = 1}));
}

}  // namespace
}  // namespace vkformer::tests
