// SPDX-License-Identifier: MIT
#include "attention_scores/contract.h"

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

static_assert(sizeof(shaders::AttentionScoresPush) == 32);

Result<DispatchPlan> plan(const graph::AttentionScores& op, const KernelContext& context) {
    const Shape& query = context.graph.shape(op.query);
    const Shape& key = context.graph.shape(op.key);
    VKFORMER_TRY(const auto groups,
                 folded_grid(query[0] * query[2] * ceil_div(query[1], shaders::kAttentionScoresTile) *
                                 ceil_div(key[1], shaders::kAttentionScoresTile),
                             context.device));
    Dispatch dispatch{
        .module = {&modules::attention_scores, storage_for(context.graph.dtype(op.query), context.device)},
        .groups = groups};
    dispatch.bind(shaders::kAttentionScoresQuery, op.query)
        .bind(shaders::kAttentionScoresKey, op.key)
        .bind(shaders::kAttentionScoresScores, op.scores)
        .set(shaders::kWorkgroupConstant, shaders::kAttentionScoresWorkgroup)
        .set(shaders::kAttentionScoresHasSoftCap, op.soft_cap == 0 ? 0u : 1u);
    dispatch.push.set(shaders::AttentionScoresPush{
        .batch = static_cast<std::uint32_t>(query[0]),
        .query_len = static_cast<std::uint32_t>(query[1]),
        .key_len = static_cast<std::uint32_t>(key[1]),
        .heads = static_cast<std::uint32_t>(query[2]),
        .kv_heads = static_cast<std::uint32_t>(key[2]),
        .head_dim = static_cast<std::uint32_t>(query[3]),
        .scale = op.scale,
        .soft_cap = op.soft_cap,
    });
    return DispatchPlan(std::move(dispatch));
}

constexpr std::uint32_t kScoresTile = shaders::kAttentionScoresTile;
/// Queries x keys x heads x head_dim.
constexpr Edge kAttentionScoresEdges[] = {{1, 1, 1, 1},
                                          {kScoresTile - 1, kScoresTile + 1, 2, kScoresTile - 1},
                                          {kScoresTile, kScoresTile, 1, kScoresTile},
                                          {kScoresTile + 1, kScoresTile - 1, 3, 2 * kScoresTile + 1}};

}  // namespace

std::span<const Kernel<graph::AttentionScores>> kernels(const graph::AttentionScores&) {
    static constexpr Kernel<graph::AttentionScores> kKernels[] = {
        {.traits = {.name = "tile", .edges = kAttentionScoresEdges, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
