// SPDX-License-Identifier: MIT
#include "weighted_sum/contract.h"

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

static_assert(sizeof(shaders::WeightedSumPush) == 24);

/// `tile`: queries and columns of a workgroup.
Result<DispatchPlan> plan_by(const ShaderFamily& family, std::array<std::uint64_t, 2> tile, std::uint32_t workgroup,
                             const graph::WeightedSum& op, const KernelContext& context) {
    const Shape& weights = context.graph.shape(op.weights);
    const Shape& value = context.graph.shape(op.value);
    VKFORMER_TRY(const auto groups,
                 folded_grid(weights[0] * weights[1] * ceil_div(weights[2], tile[0]) * ceil_div(value[3], tile[1]),
                             context.device));
    Dispatch dispatch{.module = {&family, storage_for(context.graph.dtype(op.value), context.device)},
                      .groups = groups};
    dispatch.bind(shaders::kWeightedSumWeights, op.weights)
        .bind(shaders::kWeightedSumValue, op.value)
        .bind(shaders::kWeightedSumY, op.y)
        .set(shaders::kWorkgroupConstant, workgroup);
    dispatch.push.set(shaders::WeightedSumPush{
        .batch = static_cast<std::uint32_t>(weights[0]),
        .query_len = static_cast<std::uint32_t>(weights[2]),
        .key_len = static_cast<std::uint32_t>(weights[3]),
        .heads = static_cast<std::uint32_t>(weights[1]),
        .kv_heads = static_cast<std::uint32_t>(value[2]),
        .value_dim = static_cast<std::uint32_t>(value[3]),
    });
    return DispatchPlan(std::move(dispatch));
}

Result<DispatchPlan> plan_tile(const graph::WeightedSum& op, const KernelContext& context) {
    return plan_by(modules::weighted_sum, {shaders::kWeightedSumTile, shaders::kWeightedSumTile},
                   shaders::kWeightedSumWorkgroup, op, context);
}

bool fits_row(const graph::WeightedSum& op, const KernelContext& context) {
    return context.graph.shape(op.weights)[2] == 1;
}
Result<DispatchPlan> plan_row(const graph::WeightedSum& op, const KernelContext& context) {
    return plan_by(modules::weighted_sum_row, {1, shaders::kWeightedSumRowWorkgroup}, shaders::kWeightedSumRowWorkgroup,
                   op, context);
}

constexpr std::uint32_t kSumTile = shaders::kWeightedSumTile;
/// Queries x keys x heads x value_dim.
constexpr Edge kWeightedSumEdges[] = {{1, 1, 1, 1},
                                      {kSumTile - 1, kSumTile + 1, 2, kSumTile - 1},
                                      {kSumTile, kSumTile, 1, kSumTile},
                                      {kSumTile + 1, kSumTile - 1, 3, 2 * kSumTile + 1}};

constexpr std::uint32_t kSumRow = shaders::kWeightedSumRowWorkgroup;
constexpr Edge kWeightedSumRowEdges[] = {{1, 8, 1, kSumRow - 1}, {1, 3, 2, kSumRow}, {1, 33, 4, 2 * kSumRow + 1}};

}  // namespace

std::span<const Kernel<graph::WeightedSum>> kernels(const graph::WeightedSum&) {
    static constexpr Kernel<graph::WeightedSum> kKernels[] = {
        {.traits = {.name = "row", .edges = kWeightedSumRowEdges}, .fits = fits_row, .plan = plan_row},
        {.traits = {.name = "tile", .edges = kWeightedSumEdges, .is_reference = true}, .plan = plan_tile}};
    return kKernels;
}

}  // namespace vkformer::vulkan
