// SPDX-License-Identifier: MIT
#include "relative_bias/contract.h"

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

constexpr std::uint32_t kRelativeBiasWorkgroup = 64;

static_assert(sizeof(shaders::RelativeBiasPush) == 20);

Result<DispatchPlan> plan(const graph::RelativeBias& op, const KernelContext& context) {
    const Shape& shape = context.graph.shape(op.y);
    VKFORMER_TRY(const auto groups, folded_grid(shape.row_count(), context.device));
    Dispatch dispatch{.module = {&modules::relative_bias}, .groups = groups};
    dispatch.bind(shaders::kRelativeBiasTable, op.table)
        .bind(shaders::kRelativeBiasStarts, or_else(op.starts, op.table))
        .bind(shaders::kRelativeBiasY, op.y)
        .set(shaders::kWorkgroupConstant, kRelativeBiasWorkgroup)
        .set(shaders::kRelativeBiasHasStarts, !!op.starts);
    dispatch.push.set(shaders::RelativeBiasPush{
        .rows = static_cast<std::uint32_t>(shape.row_count()),
        .heads = static_cast<std::uint32_t>(shape[1]),
        .query_len = static_cast<std::uint32_t>(shape[2]),
        .key_len = static_cast<std::uint32_t>(shape[3]),
        .reach = static_cast<std::uint32_t>(context.graph.shape(op.table)[1] / 2),
    });
    return DispatchPlan(std::move(dispatch));
}

/// Queries x keys x heads.
constexpr Edge kRelativeBiasEdges[] = {
    {1, 1, 1}, {7, 9, 2}, {1, kRelativeBiasWorkgroup + 1, 3}, {33, kRelativeBiasWorkgroup, 2}, {5, 257, 1}};

}  // namespace

std::span<const Kernel<graph::RelativeBias>> kernels(const graph::RelativeBias&) {
    static constexpr Kernel<graph::RelativeBias> kKernels[] = {
        {.traits = {.name = "row", .edges = kRelativeBiasEdges, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
