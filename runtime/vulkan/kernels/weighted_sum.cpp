// SPDX-License-Identifier: MIT
#include "weighted_sum/contract.h"

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

static_assert(sizeof(shaders::WeightedSumPush) == 24);

Result<DispatchPlan> plan(const graph::WeightedSum& op, const KernelContext& context) {
    const Shape& weights = context.graph.shape(op.weights);
    const Shape& value = context.graph.shape(op.value);
    VKFORMER_TRY(const auto groups,
                 folded_grid(weights[0] * weights[1] * ceil_div(weights[2], shaders::kWeightedSumTile) *
                                 ceil_div(value[3], shaders::kWeightedSumTile),
                             context.device));
    Dispatch dispatch{.module = {&modules::weighted_sum, storage_for(context.graph.dtype(op.value), context.device)},
                      .groups = groups};
    dispatch.bind(shaders::kWeightedSumWeights, op.weights)
        .bind(shaders::kWeightedSumValue, op.value)
        .bind(shaders::kWeightedSumY, op.y)
        .set(shaders::kWorkgroupConstant, shaders::kWeightedSumWorkgroup);
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

constexpr std::uint32_t kSumTile = shaders::kWeightedSumTile;
/// Queries x keys x heads x value_dim.
constexpr Edge kWeightedSumEdges[] = {{1, 1, 1, 1},
                                      {kSumTile - 1, kSumTile + 1, 2, kSumTile - 1},
                                      {kSumTile, kSumTile, 1, kSumTile},
                                      {kSumTile + 1, kSumTile - 1, 3, 2 * kSumTile + 1}};

}  // namespace

std::span<const Kernel<graph::WeightedSum>> kernels(const graph::WeightedSum&) {
    static constexpr Kernel<graph::WeightedSum> kKernels[] = {
        {.traits = {.name = "tile", .edges = kWeightedSumEdges, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
