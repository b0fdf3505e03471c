// SPDX-License-Identifier: MIT
// Fused attention: prefill with and without a causal mask, and the split decode path. Shapes: head sizes 64 and 128 with the
// grouped heads of small (9 query heads, 3 key heads) and large models (32, 8).
#include <algorithm>
#include <cmath>
#include <optional>

#include "cases/families.hpp"
#include "core/try.hpp"

namespace vkformer::cases {
namespace {

using graph::Value;

struct AttentionSizes {
    std::uint64_t batch, queries, keys, heads, kv_heads, head_dim, value_dim;
};

Result<void> check_heads(std::string_view op, const AttentionSizes& s) {
    if (s.heads % s.kv_heads != 0)
        return Error{ErrorCode::InvalidArgument, std::string(op) + ": " + std::to_string(s.heads) +
                                                     " heads are no multiple of " + std::to_string(s.kv_heads) +
                                                     " key heads"};
    return {};
}

/// 2 products per pair of query and key that sees each other, and what is read and written once.
Work work_of(const AttentionSizes& s, const Types& types, bool causal) {
    const double queries = static_cast<double>(s.queries), keys = static_cast<double>(s.keys);
    // the last query sees all keys, the one before it one fewer …
    const double pairs = causal ? queries * keys - queries * (queries - 1) / 2 : queries * keys;
    const double batch = static_cast<double>(s.batch), width = static_cast<double>(s.head_dim + s.value_dim);
    const double heads = batch * static_cast<double>(s.heads), kv_heads = batch * static_cast<double>(s.kv_heads);
    return {.flops = 2 * pairs * heads * width,
            .read = bytes_of(types.x, queries * heads * static_cast<double>(s.head_dim)) +
                    bytes_of(types.stored, keys * kv_heads * width),
            .written = bytes_of(types.x, queries * heads * static_cast<double>(s.value_dim)),
            .arithmetic = arithmetic_of(types.x)};
}

struct Operands {
    Value query, key, value;
    Value pages{};  // absent: keys and values are not in pages
};

Result<Operands> make_operands(CaseBuilder& b, const AttentionSizes& s, const Types& types, std::uint64_t capacity,
                               CacheLayout layout = CacheLayout::rows) {
    const bool in_pages = layout == CacheLayout::pages;
    const std::uint64_t pages = s.batch * graph::page_count(capacity);
    Operands operands;
    if (in_pages) {
        VKFORMER_TRY(operands.pages, add_page_table(b, s.batch, capacity));
    }
    VKFORMER_TRY(operands.query, b.input("query", types.x, {s.batch, s.queries, s.heads, s.head_dim}));
    const auto make = [&](const char* name, std::uint64_t dim) {  // blocks are only in caches
        const Shape shape{in_pages ? pages : s.batch, in_pages ? graph::kPageLen : capacity, s.kv_heads, dim};
        return types.stored == DType::q8_0 ? b.state(name, types.stored, shape) : b.input(name, types.stored, shape);
    };
    VKFORMER_TRY(operands.key, make("key", s.head_dim));
    VKFORMER_TRY(operands.value, make("value", s.value_dim));
    return operands;
}

float scale_of(const AttentionSizes& s) { return 1 / std::sqrt(static_cast<float>(s.head_dim)); }

/// What a case of any sizes has besides its operands.
struct AttentionForm {
    std::string_view name;
    bool has_every_mask = false, has_lengths = false;
    bool sees_neighbours = false;  ///< a window on both sides, as in layers of encoders
    float soft_cap = 0;
    CacheLayout layout = CacheLayout::rows;
    bool has_sinks = false;  ///< in place of an additive mask
};

/// Half of the keys, or as many as the queries need: what a cache holds.
std::int32_t held_keys(const AttentionSizes& s) { return static_cast<std::int32_t>(std::max(s.queries, s.keys / 2)); }

Result<graph::AttentionMask> make_mask(CaseBuilder& b, const AttentionSizes& s, const AttentionForm& form) {
    graph::AttentionMask mask;
    const auto per_sequence = [&](std::int32_t value) { return std::vector<std::int32_t>(s.batch, value); };
    const bool in_pages = form.layout == CacheLayout::pages;  // whose last page may hold more than the keys
    if (form.has_lengths || in_pages) {
        const std::uint64_t keys = form.has_lengths ? s.keys - s.keys / 3 : s.keys;
        VKFORMER_TRY(mask.key_lengths, b.ints("key_lengths", {s.batch}, per_sequence(static_cast<std::int32_t>(keys))));
    }
    if (form.sees_neighbours) mask.window = static_cast<std::uint32_t>(s.keys / 4 + 1);
    if (!form.has_every_mask) return mask;
    mask.causal = true;
    mask.window = static_cast<std::uint32_t>(s.keys / 2 + 1);
    const std::int32_t start = held_keys(s) - static_cast<std::int32_t>(s.queries);
    VKFORMER_TRY(mask.starts, b.ints("starts", {s.batch}, per_sequence(start)));
    if (form.has_sinks) {
        VKFORMER_TRY(mask.sinks, b.input("sinks", DType::f32, {s.heads}));
        return mask;
    }
    const std::uint64_t columns = in_pages ? graph::page_count(s.keys) * graph::kPageLen : s.keys;
    VKFORMER_TRY(mask.additive, b.input("additive", DType::f32, {1, s.heads, s.queries, columns}));
    return mask;
}

template <const AttentionForm& kForm>
Result<Case> attention_of_any_sizes(const Family::Dims& shape, const Types& types) {
    const AttentionSizes s{shape[0], shape[1], shape[2], shape[3], shape[4], shape[5], shape[6]};
    VKFORMER_CHECK(check_heads(kForm.name, s));
    return Case{.op = std::string(kForm.name),
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = work_of(s, types, false),
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const Operands o, make_operands(b, s, types, s.keys, kForm.layout));
                    VKFORMER_TRY(const auto mask, make_mask(b, s, kForm));
                    VKFORMER_TRY(const Value y, graph::attention(b.graph, o.query, o.key, o.value, mask, scale_of(s),
                                                                 kForm.soft_cap, o.pages));
                    b.result(y);
                    return {};
                }};
}

template <const AttentionForm& kForm>
Result<Case> decode_of_any_sizes(const Family::Dims& shape, const Types& types) {
    const AttentionSizes s{shape[0], 1, shape[1], shape[2], shape[3], shape[4], shape[5]};
    const auto split_keys = static_cast<std::uint32_t>(shape[6]);
    VKFORMER_CHECK(check_heads(kForm.name, s));
    return Case{.op = std::string(kForm.name),
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = work_of(s, types, false),
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const Operands o, make_operands(b, s, types, s.keys, kForm.layout));
                    VKFORMER_TRY(const auto mask, make_mask(b, s, kForm));
                    VKFORMER_TRY(const Value y,
                                 graph::decode_attention(b.graph, o.query, o.key, o.value, mask, scale_of(s),
                                                         split_keys, kForm.soft_cap, o.pages));
                    b.result(y);
                    return {};
                }};
}

constexpr AttentionForm kPlain{.name = "attention_batch"}, kPadded{.name = "attention_padded", .has_lengths = true},
    kMasked{.name = "attention_masked", .has_every_mask = true, .has_lengths = true},
    kCapped{.name = "attention_capped", .soft_cap = 2},
    kNeighbours{.name = "attention_neighbours", .has_lengths = true, .sees_neighbours = true},
    kInPages{.name = "attention_in_pages",
             .has_every_mask = true,
             .has_lengths = true,
             .soft_cap = 2,
             .layout = CacheLayout::pages},
    kSinks{.name = "attention_sinks", .has_every_mask = true, .has_lengths = true, .has_sinks = true};
constexpr AttentionForm kDecode{.name = "decode_attention_batch"},
    kDecodeMasked{.name = "decode_attention_masked", .has_every_mask = true, .has_lengths = true},
    kDecodeCapped{.name = "decode_attention_capped", .soft_cap = 2},
    kDecodeInPages{.name = "decode_attention_in_pages",
                   .has_every_mask = true,
                   .has_lengths = true,
                   .soft_cap = 2,
                   .layout = CacheLayout::pages},
    kDecodeSinks{.name = "decode_attention_sinks", .has_every_mask = true, .has_lengths = true, .has_sinks = true};

Result<Case> prefill(std::string_view op, const Family::Dims& shape, const Types& types, bool causal) {
    const AttentionSizes s{1, shape[0], shape[1], shape[2], shape[3], shape[4], shape[4]};
    VKFORMER_CHECK(check_heads(op, s));
    if (causal && s.queries > s.keys)
        return Error{ErrorCode::InvalidArgument, std::string(op) + ": more queries than keys"};
    return Case{.op = std::string(op),
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = work_of(s, types, causal),
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const Operands o, make_operands(b, s, types, s.keys));
                    graph::AttentionMask mask{.causal = causal};
                    if (causal && s.queries < s.keys) {
                        const auto start = static_cast<std::int32_t>(s.keys - s.queries);
                        VKFORMER_TRY(mask.starts, b.ints("starts", {1}, {start}));
                    }
                    VKFORMER_TRY(const Value y, graph::attention(b.graph, o.query, o.key, o.value, mask, scale_of(s)));
                    b.result(y);
                    return {};
                }};
}

Result<Case> attention_case(const Family::Dims& shape, const Types& types) {
    return prefill("attention", shape, types, false);
}

Result<Case> causal_case(const Family::Dims& shape, const Types& types) {
    return prefill("attention_causal", shape, types, true);
}

Result<Case> decode_case(const Family::Dims& shape, const Types& types) {
    const AttentionSizes s{shape[0], 1, shape[1], shape[2], shape[3], shape[4], shape[4]};
    VKFORMER_CHECK(check_heads("decode_attention", s));
    return Case{.op = "decode_attention",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = work_of(s, types, false),
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const Operands o, make_operands(b, s, types, s.keys));
                    VKFORMER_TRY(const Value y,
                                 graph::decode_attention(b.graph, o.query, o.key, o.value, {}, scale_of(s)));
                    b.result(y);
                    return {};
                }};
}

constexpr std::uint32_t kCachedSplitKeys = 128;

/// A cache that is larger than what it holds: the last `queries` of `keys` positions, of `capacity`.
Result<Case> cached_case(std::string_view op, const Family::Dims& shape, const Types& types, bool split,
                         CacheLayout layout = CacheLayout::rows) {
    const AttentionSizes s{1, shape[0], shape[1], shape[3], shape[4], shape[5], shape[5]};
    const std::uint64_t capacity = shape[2];
    VKFORMER_CHECK(check_heads(op, s));
    if (s.queries > s.keys || s.keys > capacity)
        return Error{ErrorCode::InvalidArgument, std::string(op) + ": more queries than keys, or keys than capacity"};
    return Case{.op = std::string(op),
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = work_of(s, types, true),
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const Operands o, make_operands(b, s, types, capacity, layout));
                    graph::AttentionMask mask{.causal = true};
                    const auto start = static_cast<std::int32_t>(s.keys - s.queries);
                    VKFORMER_TRY(mask.starts, b.ints("starts", {1}, {start}));
                    const auto y =
                        split ? graph::decode_attention(b.graph, o.query, o.key, o.value, mask, scale_of(s),
                                                        kCachedSplitKeys, 0, o.pages)
                              : graph::attention(b.graph, o.query, o.key, o.value, mask, scale_of(s), 0, o.pages);
                    if (!y) return y.error();
                    b.result(*y);
                    return {};
                }};
}

Result<Case> chunk_case(const Family::Dims& shape, const Types& types) {
    return cached_case("attention_chunk", shape, types, false);
}

Result<Case> cached_decode_case(const Family::Dims& shape, const Types& types) {
    return cached_case("decode_attention_cache", shape, types, true);
}

Result<Case> paged_chunk_case(const Family::Dims& shape, const Types& types) {
    return cached_case("attention_chunk_in_pages", shape, types, false, CacheLayout::pages);
}

Result<Case> paged_decode_case(const Family::Dims& shape, const Types& types) {
    return cached_case("decode_attention_cache_in_pages", shape, types, true, CacheLayout::pages);
}

constexpr Types kHalvesToBlocks{DType::f16, DType::q8_0};  // the queries and a cache

}  // namespace

void add_attention_cases(std::vector<Family>& families) {
    const std::vector<Types> floats = {DType::f32, DType::f16}, blocks = {DType::q8_0, kHalvesToBlocks};
    const std::vector<Types> all = {DType::f32, DType::f16, DType::q8_0, kHalvesToBlocks};
    families.push_back({.name = "attention",
                        .op = "attention",
                        .dims = "queries x keys x heads x kv_heads x head_dim",
                        .types = floats,
                        .shapes = {{1, 512, 9, 3, 64}, {64, 512, 9, 3, 64}, {512, 512, 9, 3, 64}, {64, 512, 8, 8, 128}},
                        .gpu_shapes = {{512, 2048, 32, 8, 128}},
                        .make = attention_case});
    families.push_back({.name = "attention_causal",
                        .op = "attention",
                        .dims = "queries x keys x heads x kv_heads x head_dim",
                        .types = floats,
                        .shapes = {{512, 512, 9, 3, 64}},
                        .gpu_shapes = {{4096, 4096, 32, 32, 128}},
                        .compiled = {{{512, 512, 32, 8, 256}, floats}, {{512, 512, 32, 8, 80}, floats}},
                        .make = causal_case});
    families.push_back({.name = "decode_attention",
                        .op = "decode_attention",
                        .dims = "batch x keys x heads x kv_heads x head_dim",
                        .types = all,
                        .shapes = {{1, 512, 9, 3, 64}, {1, 2048, 9, 3, 64}, {1, 4096, 32, 8, 128}},
                        .gpu_shapes = {{1, 32768, 32, 8, 128}},
                        .make = decode_case});
    families.push_back({.name = "attention_chunk",
                        .op = "attention",
                        .dims = "queries x keys x capacity x heads x kv_heads x head_dim",
                        .types = all,
                        .shapes = {{64, 128, 128, 9, 3, 64}, {64, 128, 8192, 9, 3, 64}},
                        .gpu_shapes = {{512, 1024, 32768, 32, 8, 128}},
                        .compiled = {{{16, 512, 512, 32, 8, 64}, floats},
                                     {{1, 512, 512, 32, 8, 64}, floats},
                                     {{512, 4096, 4096, 32, 8, 64}, blocks},
                                     {{512, 4096, 4096, 32, 8, 128}, blocks}},
                        .make = chunk_case});
    families.push_back({.name = "decode_attention_cache",
                        .op = "decode_attention",
                        .dims = "queries x keys x capacity x heads x kv_heads x head_dim",
                        .types = all,
                        .shapes = {{1, 128, 128, 9, 3, 64}, {1, 128, 8192, 9, 3, 64}},
                        .gpu_shapes = {{1, 1024, 32768, 32, 8, 128}},
                        .compiled = {{{1, 4096, 4096, 32, 8, 64}, all}, {{1, 4096, 4096, 32, 8, 128}, blocks}},
                        .make = cached_decode_case});
    families.push_back({.name = "attention_chunk_in_pages",
                        .op = "attention",
                        .dims = "queries x keys x capacity x heads x kv_heads x head_dim",
                        .types = all,
                        .shapes = {{64, 512, 8192, 9, 3, 64}},
                        .gpu_shapes = {{512, 1024, 32768, 32, 8, 128}},
                        .compiled = {{{512, 4096, 4096, 32, 8, 64}, all}, {{512, 4096, 4096, 32, 8, 128}, all}},
                        .make = paged_chunk_case});
    families.push_back({.name = "decode_attention_cache_in_pages",
                        .op = "decode_attention",
                        .dims = "queries x keys x capacity x heads x kv_heads x head_dim",
                        .types = all,
                        .shapes = {{1, 512, 8192, 9, 3, 64}},
                        .gpu_shapes = {{1, 1024, 32768, 32, 8, 128}},
                        .compiled = {{{1, 4096, 4096, 32, 8, 64}, all}, {{1, 4096, 4096, 32, 8, 128}, all}},
                        .make = paged_decode_case});

    // Of any sizes, to which the edges of kernels belong.
    constexpr std::string_view kAnySizes = "batch x queries x keys x heads x kv_heads x head_dim x value_dim";
    const auto add = [&](const AttentionForm& form, const auto& make, std::vector<Family::Compiled> compiled) {
        families.push_back({.name = form.name,
                            .op = "attention",
                            .dims = kAnySizes,
                            .types = floats,
                            .compiled = std::move(compiled),
                            .make = make});
    };
    add(kPlain, attention_of_any_sizes<kPlain>, {});
    add(kPadded, attention_of_any_sizes<kPadded>, {{{4, 512, 512, 8, 8, 64, 64}, floats}});
    add(kMasked, attention_of_any_sizes<kMasked>, {});
    add(kCapped, attention_of_any_sizes<kCapped>, {{{1, 512, 512, 16, 8, 64, 64}, floats}});
    add(kNeighbours, attention_of_any_sizes<kNeighbours>, {});
    add(kInPages, attention_of_any_sizes<kInPages>, {});
    add(kSinks, attention_of_any_sizes<kSinks>, {});
    constexpr std::string_view kAnySplit = "batch x keys x heads x kv_heads x head_dim x value_dim x split_keys";
    const auto add_decode = [&](const AttentionForm& form, const auto& make, std::vector<Family::Compiled> compiled) {
        families.push_back({.name = form.name,
                            .op = "decode_attention",
                            .dims = kAnySplit,
                            .types = floats,
                            .compiled = std::move(compiled),
                            .make = make});
    };
    add_decode(kDecode, decode_of_any_sizes<kDecode>, {});
    add_decode(kDecodeMasked, decode_of_any_sizes<kDecodeMasked>, {});
    add_decode(kDecodeCapped, decode_of_any_sizes<kDecodeCapped>, {{{1, 512, 16, 8, 64, 64, 128}, floats}});
    add_decode(kDecodeInPages, decode_of_any_sizes<kDecodeInPages>, {});
    add_decode(kDecodeSinks, decode_of_any_sizes<kDecodeSinks>, {});
}

}  // namespace vkformer::cases
