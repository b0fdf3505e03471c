// SPDX-License-Identifier: MIT
#include "local_softmax/contract.h"

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

static_assert(sizeof(shaders::LocalSoftmaxPush) == 20);

Result<DispatchPlan> plan(const graph::LocalSoftmax& op, const KernelContext& context) {
    const Shape& scores = context.graph.shape(op.scores);
    const std::uint32_t workgroup = scores[3] <= 64 ? 32 : 128;  // as masked_softmax
    VKFORMER_TRY(const auto groups, folded_grid(scores.row_count(), context.device));
    Dispatch dispatch{.module = {&modules::local_softmax, storage_for(DType::f32, context.device)}, .groups = groups};
    dispatch.bind(shaders::kLocalSoftmaxScores, op.scores)
        .bind(shaders::kLocalSoftmaxPositions, or_else(op.window.positions, op.scores))
        .bind(shaders::kLocalSoftmaxRelative, or_else(op.window.relative, op.scores))
        .bind(shaders::kLocalSoftmaxKeyLengths, or_else(op.window.key_lengths, op.scores))
        .bind(shaders::kLocalSoftmaxWeights, op.weights)
        .set(shaders::kWorkgroupConstant, workgroup)
        .set(shaders::kLocalSoftmaxIsRelative, !!op.window.relative)
        .set(shaders::kLocalSoftmaxHasKeyLengths, !!op.window.key_lengths);
    dispatch.push.set(shaders::LocalSoftmaxPush{
        .batch = static_cast<std::uint32_t>(scores[0]),
        .heads = static_cast<std::uint32_t>(scores[1]),
        .query_len = static_cast<std::uint32_t>(scores[2]),
        .key_len = static_cast<std::uint32_t>(scores[3]),
        .half_width = op.window.half_width,
    });
    return DispatchPlan(std::move(dispatch));
}

/// Sequences x keys x half_width.
constexpr Edge kLocalSoftmaxEdges[] = {{1, 1, 1}, {2, 31, 1}, {3, 64, 5}, {2, 65, 40}, {2, 129, 70}, {1, 300, 10}};

}  // namespace

std::span<const Kernel<graph::LocalSoftmax>> kernels(const graph::LocalSoftmax&) {
    static constexpr Kernel<graph::LocalSoftmax> kKernels[] = {
        {.traits = {.name = "row", .edges = kLocalSoftmaxEdges, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
