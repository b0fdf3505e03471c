// SPDX-License-Identifier: MIT
#include "interface/top_k.h"
#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::TopKPush) == 12);

Result<Dispatch> plan_dispatch(const graph::TopK& op, const KernelContext& context) {
    constexpr std::uint32_t kWorkgroup = 128;
    const Shape& shape = context.graph.shape(op.x);
    VKFORMER_TRY(const auto groups, folded_grid(shape.row_count(), context.device));
    Dispatch dispatch{
        .shader = "top_k",
        .bindings = {op.x, op.values, op.indices},
        .constants = {kWorkgroup},
        .groups = groups,
    };
    dispatch.push.set(shaders::TopKPush{
        .rows = static_cast<std::uint32_t>(shape.row_count()),
        .width = static_cast<std::uint32_t>(shape.back()),
        .k = static_cast<std::uint32_t>(context.graph.shape(op.values).back()),
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
