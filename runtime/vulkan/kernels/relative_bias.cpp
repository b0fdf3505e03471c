// SPDX-License-Identifier: MIT
#include "interface/relative_bias.h"

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::RelativeBiasPush) == 20);

Result<Dispatch> plan_dispatch(const graph::RelativeBias& op, const KernelContext& context) {
    const Shape& shape = context.graph.shape(op.y);
    constexpr std::uint32_t kWorkgroup = 64;
    VKFORMER_TRY(const auto groups, folded_grid(shape.row_count(), context.device));
    Dispatch dispatch{
        .shader = "relative_bias",
        .bindings = {op.table, or_else(op.starts, op.table), op.y},
        .constants = {kWorkgroup, op.starts ? 1u : 0u},
        .groups = groups,
    };
    dispatch.push.set(shaders::RelativeBiasPush{
        .rows = static_cast<std::uint32_t>(shape.row_count()),
        .heads = static_cast<std::uint32_t>(shape[1]),
        .query_len = static_cast<std::uint32_t>(shape[2]),
        .key_len = static_cast<std::uint32_t>(shape[3]),
        .reach = static_cast<std::uint32_t>(context.graph.shape(op.table)[1] / 2),
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
