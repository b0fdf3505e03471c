// SPDX-License-Identifier: MIT
#include "beam_step/contract.h"

#include <algorithm>

#include "graph/builders.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

static_assert(sizeof(shaders::BeamStepPush) == 28);
static_assert(shaders::kBeamStepMaxBeams == graph::kMaxBeams);
static_assert(static_cast<std::uint32_t>(graph::EarlyStopping::heuristic) == shaders::kBeamStepHeuristic);
static_assert(static_cast<std::uint32_t>(graph::EarlyStopping::always) == shaders::kBeamStepAlways);
static_assert(static_cast<std::uint32_t>(graph::EarlyStopping::never) == shaders::kBeamStepNever);

Result<DispatchPlan> plan(const graph::BeamStep& op, const KernelContext& context) {
    const Shape& candidates = context.graph.shape(op.candidate_scores);  // [rows, k]
    const auto batch = static_cast<std::uint32_t>(candidates[0] / op.beams);
    // Sequences at a time: as many as have room for their lists in the shared memory of every device.
    constexpr std::uint32_t kListBytes = 15 * 1024;
    const auto kept =
        static_cast<std::uint32_t>(context.graph.shape(op.state)[0]) - batch - 1;  // 2, and one per further end
    const std::uint32_t beam_bytes = shaders::kBeamStepBeamBytes + shaders::kBeamStepContinuationBytes * kept;
    const std::uint32_t workgroup = std::min({batch, 32u, kListBytes / (beam_bytes * std::uint32_t{op.beams})});
    Dispatch dispatch{.module = {&modules::beam_step}};
    dispatch.bind(shaders::kBeamStepCandidateScores, op.candidate_scores)
        .bind(shaders::kBeamStepCandidateTokens, op.candidate_tokens)
        .bind(shaders::kBeamStepTokens, op.tokens)
        .bind(shaders::kBeamStepStarts, op.starts)
        .bind(shaders::kBeamStepParents, op.parents)
        .bind(shaders::kBeamStepRunningScores, op.running_scores)
        .bind(shaders::kBeamStepTokenHistory, op.token_history)
        .bind(shaders::kBeamStepParentHistory, op.parent_history)
        .bind(shaders::kBeamStepFinalScores, op.final_scores)
        .bind(shaders::kBeamStepFinalSteps, op.final_steps)
        .bind(shaders::kBeamStepFinalRows, op.final_rows)
        .bind(shaders::kBeamStepFinalTokens, op.final_tokens)
        .bind(shaders::kBeamStepState, op.state)
        .set(shaders::kWorkgroupConstant, workgroup)
        .set(shaders::kBeamStepSequences, workgroup)
        .set(shaders::kBeamStepBeams, op.beams)
        .set(shaders::kBeamStepKept, kept);
    dispatch.push.set(shaders::BeamStepPush{
        .batch = batch,
        .beams = op.beams,
        .k = static_cast<std::uint32_t>(candidates[1]),
        .max_steps = op.max_steps,
        .eos = op.eos,
        .length_penalty = op.length_penalty,
        .early_stopping = static_cast<std::uint32_t>(op.early_stopping),
    });
    return DispatchPlan(std::move(dispatch));
}

/// Sequences x beams.
constexpr Edge kBeamStepEdges[] = {{1, 1}, {3, 4}, {2, 7}, {32, 2}, {33, 3}, {2, graph::kMaxBeams}};

}  // namespace

std::span<const Kernel<graph::BeamStep>> kernels(const graph::BeamStep&) {
    static constexpr Kernel<graph::BeamStep> kKernels[] = {
        {.traits = {.name = "sequences", .edges = kBeamStepEdges, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
