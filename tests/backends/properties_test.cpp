// SPDX-License-Identifier: MIT
// What attention must do whatever its operands are. No oracle: each property compares a backend with itself.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"

namespace vkformer::tests {
namespace {

using graph::AttentionMask;
using graph::Value;

struct PropertySizes {
    std::uint64_t batch, query_len, key_len, heads, kv_heads, head_dim, value_dim;
};

/// Odd sizes throughout; one query and more keys than a split of decode_attention; several queries and grouped heads.
const PropertySizes kPropertySizes[] = {
    {1, 1, 1, 1, 1, 1, 1},
    {2, 1, 150, 3, 3, 7, 5},
    {2, 9, 9, 4, 2, 33, 17},
    {1, 37, 41, 3, 1, 20, 65},
};

/// The operands in memory, [batch, len, heads, dim].
struct Tensors {
    PropertySizes sizes;
    std::vector<float> query, key, value;
    bool causal = false;
    std::vector<std::int32_t> key_lengths = {};  // empty: all keys

    static Tensors random(const PropertySizes& s, std::uint32_t seed) {
        OpCase source(seed);
        return {.sizes = s,
                .query = source.random_floats(s.batch * s.query_len * s.heads * s.head_dim, 2),
                .key = source.random_floats(s.batch * s.key_len * s.kv_heads * s.head_dim, 2),
                .value = source.random_floats(s.batch * s.key_len * s.kv_heads * s.value_dim)};
    }
    /// The key/value pair of position j of sequence b: its elements in `key` and in `value`.
    std::span<float> key_at(std::size_t b, std::size_t j) { return at(key, b, j, sizes.kv_heads * sizes.head_dim); }
    std::span<float> value_at(std::size_t b, std::size_t j) {
        return at(value, b, j, sizes.kv_heads * sizes.value_dim);
    }

private:
    std::span<float> at(std::vector<float>& x, std::size_t b, std::size_t j, std::size_t width) const {
        return std::span(x).subspan((b * sizes.key_len + j) * width, width);
    }
};

enum class Way { three_nodes, fused, split };  // split: decode_attention, one query only

std::vector<Way> ways(const PropertySizes& s) {
    if (s.query_len == 1) return {Way::three_nodes, Way::fused, Way::split};
    return {Way::three_nodes, Way::fused};
}

/// [batch, query_len, heads, value_dim]
std::vector<double> attend(graph::Backend& backend, Way way, const Tensors& t) {
    const PropertySizes& s = t.sizes;
    OpCase c;
    const Value query = c.floats("query", DType::f32, {s.batch, s.query_len, s.heads, s.head_dim}, t.query);
    const Value key = c.floats("key", DType::f32, {s.batch, s.key_len, s.kv_heads, s.head_dim}, t.key);
    const Value value = c.floats("value", DType::f32, {s.batch, s.key_len, s.kv_heads, s.value_dim}, t.value);
    AttentionMask mask{.causal = t.causal};
    if (!t.key_lengths.empty()) mask.key_lengths = c.ints("key_lengths", {s.batch}, t.key_lengths);
    const float scale = 1 / std::sqrt(static_cast<float>(s.head_dim));
    Value y;
    switch (way) {
    case Way::three_nodes: {
        const Value scores = c.expect(graph::attention_scores(c.graph, query, key, scale));
        const Value weights = c.expect(graph::masked_softmax(c.graph, scores, mask));
        y = c.expect(graph::weighted_sum(c.graph, weights, value));
        break;
    }
    case Way::fused: y = c.expect(graph::attention(c.graph, query, key, value, mask, scale)); break;
    case Way::split: y = c.expect(graph::decode_attention(c.graph, query, key, value, mask, scale, 32)); break;
    }
    return c.run_doubles(backend, y);
}

void for_each_way(auto&& test) {
    for (graph::Backend* backend : test_backends())
        for (std::size_t i = 0; i < std::size(kPropertySizes); ++i)
            for (const Way way : ways(kPropertySizes[i])) {
                CAPTURE(backend->name(), i, static_cast<int>(way));
                test(*backend, kPropertySizes[i], way);
            }
}

TEST_CASE("permuting the key/value pairs changes nothing", "[property][attention]") {
    for_each_way([](graph::Backend& backend, const PropertySizes& s, Way way) {
        const Tensors t = Tensors::random(s, 11);
        Tensors permuted = t;
        std::vector<std::size_t> order(s.key_len);
        std::iota(order.begin(), order.end(), 0u);
        std::ranges::shuffle(order, std::mt19937(5));
        Tensors source = t;
        for (std::size_t b = 0; b < s.batch; ++b)
            for (std::size_t j = 0; j < s.key_len; ++j) {
                std::ranges::copy(source.key_at(b, order[j]), permuted.key_at(b, j).begin());
                std::ranges::copy(source.value_at(b, order[j]), permuted.value_at(b, j).begin());
            }
        const auto expected = attend(backend, way, t), found = attend(backend, way, permuted);
        CHECK(relative_error<double, double>(found, expected) < kLayerBound);
    });
}

TEST_CASE("outputs stay inside the convex hull of the values", "[property][attention]") {
    for_each_way([](graph::Backend& backend, const PropertySizes& s, Way way) {
        Tensors t = Tensors::random(s, 12);
        const auto y = attend(backend, way, t);
        for (std::size_t b = 0; b < s.batch; ++b)
            for (std::size_t h = 0; h < s.heads; ++h)
                for (std::size_t v = 0; v < s.value_dim; ++v) {
                    float lowest = std::numeric_limits<float>::max(), highest = -lowest;
                    for (std::size_t j = 0; j < s.key_len; ++j) {
                        const float x = t.value_at(b, j)[h / (s.heads / s.kv_heads) * s.value_dim + v];
                        lowest = std::min(lowest, x);
                        highest = std::max(highest, x);
                    }
                    for (std::size_t i = 0; i < s.query_len; ++i) {
                        const double found = y[((b * s.query_len + i) * s.heads + h) * s.value_dim + v];
                        // the weights sum to 1 but for rounding, values are within ±1
                        if (!(found >= lowest - kLayerBound && found <= highest + kLayerBound))
                            FAIL_CHECK(found << " is outside " << lowest << " … " << highest);
                    }
                }
    });
}

TEST_CASE("weights of a row sum to 1: a constant value comes out as it is", "[property][attention]") {
    for_each_way([](graph::Backend& backend, const PropertySizes& s, Way way) {
        Tensors t = Tensors::random(s, 13);
        std::ranges::fill(t.value, 0.75f);
        for (const double y : attend(backend, way, t))
            if (!(std::abs(y - 0.75) < kLayerBound)) FAIL_CHECK(y << " is not 0.75");
    });
}

TEST_CASE("a later token never changes an earlier output under the causal mask", "[property][attention]") {
    for_each_way([](graph::Backend& backend, const PropertySizes& s, Way way) {
        Tensors t = Tensors::random(s, 14);
        t.causal = true;
        const auto before = attend(backend, way, t);
        const std::size_t changed = s.query_len / 2 + 1;  // this position and all after it
        if (changed >= s.key_len) return;
        for (std::size_t b = 0; b < s.batch; ++b)
            for (std::size_t j = changed; j < s.key_len; ++j) {
                std::ranges::fill(t.key_at(b, j), 100.0f);
                std::ranges::fill(t.value_at(b, j), -1000.0f);
            }
        const auto after = attend(backend, way, t);
        const std::size_t row = s.heads * s.value_dim;
        bool any_later_changed = false;
        for (std::size_t k = 0; k < before.size(); ++k) {
            const bool is_earlier = k / row % s.query_len < changed;
            if (is_earlier && before[k] != after[k])
                FAIL_CHECK("output " << k << " was " << before[k] << ", is " << after[k]);
            any_later_changed = any_later_changed || before[k] != after[k];
        }
        CHECK(any_later_changed == (s.query_len > changed));  // or the test would prove nothing
    });
}

TEST_CASE("padding and batching change nothing", "[property][attention]") {
    for_each_way([](graph::Backend& backend, const PropertySizes& s, Way way) {
        // every sequence alone, with a key_len of its own; then all in one batch, padded with garbage
        const std::size_t query_row = s.query_len * s.heads * s.head_dim;
        Tensors batch = Tensors::random(s, 15);
        std::vector<double> expected;
        for (std::size_t b = 0; b < s.batch; ++b) {
            const std::size_t length =
                std::max<std::size_t>(1, s.key_len - 3 * b - std::min<std::size_t>(2, s.key_len - 1));
            batch.key_lengths.push_back(static_cast<std::int32_t>(length));
            Tensors alone{.sizes = s};
            alone.sizes.batch = 1;
            alone.sizes.key_len = length;
            alone.query.assign(&batch.query[b * query_row], &batch.query[b * query_row] + query_row);
            for (std::size_t j = 0; j < length; ++j) {
                alone.key.insert(alone.key.end(), batch.key_at(b, j).begin(), batch.key_at(b, j).end());
                alone.value.insert(alone.value.end(), batch.value_at(b, j).begin(), batch.value_at(b, j).end());
            }
            for (std::size_t j = length; j < s.key_len; ++j) {
                std::ranges::fill(batch.key_at(b, j), 1e4f);
                std::ranges::fill(batch.value_at(b, j), -1e6f);
            }
            const auto y = attend(backend, way, alone);
            expected.insert(expected.end(), y.begin(), y.end());
        }
        const auto found = attend(backend, way, batch);
        CHECK(relative_error<double, double>(found, expected) < kLayerBound);
    });
}

TEST_CASE("a fully masked row is zeros", "[property][attention]") {
    for_each_way([](graph::Backend& backend, const PropertySizes& s, Way way) {
        Tensors t = Tensors::random(s, 16);
        t.key_lengths.assign(s.batch, static_cast<std::int32_t>(s.key_len));
        t.key_lengths.back() = 0;
        const auto y = attend(backend, way, t);
        const auto masked = std::span(y).last(y.size() / s.batch);
        CHECK(std::ranges::all_of(masked, [](double x) { return x == 0; }));
        const auto seen = std::span(y).first(y.size() - masked.size());
        CHECK(std::ranges::none_of(seen, [](double x) { return x == 0 || std::isnan(x); }));
    });
}

}  // namespace
}  // namespace vkformer::tests
