// SPDX-License-Identifier: MIT
#include "interface/arg_max.h"
#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::ArgMaxPush) == 8);

Result<Dispatch> plan_dispatch(const graph::ArgMax& op, const KernelContext& context) {
    constexpr std::uint32_t kWorkgroup = 128;
    const Shape& shape = context.graph.shape(op.x);
    VKFORMER_TRY(const auto groups, folded_grid(shape.row_count(), context.device));
    Dispatch dispatch{
        .shader = "arg_max",
        .bindings = {op.x, op.y},
        .constants = {kWorkgroup},
        .groups = groups,
    };
    dispatch.push.set(shaders::ArgMaxPush{
        .rows = static_cast<std::uint32_t>(shape.row_count()),
        .width = static_cast<std::uint32_t>(shape.back()),
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
