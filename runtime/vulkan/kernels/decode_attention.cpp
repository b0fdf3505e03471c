// SPDX-License-Identifier: MIT
#include "interface/decode_attention.h"

#include <algorithm>
#include <bit>

#include "core/try.hpp"
#include "vulkan/kernels/attention_mask.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::DecodeAttentionPush) == 52);

Result<Dispatch> plan_dispatch(const graph::DecodeAttention& op, const KernelContext& context) {
    const Shape& query = context.graph.shape(op.query);
    const Shape& key = context.graph.shape(op.key);
    const std::uint64_t value_dim = context.graph.shape(op.value)[3];
    const std::uint64_t splits = ceil_div(key[1], op.split_keys);

    // One key per invocation; a short cache takes a smaller workgroup.
    const auto split_keys = static_cast<std::uint32_t>(std::min<std::uint64_t>(op.split_keys, key[1]));
    const std::uint32_t workgroup =
        std::clamp(std::bit_ceil(split_keys), 32u, std::uint32_t{shaders::kDecodeAttentionMaxWorkgroup});
    const std::uint32_t columns = std::min(workgroup, std::bit_ceil(static_cast<std::uint32_t>(value_dim)));

    VKFORMER_TRY(const auto groups, folded_grid(query[0] * query[2] * splits, context.device));
    Dispatch dispatch{
        .shader = variant_for("decode_attention", context.graph.dtype(op.query), context.device),
        .bindings = {op.query, op.key, op.value, or_else(op.mask.key_lengths, op.query),
                     or_else(op.mask.starts, op.query), or_else(op.mask.additive, op.query), op.partial},
        .constants = {workgroup, columns, static_cast<std::uint32_t>(ceil_div(value_dim, columns)), mask_bits(op.mask)},
        .groups = groups,
    };
    dispatch.push.set(shaders::DecodeAttentionPush{
        .batch = static_cast<std::uint32_t>(query[0]),
        .heads = static_cast<std::uint32_t>(query[2]),
        .kv_heads = static_cast<std::uint32_t>(key[2]),
        .head_dim = static_cast<std::uint32_t>(query[3]),
        .value_dim = static_cast<std::uint32_t>(value_dim),
        .splits = static_cast<std::uint32_t>(splits),
        .split_keys = split_keys,
        .scale = op.scale,
        .mask = mask_push(op.mask, key[1], context.graph),
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
