// SPDX-License-Identifier: MIT
#include "vulkan/kernels/layer_norm.hpp"

#include "core/try.hpp"
#include "layer_norm/contract.h"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::LayerNormPush) == 16);

Result<Dispatch> plan_layer_norm_rows(const graph::LayerNorm& op, const RowForm& form, Module module,
                                      const KernelContext& context) {
    const Shape& shape = context.graph.shape(op.x);
    VKFORMER_TRY(const auto groups, folded_grid(shape.row_count(), context.device));
    Dispatch dispatch{.module = module, .groups = groups};
    dispatch.bind(shaders::kLayerNormX, op.x)
        .bind(shaders::kLayerNormResidual, or_else(op.residual, op.x))
        .bind(shaders::kLayerNormGain, op.gain)
        .bind(shaders::kLayerNormBias, or_else(op.bias, op.gain))
        .bind(shaders::kLayerNormSum, or_else(op.sum, op.y))
        .bind(shaders::kLayerNormY, op.y)
        .set(shaders::kWorkgroupConstant, form.workgroup)
        .set(shaders::kLayerNormHasResidual, !!op.residual)
        .set(shaders::kLayerNormHasBias, !!op.bias)
        .set(shaders::kLayerNormHasSum, !!op.sum);
    if (form.loads == RowForm::Loads::vec4) dispatch.set(shaders::kLayerNormKept, form.kept);
    dispatch.push.set(shaders::LayerNormPush{
        .rows = static_cast<std::uint32_t>(shape.row_count()),
        .width = static_cast<std::uint32_t>(shape.back()),
        .eps = op.eps,
        .gain_rows = static_cast<std::uint32_t>(context.graph.shape(op.gain).row_count()),
    });
    return dispatch;
}

std::span<const Kernel<graph::LayerNorm>> kernels(const graph::LayerNorm&) {
    return kRowKernels<graph::LayerNorm, &graph::LayerNorm::x, plan_layer_norm_rows, modules::layer_norm_row,
                       modules::layer_norm_row_vec4, modules::layer_norm_row_subgroup>;
}

}  // namespace vkformer::vulkan
