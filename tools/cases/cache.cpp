// SPDX-License-Identifier: MIT
// The key/value cache.
#include <numeric>
#include <random>

#include "cases/families.hpp"
#include "core/try.hpp"

namespace vkformer::cases {
namespace {

constexpr std::uint64_t kCapacity = 512;  // positions

/// The next head size that a cache takes: in blocks whole ones.
std::uint64_t cached_dim(std::uint64_t dim, const Types& types) {
    constexpr std::uint64_t kBlocks = 64;
    return types.stored == DType::q8_0 ? (dim + kBlocks - 1) / kBlocks * kBlocks : dim;
}

/// A cache of `rows` sequences, and the table of its pages where it has them.
struct CachePlace {
    Shape shape;
    graph::Value pages;
};

Result<CachePlace> add_place(CaseBuilder& b, CacheLayout layout, std::uint64_t rows, std::uint64_t heads,
                             std::uint64_t dim) {
    if (layout == CacheLayout::rows) return CachePlace{{rows, kCapacity, heads, dim}, {}};
    VKFORMER_TRY(const auto pages, add_page_table(b, rows, kCapacity));
    return CachePlace{{rows * graph::page_count(kCapacity), graph::kPageLen, heads, dim}, pages};
}

template <CacheLayout kLayout>
Result<Case> append_case(const Family::Dims& shape, const Types& types) {
    const DType dtype = types.stored, x_dtype = types.x;
    const std::uint64_t batch = shape[0], len = shape[1], heads = shape[2], dim = cached_dim(shape[3], types);
    if (len > kCapacity)
        return Error{ErrorCode::InvalidArgument, "cache_append: at most " + std::to_string(kCapacity) + " positions"};
    const double elements = static_cast<double>(batch * len * heads * dim);
    return Case{.op = kLayout == CacheLayout::pages ? "cache_append_in_pages" : "cache_append",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = 0, .read = bytes_of(x_dtype, elements), .written = bytes_of(dtype, elements)},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto x, b.input("x", x_dtype, {batch, len, heads, dim}));
                    VKFORMER_TRY(const auto place, add_place(b, kLayout, batch, heads, dim));
                    VKFORMER_TRY(const auto cache, b.state("cache", dtype, place.shape));
                    VKFORMER_CHECK(graph::cache_append(b.graph, x, {}, cache, place.pages));
                    b.result(cache);
                    return {};
                }};
}

template <CacheLayout kLayout>
Result<Case> split_case(const Family::Dims& shape, const Types& types) {
    const DType dtype = types.stored;
    const std::uint64_t batch = shape[0], len = shape[1], heads = shape[2], kv_heads = shape[3], dim = shape[4];
    if (len > kCapacity || dim % 2 != 0)
        return Error{ErrorCode::InvalidArgument,
                     "split_qkv: at most " + std::to_string(kCapacity) + " positions, and an even dim"};
    const std::uint64_t all_heads = heads + 2 * kv_heads;
    const double bytes = bytes_of(dtype, static_cast<double>(batch * len * all_heads * dim));
    return Case{
        .op = kLayout == CacheLayout::pages ? "split_qkv_in_pages" : "split_qkv",
        .shape = to_text(shape),
        .dtype = types.name(),
        .work = {.flops = 3.0 * static_cast<double>(batch * len * (heads + kv_heads) * dim),
                 .read = bytes + 4.0 * static_cast<double>(len * dim),
                 .written = bytes},
        .build = [=](CaseBuilder& b) -> Result<void> {
            VKFORMER_TRY(const auto qkv, b.input("qkv", dtype, {batch, len, all_heads, dim}));
            VKFORMER_TRY(
                const auto table,
                b.graph.weight("table", graph::rope_table(kCapacity, graph::rope_frequencies(dim, 10000)), DType::f32));
            VKFORMER_TRY(const auto place, add_place(b, kLayout, batch, kv_heads, dim));
            VKFORMER_TRY(const auto keys, b.state("key_cache", dtype, place.shape));
            VKFORMER_TRY(const auto values, b.state("value_cache", dtype, place.shape));
            VKFORMER_TRY(const auto query, graph::split_qkv(b.graph, qkv, table, {}, keys, values,
                                                            graph::RopePairing::halves, {}, place.pages));
            b.result(query);
            b.result(keys);
            b.result(values);
            return {};
        }};
}

Result<Case> reorder_case(const Family::Dims& shape, const Types& types) {
    const DType dtype = types.stored;
    const std::uint64_t rows = shape[0], len = shape[1], heads = shape[2], dim = cached_dim(shape[3], types);
    if (rows > graph::kMaxBeams || len > kCapacity)
        return Error{ErrorCode::InvalidArgument, "cache_reorder: at most " + std::to_string(graph::kMaxBeams) +
                                                     " rows and " + std::to_string(kCapacity) + " positions"};
    std::vector<std::int32_t> parents(rows);  // every row continues its neighbour, so that all of them move
    for (std::uint64_t row = 0; row < rows; ++row) parents[row] = static_cast<std::int32_t>((row + 1) % rows);
    const double bytes = bytes_of(dtype, static_cast<double>(rows * len * heads * dim));
    return Case{
        .op = "cache_reorder",
        .shape = to_text(shape),
        .dtype = types.name(),
        .work = {.flops = 0, .read = bytes, .written = bytes},
        .build = [=](CaseBuilder& b) -> Result<void> {
            VKFORMER_TRY(const auto cache, b.state("cache", dtype, {rows, kCapacity, heads, dim}));
            VKFORMER_TRY(const auto from, b.ints("parents", {rows}, parents));
            VKFORMER_TRY(const auto lengths,
                         b.ints("lengths", {rows}, std::vector<std::int32_t>(rows, static_cast<int>(len))));
            VKFORMER_CHECK(graph::cache_reorder(b.graph, cache, from, lengths, static_cast<std::uint32_t>(rows)));
            b.result(cache);
            return {};
        }};
}

}  // namespace

Result<graph::Value> add_page_table(CaseBuilder& builder, std::uint64_t rows, std::uint64_t positions) {
    const std::uint64_t len = graph::page_count(positions), pages = rows * len;
    std::vector<std::int32_t> table(pages);
    std::iota(table.begin(), table.end(), 0);
    std::mt19937 random(1);
    for (std::uint64_t i = pages; i > 1; --i) std::swap(table[i - 1], table[random() % i]);
    return builder.ints("pages", {rows, len}, std::move(table));
}

void add_cache_cases(std::vector<Family>& families) {
    families.push_back({.name = "cache_append",
                        .op = "cache_append",
                        .dims = "batch x len x heads x dim",
                        .types = {DType::f32, DType::f16, DType::q8_0, {DType::f16, DType::q8_0}},
                        .shapes = {{1, 1, 3, 64}, {1, 512, 3, 64}},
                        .compiled = {{{4, 1, 8, 64}, {DType::q8_0, {DType::f16, DType::q8_0}}}},
                        .make = append_case<CacheLayout::rows>});
    families.push_back({.name = "cache_append_in_pages",
                        .op = "cache_append",
                        .dims = "batch x len x heads x dim",
                        .types = {DType::f32, DType::f16, DType::q8_0, {DType::f16, DType::q8_0}},
                        .make = append_case<CacheLayout::pages>});
    families.push_back({.name = "split_qkv",
                        .op = "split_qkv",
                        .dims = "batch x len x heads x kv heads x dim",
                        .types = {DType::f32, DType::f16},
                        .shapes = {{1, 1, 9, 3, 64}, {1, 512, 9, 3, 64}},
                        .make = split_case<CacheLayout::rows>});
    families.push_back({.name = "split_qkv_in_pages",
                        .op = "split_qkv",
                        .dims = "batch x len x heads x kv heads x dim",
                        .types = {DType::f32, DType::f16},
                        .make = split_case<CacheLayout::pages>});
    families.push_back({.name = "cache_reorder",
                        .op = "cache_reorder",
                        .dims = "beams x len x heads x dim",
                        .types = {DType::f32, DType::f16, DType::q8_0},
                        .shapes = {{4, 256, 8, 64}},
                        .compiled = {{{4, 256, 8, 64}, {DType::q8_0}}},
                        .make = reorder_case});
}

}  // namespace vkformer::cases
