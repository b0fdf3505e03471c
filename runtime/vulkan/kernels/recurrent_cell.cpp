// SPDX-License-Identifier: MIT
#include "interface/recurrent_cell.h"

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::RecurrentCellPush) == 8);
static_assert(static_cast<std::uint32_t>(graph::RecurrentUnit::lstm) == shaders::kRecurrentUnitLstm);
static_assert(static_cast<std::uint32_t>(graph::RecurrentUnit::gru) == shaders::kRecurrentUnitGru);

Result<Dispatch> plan_dispatch(const graph::RecurrentCell& op, const KernelContext& context) {
    constexpr std::uint32_t kWorkgroup = 64;
    const Shape& hidden = context.graph.shape(op.hidden);
    VKFORMER_TRY(const auto groups, folded_grid(ceil_div(hidden.element_count(), kWorkgroup), context.device));
    Dispatch dispatch{
        .shader = variant_for("recurrent_cell", context.graph.dtype(op.hidden), context.device),
        .bindings = {op.input_gates, op.hidden_gates, op.hidden, or_else(op.cell, op.hidden), op.next_hidden,
                     or_else(op.next_cell, op.next_hidden)},
        .constants = {kWorkgroup, static_cast<std::uint32_t>(op.unit)},
        .groups = groups,
    };
    dispatch.push.set(shaders::RecurrentCellPush{
        .count = static_cast<std::uint32_t>(hidden.element_count()),
        .hidden_dim = static_cast<std::uint32_t>(hidden.back()),
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
