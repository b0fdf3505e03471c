// SPDX-License-Identifier: MIT
#include "interface/mask_timestamps.h"
#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::MaskTimestampsPush) == 24);

Result<Dispatch> plan_dispatch(const graph::MaskTimestamps& op, const KernelContext& context) {
    constexpr std::uint32_t kWorkgroup = 128;
    const Shape& shape = context.graph.shape(op.x);
    VKFORMER_TRY(const auto groups, folded_grid(shape.row_count(), context.device));
    Dispatch dispatch{
        .shader = "mask_timestamps",
        .bindings = {op.x, op.starts, op.begins, op.sequences, op.y},
        .constants = {kWorkgroup},
        .groups = groups,
    };
    dispatch.push.set(shaders::MaskTimestampsPush{
        .rows = static_cast<std::uint32_t>(shape.row_count()),
        .width = static_cast<std::uint32_t>(shape.back()),
        .capacity = static_cast<std::uint32_t>(context.graph.shape(op.sequences)[1]),
        .first = static_cast<std::uint32_t>(op.first),
        .eos = static_cast<std::uint32_t>(op.eos),
        .latest_initial = op.latest_initial,
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
