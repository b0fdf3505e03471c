// SPDX-License-Identifier: MIT
#include "interface/attention.h"

#include "core/try.hpp"
#include "vulkan/kernels/attention_mask.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::AttentionPush) == 48);

Result<Dispatch> plan_dispatch(const graph::Attention& op, const KernelContext& context) {
    const Shape& query = context.graph.shape(op.query);
    const Shape& key = context.graph.shape(op.key);
    const std::uint64_t value_dim = context.graph.shape(op.value)[3];

    // More queries per tile read the keys less often; rows of a tile without a query are wasted.
    const std::uint32_t query_steps = query[1] <= shaders::kAttentionLaneRows       ? 1
                                      : query[1] <= 2 * shaders::kAttentionLaneRows ? 2
                                                                                    : 4;
    const std::uint64_t query_tiles = ceil_div(query[1], shaders::kAttentionLaneRows * query_steps);
    VKFORMER_TRY(const auto groups, folded_grid(query[0] * query[2] * query_tiles, context.device));
    Dispatch dispatch{
        .shader = variant_for("attention", context.graph.dtype(op.query), context.device),
        .bindings = {op.query, op.key, op.value, or_else(op.mask.key_lengths, op.query),
                     or_else(op.mask.starts, op.query), or_else(op.mask.additive, op.query), op.y},
        .constants = {shaders::kAttentionWorkgroup, query_steps,
                      static_cast<std::uint32_t>(ceil_div(value_dim, shaders::kAttentionTile)), mask_bits(op.mask)},
        .groups = groups,
    };
    dispatch.push.set(shaders::AttentionPush{
        .batch = static_cast<std::uint32_t>(query[0]),
        .query_len = static_cast<std::uint32_t>(query[1]),
        .heads = static_cast<std::uint32_t>(query[2]),
        .kv_heads = static_cast<std::uint32_t>(key[2]),
        .head_dim = static_cast<std::uint32_t>(query[3]),
        .value_dim = static_cast<std::uint32_t>(value_dim),
        .scale = op.scale,
        .mask = mask_push(op.mask, key[1], context.graph),
    });
    return dispatch;
}

}   // namespace vkformer::vulkan
