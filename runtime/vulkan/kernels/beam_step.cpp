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

/// 2, and one for each further token that ends.
std::uint32_t continuations_per_beam(const graph::BeamStep& op, const graph::Graph& graph) {
    const std::uint64_t batch = graph.shape(op.candidate_scores)[0] / op.beams;
    return static_cast<std::uint32_t>(graph.shape(op.state)[0] - batch - 1);
}

/// What all dispatches of a step have.
Dispatch dispatch_beam_step(const graph::BeamStep& op, const ShaderFamily& family, const KernelContext& context) {
    const Shape& candidates = context.graph.shape(op.candidate_scores);  // [rows, k]
    const auto batch = static_cast<std::uint32_t>(candidates[0] / op.beams);
    // Sequences at a time: as many as have room for their lists in the shared memory of every device.
    constexpr std::uint32_t kListBytes = 15 * 1024;
    const std::uint32_t kept = continuations_per_beam(op, context.graph);
    const std::uint32_t beam_bytes = shaders::kBeamStepBeamBytes + shaders::kBeamStepContinuationBytes * kept;
    const std::uint32_t workgroup = std::min({batch, 32u, kListBytes / (beam_bytes * std::uint32_t{op.beams})});
    Dispatch dispatch{.module = {&family}};
    dispatch.bind(shaders::kBeamStepState, op.state)
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
    return dispatch;
}

void bind_running(Dispatch& dispatch, const graph::BeamStep& op) {
    dispatch.bind(shaders::kBeamStepCandidateScores, op.candidate_scores)
        .bind(shaders::kBeamStepCandidateTokens, op.candidate_tokens)
        .bind(shaders::kBeamStepTokens, op.tokens)
        .bind(shaders::kBeamStepStarts, op.starts)
        .bind(shaders::kBeamStepParents, op.parents)
        .bind(shaders::kBeamStepRunningScores, op.running_scores);
}

void bind_finished(Dispatch& dispatch, const graph::BeamStep& op) {
    dispatch.bind(shaders::kBeamStepTokenHistory, op.token_history)
        .bind(shaders::kBeamStepParentHistory, op.parent_history)
        .bind(shaders::kBeamStepFinalScores, op.final_scores)
        .bind(shaders::kBeamStepFinalSteps, op.final_steps)
        .bind(shaders::kBeamStepFinalRows, op.final_rows)
        .bind(shaders::kBeamStepFinalTokens, op.final_tokens);
}

Result<DispatchPlan> plan_sequences(const graph::BeamStep& op, const KernelContext& context) {
    Dispatch dispatch = dispatch_beam_step(op, modules::beam_step, context);
    bind_running(dispatch, op);
    bind_finished(dispatch, op);
    return DispatchPlan(std::move(dispatch));
}

Result<DispatchPlan> plan_passes(const graph::BeamStep& op, const KernelContext& context) {
    Dispatch running = dispatch_beam_step(op, modules::beam_step_running, context);
    bind_running(running, op);
    Dispatch finished = dispatch_beam_step(op, modules::beam_step_finished, context);
    bind_finished(finished, op);
    DispatchPlan plan;
    plan.scratch_bytes = context.graph.shape(op.candidate_scores)[0] * continuations_per_beam(op, context.graph) *
                         shaders::kBeamStepContinuationBytes;
    for (Dispatch* const dispatch : {&running, &finished}) {
        dispatch->bind(shaders::kBeamStepContinuations, Operand::scratch());
        plan.dispatches.push_back(std::move(*dispatch));
    }
    return plan;
}

/// Sequences x beams.
constexpr Edge kBeamStepEdges[] = {{1, 1}, {3, 4}, {2, 7}, {32, 2}, {33, 3}, {2, graph::kMaxBeams}};

}  // namespace

std::span<const Kernel<graph::BeamStep>> kernels(const graph::BeamStep&) {
    static constexpr Kernel<graph::BeamStep> kKernels[] = {
        {.traits = {.name = "sequences", .edges = kBeamStepEdges, .storage_buffers = 13}, .plan = plan_sequences},
        {.traits = {.name = "passes", .edges = kBeamStepEdges, .is_reference = true}, .plan = plan_passes}};
    return kKernels;
}

}  // namespace vkformer::vulkan
