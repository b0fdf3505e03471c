// SPDX-License-Identifier: MIT
#include "interface/recurrent_layer.h"

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::RecurrentLayerPush) == 16);

Result<Dispatch> plan_dispatch(const graph::RecurrentLayer& op, const KernelContext& context) {
    const Shape& gates = context.graph.shape(op.gates);
    const std::uint32_t directions = directions_of(op.direction);
    const auto hidden_dim = static_cast<std::uint32_t>(context.graph.shape(op.hidden).back() / directions);
    // As many sequences per workgroup as there are and as their states fit: each reads the weight once.
    std::uint32_t rows = shaders::kRecurrentLayerMaxRows;
    while (rows > 1 && (rows > gates[0] || 3 * rows * hidden_dim > shaders::kRecurrentLayerSharedFloats)) rows /= 2;
    const std::uint32_t workgroup = hidden_dim <= 32 ? 32 : hidden_dim <= 64 ? 64 : 128;
    VKFORMER_TRY(const auto groups, folded_grid(directions * ceil_div(gates[0], rows), context.device));
    const std::uint32_t operands = (op.bias ? shaders::kRecurrentLayerHasBias : 0u) |
                                   (op.initial_hidden ? shaders::kRecurrentLayerHasHidden : 0u) |
                                   (op.initial_cell ? shaders::kRecurrentLayerHasCell : 0u) |
                                   (op.lengths ? shaders::kRecurrentLayerHasLengths : 0u);
    Dispatch dispatch{
        .shader = variant_for("recurrent_layer", context.graph.dtype(op.y), context.device),
        .bindings = {op.gates, op.weight, or_else(op.bias, op.gates), or_else(op.initial_hidden, op.gates),
                     or_else(op.initial_cell, op.gates), or_else(op.lengths, op.gates), op.y, op.hidden,
                     or_else(op.cell, op.hidden)},
        .constants = {workgroup, static_cast<std::uint32_t>(op.unit), hidden_dim, rows, operands},
        .groups = groups,
    };
    dispatch.push.set(shaders::RecurrentLayerPush{
        .batch = static_cast<std::uint32_t>(gates[0]),
        .len = static_cast<std::uint32_t>(gates[1]),
        .directions = directions,
        .backward = op.direction == graph::Direction::forward    ? 0u
                    : op.direction == graph::Direction::backward ? 1u
                                                                 : 2u,
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
