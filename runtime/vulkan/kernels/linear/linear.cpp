// SPDX-License-Identifier: MIT
#include "vulkan/kernels/linear/linear.hpp"

#include "core/try.hpp"
#include "graph/plan.hpp"
#include "graph/weight_dtype.hpp"
#include "vulkan/kernels/rms_norm.hpp"

namespace vkformer::vulkan {

static_assert(shaders::kLinearMaxRows == graph::kFewRows);

namespace {

std::uint32_t operands_of(const graph::Linear& op) {
    return (op.epilogue.bias ? shaders::kLinearBiasBit : 0) | (op.prologue ? shaders::kLinearNormBit : 0) |
           (op.prologue.gain ? shaders::kLinearGainBit : 0);
}

std::uint32_t end_of(const graph::Linear& op) {
    using enum graph::Epilogue::End;
    switch (op.epilogue.end) {
    case residual: return shaders::kLinearEndResidual;
    case gate: return shaders::kLinearEndGate;
    case none: break;
    }
    return shaders::kLinearEndNone;
}

}  // namespace

Product product_of(const graph::Linear& op, const graph::Graph& graph) {
    const Shape &weight = graph.shape(op.weight), &y = graph.shape(op.y);
    const std::uint64_t batch = weight.rank() == 3 ? weight[0] : 1;
    return {.batch = batch,
            .rows = y.row_count() / batch,
            .in_width = weight.back(),
            .out_width = weight.row_count() / batch,
            .dtype = graph.dtype(op.x),
            .weight = graph.dtype(op.weight),
            .has_own_format = graph::is_unpacked(graph.dtype(op.weight), graph.dtype(op.x))};
}

Module module_for(const ShaderFamily& family, const graph::Linear& op, const KernelContext& context) {
    const DType dtype = context.graph.dtype(op.x);
    const Storage storage = storage_for(dtype, context.device);
    return {&family, context.graph.dtype(op.y) == dtype ? storage : with_float_results(storage)};
}

Result<Dispatch> dispatch_linear(const graph::Linear& op, Operand x, Module module, LinearTile tile,
                                 const KernelContext& context, std::uint64_t splits) {
    const Product product = product_of(op, context.graph);
    VKFORMER_TRY(auto groups,
                 folded_grid(ceil_div(product.rows, tile.rows) * ceil_div(product.out_width, tile.columns) * splits,
                             context.device));
    if (product.batch > context.device.max_workgroup_count[2])
        return Error{ErrorCode::MissingFeature, "linear has a batch of " + std::to_string(product.batch) +
                                                    "; device \"" + context.device.name + "\" allows " +
                                                    std::to_string(context.device.max_workgroup_count[2])};
    groups[2] = static_cast<std::uint32_t>(product.batch);
    Dispatch dispatch{.module = module, .groups = groups};
    dispatch.bind(shaders::kLinearX, x)
        .bind(shaders::kLinearWeight, op.weight)
        .bind(shaders::kLinearBias, or_else(op.epilogue.bias, op.weight))
        .bind(shaders::kLinearResidual, or_else(op.epilogue.residual, op.y))
        .bind(shaders::kLinearY, op.y)
        .set(shaders::kLinearOperands, operands_of(op))
        .set(shaders::kLinearEnd, end_of(op))
        .set(shaders::kLinearActivation, static_cast<std::uint32_t>(op.epilogue.activation));
    dispatch.push.set(shaders::LinearPush{
        .rows = static_cast<std::uint32_t>(product.rows),
        .in_width = static_cast<std::uint32_t>(product.in_width),
        .out_width = static_cast<std::uint32_t>(product.out_width),
        .x_batch = context.graph.shape(op.x).row_count() > product.rows ? static_cast<std::uint32_t>(product.rows) : 0,
        .weight_batch = static_cast<std::uint32_t>(product.out_width),
        .norm_eps = op.prologue.eps,
        .norm_gain_offset = op.prologue.gain_offset,
    });
    return dispatch;
}

Result<DispatchPlan> plan_behind_norm(const graph::Linear& op, PlanProduct plan, const KernelContext& context) {
    const Shape& x = context.graph.shape(op.x);
    graph::Linear product = op;
    product.prologue = {};
    VKFORMER_TRY(DispatchPlan behind, plan(product, Operand::scratch(), context));
    VKFORMER_TRY(Dispatch norm, untried_rms_norm({.x = op.x,
                                                  .y = Operand::scratch(),
                                                  .shape = x,
                                                  .eps = op.prologue.eps,
                                                  .gain_offset = op.prologue.gain_offset,
                                                  .gain = op.prologue.gain},
                                                 context.graph.dtype(op.x), context.device));
    behind.dispatches.insert(behind.dispatches.begin(), std::move(norm));
    behind.scratch_bytes = graph::storage_bytes(context.graph.tensor(op.x));
    return behind;
}

}  // namespace vkformer::vulkan
