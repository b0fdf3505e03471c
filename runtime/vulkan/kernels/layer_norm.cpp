// SPDX-License-Identifier: MIT
#include "interface/layer_norm.h"
#include "core/try.hpp"
#include "vulkan/kernels/rows.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::LayerNormPush) == 12);

VariantNames variants(const graph::LayerNorm& op, const KernelContext& context) {
    return row_variants(context.graph.shape(op.x).back(), context.device);
}

Result<Dispatch> plan_dispatch(const graph::LayerNorm& op, const KernelContext& context) {
    const Shape& shape = context.graph.shape(op.x);
    VKFORMER_TRY(const std::string_view variant, chosen_variant(op, context));
    const RowTiling tiling = row_tiling(variant, shape.back());
    VKFORMER_TRY(const auto groups, folded_grid(shape.row_count(), context.device));
    Dispatch dispatch{
        .shader = norm_shader("layer_norm", variant, shape, context.graph.dtype(op.x), context.device),
        .bindings = {op.x, or_else(op.residual, op.x), op.gain, or_else(op.bias, op.gain), or_else(op.sum, op.y), op.y},
        .constants = {tiling.workgroup, op.residual ? 1u : 0u, op.bias ? 1u : 0u, op.sum ? 1u : 0u, tiling.kept},
        .groups = groups,
    };
    dispatch.push.set(shaders::LayerNormPush{
        .rows = static_cast<std::uint32_t>(shape.row_count()),
        .width = static_cast<std::uint32_t>(shape.back()),
        .eps = op.eps,
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
