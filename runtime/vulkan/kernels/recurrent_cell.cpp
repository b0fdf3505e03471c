// SPDX-License-Identifier: MIT
#include "recurrent_cell/contract.h"

#include "core/try.hpp"
#include "vulkan/kernels/edges.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

constexpr std::uint32_t kRecurrentCellWorkgroup = 64;

static_assert(sizeof(shaders::RecurrentCellPush) == 8);
static_assert(static_cast<std::uint32_t>(graph::RecurrentUnit::lstm) == shaders::kRecurrentUnitLstm);
static_assert(static_cast<std::uint32_t>(graph::RecurrentUnit::gru) == shaders::kRecurrentUnitGru);

Result<DispatchPlan> plan(const graph::RecurrentCell& op, const KernelContext& context) {
    const Shape& hidden = context.graph.shape(op.hidden);
    VKFORMER_TRY(const auto groups,
                 folded_grid(ceil_div(hidden.element_count(), kRecurrentCellWorkgroup), context.device));
    Dispatch dispatch{.module = {&modules::recurrent_cell, storage_for(context.graph.dtype(op.hidden), context.device)},
                      .groups = groups};
    dispatch.bind(shaders::kRecurrentCellInputGates, op.input_gates)
        .bind(shaders::kRecurrentCellHiddenGates, op.hidden_gates)
        .bind(shaders::kRecurrentCellHidden, op.hidden)
        .bind(shaders::kRecurrentCellCell, or_else(op.cell, op.hidden))
        .bind(shaders::kRecurrentCellNextHidden, op.next_hidden)
        .bind(shaders::kRecurrentCellNextCell, or_else(op.next_cell, op.next_hidden))
        .set(shaders::kWorkgroupConstant, kRecurrentCellWorkgroup)
        .set(shaders::kRecurrentCellUnit, static_cast<std::uint32_t>(op.unit));
    dispatch.push.set(shaders::RecurrentCellPush{
        .count = static_cast<std::uint32_t>(hidden.element_count()),
        .hidden_dim = static_cast<std::uint32_t>(hidden.back()),
    });
    return DispatchPlan(std::move(dispatch));
}

}  // namespace

std::span<const Kernel<graph::RecurrentCell>> kernels(const graph::RecurrentCell&) {
    static constexpr Kernel<graph::RecurrentCell> kKernels[] = {
        {.traits = {.name = "elements", .edges = kElementEdges<kRecurrentCellWorkgroup>, .is_reference = true},
         .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
