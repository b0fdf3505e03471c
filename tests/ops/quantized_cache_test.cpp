// SPDX-License-Identifier: MIT
// Key/value caches of q8_0: what cache_append makes of keys and values, and what reads them.
#include <cmath>
#include <limits>

#include "core/block_format.hpp"
#include "cpu/cache_append.hpp"
#include "support/attention_case.hpp"
#include "support/backends.hpp"
#include "support/builder_case.hpp"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

using graph::Value;

struct QuantizedAppendSizes {
    std::uint64_t batch, len, capacity, heads, dim;

    std::uint64_t width() const { return heads * dim; }
};

struct Appended {
    OpCase c;
    Value cache;
    std::vector<float> x, before;
};

Appended append_case(DType dtype, const QuantizedAppendSizes& s, const std::vector<std::int32_t>& starts) {
    Appended made;
    made.x = made.c.random_floats(s.batch * s.len * s.width(), 3);
    made.before = made.c.random_floats(s.batch * s.capacity * s.width());
    const Value x = made.c.floats("x", dtype, {s.batch, s.len, s.heads, s.dim}, made.x);
    made.cache = made.c.state("cache", DType::q8_0, {s.batch, s.capacity, s.heads, s.dim}, made.before);
    const Value start = starts.empty() ? Value{} : made.c.ints("starts", {s.batch}, starts);
    must(cache_append(made.c.graph, x, start, made.cache));
    return made;
}

TEST_CASE("cache_append keeps blocks of 8 bits, its positions and no others", "[op][cache_append][q8_0]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const QuantizedAppendSizes s = GENERATE(values<QuantizedAppendSizes>({
        {1, 1, 1, 1, 64},
        {2, 1, 5, 2, 32},
        {2, 4, 9, 2, 64},
        {1, 5, 33, 3, 64},
        {3, 2, 7, 4, 96},
        {5, 3, 40, 8, 64},
        {1, 9, 9, 1, 256},
    }));
    CAPTURE(backend.name(), to_string(dtype), s.batch, s.len, s.capacity, s.heads, s.dim);
    append_case(dtype, s, {}).c.check(backend);
    std::vector<std::int32_t> starts;
    for (std::uint64_t b = 0; b < s.batch; ++b)
        starts.push_back(static_cast<std::int32_t>(b * 5 % (s.capacity - s.len + 1)));
    append_case(dtype, s, starts).c.check(backend);
}

TEST_CASE("a cache of q8_0 holds what GGUF's blocks would", "[op][cache_append][q8_0]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const QuantizedAppendSizes s{2, 3, 8, 2, 96};
    Appended made = append_case(DType::f32, s, {4, 0});
    const std::vector<float> found = made.c.run(backend, made.cache);
    cpu::round_to_q8_0(std::span(made.x));
    cpu::round_to_q8_0(std::span(made.before));
    std::size_t steps_apart = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const std::size_t row = i / s.width(), b = row / s.capacity, position = row % s.capacity;
        const std::size_t from = b == 0 ? position - 4 : position;
        const bool is_new = from < s.len;
        const float expected = is_new ? made.x[(b * s.len + from) * s.width() + i % s.width()] : made.before[i];
        if (found[i] == expected) continue;
        // A step up or down where the quotient lies between two integers; a scale's last bit where its quotient does.
        REQUIRE(is_new);
        REQUIRE(std::abs(found[i] - expected) <= 3.01f / 127);
        ++steps_apart;
    }
    CHECK(steps_apart <= s.batch * s.len * s.width() / 100);
}

TEST_CASE("cache_append of q8_0 leaves out what lies outside the cache", "[op][cache_append][q8_0]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), to_string(dtype));
    constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
    constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();
    append_case(dtype, {8, 4, 6, 1, 64}, {-2, 5, 6, -4, kLowest, kHighest, -1, 1 << 30}).c.check(backend);
}

TEST_CASE("blocks of zeros stay zeros, and what is no number makes its block none", "[op][cache_append][q8_0]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), to_string(dtype));
    OpCase c;
    std::vector<float> x = c.random_floats(4 * 64);
    for (std::size_t i = 0; i < 32; ++i) x[i] = 0;
    x[64 + 40] = std::numeric_limits<float>::quiet_NaN();
    x[128 + 3] = std::numeric_limits<float>::infinity();
    x[192 + 63] = -std::numeric_limits<float>::infinity();
    const Value input = c.floats("x", dtype, {1, 4, 2, 32}, x);
    const Value cache = c.state("cache", DType::q8_0, {1, 4, 2, 32}, std::vector<float>(4 * 64));
    must(cache_append(c.graph, input, {}, cache));
    c.check(backend);
    const std::vector<float> found = c.run(backend, cache);
    for (std::size_t i = 0; i < found.size(); ++i) {
        CAPTURE(i);
        const std::size_t block = i / 32;
        if (block == 0) CHECK(found[i] == 0);
        CHECK(std::isnan(found[i]) == (block == 3 || block == 4 || block == 7));
    }
}

TEST_CASE("cache_reorder moves integers and scales", "[op][cache_reorder][q8_0]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const bool has_begins = GENERATE(false, true);
    CAPTURE(backend.name(), has_begins);
    for (const auto& [capacity, heads, dim] :
         {std::array{7u, 1u, 64u}, std::array{33u, 3u, 64u}, std::array{5u, 4u, 32u}}) {
        CAPTURE(capacity, heads, dim);
        const auto last = static_cast<std::int32_t>(capacity);
        OpCase c;
        const Shape shape{6, capacity, heads, dim};
        const Value cache = c.state("cache", DType::q8_0, shape, c.random_floats(shape.element_count()));
        const Value parents = c.ints("parents", {6}, {1, 2, 0, 3, 3, 0});  // the last one is of another group
        const Value lengths = c.ints("lengths", {6}, {last, last - 2, 3, last, last + 9, last});
        const Value begins = has_begins ? c.ints("begins", {6}, {last - 1, 0, 2, 0, 3, 0}) : Value{};
        must(cache_reorder(c.graph, cache, parents, lengths, 3, begins));
        c.check(backend);
    }
}

struct CachedSizes {
    AttentionSizes sizes;
    std::uint32_t split_keys;
};

/// Keys and values as q8_0 in place of `o`'s.
AttentionOperands cached_operands(OpCase& c, const AttentionSizes& s, DType dtype) {
    const Shape keys{s.batch, s.key_len, s.kv_heads, s.head_dim}, values{s.batch, s.key_len, s.kv_heads, s.value_dim};
    return {.query = c.floats("query", dtype, {s.batch, s.query_len, s.heads, s.head_dim}, 2),
            .key = c.state("key", DType::q8_0, keys, c.random_floats(keys.element_count(), 2)),
            .value = c.state("value", DType::q8_0, values, c.random_floats(values.element_count()))};
}

TEST_CASE("attention to a cache of q8_0 agrees with double precision", "[op][attention][q8_0]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const AttentionSizes s = GENERATE(values<AttentionSizes>({
        {1, 1, 1, 1, 1, 64, 64},
        {2, 9, 33, 4, 2, 32, 32},
        {1, 17, 70, 6, 2, 96, 32},
        {2, 33, 65, 9, 3, 64, 64},
        {1, 5, 40, 2, 1, 64, 128},
    }));
    const MaskKind kind = GENERATE(MaskKind{}, kMasks[std::size(kMasks) - 1]);
    CAPTURE(backend.name(), to_string(dtype), to_string(s), kind.name);
    OpCase c;
    const AttentionOperands o = cached_operands(c, s, dtype);
    c.expect(attention(c.graph, o.query, o.key, o.value, make_mask(c, kind, s), attention_scale(s)));
    c.check(backend);
}

TEST_CASE("decode_attention to a cache of q8_0 agrees with double precision", "[op][decode_attention][q8_0]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const CachedSizes d = GENERATE(values<CachedSizes>({
        {{1, 1, 1, 1, 1, 64, 64}, 128},
        {{2, 1, 33, 4, 2, 32, 32}, 32},
        {{1, 1, 300, 9, 3, 64, 64}, 100},
        {{3, 1, 129, 6, 2, 96, 32}, 64},
        {{1, 1, 90, 8, 1, 64, 128}, 16},
    }));
    const MaskKind kind = GENERATE(MaskKind{}, kMasks[std::size(kMasks) - 1]);
    CAPTURE(backend.name(), to_string(dtype), to_string(d.sizes), d.split_keys, kind.name);
    OpCase c;
    const AttentionOperands o = cached_operands(c, d.sizes, dtype);
    const graph::AttentionMask mask = make_mask(c, kind, d.sizes);
    c.expect(decode_attention(c.graph, o.query, o.key, o.value, mask, attention_scale(d.sizes), d.split_keys));
    c.check(backend);
}

TEST_CASE("keys that are not seen are not read of a cache of q8_0", "[op][attention][q8_0]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), to_string(dtype));
    constexpr std::uint64_t kCapacity = 70;
    OpCase c;
    const Shape shape{1, kCapacity, 2, 32};
    std::vector<float> key = c.random_floats(shape.element_count()), value = c.random_floats(shape.element_count());
    for (std::size_t i = 40 * 64; i < kCapacity * 64; ++i) key[i] = value[i] = std::numeric_limits<float>::quiet_NaN();
    const Value k = c.state("key", DType::q8_0, shape, key), v = c.state("value", DType::q8_0, shape, value);
    const Value queries = c.floats("queries", dtype, {1, 12, 4, 32}), last = c.floats("last", dtype, {1, 1, 4, 32});
    c.expect(attention(c.graph, queries, k, v, {.causal = true, .starts = c.ints("first", {1}, {28})}, 0.3f));
    c.expect(decode_attention(c.graph, last, k, v, {.causal = true, .starts = c.ints("at", {1}, {39})}, 0.3f, 16));
    c.check(backend);
}

TEST_CASE("caches of q8_0 are states whose heads are whole blocks", "[graph][q8_0]") {
    Inputs in;
    const auto refused = [&](const Shape& shape) {
        const auto made = in.graph.state("cache", DType::q8_0, shape);
        REQUIRE_FALSE(made);
        CHECK(made.error().code == kShape);
        CHECK(made.error().message.find("stored as q8_0") != std::string::npos);
    };
    refused({1, 8, 2, 80});
    refused({1, 8, 1, 32});  // two positions would share a word of scales
    refused({1, 8, 64});
    CHECK_FALSE(in.graph.input("input", DType::q8_0, {1, 8, 2, 32}));
    CHECK_FALSE(in.graph.state("other", DType::q4_0, {1, 8, 2, 32}));
    const Value cache = in.state(DType::q8_0, {1, 8, 2, 32}), other = in.state(f32, {1, 8, 2, 32});
    CHECK_REFUSED(in, cache_append(in.graph, cache, {}, other), kDtype,
                  "cache_append: x has dtype q8_0, expected f32 or f16");
    const Value query = in(f32, {1, 1, 2, 32});
    CHECK_REFUSED(in, attention_scores(in.graph, query, cache, 1), kDtype,
                  "attention_scores: key has dtype q8_0, expected f32 (as query)");
    CHECK_REFUSED(in, attention(in.graph, query, cache, other, {}, 1), kDtype,
                  "attention: value has dtype f32, expected q8_0 (as key)");
    CHECK(attention(in.graph, query, cache, cache, {}, 1));
}

}  // namespace
}  // namespace vkformer::tests
