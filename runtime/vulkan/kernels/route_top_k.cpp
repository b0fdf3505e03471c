// SPDX-License-Identifier: MIT
#include "core/try.hpp"
#include "route_top_k/contract.h"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

static_assert(sizeof(shaders::RouteTopKPush) == 32);
static_assert(static_cast<std::uint32_t>(graph::RouteScores::softmax) == shaders::kRouteScoresSoftmax);
static_assert(static_cast<std::uint32_t>(graph::RouteScores::sigmoid) == shaders::kRouteScoresSigmoid);
static_assert(static_cast<std::uint32_t>(graph::RouteScores::sparse_mixer) == shaders::kRouteScoresSparseMixer);

/// So many experts that a subgroup or two have them: the rows are many, the experts few.
constexpr std::uint32_t kFewExperts = 64, kFewExpertsWorkgroup = 32, kManyExpertsWorkgroup = 128;
static_assert(shaders::kRouteTopKMaxK <= kFewExpertsWorkgroup);

Result<DispatchPlan> plan(const graph::RouteTopK& op, const KernelContext& context) {
    const Shape& x = context.graph.shape(op.x);
    VKFORMER_TRY(const auto groups, folded_grid(x[0], context.device));
    Dispatch dispatch{.module = {&modules::route_top_k_row}, .groups = groups};
    dispatch.bind(shaders::kRouteTopKX, op.x)
        .bind(shaders::kRouteTopKBias, or_else(op.bias, op.x))
        .bind(shaders::kRouteTopKWeights, op.weights)
        .bind(shaders::kRouteTopKIndices, op.indices)
        .set(shaders::kWorkgroupConstant, x[1] <= kFewExperts ? kFewExpertsWorkgroup : kManyExpertsWorkgroup)
        .set(shaders::kRouteTopKScores, static_cast<std::uint32_t>(op.scores))
        .set(shaders::kRouteTopKHasBias, !!op.bias)
        .set(shaders::kRouteTopKNormalises, op.normalises)
        .set(shaders::kRouteTopKGroupBest, op.groups.count > 1 ? op.groups.best : 0);
    dispatch.push.set(shaders::RouteTopKPush{
        .rows = static_cast<std::uint32_t>(x[0]),
        .experts = static_cast<std::uint32_t>(x[1]),
        .k = static_cast<std::uint32_t>(context.graph.shape(op.weights)[1]),
        .scale = op.scale,
        .least_sum = op.least_sum,
        .groups = op.groups.count,
        .kept_groups = op.groups.kept,
        .jitter = op.jitter,
    });
    return DispatchPlan(std::move(dispatch));
}

/// Rows x experts x k.
constexpr Edge kRouteEdges[] = {{1, 1, 1},
                                {5, kFewExperts - 1, 8},
                                {3, kFewExperts, shaders::kRouteTopKMaxK},
                                {2, kFewExperts + 1, 3},
                                {2, kManyExpertsWorkgroup + 1, shaders::kRouteTopKMaxK},
                                {131, 7, 2},
                                {1, 1009, 6}};

}  // namespace

std::span<const Kernel<graph::RouteTopK>> kernels(const graph::RouteTopK&) {
    static constexpr Kernel<graph::RouteTopK> kKernels[] = {
        {.traits = {.name = "row", .edges = kRouteEdges, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
