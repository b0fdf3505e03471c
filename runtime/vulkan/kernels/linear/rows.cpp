// SPDX-License-Identifier: MIT
/// Products of few rows: a workgroup computes some columns of all rows, and its invocations share the depth.
#include <algorithm>

#include "core/try.hpp"
#include "vulkan/kernels/linear/linear.hpp"
#include "vulkan/kernels/linear/split.hpp"
#include "vulkan/kernels/weight_format.hpp"

namespace vkformer::vulkan {
namespace {

static_assert(shaders::kLinearMaxSums <= shaders::kLinearSumsWorkgroup);

std::uint64_t few_rows(const Product& product) {
    return std::min<std::uint64_t>(product.rows, shaders::kLinearMaxRows);
}

/// Whether a workgroup's partial sums of `columns` columns leave room for the squares of the rows.
bool has_room_for_squares(const graph::Linear& op, std::uint64_t columns, const graph::Graph& graph) {
    return graph.shape(op.x).row_count() * (columns + 1) <= shaders::kLinearMaxSums;
}

}  // namespace

LinearTile row_sums_tile(const graph::Linear& op, const Product& product, const Capabilities& device) {
    // Many columns for one row: what is done to x serves all of them, and more loads are in flight. With a gate, whole pairs.
    const std::uint64_t rows = few_rows(product);
    // The sixteen decoded weights of each column stay in registers for all rows.
    const std::uint64_t most_columns = !product.has_own_format                 ? shaders::kLinearMaxColumns
                                       : has_fewest_registers(device)          ? 4
                                       : has_few_registers(device) && rows > 1 ? 3
                                                                               : shaders::kLinearMaxColumns;
    const std::uint64_t columns = std::min(shaders::kLinearMaxSums / rows, most_columns);
    return {.rows = rows, .columns = op.is_gated() ? columns / 2 * 2 : columns};
}

Result<DispatchPlan> plan_parts_of_row_sums(const graph::Linear& op, Operand x, const ShaderFamily& family,
                                            std::uint32_t splits, const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    const LinearTile tile = row_sums_tile(op, product, context.device);
    VKFORMER_TRY(Dispatch dispatch, dispatch_linear(op, x, module_for(family, op, context), tile, context, splits));
    dispatch.bind(shaders::kLinearGain, or_else(op.prologue.gain, op.y))
        .set(shaders::kWorkgroupConstant, shaders::kLinearSumsWorkgroup)
        .set(shaders::kLinearRows, tile.rows)
        .set(shaders::kLinearColumns, tile.columns);
    if (product.has_own_format) dispatch.set(shaders::kLinearWeightFormat, weight_format(product.weight));
    return DispatchPlan(std::move(dispatch));
}

bool fits_row_vec4(const graph::Linear& op, const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    return product.has_few_rows() && takes_vec4(product, context.device);
}

Result<DispatchPlan> plan_row_vec4(const graph::Linear& op, Operand x, const KernelContext& context) {
    return whole(plan_parts_of_row_sums(op, x, modules::linear_row_vec4, 1, context), op);
}

bool fits_row(const graph::Linear& op, const KernelContext& context) {
    return product_of(op, context.graph).has_few_rows();
}

Result<DispatchPlan> plan_row(const graph::Linear& op, Operand x, const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    if (product.has_own_format)
        return whole(plan_parts_of_row_sums(op, x, modules::linear_quantized_row, 1, context), op);
    const LinearTile tile{few_rows(product), shaders::kLinearRowColumns};
    VKFORMER_TRY(Dispatch dispatch,
                 dispatch_linear(op, x, module_for(modules::linear_row, op, context), tile, context));
    dispatch.bind(shaders::kLinearGain, or_else(op.prologue.gain, op.y))
        .set(shaders::kWorkgroupConstant, shaders::kLinearRowWorkgroup)
        .set(shaders::kLinearRows, tile.rows);
    return DispatchPlan(std::move(dispatch));
}

bool fits_row_int8(const graph::Linear& op, const KernelContext& context) {
    return fits_row(op, context) && fits_tile_int8(op, context);
}

Result<DispatchPlan> plan_row_int8(const graph::Linear& op, Operand x, const KernelContext& context) {
    return plan_parts_of_row_sums(op, x, modules::linear_quantized_row_int8, 1, context);  // it knows of no parts
}

bool row_takes_norm(const graph::Linear& op, const KernelContext& context) {
    if (product_of(op, context.graph).has_own_format) return row_sums_take_norm(op, context);
    return has_room_for_squares(op, shaders::kLinearRowColumns, context.graph);
}

bool row_sums_take_norm(const graph::Linear& op, const KernelContext& context) {
    const LinearTile tile = row_sums_tile(op, product_of(op, context.graph), context.device);
    return has_room_for_squares(op, tile.columns, context.graph);
}

}  // namespace vkformer::vulkan
