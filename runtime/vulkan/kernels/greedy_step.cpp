// SPDX-License-Identifier: MIT
#include "core/try.hpp"
#include "greedy_step/contract.h"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

constexpr std::uint32_t kGreedyStepWorkgroup = 64;

static_assert(sizeof(shaders::GreedyStepPush) == 24);

Result<DispatchPlan> plan(const graph::GreedyStep& op, const KernelContext& context) {
    const Shape& history = context.graph.shape(op.history);  // [capacity, rows]
    VKFORMER_TRY(const auto groups, folded_grid(ceil_div(history[1], kGreedyStepWorkgroup), context.device));
    Dispatch dispatch{.module = {&modules::greedy_step}, .groups = groups};
    dispatch.bind(shaders::kGreedyStepNext, op.next)
        .bind(shaders::kGreedyStepGiven, or_else(op.given, op.next))
        .bind(shaders::kGreedyStepLogProbs, or_else(op.log_probs, op.next))
        .bind(shaders::kGreedyStepTokens, op.tokens)
        .bind(shaders::kGreedyStepStarts, op.starts)
        .bind(shaders::kGreedyStepFinished, op.finished)
        .bind(shaders::kGreedyStepHistory, op.history)
        .bind(shaders::kGreedyStepScores, or_else(op.scores, op.history))
        .set(shaders::kWorkgroupConstant, kGreedyStepWorkgroup);
    dispatch.push.set(shaders::GreedyStepPush{
        .rows = static_cast<std::uint32_t>(history[1]),
        .capacity = static_cast<std::uint32_t>(history[0]),
        .eos = op.eos,
        .pad = op.pad,
        .positions = op.given ? static_cast<std::uint32_t>(context.graph.shape(op.given)[1]) : 0,
        .vocab = op.log_probs ? static_cast<std::uint32_t>(context.graph.shape(op.log_probs)[1]) : 0,
    });
    return DispatchPlan(std::move(dispatch));
}

/// Rows.
constexpr Edge kGreedyStepEdges[] = {
    {1}, {kGreedyStepWorkgroup - 1}, {kGreedyStepWorkgroup}, {kGreedyStepWorkgroup + 1}, {131}};

}  // namespace

std::span<const Kernel<graph::GreedyStep>> kernels(const graph::GreedyStep&) {
    static constexpr Kernel<graph::GreedyStep> kKernels[] = {
        {.traits = {.name = "rows", .edges = kGreedyStepEdges, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
