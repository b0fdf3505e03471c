// SPDX-License-Identifier: MIT
#include "recurrent_layer/contract.h"

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"
#include "vulkan/kernels/packed_words.hpp"

namespace vkformer::vulkan {
namespace {

static_assert(sizeof(shaders::RecurrentLayerPush) == 16);

Result<DispatchPlan> plan(const graph::RecurrentLayer& op, const KernelContext& context) {
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
    Dispatch dispatch{.module = {&modules::recurrent_layer, storage_for(context.graph.dtype(op.y), context.device)},
                      .groups = groups};
    dispatch.bind(shaders::kRecurrentLayerGates, op.gates)
        .bind(shaders::kRecurrentLayerWeight, op.weight)
        .bind(shaders::kRecurrentLayerBias, or_else(op.bias, op.gates))
        .bind(shaders::kRecurrentLayerInitialHidden, or_else(op.initial_hidden, op.gates))
        .bind(shaders::kRecurrentLayerWords, packed_words(op.lengths, op.initial_cell, op.gates))
        .bind(shaders::kRecurrentLayerY, op.y)
        .bind(shaders::kRecurrentLayerHidden, op.hidden)
        .bind(shaders::kRecurrentLayerCell, or_else(op.cell, op.hidden))
        .set(shaders::kWorkgroupConstant, workgroup)
        .set(shaders::kRecurrentLayerUnit, static_cast<std::uint32_t>(op.unit))
        .set(shaders::kRecurrentLayerHiddenDim, hidden_dim)
        .set(shaders::kRecurrentLayerRows, rows)
        .set(shaders::kRecurrentLayerOperands, operands);
    dispatch.push.set(shaders::RecurrentLayerPush{
        .batch = static_cast<std::uint32_t>(gates[0]),
        .len = static_cast<std::uint32_t>(gates[1]),
        .directions = directions,
        .backward = op.direction == graph::Direction::forward    ? 0u
                    : op.direction == graph::Direction::backward ? 1u
                                                                 : 2u,
    });
    return plan_packed(op.lengths, op.initial_cell, std::move(dispatch), context);
}

/// Sequences x steps x hidden: workgroups of 32, 64 and 128, with all the sequences that one takes, fewer and more.
constexpr Edge kRecurrentLayerEdges[] = {{1, 1, 1},  {2, 3, 31}, {shaders::kRecurrentLayerMaxRows, 2, 32},
                                         {5, 2, 33}, {3, 2, 65}, {2, 2, 129}};

}  // namespace

std::span<const Kernel<graph::RecurrentLayer>> kernels(const graph::RecurrentLayer&) {
    static constexpr Kernel<graph::RecurrentLayer> kKernels[] = {
        {.traits = {.name = "sequences", .edges = kRecurrentLayerEdges, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
