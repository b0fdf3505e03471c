// SPDX-License-Identifier: MIT
#include "additive_scores/contract.h"

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

struct Tile {
    std::uint32_t queries, keys;  // an invocation for each pair
};

/// A decode step has one query, or a few beams: a square tile would leave most of it empty.
Tile choose_tile(std::uint64_t query_len, std::uint64_t key_len, const Capabilities& device) {
    constexpr Tile kOneQuery{1, 64}, kOneQueryFewKeys{1, 8};
    if (query_len == 1) {
        // A CPU pays for lanes without a key. 16 rows of 20 keys, dim 512: 22 → 8.5 ms on lavapipe, 13 → 4.0 ms on SwiftShader;
        // 8 rows of 200: 88 → 70 and 38 → 30; 64 keys, with no such lane: no gain.
        const std::uint64_t idle = ceil_div(key_len, kOneQuery.keys) * kOneQuery.keys - key_len;
        return device.is_cpu() && idle > key_len / 8 ? kOneQueryFewKeys : kOneQuery;
    }
    if (query_len <= 4) return {4, 16};
    return {8, 8};
}

static_assert(sizeof(shaders::AdditiveScoresPush) == 20);

Result<DispatchPlan> plan(const graph::AdditiveScores& op, const KernelContext& context) {
    const Shape& query = context.graph.shape(op.query);
    const std::uint64_t key_len = context.graph.shape(op.key)[1];
    const Tile tile = choose_tile(query[1], key_len, context.device);
    VKFORMER_TRY(const auto groups,
                 folded_grid(query[0] * query[2] * ceil_div(query[1], tile.queries) * ceil_div(key_len, tile.keys),
                             context.device));
    Dispatch dispatch{.module = {&modules::additive_scores, storage_for(context.graph.dtype(op.query), context.device)},
                      .groups = groups};
    dispatch.bind(shaders::kAdditiveScoresQuery, op.query)
        .bind(shaders::kAdditiveScoresKey, op.key)
        .bind(shaders::kAdditiveScoresWeight, op.weight)
        .bind(shaders::kAdditiveScoresScores, op.scores)
        .set(shaders::kWorkgroupConstant, tile.queries * tile.keys)
        .set(shaders::kAdditiveScoresTileQueries, tile.queries)
        .set(shaders::kAdditiveScoresTileKeys, tile.keys);
    dispatch.push.set(shaders::AdditiveScoresPush{
        .batch = static_cast<std::uint32_t>(query[0]),
        .query_len = static_cast<std::uint32_t>(query[1]),
        .key_len = static_cast<std::uint32_t>(key_len),
        .heads = static_cast<std::uint32_t>(query[2]),
        .dim = static_cast<std::uint32_t>(query[3]),
    });
    return DispatchPlan(std::move(dispatch));
}

/// Queries x keys x heads x dim: at the edges of each tile.
constexpr Edge kAdditiveScoresEdges[] = {{1, 1, 1, 1},   {1, 20, 2, 31}, {1, 65, 1, 64},
                                         {3, 17, 2, 33}, {4, 16, 1, 5},  {9, 7, 2, 129}};

}  // namespace

std::span<const Kernel<graph::AdditiveScores>> kernels(const graph::AdditiveScores&) {
    static constexpr Kernel<graph::AdditiveScores> kKernels[] = {
        {.traits = {.name = "tile", .edges = kAdditiveScoresEdges, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
