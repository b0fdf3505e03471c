// SPDX-License-Identifier: MIT
#include "interface/attention_combine.h"

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::AttentionCombinePush) == 12);

Result<Dispatch> plan_dispatch(const graph::AttentionCombine& op, const KernelContext& context) {
    const Shape& partial = context.graph.shape(op.partial);  // [batch, heads, splits, value_dim + 2]
    const std::uint64_t rows = partial[0] * partial[1];
    const std::uint64_t value_dim = partial[3] - shaders::kPartialExtra;
    const std::uint32_t workgroup = value_dim <= 32 ? 32 : 64;
    VKFORMER_TRY(const auto groups, folded_grid(rows, context.device));
    Dispatch dispatch{
        .shader = variant_for("attention_combine", context.graph.dtype(op.y), context.device),
        .bindings = {op.partial, op.y},
        .constants = {workgroup},
        .groups = groups,
    };
    dispatch.push.set(shaders::AttentionCombinePush{
        .rows = static_cast<std::uint32_t>(rows),
        .splits = static_cast<std::uint32_t>(partial[2]),
        .value_dim = static_cast<std::uint32_t>(value_dim),
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
