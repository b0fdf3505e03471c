// SPDX-License-Identifier: MIT
#include "core/try.hpp"
#include "top_k/contract.h"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

constexpr std::uint32_t kTopKWorkgroup = 128;

static_assert(sizeof(shaders::TopKPush) == 12);

Result<DispatchPlan> plan(const graph::TopK& op, const KernelContext& context) {
    const Shape& shape = context.graph.shape(op.x);
    VKFORMER_TRY(const auto groups, folded_grid(shape.row_count(), context.device));
    Dispatch dispatch{.module = {&modules::top_k}, .groups = groups};
    dispatch.bind(shaders::kTopKX, op.x)
        .bind(shaders::kTopKValues, op.values)
        .bind(shaders::kTopKIndices, op.indices)
        .set(shaders::kWorkgroupConstant, kTopKWorkgroup);
    dispatch.push.set(shaders::TopKPush{
        .rows = static_cast<std::uint32_t>(shape.row_count()),
        .width = static_cast<std::uint32_t>(shape.back()),
        .k = static_cast<std::uint32_t>(context.graph.shape(op.values).back()),
    });
    return DispatchPlan(std::move(dispatch));
}

/// Rows x vocab x k.
constexpr Edge kTopKEdges[] = {
    {1, 1, 1}, {3, kTopKWorkgroup - 1, 5}, {2, kTopKWorkgroup, 4}, {3, kTopKWorkgroup + 1, 9}, {2, 30011, 64}};

}  // namespace

std::span<const Kernel<graph::TopK>> kernels(const graph::TopK&) {
    static constexpr Kernel<graph::TopK> kKernels[] = {
        {.traits = {.name = "row", .edges = kTopKEdges, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
