// SPDX-License-Identifier: MIT
#include "interface/log_softmax.h"
#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::LogSoftmaxPush) == 8);

Result<Dispatch> plan_dispatch(const graph::LogSoftmax& op, const KernelContext& context) {
    constexpr std::uint32_t kWorkgroup = 128;
    const Shape& shape = context.graph.shape(op.x);
    VKFORMER_TRY(const auto groups, folded_grid(shape.row_count(), context.device));
    Dispatch dispatch{
        .shader = variant_for("log_softmax", context.graph.dtype(op.x), context.device),
        .bindings = {op.x, op.y},
        .constants = {kWorkgroup},
        .groups = groups,
    };
    dispatch.push.set(shaders::LogSoftmaxPush{
        .rows = static_cast<std::uint32_t>(shape.row_count()),
        .width = static_cast<std::uint32_t>(shape.back()),
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
