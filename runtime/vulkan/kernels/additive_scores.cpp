// SPDX-License-Identifier: MIT
#include "interface/additive_scores.h"

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::AdditiveScoresPush) == 20);

Result<Dispatch> plan_dispatch(const graph::AdditiveScores& op, const KernelContext& context) {
    const Shape& query = context.graph.shape(op.query);
    const std::uint64_t key_len = context.graph.shape(op.key)[1];
    // A decode step has one query, or a few beams: a square tile would leave most of it empty.
    const std::uint32_t tile_queries = query[1] == 1 ? 1 : query[1] <= 4 ? 4 : 8;
    const std::uint32_t tile_keys = shaders::kAdditiveScoresWorkgroup / tile_queries;
    VKFORMER_TRY(const auto groups,
                 folded_grid(query[0] * query[2] * ceil_div(query[1], tile_queries) * ceil_div(key_len, tile_keys),
                             context.device));
    Dispatch dispatch{
        .shader = variant_for("additive_scores", context.graph.dtype(op.query), context.device),
        .bindings = {op.query, op.key, op.weight, op.scores},
        .constants = {shaders::kAdditiveScoresWorkgroup, tile_queries, tile_keys},
        .groups = groups,
    };
    dispatch.push.set(shaders::AdditiveScoresPush{
        .batch = static_cast<std::uint32_t>(query[0]),
        .query_len = static_cast<std::uint32_t>(query[1]),
        .key_len = static_cast<std::uint32_t>(key_len),
        .heads = static_cast<std::uint32_t>(query[2]),
        .dim = static_cast<std::uint32_t>(query[3]),
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
