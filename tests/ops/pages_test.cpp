// SPDX-License-Identifier: MIT
// Caches in pages: the ops that read and append them do what they do with caches of rows, wherever the pages lie.
#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "cpu/backend.hpp"
#include "support/attention_case.hpp"
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/builder_case.hpp"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

using graph::kPageLen;
using graph::Value;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr std::int32_t kLeastIndex = std::numeric_limits<std::int32_t>::min(),
                       kGreatestIndex = std::numeric_limits<std::int32_t>::max();

/// Which pages are whose: mixed up, with some that are nobody's between them.
struct Table {
    std::uint64_t rows, len;
    std::uint64_t pages;
    std::vector<std::int32_t> entries;  // [rows, len]

    Table(std::uint64_t rows_, std::uint64_t len_) : rows(rows_), len(len_), pages(rows * len + 3), entries(pages) {
        std::iota(entries.begin(), entries.end(), 0);
        std::ranges::shuffle(entries, std::mt19937(5));
        entries.resize(rows * len);
    }

    Shape shape() const { return {rows, len}; }
    std::int32_t& at(std::uint64_t row, std::uint64_t j) { return entries[row * len + j]; }
    /// What `cache`, [rows, len · kPageLen, width], is in pages; NaN in those that are nobody's.
    std::vector<float> in_pages(const std::vector<float>& cache) const {
        const std::size_t page = cache.size() / entries.size();
        std::vector<float> result(pages * page, kNaN);
        for (std::size_t i = 0; i < entries.size(); ++i)
            std::copy_n(cache.begin() + static_cast<std::ptrdiff_t>(i * page), page,
                        result.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(entries[i]) * page));
        return result;
    }
    /// The other way.
    std::vector<double> in_rows(const std::vector<double>& paged) const {
        const std::size_t page = paged.size() / pages;
        std::vector<double> result;
        for (const std::int32_t entry : entries) {
            const auto begin = paged.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(entry) * page);
            result.insert(result.end(), begin, begin + static_cast<std::ptrdiff_t>(page));
        }
        return result;
    }
};

/// A case of attention, in pages where there is a table: the same numbers either way. key_len is a multiple of kPageLen.
struct AttentionCase {
    AttentionSizes sizes;
    MaskKind kind = {};
    DType dtype = DType::f32, stored = DType::f32;
    std::uint32_t split_keys = 32;  // of decode_attention, which there is where query_len is 1
    std::vector<std::int32_t> lengths = {};
    float soft_cap = 0;

    Table table() const { return {sizes.batch, sizes.key_len / kPageLen}; }

    Value build(OpCase& c, const Table* table) const {
        const AttentionSizes& s = sizes;
        const Value query = c.floats("query", dtype, {s.batch, s.query_len, s.heads, s.head_dim}, 2);
        const auto cache = [&](const char* name, std::uint64_t dim) {
            Shape shape{s.batch, s.key_len, s.kv_heads, dim};
            std::vector<float> values = c.random_floats(shape.element_count(), 2);
            if (table) {
                shape = {table->pages, kPageLen, s.kv_heads, dim};
                values = table->in_pages(values);
            }
            return stored == DType::q8_0 ? c.state(name, stored, shape, std::move(values))
                                         : c.floats(name, stored, shape, std::move(values));
        };
        const Value key = cache("key", s.head_dim), value = cache("value", s.value_dim);
        graph::AttentionMask mask = make_mask(c, kind, s);
        if (!lengths.empty()) mask.key_lengths = c.ints("lengths", {s.batch}, lengths);
        const Value pages = table ? c.ints("pages", table->shape(), table->entries) : Value{};
        const float scale = attention_scale(s);
        return c.expect(s.query_len == 1
                            ? decode_attention(c.graph, query, key, value, mask, scale, split_keys, soft_cap, pages)
                            : attention(c.graph, query, key, value, mask, scale, soft_cap, pages));
    }

    /// In pages it is what it is in rows, in double precision, and the backend agrees.
    void check(graph::Backend& backend) const {
        const auto oracle = cpu::make_cpu_backend<double>();
        OpCase flat, paged;
        const Table pages = table();
        const Value y = build(flat, nullptr), y_paged = build(paged, &pages);
        const std::vector<double> expected = flat.run_doubles(*oracle, y), found = paged.run_doubles(*oracle, y_paged);
        CHECK(relative_error(std::span(found), std::span(expected)) < kDoubleBound);
        paged.check(backend);
    }
};

std::vector<DType> stored_as(DType dtype) { return {dtype, DType::q8_0}; }

TEST_CASE("attention to pages is attention to rows under every mask", "[op][attention][pages]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const MaskKind kind = GENERATE(from_range(std::begin(kMasks), std::end(kMasks)));
    CAPTURE(backend.name(), kind.name);
    if (!takes_case(backend, 2)) return;
    AttentionCase{.sizes = {3, 19, 2 * kPageLen, 6, 2, 8, 12}, .kind = kind}.check(backend);
    AttentionCase{.sizes = {2, 5, 2 * kPageLen, 2, 2, 9, 7}, .kind = kind}.check(backend);
}

TEST_CASE("decode_attention to pages is that to rows under every mask", "[op][decode_attention][pages]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const MaskKind kind = GENERATE(from_range(std::begin(kMasks), std::end(kMasks)));
    CAPTURE(backend.name(), kind.name);
    if (!takes_case(backend, 2)) return;
    AttentionCase{.sizes = {5, 1, 3 * kPageLen, 6, 2, 16, 16}, .kind = kind, .split_keys = 40}.check(backend);
    AttentionCase{.sizes = {3, 1, 2 * kPageLen, 2, 1, 9, 33}, .kind = kind, .split_keys = 128}.check(backend);
}

TEST_CASE("pages are read in every type, wherever a sequence ends in its last page", "[op][attention][pages]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const std::vector<std::int32_t> lengths = {63, 64, 65, 127, 128, 129, 0, 1};
    for (const DType stored : stored_as(dtype)) {
        const std::uint64_t dim = stored == DType::q8_0 ? 32 : 16;
        CAPTURE(backend.name(), to_string(dtype), to_string(stored));
        AttentionCase c{.sizes = {lengths.size(), 17, 3 * kPageLen, 4, 2, dim, dim},
                        .dtype = dtype,
                        .stored = stored,
                        .lengths = lengths,
                        .soft_cap = 4};
        c.check(backend);
        c.sizes.query_len = 1;
        c.check(backend);
    }
}

/// A window that slides over the border of two pages, of which one is not read any more.
TEST_CASE("windows over pages read what they see", "[op][attention][pages]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const std::uint32_t window = GENERATE(1u, 31u, 50u, 64u, 65u);
    CAPTURE(backend.name(), to_string(dtype), window);
    for (const std::uint64_t queries : {1, 20}) {
        constexpr std::uint64_t kRows = 6, kLen = 3;
        const std::vector<std::int32_t> starts = {62, 63, 64, 100, 128, 150};
        const AttentionSizes s{kRows, queries, kLen * kPageLen, 2, 1, 16, 8};
        const auto build = [&](OpCase& c, Table* table) {
            const Value query = c.floats("query", dtype, {s.batch, s.query_len, s.heads, s.head_dim}, 2);
            std::vector<float> key = c.random_floats(s.batch * s.key_len * s.head_dim, 2),
                               value = c.random_floats(s.batch * s.key_len * s.value_dim);
            const graph::AttentionMask mask{.causal = true, .window = window, .starts = c.ints("at", {kRows}, starts)};
            Value k, v, pages;
            if (table) {
                k = c.floats("key", dtype, {table->pages, kPageLen, 1, s.head_dim}, table->in_pages(key));
                v = c.floats("value", dtype, {table->pages, kPageLen, 1, s.value_dim}, table->in_pages(value));
                for (std::size_t b = 0; b < kRows; ++b)
                    for (std::size_t j = 0; j < kLen; ++j) {
                        const auto first = static_cast<std::int32_t>(j * kPageLen), page_len = std::int32_t{kPageLen};
                        const auto last = starts[b] + static_cast<std::int32_t>(queries) - 1;
                        const bool is_seen = first <= last && first + page_len > starts[b] - std::int32_t(window) + 1;
                        if (!is_seen) table->at(b, j) = j == 0 ? -1 : kGreatestIndex;
                    }
                pages = c.ints("pages", table->shape(), table->entries);
            } else {
                k = c.floats("key", dtype, {s.batch, s.key_len, 1, s.head_dim}, key);
                v = c.floats("value", dtype, {s.batch, s.key_len, 1, s.value_dim}, value);
            }
            return c.expect(queries == 1 ? decode_attention(c.graph, query, k, v, mask, 0.3f, 32, 0, pages)
                                         : attention(c.graph, query, k, v, mask, 0.3f, 0, pages));
        };
        const auto oracle = cpu::make_cpu_backend<double>();
        OpCase flat, paged;
        Table table(kRows, kLen);
        const Value y = build(flat, nullptr), y_paged = build(paged, &table);
        const std::vector<double> expected = flat.run_doubles(*oracle, y), found = paged.run_doubles(*oracle, y_paged);
        CHECK(relative_error(std::span(found), std::span(expected)) < kDoubleBound);
        paged.check(backend);
    }
}

TEST_CASE("rows that begin alike share pages", "[op][attention][pages]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    constexpr std::uint64_t kDim = 8;
    OpCase c;
    const std::vector<float> own = c.random_floats(4 * kPageLen * kDim, 2), query = c.random_floats(2 * 3 * kDim);
    const Value key = c.floats("key", DType::f32, {4, kPageLen, 1, kDim}, own);
    const Value many = c.floats("many", DType::f32, {2, 3, 1, kDim}, query);
    const std::vector<float> last = c.random_floats(2 * kDim);
    const Value one = c.floats("one", DType::f32, {2, 1, 1, kDim}, last);
    const Value pages = c.ints("pages", {2, 3}, {2, 0, kLeastIndex, 2, 3, 1});
    const graph::AttentionMask mask{.causal = true, .starts = c.ints("starts", {2}, {100, 150})};
    c.expect(attention(c.graph, many, key, key, mask, 1, 0, pages));
    const Value y = c.expect(decode_attention(c.graph, one, key, key, mask, 1, 32, 0, pages));
    c.check(backend);

    // the first row alone, with a copy of what is shared
    OpCase alone;
    std::vector<float> copied;
    for (const std::size_t page : {2, 0})
        copied.insert(copied.end(), own.begin() + static_cast<std::ptrdiff_t>(page * kPageLen * kDim),
                      own.begin() + static_cast<std::ptrdiff_t>((page + 1) * kPageLen * kDim));
    const Value keys = alone.floats("key", DType::f32, {1, 2 * kPageLen, 1, kDim}, copied);
    const Value first = alone.floats("one", DType::f32, {1, 1, 1, kDim}, {last.begin(), last.begin() + kDim});
    const Value expected = alone.expect(decode_attention(
        alone.graph, first, keys, keys, {.causal = true, .starts = alone.ints("starts", {1}, {100})}, 1, 32));
    const std::vector<float> found = c.run(backend, y), wanted = alone.run(backend, expected);
    CHECK(worst_element_error(std::span(found).first(kDim), std::span(wanted)) < kLayerBound);
}

struct PagedAppend {
    std::uint64_t batch, len, pages_each, heads, dim;
};

TEST_CASE("cache_append writes to pages what it writes to rows", "[op][cache_append][pages]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const PagedAppend s = GENERATE(values<PagedAppend>({{4, 1, 2, 2, 32}, {4, 70, 3, 2, 32}, {4, 5, 1, 3, 64}}));
    const std::vector<std::int32_t> starts = {62, 63, 64, -2};
    for (const DType stored : stored_as(dtype)) {
        CAPTURE(backend.name(), to_string(dtype), to_string(stored), s.len, s.pages_each);
        const Table table(s.batch, s.pages_each);
        const auto build = [&](OpCase& c, bool in_pages) {
            const Value x = c.floats("x", dtype, {s.batch, s.len, s.heads, s.dim}, 3);
            const Value start = c.ints("starts", {s.batch}, starts);
            const Shape rows{s.batch, s.pages_each * kPageLen, s.heads, s.dim};
            const std::vector<float> before = c.random_floats(rows.element_count());
            if (!in_pages) {
                const Value cache = c.state("cache", stored, rows, before);
                must(cache_append(c.graph, x, start, cache));
                return cache;
            }
            const Value cache =
                c.state("cache", stored, {table.pages, kPageLen, s.heads, s.dim}, table.in_pages(before));
            must(cache_append(c.graph, x, start, cache, c.ints("pages", table.shape(), table.entries)));
            return cache;
        };
        const auto oracle = cpu::make_cpu_backend<double>();
        OpCase flat, paged;
        const Value rows = build(flat, false), pages = build(paged, true);
        CHECK(table.in_rows(paged.run_doubles(*oracle, pages)) == flat.run_doubles(*oracle, rows));
        paged.check(backend);
    }
}

TEST_CASE("split_qkv appends to pages what it appends to rows", "[op][split_qkv][pages]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const std::uint64_t len = GENERATE(1, 6, 90);
    const bool norms = GENERATE(false, true);
    CAPTURE(backend.name(), to_string(dtype), len, norms);
    constexpr std::uint64_t kRows = 3, kEach = 3, kHeads = 3, kKvHeads = 2, kDim = 10;
    const Table table(kRows, kEach);
    struct Caches {
        Value keys, values;
    };
    const auto build = [&](OpCase& c, bool in_pages) {
        const Value qkv = c.floats("qkv", dtype, {kRows, len, kHeads + 2 * kKvHeads, kDim});
        const Value starts = c.ints("starts", {kRows}, {60, 64, 130});
        const Shape rows{kRows, kEach * kPageLen, kKvHeads, kDim};
        const auto cache = [&](const char* name) {
            const std::vector<float> before = c.random_floats(rows.element_count());
            return in_pages ? c.state(name, dtype, {table.pages, kPageLen, kKvHeads, kDim}, table.in_pages(before))
                            : c.state(name, dtype, rows, before);
        };
        const Caches caches{cache("keys"), cache("values")};
        graph::HeadNorms gains{.eps = 1e-5f};
        if (norms) {
            gains.query_gain = c.floats("query_gain", dtype, {kDim});
            gains.key_gain = c.floats("key_gain", dtype, {kDim});
        }
        const Value angles = must(
            c.graph.weight("table", graph::rope_table(kEach * kPageLen, graph::rope_frequencies(8, 100)), DType::f32));
        const Value pages = in_pages ? c.ints("pages", table.shape(), table.entries) : Value{};
        c.expect(split_qkv(c.graph, qkv, angles, starts, caches.keys, caches.values, graph::RopePairing::halves, gains,
                           pages));
        return caches;
    };
    const auto oracle = cpu::make_cpu_backend<double>();
    OpCase flat, paged;
    const Caches rows = build(flat, false), pages = build(paged, true);
    CHECK(table.in_rows(paged.run_doubles(*oracle, pages.keys)) == flat.run_doubles(*oracle, rows.keys));
    CHECK(table.in_rows(paged.run_doubles(*oracle, pages.values)) == flat.run_doubles(*oracle, rows.values));
    paged.check(backend);
}

/// Numbers of pages that there are not, and numbers of some that there are.
constexpr std::int32_t kHostile[] = {-1, 4, kLeastIndex, kGreatestIndex, 1 << 30, 0, -(1 << 26), 3, 1 << 26};

TEST_CASE("tables with numbers of no page read nothing outside the cache", "[op][attention][pages][hostile]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    for (const DType stored : stored_as(dtype)) {
        CAPTURE(backend.name(), to_string(dtype), to_string(stored));
        const std::uint64_t dim = stored == DType::q8_0 ? 32 : 16;
        OpCase c;
        const Shape shape{4, kPageLen, 2, dim};
        const auto cache = [&](const char* name) {
            std::vector<float> values = c.random_floats(shape.element_count());
            return stored == DType::q8_0 ? c.state(name, stored, shape, std::move(values))
                                         : c.floats(name, stored, shape, std::move(values));
        };
        const Value key = cache("key"), value = cache("value");
        const Value many = c.floats("many", dtype, {3, 18, 4, dim}), one = c.floats("one", dtype, {3, 1, 4, dim});
        const Value pages = c.ints("pages", {3, 3}, {std::begin(kHostile), std::end(kHostile)});
        const graph::AttentionMask mask{.causal = true, .starts = c.ints("starts", {3}, {kGreatestIndex, 190, 100})};
        c.expect(attention(c.graph, many, key, value, mask, 0.3f, 0, pages));
        c.expect(decode_attention(c.graph, one, key, value, mask, 0.3f, 32, 0, pages));
        c.check(backend);
    }
}

TEST_CASE("tables with numbers of no page have nothing written there",
          "[op][cache_append][split_qkv][pages][hostile]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const std::int32_t start = GENERATE(0, 40, kLeastIndex, kGreatestIndex);
    for (const DType stored : stored_as(dtype)) {
        CAPTURE(backend.name(), to_string(dtype), to_string(stored), start);
        OpCase c;
        const Shape shape{4, kPageLen, 2, 32};
        const auto cache = [&](const char* name, DType as) {
            return c.state(name, as, shape, c.random_floats(shape.element_count()));
        };
        // each page at most once: who comes last is not said
        const Value pages = c.ints("pages", {3, 3}, {std::begin(kHostile), std::end(kHostile)});
        const Value starts = c.ints("starts", {3}, {start, start, start});
        const Value x = c.floats("x", dtype, {3, 100, 2, 32});
        must(cache_append(c.graph, x, starts, cache("cache", stored), pages));
        const Value qkv = c.floats("qkv", dtype, {3, 100, 6, 32});
        c.expect(split_qkv(c.graph, qkv, {}, starts, cache("keys", dtype), cache("values", dtype),
                           graph::RopePairing::halves, {}, pages));
        c.check(backend);
    }
}

TEST_CASE("caches in pages refuse what does not fit", "[builders][pages]") {
    Inputs in;
    graph::Graph& g = in.graph;
    const Value query = in(f32, {2, 4, 4, 8}), key = in(f32, {5, 64, 2, 8}), table = in(i32, {2, 3});
    const Value y = must(attention(g, query, key, key, {}, 1, 0, table));
    CHECK(g.shape(y) == Shape{2, 4, 4, 8});
    CHECK_REFUSED(in, attention(g, query, key, key, {}, 1, 0, in(f32, {2, 3})), kDtype,
                  "attention: pages has dtype f32, expected i32");
    CHECK_REFUSED(in, attention(g, query, key, key, {}, 1, 0, in(i32, {6})), kShape,
                  "attention: pages has shape [6], expected 2 dimensions [batch, table_len]");
    CHECK_REFUSED(in, attention(g, query, key, key, {}, 1, 0, in(i32, {3, 3})), kShape,
                  "attention: pages has shape [3, 3], expected [2, 3] (batch of query)");
    CHECK_REFUSED(in, attention(g, query, in(f32, {5, 32, 2, 8}), key, {}, 1, 0, table), kShape,
                  "attention: key has shape [5, 32, 2, 8], expected pages of 64 positions");
    CHECK_REFUSED(in, attention(g, query, key, in(f32, {6, 64, 2, 8}), {}, 1, 0, table), kShape,
                  "attention: value has shape [6, 64, 2, 8], expected [5, 64, 2, 8] (batch, key_len and kv_heads of "
                  "key)");
    CHECK_REFUSED(in, attention(g, query, key, key, {.additive = in(f32, {1, 1, 1, 64})}, 1, 0, table), kShape,
                  "attention: additive mask has shape [1, 1, 1, 64], expected [1, 1, 1, 192] (batch, heads and "
                  "query_len may also be 1)");
    CHECK_REFUSED(in, attention(g, query, key, key, {}, 1), kShape,
                  "attention: key has shape [5, 64, 2, 8], expected [2, 64, 2, 8] (batch of query)");
    CHECK_REFUSED(in, decode_attention(g, in(f32, {2, 1, 4, 8}), key, key, {}, 1, 128, 0, in(i32, {1, 3})), kShape,
                  "decode_attention: pages has shape [1, 3], expected [2, 3] (batch of query)");
    must(decode_attention(g, in(f32, {2, 1, 4, 8}), key, key, {}, 1, 128, 0, table));

    const Value cache = in.state(f32, {5, 64, 2, 8}), values = in.state(f32, {5, 64, 2, 8});
    must(cache_append(g, in(f32, {2, 4, 2, 8}), {}, cache, table));
    CHECK_REFUSED(in, cache_append(g, in(f32, {3, 4, 2, 8}), {}, cache, table), kShape,
                  "cache_append: pages has shape [2, 3], expected [3, 3] (batch of x)");
    CHECK_REFUSED(in, cache_append(g, in(f32, {2, 4, 3, 8}), {}, cache, table), kShape,
                  "cache_append: cache has shape [5, 64, 2, 8], expected [5, 64, 3, 8] (heads and dim of x)");
    CHECK_REFUSED(in, cache_append(g, in(f32, {2, 4, 2, 8}), {}, in.state(f32, {5, 63, 2, 8}), table), kShape,
                  "cache_append: cache has shape [5, 63, 2, 8], expected pages of 64 positions");
    const auto split = [&](Value qkv, Value pages) {
        return split_qkv(g, qkv, {}, {}, cache, values, graph::RopePairing::halves, {}, pages);
    };
    must(split(in(f32, {2, 1, 8, 8}), table));
    CHECK_REFUSED(in, split(in(f32, {3, 1, 8, 8}), table), kShape,
                  "split_qkv: pages has shape [2, 3], expected [3, 3] (batch of qkv)");
    CHECK_REFUSED(in, split(in(f32, {2, 1, 8, 6}), table), kShape,
                  "split_qkv: key_cache has shape [5, 64, 2, 8], expected [5, 64, 2, 6] (dim of qkv)");
}

}  // namespace
}  // namespace vkformer::tests
