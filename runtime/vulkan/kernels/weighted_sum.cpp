// SPDX-License-Identifier: MIT
#include "interface/weighted_sum.h"

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::WeightedSumPush) == 24);

Result<Dispatch> plan_dispatch(const graph::WeightedSum& op, const KernelContext& context) {
    const Shape& weights = context.graph.shape(op.weights);
    const Shape& value = context.graph.shape(op.value);
    VKFORMER_TRY(const auto groups,
                 folded_grid(weights[0] * weights[1] * ceil_div(weights[2], shaders::kWeightedSumTile) *
                                 ceil_div(value[3], shaders::kWeightedSumTile),
                             context.device));
    Dispatch dispatch{
        .shader = variant_for("weighted_sum", context.graph.dtype(op.value), context.device),
        .bindings = {op.weights, op.value, op.y},
        .constants = {shaders::kWeightedSumWorkgroup},
        .groups = groups,
    };
    dispatch.push.set(shaders::WeightedSumPush{
        .batch = static_cast<std::uint32_t>(weights[0]),
        .query_len = static_cast<std::uint32_t>(weights[2]),
        .key_len = static_cast<std::uint32_t>(weights[3]),
        .heads = static_cast<std::uint32_t>(weights[1]),
        .kv_heads = static_cast<std::uint32_t>(value[2]),
        .value_dim = static_cast<std::uint32_t>(value[3]),
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
