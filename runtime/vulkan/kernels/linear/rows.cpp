// SPDX-License-Identifier: MIT
/// Products of few rows: a workgroup computes some columns of all rows, and its invocations share the depth.
#include <algorithm>

#include "core/try.hpp"
#include "vulkan/kernels/linear/linear.hpp"
#include "vulkan/kernels/linear/split.hpp"
#include "vulkan/kernels/weight_format.hpp"

namespace vkformer::vulkan {
namespace {

static_assert(shaders::kLinearMaxSums <= shaders::kLinearSumsWorkgroup);  // an invocation stores one sum

std::uint64_t few_rows(const Product& product) {
    return std::min<std::uint64_t>(product.rows, shaders::kLinearMaxRows);
}

/// Whether a workgroup's partial sums of `columns` columns leave room for the squares of the rows.
bool has_room_for_squares(const graph::Linear& op, std::uint64_t columns, const graph::Graph& graph) {
    return graph.shape(op.x).row_count() * (columns + 1) <= shaders::kLinearMaxSums;
}

/// Invocations of a workgroup: as many as a part of the depth has something for, where their parts of the sums fit into shared memory.
/// Few that walk along a great depth would wait for memory again and again.
std::uint32_t row_sums_workgroup(const graph::Linear& op, const Product& product, const LinearTile& tile,
                                 std::uint32_t splits, const Capabilities& device) {
    const std::uint32_t most =
        prefers_small_workgroups(device)
            ? shaders::kLinearSumsWorkgroup
            : std::min(std::uint32_t{shaders::kLinearMaxSumsWorkgroup}, device.max_workgroup_invocations);
    const std::uint64_t sums = tile.rows * (tile.columns + (op.prologue ? 1 : 0));
    const std::uint64_t steps = product.in_width / row_sums_step(product) / splits;
    std::uint32_t size = shaders::kLinearSumsWorkgroup;
    while (size < steps && 2 * size <= most && sums * (2 * size + 1) <= shaders::kLinearMaxParts) size *= 2;
    return size;
}

}  // namespace

std::uint64_t row_sums_step(const Product& product) {
    if (!product.has_own_format) return 16 / element_bytes(product.dtype);
    return is_quantized(product.weight) && product.rows == 1 ? 32 : 16;  // a strip or a sixteen of lib/dequantize.glsl
}

LinearTile row_sums_tile(const graph::Linear& op, const Product& product, const Capabilities& device) {
    const std::uint64_t rows = few_rows(product);
    std::uint64_t columns = std::min<std::uint64_t>(shaders::kLinearMaxSums / rows, shaders::kLinearMaxColumns);
    // Of one row more are fewer workgroups, whose invocations have more registers: slower, on an H100, for 2048 to 8192 columns. Of several
    // the decoded weights of each column stay in registers for all. Mali has registers for two columns that are decoded, or of several rows
    // converted.
    if (device.vendor_id == vendors::kBroadcom)
        columns = rows > 4 && !op.is_gated() ? 1 : vendors::kBroadcomArray;  // vectors of four rows
    else if (has_fewest_registers(device))
        columns = product.has_own_format && rows > 4 && !op.is_gated()                  ? 1
                  : product.has_own_format || (product.dtype == DType::f16 && rows > 1) ? 2
                                                                                        : 4;
    else if (rows == 1)
        columns = 4;
    else if (product.has_own_format && has_few_registers(device))
        columns = std::min<std::uint64_t>(columns, 3);
    return {.rows = rows, .columns = op.is_gated() ? columns / 2 * 2 : columns};
}

Result<DispatchPlan> plan_parts_of_row_sums(const graph::Linear& op, Operand x, const ShaderFamily& family,
                                            LinearTile tile, std::uint32_t splits, const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    VKFORMER_TRY(Dispatch dispatch, dispatch_linear(op, x, module_for(family, op, context), tile, context, splits));
    dispatch.bind(shaders::kLinearGain, or_else(op.prologue.gain, op.y))
        .set(shaders::kWorkgroupConstant, row_sums_workgroup(op, product, tile, splits, context.device))
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
    const LinearTile tile = row_sums_tile(op, product_of(op, context.graph), context.device);
    return whole(plan_parts_of_row_sums(op, x, modules::linear_row_vec4, tile, 1, context), op);
}

bool fits_row(const graph::Linear& op, const KernelContext& context) {
    return product_of(op, context.graph).has_few_rows();
}

Result<DispatchPlan> plan_row(const graph::Linear& op, Operand x, const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    if (product.has_own_format)
        return whole(plan_parts_of_row_sums(op, x, modules::linear_quantized_row,
                                            row_sums_tile(op, product, context.device), 1, context),
                     op);
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
    const Product product = product_of(op, context.graph);
    LinearTile tile = row_sums_tile(op, product, context.device);
    // To round x costs about as much as two columns do.
    if (tile.rows == 1 && !has_fewest_registers(context.device) && !has_few_registers(context.device))
        tile.columns = shaders::kLinearMaxColumns;
    return whole(plan_parts_of_row_sums(op, x, modules::linear_quantized_row_int8, tile, 1, context), op);
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
