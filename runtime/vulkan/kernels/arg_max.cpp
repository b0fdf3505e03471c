// SPDX-License-Identifier: MIT
#include "arg_max/contract.h"
#include "core/try.hpp"
#include "vulkan/kernels/edges.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

constexpr std::uint32_t kArgMaxWorkgroup = 128;

static_assert(sizeof(shaders::ArgMaxPush) == 8);

Result<DispatchPlan> plan(const graph::ArgMax& op, const KernelContext& context) {
    const Shape& shape = context.graph.shape(op.x);
    VKFORMER_TRY(const auto groups, folded_grid(shape.row_count(), context.device));
    Dispatch dispatch{.module = {&modules::arg_max}, .groups = groups};
    dispatch.bind(shaders::kArgMaxX, op.x)
        .bind(shaders::kArgMaxY, op.y)
        .set(shaders::kWorkgroupConstant, kArgMaxWorkgroup);
    dispatch.push.set(shaders::ArgMaxPush{
        .rows = static_cast<std::uint32_t>(shape.row_count()),
        .width = static_cast<std::uint32_t>(shape.back()),
    });
    return DispatchPlan(std::move(dispatch));
}

}  // namespace

std::span<const Kernel<graph::ArgMax>> kernels(const graph::ArgMax&) {
    static constexpr Kernel<graph::ArgMax> kKernels[] = {
        {.traits = {.name = "row", .edges = kRowEdges<kArgMaxWorkgroup>, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
