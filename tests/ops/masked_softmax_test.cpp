// SPDX-License-Identifier: MIT
#include <numeric>

#include "support/attention_case.hpp"
#include "support/backends.hpp"

namespace vkformer::tests {
namespace {

const AttentionSizes kMaskedSizes[] = {
    {1, 1, 1, 1, 1, 1, 1},   {3, 4, 31, 2, 2, 1, 1},    {2, 3, 32, 1, 1, 1, 1},   {2, 9, 65, 3, 3, 1, 1},
    {3, 5, 127, 2, 2, 1, 1}, {2, 130, 129, 2, 2, 1, 1}, {1, 2, 1031, 1, 1, 1, 1},
};

TEST_CASE("masked_softmax agrees with double precision", "[op][masked_softmax]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const MaskKind kind = GENERATE(from_range(std::begin(kMasks), std::end(kMasks)));
    for (const AttentionSizes& s : kMaskedSizes) {
        CAPTURE(backend.name(), kind.name, to_string(s));
        OpCase c;
        const graph::Value scores = c.floats("scores", DType::f32, {s.batch, s.heads, s.query_len, s.key_len}, 9);
        c.expect(masked_softmax(c.graph, scores, make_mask(c, kind, s)));
        c.check(backend);
    }
}

TEST_CASE("weights of a row sum to 1, or to 0 where no key is seen", "[op][masked_softmax]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    constexpr std::uint64_t kKeys = 150;
    OpCase c;
    const graph::Value scores =
        c.floats("scores", DType::f32, {3, 1, 2, kKeys}, 80);  // exp(80) is near float's largest
    const graph::Value lengths = c.ints("key_lengths", {3}, {150, 0, 77});
    const graph::Value y = c.expect(masked_softmax(c.graph, scores, {.key_lengths = lengths}));
    const std::vector<float> weights = c.run(backend, y);
    for (std::size_t row = 0; row < 6; ++row) {
        const auto first = weights.begin() + static_cast<std::ptrdiff_t>(row * kKeys);
        const double sum = std::accumulate(first, first + kKeys, 0.0);
        CAPTURE(row);
        CHECK(sum == Approx(row / 2 == 1 ? 0 : 1).epsilon(1e-5));
        if (row / 2 == 2) CHECK(std::all_of(first + 77, first + kKeys, [](float weight) { return weight == 0; }));
    }
}

TEST_CASE("masked_softmax bears any scores, lengths and starts", "[op][masked_softmax]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
    constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();
    const float infinity = std::numeric_limits<float>::infinity();

    SECTION("lengths and starts") {
        OpCase c;
        const graph::Value scores = c.floats("scores", DType::f32, {6, 1, 3, 40}, 2);
        const graph::Value lengths = c.ints("key_lengths", {6}, {kLowest, -1, 41, kHighest, kHighest, 20});
        const graph::Value starts = c.ints("starts", {6}, {3, 4, kLowest, kHighest, -2, 39});
        const bool causal = GENERATE(false, true);
        const std::uint32_t window = GENERATE(0u, 1u, 40u, 0x80000000u, 0xFFFFFFFFu);
        CAPTURE(causal, window);
        c.expect(masked_softmax(
            c.graph, scores,
            {.causal = causal, .window = window, .key_lengths = lengths, .starts = starts, .additive = {}}));
        c.check(backend);
    }
    SECTION("a NaN is seen by the rows that see its key") {
        OpCase c;
        std::vector<float> values = c.random_floats(40 * 40);
        for (std::size_t row = 0; row < 40; ++row) values[row * 40 + 20] = std::numeric_limits<float>::quiet_NaN();
        const graph::Value scores = c.floats("scores", DType::f32, {1, 1, 40, 40}, values);
        c.expect(masked_softmax(c.graph, scores, {.causal = true}));
        c.check(backend);
    }
    SECTION("all scores −∞") {
        OpCase c;
        const graph::Value scores = c.floats("scores", DType::f32, {1, 1, 2, 33}, std::vector<float>(66, -infinity));
        c.expect(masked_softmax(c.graph, scores));
        c.check(backend);
    }
    SECTION("sinks: of two keys of the same score 0, each weighs 1 in 2 + exp(sink)") {
        constexpr std::uint64_t kHeads = 6;
        const std::vector<float> sinks = {-infinity, 0, 1, 200, infinity, std::numeric_limits<float>::quiet_NaN()};
        const std::uint64_t keys = GENERATE(2u, 4u);  // the others lie behind the length
        OpCase c;
        const graph::Value scores =
            c.floats("scores", DType::f32, {1, kHeads, 1, keys}, std::vector<float>(kHeads * keys));
        const graph::Value y = c.expect(masked_softmax(
            c.graph, scores,
            {.key_lengths = c.ints("key_lengths", {1}, {2}), .sinks = c.floats("sinks", DType::f32, {kHeads}, sinks)}));
        c.each_variant(backend, y, [&](const std::vector<float>& found) {
            for (std::size_t i = 0; i < found.size(); ++i) {
                const float sink = sinks[i / keys], expected = i % keys < 2 ? 1 / (2 + std::exp(sink)) : 0;
                CAPTURE(i, found[i], expected);
                CHECK((std::isnan(expected) ? std::isnan(found[i]) : std::abs(found[i] - expected) <= 1e-6f));
            }
        });
    }
    SECTION("a sink and no key that is seen: zeros") {
        OpCase c;
        const graph::Value y = c.expect(masked_softmax(
            c.graph, c.floats("scores", DType::f32, {1, 2, 1, 4}, std::vector<float>(8, -infinity)),
            {.sinks = c.floats("sinks", DType::f32, {2}, {1, std::numeric_limits<float>::quiet_NaN()})}));
        for (const float weight : c.run(backend, y)) CHECK(weight == 0);
    }
    SECTION("Hugging Face's mask, the lowest float, on all keys: a mean") {
        OpCase c;
        const graph::Value scores = c.floats("scores", DType::f32, {1, 1, 2, 33});
        const graph::Value additive = c.floats("additive", DType::f32, {1, 1, 1, 33},
                                               std::vector<float>(33, std::numeric_limits<float>::lowest()));
        const graph::Value y = c.expect(masked_softmax(c.graph, scores, {.additive = additive}));
        for (const float weight : c.run(backend, y)) CHECK(weight == Approx(1.0 / 33));
    }
}

}  // namespace
}  // namespace vkformer::tests
