// SPDX-License-Identifier: MIT
#include "interface/attention.h"

#include "core/try.hpp"
#include "vulkan/kernels/attention_mask.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::AttentionPush) == 48);

namespace {

/// Which of the two shaders, its first three specialization constants, and the queries that a workgroup owns.
struct Tiling {
    std::string_view shader;
    std::uint32_t workgroup, first_constant, second_constant;
    std::uint64_t queries;
};

Tiling tiling_of(std::string_view variant, std::uint64_t query_len, std::uint64_t head_dim, std::uint64_t value_dim) {
    if (variant == "direct")
        return {"attention_direct", shaders::kAttentionDirectWorkgroup, static_cast<std::uint32_t>(head_dim),
                static_cast<std::uint32_t>(value_dim), shaders::kAttentionDirectWorkgroup};
    // More queries per tile read the keys less often; rows of a tile without a query are wasted.
    const std::uint32_t query_steps = query_len <= shaders::kAttentionLaneRows       ? 1
                                      : query_len <= 2 * shaders::kAttentionLaneRows ? 2
                                                                                     : 4;
    return {"attention", shaders::kAttentionWorkgroup, query_steps,
            static_cast<std::uint32_t>(ceil_div(value_dim, shaders::kAttentionTile)),
            shaders::kAttentionLaneRows * query_steps};
}

}  // namespace

VariantNames variants(const graph::Attention& op, const KernelContext& context) {
    const auto fits = [](std::uint64_t dim) { return dim % 4 == 0 && dim <= shaders::kAttentionDirectMaxDim; };
    VariantNames names;
    if (context.device.type == "cpu" && fits(context.graph.shape(op.query)[3]) &&
        fits(context.graph.shape(op.value)[3]))
        names.push_back("direct");
    names.push_back("plain");
    return names;
}

Result<Dispatch> plan_dispatch(const graph::Attention& op, const KernelContext& context) {
    const Shape& query = context.graph.shape(op.query);
    const Shape& key = context.graph.shape(op.key);
    const std::uint64_t value_dim = context.graph.shape(op.value)[3];
    VKFORMER_TRY(const std::string_view variant, chosen_variant(op, context));
    const Tiling tiling = tiling_of(variant, query[1], query[3], value_dim);
    VKFORMER_TRY(const auto groups,
                 folded_grid(query[0] * query[2] * ceil_div(query[1], tiling.queries), context.device));
    Dispatch dispatch{
        .shader = variant_for(tiling.shader, context.graph.dtype(op.query), context.device),
        .bindings = {op.query, op.key, op.value, or_else(op.mask.key_lengths, op.query),
                     or_else(op.mask.starts, op.query), or_else(op.mask.additive, op.query), op.y},
        .constants = {tiling.workgroup, tiling.first_constant, tiling.second_constant, mask_bits(op.mask)},
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

}  // namespace vkformer::vulkan
