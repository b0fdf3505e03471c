// SPDX-License-Identifier: MIT
#include "core/try.hpp"
#include "soft_cap/contract.h"
#include "vulkan/kernels/edges.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

static_assert(sizeof(shaders::SoftCapPush) == 8);

Result<DispatchPlan> plan(const graph::SoftCap& op, const KernelContext& context) {
    const std::uint64_t count = context.graph.shape(op.x).element_count();
    const std::uint64_t per_workgroup = std::uint64_t{kElementsWorkgroup} * shaders::kSoftCapElementsPerInvocation;
    VKFORMER_TRY(const auto groups, folded_grid(ceil_div(count, per_workgroup), context.device));
    Dispatch dispatch{.module = {&modules::soft_cap, storage_for(context.graph.dtype(op.x), context.device)},
                      .groups = groups};
    dispatch.bind(shaders::kSoftCapX, op.x)
        .bind(shaders::kSoftCapY, op.y)
        .set(shaders::kWorkgroupConstant, kElementsWorkgroup);
    dispatch.push.set(shaders::SoftCapPush{.count = static_cast<std::uint32_t>(count), .cap = op.cap});
    return DispatchPlan(std::move(dispatch));
}

}  // namespace

std::span<const Kernel<graph::SoftCap>> kernels(const graph::SoftCap&) {
    static constexpr Kernel<graph::SoftCap> kKernels[] = {
        {.traits = {.name = "elements",
                    .edges = kElementEdges<kElementsWorkgroup * shaders::kSoftCapElementsPerInvocation>,
                    .is_reference = true},
         .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
