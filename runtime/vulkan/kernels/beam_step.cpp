// SPDX-License-Identifier: MIT
#include "interface/beam_step.h"
#include "graph/builders.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::BeamStepPush) == 28);
static_assert(shaders::kBeamStepMaxBeams == graph::kMaxBeams);
static_assert(static_cast<std::uint32_t>(graph::EarlyStopping::heuristic) == shaders::kBeamStepHeuristic);
static_assert(static_cast<std::uint32_t>(graph::EarlyStopping::always) == shaders::kBeamStepAlways);
static_assert(static_cast<std::uint32_t>(graph::EarlyStopping::never) == shaders::kBeamStepNever);

Result<Dispatch> plan_dispatch(const graph::BeamStep& op, const KernelContext& context) {
    constexpr std::uint32_t kWorkgroup = 32;  // sequences at a time; batches are rarely larger
    const Shape& candidates = context.graph.shape(op.candidate_scores);  // [rows, k]
    Dispatch dispatch{
        .shader = "beam_step",
        .bindings = {op.candidate_scores, op.candidate_tokens, op.tokens, op.starts, op.parents, op.running_scores,
                     op.token_history, op.parent_history, op.final_scores, op.final_steps, op.final_rows,
                     op.final_tokens, op.state},
        .constants = {kWorkgroup},
    };
    dispatch.push.set(shaders::BeamStepPush{
        .batch = static_cast<std::uint32_t>(candidates[0] / op.beams),
        .beams = op.beams,
        .k = static_cast<std::uint32_t>(candidates[1]),
        .max_steps = op.max_steps,
        .eos = op.eos,
        .length_penalty = op.length_penalty,
        .early_stopping = static_cast<std::uint32_t>(op.early_stopping),
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
