// SPDX-License-Identifier: MIT
#include "interface/soft_cap.h"
#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::SoftCapPush) == 8);

Result<Dispatch> plan_dispatch(const graph::SoftCap& op, const KernelContext& context) {
    constexpr std::uint32_t kWorkgroup = 128;
    const std::uint64_t count = context.graph.shape(op.x).element_count();
    const std::uint64_t per_workgroup = std::uint64_t{kWorkgroup} * shaders::kSoftCapElementsPerInvocation;
    VKFORMER_TRY(const auto groups, folded_grid(ceil_div(count, per_workgroup), context.device));
    Dispatch dispatch{
        .shader = variant_for("soft_cap", context.graph.dtype(op.x), context.device),
        .bindings = {op.x, op.y},
        .constants = {kWorkgroup},
        .groups = groups,
    };
    dispatch.push.set(shaders::SoftCapPush{.count = static_cast<std::uint32_t>(count), .cap = op.cap});
    return dispatch;
}

}  // namespace vkformer::vulkan
