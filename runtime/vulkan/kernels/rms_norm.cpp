// SPDX-License-Identifier: MIT
#include "interface/rms_norm.h"
#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::RmsNormPush) == 16);

Result<Dispatch> plan_dispatch(const graph::RmsNorm& op, const KernelContext& context) {
    const Shape& shape = context.graph.shape(op.x);
    constexpr std::uint32_t kWorkgroup = 128;
    VKFORMER_TRY(const auto groups, folded_grid(shape.row_count(), context.device));
    Dispatch dispatch{
        .shader = variant_for("rms_norm", context.graph.dtype(op.x), context.device),
        .bindings = {op.x, or_else(op.residual, op.x), or_else(op.gain, op.x), or_else(op.sum, op.y), op.y},
        .constants = {kWorkgroup, op.residual ? 1u : 0u, op.gain ? 1u : 0u, op.sum ? 1u : 0u},
        .groups = groups,
    };
    dispatch.push.set(shaders::RmsNormPush{
        .rows = static_cast<std::uint32_t>(shape.row_count()),
        .width = static_cast<std::uint32_t>(shape.back()),
        .eps = op.eps,
        .gain_offset = op.gain_offset,
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
