// SPDX-License-Identifier: MIT
#include <algorithm>
#include <numbers>
#include <numeric>

#include "support/attention_case.hpp"
#include "support/backends.hpp"
#include "support/must.hpp"
#include "support/special_floats.hpp"

namespace vkformer::tests {
namespace {

TEST_CASE("attention agrees with double precision under every mask", "[op][attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::size_t mask = GENERATE(range(std::size_t{0}, std::size(kMasks)));
    const MaskKind& kind = kMasks[mask];
    std::size_t index = mask;
    for (const AttentionSizes& sizes :
         {AttentionSizes{3, 4, 9, 2, 1, 8, 8}, AttentionSizes{4, 15, 70, 2, 2, 16, 33},
          AttentionSizes{3, 71, 67, 2, 1, 9, 12}, AttentionSizes{2, 21, 67, 6, 2, 16, 16}}) {
        if (!has_turn(backend, index++)) continue;
        CAPTURE(backend.name(), kind.name, to_string(sizes));
        OpCase c;
        const AttentionOperands o = attention_operands(c, sizes, DType::f32);
        c.expect(attention(c.graph, o.query, o.key, o.value, make_mask(c, kind, sizes), attention_scale(sizes)));
        c.check(backend);
    }
}

TEST_CASE("attention in float16 agrees with double precision under every mask", "[op][attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const MaskKind kind = GENERATE(from_range(std::begin(kMasks), std::end(kMasks)));
    const AttentionSizes sizes{2, 21, 77, 6, 2, 9, 12};
    CAPTURE(backend.name(), kind.name, to_string(sizes));
    OpCase c;
    const AttentionOperands o = attention_operands(c, sizes, DType::f16);
    c.expect(attention(c.graph, o.query, o.key, o.value, make_mask(c, kind, sizes), attention_scale(sizes)));
    c.check(backend);
}

/// More keys than two tiles of any kernel: some tiles are seen whole by all queries of a workgroup, others hold an edge.
TEST_CASE("attention masks where a tile of keys holds an edge of the mask", "[op][attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    constexpr MaskKind kEdges[] = {
        {.name = "none"},
        {.name = "causal", .causal = true},
        {.name = "causal, sinks", .causal = true, .sinks = true},
        {.name = "causal from starts", .causal = true, .starts = true},
        {.name = "lengths", .lengths = true},
        {.name = "window", .window = 100},
        {.name = "causal, window, lengths, starts", .causal = true, .window = 150, .lengths = true, .starts = true}};
    const MaskKind kind = GENERATE_REF(from_range(std::begin(kEdges), std::end(kEdges)));
    const AttentionSizes sizes{3, 150, 210, 2, 1, 8, 8};
    CAPTURE(backend.name(), to_string(dtype), kind.name);
    OpCase c;
    const AttentionOperands o = attention_operands(c, sizes, dtype);
    c.expect(attention(c.graph, o.query, o.key, o.value, make_mask(c, kind, sizes), attention_scale(sizes)));
    c.check(backend);
}

TEST_CASE("attention caps its scores before the mask", "[op][attention][soft_cap]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    // Scores reach ±30 here: a cap of 50 bends them, one of 3 flattens most, and 1e30 keeps them.
    const float soft_cap = GENERATE(50.0f, 3.0f, 1e30f);
    const AttentionSizes sizes{2, 21, 77, 6, 2, 12, 16};
    const MaskKind kind = GENERATE(MaskKind{}, kMasks[std::size(kMasks) - 1]);
    CAPTURE(backend.name(), to_string(dtype), soft_cap, kind.name);

    OpCase c;
    const AttentionOperands o = attention_operands(c, sizes, dtype);
    c.expect(attention(c.graph, o.query, o.key, o.value, make_mask(c, kind, sizes), 2, soft_cap));
    c.check(backend);
}

TEST_CASE("capped attention in one node and in three is the same", "[op][attention][soft_cap]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const AttentionSizes sizes{2, 1, 40, 4, 2, 8, 8};
    OpCase c;
    const AttentionOperands o = attention_operands(c, sizes, DType::f32);
    const graph::AttentionMask mask = make_mask(c, kMasks[std::size(kMasks) - 1], sizes);
    const graph::Value scores = must(attention_scores(c.graph, o.query, o.key, 3, 4));
    const graph::Value weights = must(masked_softmax(c.graph, scores, mask));
    const graph::Value in_three = c.expect(weighted_sum(c.graph, weights, o.value));
    const graph::Value in_one = c.expect(attention(c.graph, o.query, o.key, o.value, mask, 3, 4));
    const graph::Value split = c.expect(decode_attention(c.graph, o.query, o.key, o.value, mask, 3, 16, 4));
    const std::vector<float> expected = c.run(backend, in_three);
    for (const graph::Value y : {in_one, split})
        c.each_variant(backend, y, [&](const std::vector<float>& found) {
            for (std::size_t i = 0; i < found.size(); ++i)
                REQUIRE_THAT(found[i], Catch::Matchers::WithinAbs(expected[i], 1e-5));
        });
}

/// More keys than any kernel has at once: what the first ones gave is scaled when a larger score comes, and stays when none does.
TEST_CASE("attention to many keys in one node and in three is the same", "[op][attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    constexpr MaskKind kWide[] = {
        {.name = "none"},
        {.name = "causal from starts", .causal = true, .starts = true},
        {.name = "causal, window, lengths, starts", .causal = true, .window = 300, .lengths = true, .starts = true},
        {.name = "all",
         .causal = true,
         .window = 700,
         .lengths = true,
         .starts = true,
         .additive = {{true, false, true}}}};
    const MaskKind kind = GENERATE_REF(from_range(std::begin(kWide), std::end(kWide)));
    // Scores of up to ±24, by which keys 0 … 255, 256 … 511 and so on differ: rising, falling, or the largest in the middle.
    const int course = GENERATE(1, -1, 0);
    if (!takes_case(backend, 2)) return;
    CAPTURE(backend.name(), kind.name, course);
    const AttentionSizes sizes{2, 70, 801, 2, 1, 8, 12};
    OpCase c;
    const graph::Value q =
        c.floats("query", DType::f32, {2, 70, 2, 8}, std::vector<float>(std::size_t{2} * 70 * 2 * 8, 1.0f));
    std::vector<float> keys = c.random_floats(std::size_t{2} * 801 * 8, 0.5f);
    for (std::size_t i = 0; i < keys.size(); ++i) {
        const auto part = static_cast<int>(i / 8 % 801 / 256);
        keys[i] += static_cast<float>(course == 0 ? 2 - std::abs(part - 1) : course * part);
    }
    const graph::Value k = c.floats("key", DType::f32, {2, 801, 1, 8}, std::move(keys));
    const graph::Value v = c.floats("value", DType::f32, {2, 801, 1, 12});
    const graph::AttentionMask mask = make_mask(c, kind, sizes);
    const graph::Value weights = must(masked_softmax(c.graph, must(attention_scores(c.graph, q, k, 1)), mask));
    const graph::Value in_three = c.expect(weighted_sum(c.graph, weights, v));
    const graph::Value in_one = c.expect(attention(c.graph, q, k, v, mask, 1));
    const std::vector<float> expected = c.run(backend, in_three);
    c.each_variant(backend, in_one, [&](const std::vector<float>& found) {
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < found.size(); ++i) wrong += !(std::abs(found[i] - expected[i]) <= 1e-5f);
        CHECK(wrong == 0);
    });
}

TEST_CASE("huge scores are capped, not lost", "[op][attention][soft_cap]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    std::vector<float> query = c.random_floats(9 * 8, 1e6f), key = c.random_floats(50 * 8, 1e6f);
    const graph::Value q = c.floats("query", DType::f32, {1, 9, 1, 8}, query);
    const graph::Value k = c.floats("key", DType::f32, {1, 50, 1, 8}, key);
    const graph::Value v = c.floats("value", DType::f32, {1, 50, 1, 8});
    c.expect(attention(c.graph, q, k, v, {}, 1, 50));
    c.check(backend);
}

TEST_CASE("attention bears any lengths and starts", "[op][attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
    constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();
    const bool causal = GENERATE(false, true);
    const std::uint32_t window = GENERATE(0u, 1u, 40u, 0xFFFFFFFFu);
    CAPTURE(backend.name(), causal, window);

    OpCase c;
    const AttentionOperands o = attention_operands(c, {6, 10, 40, 1, 1, 8, 8}, DType::f32);
    const graph::Value lengths = c.ints("key_lengths", {6}, {kLowest, -1, 41, kHighest, kHighest, 20});
    const graph::Value starts = c.ints("starts", {6}, {3, 4, kLowest, kHighest, -2, 39});
    const graph::AttentionMask mask{.causal = causal, .window = window, .key_lengths = lengths, .starts = starts};
    c.expect(attention(c.graph, o.query, o.key, o.value, mask, 0.5f));
    c.check(backend);
}

TEST_CASE("a query that sees no key gets zeros", "[op][attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), to_string(dtype));
    OpCase c;
    const AttentionOperands o = attention_operands(c, {2, 5, 40, 2, 2, 8, 9}, dtype);
    graph::AttentionMask mask;
    SECTION("no valid key") { mask.key_lengths = c.ints("key_lengths", {2}, {0, 0}); }
    SECTION("before the first key") {
        mask = {.causal = true};
        mask.starts = c.ints("starts", {2}, {-5, -9});
    }
    SECTION("far behind the window") {
        mask.window = 4;
        mask.starts = c.ints("starts", {2}, {43, 1000});
    }
    SECTION("−∞ on all keys") {
        mask.additive = c.floats("additive", DType::f32, {1, 1, 1, 40},
                                 std::vector<float>(40, -std::numeric_limits<float>::infinity()));
    }
    const graph::Value y = c.expect(attention(c.graph, o.query, o.key, o.value, mask, 1));
    for (const float element : c.run(backend, y)) CHECK(element == 0);
}

// Two keys of the same score 0, and a sink: values 1 and 3 have a weight each of 1 in 2 + exp(sink).
TEST_CASE("a sink takes its share of the weights", "[op][attention][decode_attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), to_string(dtype));
    constexpr float kSinks[] = {-kInfinity, 0, std::numbers::ln2_v<float>, 200, kNaN};
    constexpr std::uint64_t kHeads = std::size(kSinks);
    OpCase c;
    const std::vector<float> ones(kHeads * 8, 1.0f);
    std::vector<float> values(2 * 8, 1.0f);
    std::fill(values.begin() + 8, values.end(), 3.0f);
    const graph::Value q = c.floats("query", dtype, {1, 1, kHeads, 8}, ones);
    const graph::Value k = c.floats("key", dtype, {1, 2, 1, 8}, std::vector<float>(2 * 8, 0.0f));
    const graph::Value v = c.floats("value", dtype, {1, 2, 1, 8}, values);
    const graph::AttentionMask mask{
        .sinks = c.floats("sinks", DType::f32, {kHeads}, {std::begin(kSinks), std::end(kSinks)})};
    const bool is_split = GENERATE(false, true);
    const graph::Value y =
        c.expect(is_split ? decode_attention(c.graph, q, k, v, mask, 1, 32) : attention(c.graph, q, k, v, mask, 1));
    c.each_variant(backend, y, [&](const std::vector<float>& found) {
        for (std::size_t i = 0; i < found.size(); ++i) {
            const float expected = 4 / (2 + std::exp(kSinks[i / 8]));
            CAPTURE(i, found[i], expected);
            CHECK((std::isnan(expected) ? std::isnan(found[i]) : std::abs(found[i] - expected) <= 1e-3f));
        }
    });
}

TEST_CASE("large scores do not overflow the softmax", "[op][attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    // The maximum rises from tile to tile: the running sums are scaled down each time.
    std::vector<float> key(200);
    std::iota(key.begin(), key.end(), 0.0f);
    const graph::Value q = c.floats("query", DType::f32, {1, 3, 1, 1}, {4, -4, 0});
    const graph::Value k = c.floats("key", DType::f32, {1, 200, 1, 1}, key);
    const graph::Value v = c.floats("value", DType::f32, {1, 200, 1, 3});
    c.expect(attention(c.graph, q, k, v, {}, 1));
    c.check(backend);
}

/// A prompt of 70 tokens in a cache with room for 200, NaN behind them, its queries in one go or in pieces.
struct ChunkedPrompt {
    static constexpr std::uint64_t kLen = 70, kCapacity = 200, kHeads = 6, kHeadDim = 8;

    ChunkedPrompt(OpCase& c, DType dtype) : case_(c), dtype_(dtype), queries_(c.random_floats(kLen * kRow, 3)) {
        const Shape shape{1, kCapacity, 2, kHeadDim};
        std::vector<float> keys = c.random_floats(shape.element_count(), 3), values = c.random_floats(keys.size());
        for (std::size_t i = kLen * 2 * kHeadDim; i < keys.size(); ++i)
            keys[i] = values[i] = std::numeric_limits<float>::quiet_NaN();
        key_ = c.floats("key", dtype, shape, keys);
        value_ = c.floats("value", dtype, shape, values);
    }

    graph::Value attend(std::uint64_t first, std::uint64_t count, std::uint32_t window) {
        const std::string name = std::to_string(first) + "+" + std::to_string(count);
        const auto begin = queries_.begin() + static_cast<std::ptrdiff_t>(first * kRow);
        const graph::Value query = case_.floats("query " + name, dtype_, {1, count, kHeads, kHeadDim},
                                                {begin, begin + static_cast<std::ptrdiff_t>(count * kRow)});
        const graph::Value starts = case_.ints("starts " + name, {1}, {static_cast<std::int32_t>(first)});
        const graph::AttentionMask mask{.causal = true, .window = window, .starts = starts};
        return case_.expect(attention(case_.graph, query, key_, value_, mask, 0.4f));
    }

    static constexpr std::uint64_t kRow = kHeads * kHeadDim;

private:
    OpCase& case_;
    DType dtype_;
    std::vector<float> queries_;
    graph::Value key_, value_;
};

TEST_CASE("attention in chunks is attention in one go", "[op][attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const std::uint32_t window = GENERATE(0u, 9u, 45u);
    CAPTURE(backend.name(), to_string(dtype), window);
    OpCase c;
    ChunkedPrompt prompt(c, dtype);
    const std::vector<float> whole = c.run(backend, prompt.attend(0, ChunkedPrompt::kLen, window));
    std::uint64_t first = 0;
    for (const std::uint64_t count : {32u, 33u, 4u, 1u}) {
        const graph::Value chunk = prompt.attend(first, count, window);
        c.each_variant(backend, chunk, [&](const std::vector<float>& found) {
            // of values up to 1: sums in another order, and in float16 rounded weights (coopmat) and results
            for (std::size_t i = 0; i < found.size(); ++i)
                REQUIRE_THAT(found[i], Catch::Matchers::WithinAbs(whole[first * ChunkedPrompt::kRow + i],
                                                                  dtype == DType::f16 ? 3e-3 : 1e-5));
        });
        first += count;
    }
    CHECK(first == ChunkedPrompt::kLen);
    c.check(backend);
}

TEST_CASE("what no query sees is not read", "[op][attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    constexpr std::uint64_t kKeys = 90;
    OpCase c;
    std::vector<float> key = c.random_floats(kKeys * 8), value = c.random_floats(kKeys * 8);
    for (std::size_t i = 23 * 8; i < kKeys * 8; ++i) key[i] = value[i] = std::numeric_limits<float>::quiet_NaN();
    const graph::Value q = c.floats("query", DType::f32, {1, 3, 1, 8});
    const graph::Value k = c.floats("key", DType::f32, {1, kKeys, 1, 8}, key);
    const graph::Value v = c.floats("value", DType::f32, {1, kKeys, 1, 8}, value);
    graph::AttentionMask mask;
    SECTION("behind the length") { mask.key_lengths = c.ints("key_lengths", {1}, {23}); }
    SECTION("after the last query") {
        mask = {.causal = true};
        mask.starts = c.ints("starts", {1}, {20});
    }
    c.expect(attention(c.graph, q, k, v, mask, 1));
    c.check(backend);
}

TEST_CASE("a NaN stays visible to the queries that see it", "[op][attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    std::vector<float> query = c.random_floats(40 * 8), key = c.random_floats(70 * 8), value = c.random_floats(70 * 8);
    SECTION("in a query") { query[11 * 8 + 3] = std::numeric_limits<float>::quiet_NaN(); }
    SECTION("in a key") { key[60 * 8] = std::numeric_limits<float>::quiet_NaN(); }
    SECTION("in a value") { value[2 * 8 + 7] = std::numeric_limits<float>::quiet_NaN(); }
    const graph::Value q = c.floats("query", DType::f32, {1, 40, 1, 8}, query);
    const graph::Value k = c.floats("key", DType::f32, {1, 70, 1, 8}, key);
    const graph::Value v = c.floats("value", DType::f32, {1, 70, 1, 8}, value);
    c.expect(attention(c.graph, q, k, v, {}, 1));
    c.check(backend);
}

TEST_CASE("values that are not finite reach the queries that see them, and no others", "[op][attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), to_string(dtype));
    constexpr std::size_t kLen = 200, kDim = 24;  // several tiles of keys, masked and not
    OpCase c;
    std::vector<float> value = c.random_floats(kLen * kDim);
    value[10 * kDim + 5] = value[130 * kDim + 9] = std::numeric_limits<float>::quiet_NaN();
    value[25 * kDim + 3] = std::numeric_limits<float>::quiet_NaN();
    // SwiftShader packs an infinity into a half that is none.
    value[30 * kDim + 17] =
        dtype == DType::f16 ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
    const graph::Value q = c.floats("query", dtype, {1, kLen, 1, 8});
    const graph::Value k = c.floats("key", dtype, {1, kLen, 1, 8});
    const graph::Value v = c.floats("value", dtype, {1, kLen, 1, kDim}, value);
    c.expect(attention(c.graph, q, k, v, {.causal = true}, 1));
    c.check(backend);
}

TEST_CASE("permuting the pairs of keys and values changes nothing", "[op][attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    constexpr std::size_t kKeys = 75, kDim = 12;
    OpCase c;
    const std::vector<float> query = c.random_floats(20 * kDim), key = c.random_floats(kKeys * kDim),
                             value = c.random_floats(kKeys * kDim);
    std::vector<std::size_t> order(kKeys);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), std::mt19937(7));
    const auto result = [&](bool permuted) {
        std::vector<float> k = key, v = value;
        for (std::size_t j = 0; permuted && j < kKeys; ++j) {
            std::copy_n(&key[order[j] * kDim], kDim, &k[j * kDim]);
            std::copy_n(&value[order[j] * kDim], kDim, &v[j * kDim]);
        }
        OpCase run;
        const graph::Value y = run.expect(attention(run.graph, run.floats("query", DType::f32, {1, 20, 1, kDim}, query),
                                                    run.floats("key", DType::f32, {1, kKeys, 1, kDim}, k),
                                                    run.floats("value", DType::f32, {1, kKeys, 1, kDim}, v), {}, 1));
        return run.run(backend, y);
    };
    const std::vector<float> straight = result(false), shuffled = result(true);
    for (std::size_t i = 0; i < straight.size(); ++i) CHECK(std::abs(straight[i] - shuffled[i]) < 1e-5f);

    for (std::size_t i = 0; i < straight.size(); ++i) {  // and every output lies in the convex hull of the values
        float lowest = value[i % kDim], highest = lowest;
        for (std::size_t j = 0; j < kKeys; ++j) {
            lowest = std::min(lowest, value[j * kDim + i % kDim]);
            highest = std::max(highest, value[j * kDim + i % kDim]);
        }
        CHECK(straight[i] >= lowest - 1e-6f);
        CHECK(straight[i] <= highest + 1e-6f);
    }
}

TEST_CASE("attention under the causal mask reads no later key", "[op][attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const float later = GENERATE(5.0f, 1e30f, std::numeric_limits<float>::quiet_NaN());
    CAPTURE(backend.name(), later);
    constexpr std::size_t kLen = 50, kDim = 8, kChanged = 37;
    OpCase random;
    const std::vector<float> query = random.random_floats(kLen * kDim), key = random.random_floats(kLen * kDim),
                             value = random.random_floats(kLen * kDim);
    const auto result = [&](float replacement) {
        std::vector<float> k = key, v = value;
        std::fill(k.begin() + kChanged * kDim, k.end(), replacement);
        std::fill(v.begin() + kChanged * kDim, v.end(), replacement);
        OpCase run;
        const graph::Value y =
            run.expect(attention(run.graph, run.floats("query", DType::f32, {1, kLen, 1, kDim}, query),
                                 run.floats("key", DType::f32, {1, kLen, 1, kDim}, k),
                                 run.floats("value", DType::f32, {1, kLen, 1, kDim}, v), {.causal = true}, 1));
        std::vector<float> rows = run.run(backend, y);
        rows.resize(kChanged * kDim);
        return rows;
    };
    CHECK(result(0) == result(later));
}

}  // namespace
}  // namespace vkformer::tests
