// SPDX-License-Identifier: MIT
#include "add/contract.h"
#include "core/try.hpp"
#include "vulkan/kernels/edges.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

static_assert(sizeof(shaders::AddPush) == 8);

Result<DispatchPlan> plan(const graph::Add& op, const KernelContext& context) {
    const std::uint64_t count = context.graph.shape(op.y).element_count();
    const std::uint64_t per_workgroup = std::uint64_t{kElementsWorkgroup} * shaders::kAddElementsPerInvocation;
    VKFORMER_TRY(const auto groups, folded_grid(ceil_div(count, per_workgroup), context.device));
    Dispatch dispatch{.module = {&modules::add, storage_for(context.graph.dtype(op.y), context.device)},
                      .groups = groups};
    dispatch.bind(shaders::kAddA, op.a)
        .bind(shaders::kAddB, op.b)
        .bind(shaders::kAddY, op.y)
        .set(shaders::kWorkgroupConstant, kElementsWorkgroup);
    dispatch.push.set(shaders::AddPush{.count = static_cast<std::uint32_t>(count), .scale = op.scale});
    return DispatchPlan(std::move(dispatch));
}

}  // namespace

std::span<const Kernel<graph::Add>> kernels(const graph::Add&) {
    static constexpr Kernel<graph::Add> kKernels[] = {
        {.traits = {.name = "elements",
                    .edges = kElementEdges<kElementsWorkgroup * shaders::kAddElementsPerInvocation>,
                    .is_reference = true},
         .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
