// SPDX-License-Identifier: MIT
#include "interface/beam_step.h"

#include <algorithm>

#include "graph/builders.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::BeamStepPush) == 28);
static_assert(shaders::kBeamStepMaxBeams == graph::kMaxBeams);
static_assert(static_cast<std::uint32_t>(graph::EarlyStopping::heuristic) == shaders::kBeamStepHeuristic);
static_assert(static_cast<std::uint32_t>(graph::EarlyStopping::always) == shaders::kBeamStepAlways);
static_assert(static_cast<std::uint32_t>(graph::EarlyStopping::never) == shaders::kBeamStepNever);

Result<Dispatch> plan_dispatch(const graph::BeamStep& op, const KernelContext& context) {
    const Shape& candidates = context.graph.shape(op.candidate_scores);  // [rows, k]
    const auto batch = static_cast<std::uint32_t>(candidates[0] / op.beams);
    // Sequences at a time: as many as have room for their lists in the shared memory of every device.
    constexpr std::uint32_t kListBytes = 15 * 1024;
    const auto kept =
        static_cast<std::uint32_t>(context.graph.shape(op.state)[0]) - batch - 1;  // 2, and one per further end
    const std::uint32_t beam_bytes = shaders::kBeamStepBeamBytes + shaders::kBeamStepContinuationBytes * kept;
    const std::uint32_t workgroup = std::min({batch, 32u, kListBytes / (beam_bytes * std::uint32_t{op.beams})});
    Dispatch dispatch{
        .shader = "beam_step",
        .bindings = {op.candidate_scores, op.candidate_tokens, op.tokens, op.starts, op.parents, op.running_scores,
                     op.token_history, op.parent_history, op.final_scores, op.final_steps, op.final_rows,
                     op.final_tokens, op.state},
        .constants = {workgroup, workgroup, op.beams, kept},
    };
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

}  // namespace vkformer::vulkan
