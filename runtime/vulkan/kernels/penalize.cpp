// SPDX-License-Identifier: MIT
#include "core/try.hpp"
#include "penalize/contract.h"
#include "vulkan/kernels/edges.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

constexpr std::uint32_t kPenalizeWorkgroup = 128;

static_assert(sizeof(shaders::PenalizePush) == 20);

/// 0: no bias, 1: one for all rows, 2: one a row.
std::uint32_t bias_rows(const graph::Penalize& op, const graph::Graph& graph) {
    if (!op.bias) return 0;
    return graph.shape(op.bias).rank() == 1 ? 1 : 2;
}

Result<DispatchPlan> plan(const graph::Penalize& op, const KernelContext& context) {
    const Shape& shape = context.graph.shape(op.x);
    const std::uint64_t per_workgroup = std::uint64_t{kPenalizeWorkgroup} * shaders::kPenalizeElementsPerInvocation;
    VKFORMER_TRY(const auto groups, folded_grid(ceil_div(shape.element_count(), per_workgroup), context.device));
    Dispatch dispatch{.module = {&modules::penalize}, .groups = groups};
    dispatch.bind(shaders::kPenalizeX, op.x)
        .bind(shaders::kPenalizeCounts, or_else(op.counts, op.x))
        .bind(shaders::kPenalizeBias, or_else(op.bias, op.x))
        .bind(shaders::kPenalizeSettings, or_else(op.settings, op.x))
        .bind(shaders::kPenalizeAllowed, or_else(op.allowed, op.x))
        .bind(shaders::kPenalizeY, op.y)
        .set(shaders::kWorkgroupConstant, kPenalizeWorkgroup)
        .set(shaders::kPenalizeHasCounts, !!op.counts)
        .set(shaders::kPenalizeHasBias, bias_rows(op, context.graph))
        .set(shaders::kPenalizeHasSettings, !!op.settings)
        .set(shaders::kPenalizeHasAllowed, !!op.allowed);
    dispatch.push.set(shaders::PenalizePush{
        .count = static_cast<std::uint32_t>(shape.element_count()),
        .vocab = static_cast<std::uint32_t>(shape.back()),
        .repetition = op.repetition,
        .presence = op.presence,
        .frequency = op.frequency,
    });
    return DispatchPlan(std::move(dispatch));
}

}  // namespace

std::span<const Kernel<graph::Penalize>> kernels(const graph::Penalize&) {
    static constexpr Kernel<graph::Penalize> kKernels[] = {
        {.traits = {.name = "elements",
                    .edges = kElementEdges<kPenalizeWorkgroup * shaders::kPenalizeElementsPerInvocation>,
                    .is_reference = true},
         .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
