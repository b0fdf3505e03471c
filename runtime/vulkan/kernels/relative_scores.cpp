// SPDX-License-Identifier: MIT
#include "relative_scores/contract.h"

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

constexpr std::uint32_t kRelativeTile = shaders::kRelativeScoresTile;

static_assert(sizeof(shaders::RelativeScoresPush) == 20);

Result<DispatchPlan> plan(const graph::RelativeScores& op, const KernelContext& context) {
    const graph::Value scores = op.c2p ? op.c2p : op.p2c;
    const Shape& y = context.graph.shape(op.y);
    const std::uint64_t tiles = ceil_div(y[2], kRelativeTile);
    VKFORMER_TRY(const auto groups, folded_grid(y[0] * y[1] * tiles * tiles, context.device));
    Dispatch dispatch{.module = {&modules::relative_scores}, .groups = groups};
    dispatch.bind(shaders::kRelativeScoresC2p, scores)
        .bind(shaders::kRelativeScoresP2c, or_else(op.p2c, scores))
        .bind(shaders::kRelativeScoresIndex, op.index)
        .bind(shaders::kRelativeScoresY, op.y)
        .set(shaders::kWorkgroupConstant, kRelativeTile * shaders::kRelativeScoresLines)
        .set(shaders::kRelativeScoresHasC2p, !!op.c2p)
        .set(shaders::kRelativeScoresHasP2c, !!op.p2c);
    dispatch.push.set(shaders::RelativeScoresPush{
        .batch = static_cast<std::uint32_t>(y[0]),
        .heads = static_cast<std::uint32_t>(y[1]),
        .len = static_cast<std::uint32_t>(y[2]),
        .rows = static_cast<std::uint32_t>(context.graph.shape(scores).back()),
        .reach = static_cast<std::uint32_t>(context.graph.shape(op.index)[0] / 2),
    });
    return DispatchPlan(std::move(dispatch));
}

/// Sequences x len x heads x rows.
constexpr Edge kRelativeScoresEdges[] = {
    {1, 1, 1, 1}, {2, kRelativeTile - 1, 3, 8}, {3, kRelativeTile, 1, 2 * kRelativeTile}, {2, kRelativeTile + 1, 2, 6}};

}  // namespace

std::span<const Kernel<graph::RelativeScores>> kernels(const graph::RelativeScores&) {
    static constexpr Kernel<graph::RelativeScores> kKernels[] = {
        {.traits = {.name = "tile", .edges = kRelativeScoresEdges, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
