// SPDX-License-Identifier: MIT
/// Products of many rows: a workgroup computes a tile of y and goes along the depth.
#include "core/try.hpp"
#include "vulkan/kernels/linear/linear.hpp"
#include "vulkan/kernels/linear/split.hpp"
#include "vulkan/kernels/weight_format.hpp"

namespace vkformer::vulkan {
namespace {

constexpr LinearTile kTile{shaders::kLinearTileRows, shaders::kLinearTileColumns};

}  // namespace

Result<DispatchPlan> plan_parts_of_tile_vec4(const graph::Linear& op, Operand x, std::uint32_t lane_rows,
                                             std::uint32_t splits, const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    const ShaderFamily& family = product.has_own_format ? modules::linear_quantized_tile : modules::linear_tile_vec4;
    VKFORMER_TRY(Dispatch dispatch,
                 dispatch_linear(op, x, module_for(family, op, context), tile_vec4(lane_rows), context, splits));
    dispatch.set(shaders::kWorkgroupConstant, shaders::kLinearTileWorkgroup)
        .set(shaders::kLinearRows, lane_rows)
        .set(shaders::kLinearUnrolledQuads, unrolled_quads(context.device))
        .set(shaders::kLinearAhead, fetches_ahead(context.device));
    if (product.has_own_format)
        dispatch.set(shaders::kLinearWeightFormat, weight_format(product.weight));
    else
        dispatch.set(shaders::kLinearWholeSlices, has_whole_slices(product));
    return DispatchPlan(std::move(dispatch));
}

bool takes_vec4(const Product& product, const Capabilities& device) {
    if (product.has_own_format || (product.dtype == DType::f16 && !device.storage16)) return false;
    return product.in_width % (product.dtype == DType::f16 && product.has_few_rows() ? 8 : 4) == 0;
}

bool fits_tile_vec4(const graph::Linear& op, const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    return !product.has_few_rows() && takes_vec4(product, context.device);
}

Result<DispatchPlan> plan_tile_vec4(const graph::Linear& op, Operand x, const KernelContext& context) {
    return whole(plan_parts_of_tile_vec4(op, x, vec4_lane_rows(context.device), 1, context), op);
}

Result<DispatchPlan> plan_tile_vec4_large(const graph::Linear& op, Operand x, const KernelContext& context) {
    return whole(plan_parts_of_tile_vec4(op, x, 2 * vec4_lane_rows(context.device), 1, context), op);
}

Result<DispatchPlan> plan_tile(const graph::Linear& op, Operand x, const KernelContext& context) {
    if (product_of(op, context.graph).has_own_format) return plan_tile_vec4(op, x, context);
    VKFORMER_TRY(Dispatch dispatch,
                 dispatch_linear(op, x, module_for(modules::linear_tile, op, context), kTile, context));
    dispatch.set(shaders::kWorkgroupConstant, shaders::kLinearTileWorkgroup);
    return DispatchPlan(std::move(dispatch));
}

bool fits_tile_int8(const graph::Linear& op, const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    return product.has_own_format && is_quantized(product.weight);
}

Result<DispatchPlan> plan_tile_int8(const graph::Linear& op, Operand x, const KernelContext& context) {
    VKFORMER_TRY(Dispatch dispatch,
                 dispatch_linear(op, x, module_for(modules::linear_quantized_tile_int8, op, context), kTile, context));
    dispatch.set(shaders::kWorkgroupConstant, shaders::kLinearTileWorkgroup)
        .set(shaders::kLinearWeightFormat, weight_format(context.graph.dtype(op.weight)));
    return DispatchPlan(std::move(dispatch));
}

/// Where there are cooperative matrices they multiply halves faster, and add them up in float32.
bool fits_tile_half(const graph::Linear& op, const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    return !product.has_own_format && !product.has_few_rows() && product.dtype == DType::f16 &&
           product.in_width % 4 == 0 && !context.device.cooperative_matrix;
}

Result<DispatchPlan> plan_tile_half(const graph::Linear& op, Operand x, const KernelContext& context) {
    VKFORMER_TRY(Dispatch dispatch,
                 dispatch_linear(op, x, module_for(modules::linear_tile_half, op, context), kTile, context));
    dispatch.set(shaders::kWorkgroupConstant, shaders::kLinearTileWorkgroup)
        .set(shaders::kLinearWholeSlices, has_whole_slices(product_of(op, context.graph)));
    return DispatchPlan(std::move(dispatch));
}

}  // namespace vkformer::vulkan
