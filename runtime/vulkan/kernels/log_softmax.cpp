// SPDX-License-Identifier: MIT
#include "interface/log_softmax.h"
#include "core/try.hpp"
#include "vulkan/kernels/rows.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::LogSoftmaxPush) == 8);

VariantNames variants(const graph::LogSoftmax& op, const KernelContext& context) {
    return row_variants(context.graph.shape(op.x).back(), context.device);
}

Result<Dispatch> plan_dispatch(const graph::LogSoftmax& op, const KernelContext& context) {
    const Shape& shape = context.graph.shape(op.x);
    VKFORMER_TRY(const std::string_view variant, chosen_variant(op, context));
    const RowTiling tiling = row_tiling(variant, shape.back());
    VKFORMER_TRY(const auto groups, folded_grid(shape.row_count(), context.device));
    Dispatch dispatch{
        .shader = variant_for("log_softmax" + std::string(tiling.suffix), context.graph.dtype(op.x), context.device),
        .bindings = {op.x, op.y},
        .constants = {tiling.workgroup},
        .groups = groups,
    };
    dispatch.push.set(shaders::LogSoftmaxPush{
        .rows = static_cast<std::uint32_t>(shape.row_count()),
        .width = static_cast<std::uint32_t>(shape.back()),
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
