// SPDX-License-Identifier: MIT
#include "interface/concat.h"
#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::ConcatPush) == 12);

Result<Dispatch> plan_dispatch(const graph::Concat& op, const KernelContext& context) {
    constexpr std::uint32_t kWorkgroup = 128;
    const std::uint64_t count = context.graph.shape(op.y).element_count();
    const std::uint64_t per_workgroup = std::uint64_t{kWorkgroup} * shaders::kConcatElementsPerInvocation;
    VKFORMER_TRY(const auto groups, folded_grid(ceil_div(count, per_workgroup), context.device));
    Dispatch dispatch{
        .shader = variant_for("concat", context.graph.dtype(op.y), context.device),
        .bindings = {op.a, op.b, op.y},
        .constants = {kWorkgroup},
        .groups = groups,
    };
    dispatch.push.set(shaders::ConcatPush{
        .count = static_cast<std::uint32_t>(count),
        .a_width = static_cast<std::uint32_t>(context.graph.shape(op.a).back()),
        .b_width = static_cast<std::uint32_t>(context.graph.shape(op.b).back()),
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
