// SPDX-License-Identifier: MIT
// Fused attention: prefill with and without a causal mask, and the split decode path. Shapes: head sizes 64 and 128 with the
// grouped heads of small (9 query heads, 3 key heads) and large models (32, 8).
#include "bench/cases/cases.hpp"
#include "core/try.hpp"

#include <cmath>

namespace vkformer::bench {
namespace {

struct AttentionSizes {
    std::uint64_t batch, queries, keys, heads, kv_heads, head_dim;
};

Result<void> check_heads(std::string_view op, const AttentionSizes& s) {
    if (s.heads % s.kv_heads != 0)
        return Error{ErrorCode::InvalidArgument, std::string(op) + ": " + std::to_string(s.heads) +
                                                     " heads are no multiple of " + std::to_string(s.kv_heads) +
                                                     " key heads"};
    return {};
}

/// 2 products per pair of query and key that sees each other, and what is read and written once.
Work work_of(const AttentionSizes& s, DType dtype, bool causal) {
    const double queries = static_cast<double>(s.queries), keys = static_cast<double>(s.keys);
    // the last query sees all keys, the one before it one fewer …
    const double pairs = causal ? queries * keys - queries * (queries - 1) / 2 : queries * keys;
    const double rows = static_cast<double>(s.batch * s.head_dim);
    const double query_elements = rows * queries * static_cast<double>(s.heads);
    const double key_elements = rows * keys * static_cast<double>(s.kv_heads);
    return {.flops = 4 * pairs * rows * static_cast<double>(s.heads),
            .read = bytes_of(activations_of(dtype), query_elements) + bytes_of(dtype, 2 * key_elements),
            .written = bytes_of(activations_of(dtype), query_elements),
            .arithmetic = arithmetic_of(activations_of(dtype))};
}

struct Operands {
    graph::Value query, key, value;
};

Result<Operands> make_operands(CaseBuilder& b, const AttentionSizes& s, DType dtype) {
    Operands operands;
    const Shape keys{s.batch, s.keys, s.kv_heads, s.head_dim};
    VKFORMER_TRY(operands.query, b.input("query", activations_of(dtype), {s.batch, s.queries, s.heads, s.head_dim}));
    const auto make = [&](const char* name) {  // blocks are only in caches
        return dtype == DType::q8_0 ? b.state(name, dtype, keys) : b.input(name, dtype, keys);
    };
    VKFORMER_TRY(operands.key, make("key"));
    VKFORMER_TRY(operands.value, make("value"));
    return operands;
}

float scale_of(const AttentionSizes& s) { return 1 / std::sqrt(static_cast<float>(s.head_dim)); }

Result<Case> prefill(std::string_view op, const Family::Dims& shape, std::string_view dtype_name, bool causal) {
    const DType dtype = dtype_of(dtype_name);
    const AttentionSizes s{1, shape[0], shape[1], shape[2], shape[3], shape[4]};
    VKFORMER_CHECK(check_heads(op, s));
    if (causal && s.queries > s.keys)
        return Error{ErrorCode::InvalidArgument, std::string(op) + ": more queries than keys"};
    return Case{.op = std::string(op),
                .shape = to_text(shape),
                .dtype = std::string(dtype_name),
                .work = work_of(s, dtype, causal),
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const Operands o, make_operands(b, s, dtype));
                    graph::AttentionMask mask{.causal = causal};
                    if (causal && s.queries < s.keys) {
                        const auto start = static_cast<std::int32_t>(s.keys - s.queries);
                        VKFORMER_TRY(mask.starts, b.ints("starts", {1}, {start}));
                    }
                    VKFORMER_TRY(const auto y, graph::attention(b.graph, o.query, o.key, o.value, mask, scale_of(s)));
                    b.result(y);
                    return {};
                }};
}

Result<Case> attention_case(const Family::Dims& shape, std::string_view dtype) {
    return prefill("attention", shape, dtype, false);
}

Result<Case> causal_case(const Family::Dims& shape, std::string_view dtype) {
    return prefill("attention_causal", shape, dtype, true);
}

Result<Case> decode_case(const Family::Dims& shape, std::string_view dtype_name) {
    const DType dtype = dtype_of(dtype_name);
    const AttentionSizes s{shape[0], 1, shape[1], shape[2], shape[3], shape[4]};
    VKFORMER_CHECK(check_heads("decode_attention", s));
    return Case{.op = "decode_attention",
                .shape = to_text(shape),
                .dtype = std::string(dtype_name),
                .work = work_of(s, dtype, false),
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const Operands o, make_operands(b, s, dtype));
                    VKFORMER_TRY(const auto y,
                                 graph::decode_attention(b.graph, o.query, o.key, o.value, {}, scale_of(s)));
                    b.result(y);
                    return {};
                }};
}

/// A cache that is larger than what it holds: the last `queries` of `keys` positions, of `capacity`.
Result<Case> cached_case(std::string_view op, const Family::Dims& shape, std::string_view dtype_name, bool split) {
    const DType dtype = dtype_of(dtype_name);
    const AttentionSizes s{1, shape[0], shape[1], shape[3], shape[4], shape[5]};
    const std::uint64_t capacity = shape[2];
    VKFORMER_CHECK(check_heads(op, s));
    if (s.queries > s.keys || s.keys > capacity)
        return Error{ErrorCode::InvalidArgument, std::string(op) + ": more queries than keys, or keys than capacity"};
    return Case{.op = std::string(op),
                .shape = to_text(shape),
                .dtype = std::string(dtype_name),
                .work = work_of(s, dtype, true),
                .build = [=](CaseBuilder& b) -> Result<void> {
                    AttentionSizes allocated = s;
                    allocated.keys = capacity;
                    VKFORMER_TRY(const Operands o, make_operands(b, allocated, dtype));
                    graph::AttentionMask mask{.causal = true};
                    const auto start = static_cast<std::int32_t>(s.keys - s.queries);
                    VKFORMER_TRY(mask.starts, b.ints("starts", {1}, {start}));
                    const auto y = split ? graph::decode_attention(b.graph, o.query, o.key, o.value, mask, scale_of(s))
                                         : graph::attention(b.graph, o.query, o.key, o.value, mask, scale_of(s));
                    if (!y) return y.error();
                    b.result(*y);
                    return {};
                }};
}

Result<Case> chunk_case(const Family::Dims& shape, std::string_view dtype) {
    return cached_case("attention_chunk", shape, dtype, false);
}

Result<Case> cached_decode_case(const Family::Dims& shape, std::string_view dtype) {
    return cached_case("decode_attention_cache", shape, dtype, true);
}

}  // namespace

void add_attention_cases(std::vector<Family>& families) {
    families.push_back({.op = "attention",
                        .dims = "queries x keys x heads x kv_heads x head_dim",
                        .dtypes = {"f32", "f16"},
                        .shapes = {{1, 512, 9, 3, 64}, {64, 512, 9, 3, 64}, {512, 512, 9, 3, 64}, {64, 512, 8, 8, 128}},
                        .gpu_shapes = {{512, 2048, 32, 8, 128}},
                        .make = attention_case});
    families.push_back({.op = "attention_causal",
                        .dims = "queries x keys x heads x kv_heads x head_dim",
                        .dtypes = {"f32", "f16"},
                        .shapes = {{512, 512, 9, 3, 64}},
                        .gpu_shapes = {{4096, 4096, 32, 32, 128}},
                        .make = causal_case});
    families.push_back({.op = "decode_attention",
                        .dims = "batch x keys x heads x kv_heads x head_dim",
                        .dtypes = {"f32", "f16", "q8_0"},
                        .shapes = {{1, 512, 9, 3, 64}, {1, 2048, 9, 3, 64}, {1, 4096, 32, 8, 128}},
                        .gpu_shapes = {{1, 32768, 32, 8, 128}},
                        .make = decode_case});
    families.push_back({.op = "attention_chunk",
                        .dims = "queries x keys x capacity x heads x kv_heads x head_dim",
                        .dtypes = {"f32", "f16", "q8_0"},
                        .shapes = {{64, 128, 128, 9, 3, 64}, {64, 128, 8192, 9, 3, 64}},
                        .gpu_shapes = {{512, 1024, 32768, 32, 8, 128}},
                        .make = chunk_case});
    families.push_back({.op = "decode_attention_cache",
                        .dims = "queries x keys x capacity x heads x kv_heads x head_dim",
                        .dtypes = {"f32", "f16", "q8_0"},
                        .shapes = {{1, 128, 128, 9, 3, 64}, {1, 128, 8192, 9, 3, 64}},
                        .gpu_shapes = {{1, 1024, 32768, 32, 8, 128}},
                        .make = cached_decode_case});
}

}  // namespace vkformer::bench
