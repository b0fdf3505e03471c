// SPDX-License-Identifier: MIT
#include "interface/attention_scores.h"

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::AttentionScoresPush) == 32);

Result<Dispatch> plan_dispatch(const graph::AttentionScores& op, const KernelContext& context) {
    const Shape& query = context.graph.shape(op.query);
    const Shape& key = context.graph.shape(op.key);
    VKFORMER_TRY(const auto groups,
                 folded_grid(query[0] * query[2] * ceil_div(query[1], shaders::kAttentionScoresTile) *
                                 ceil_div(key[1], shaders::kAttentionScoresTile),
                             context.device));
    Dispatch dispatch{
        .shader = variant_for("attention_scores", context.graph.dtype(op.query), context.device),
        .bindings = {op.query, op.key, op.scores},
        .constants = {shaders::kAttentionScoresWorkgroup, op.soft_cap == 0 ? 0u : 1u},
        .groups = groups,
    };
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
    return dispatch;
}

}  // namespace vkformer::vulkan
