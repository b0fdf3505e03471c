// SPDX-License-Identifier: MIT
#include "interface/greedy_step.h"
#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::GreedyStepPush) == 24);

Result<Dispatch> plan_dispatch(const graph::GreedyStep& op, const KernelContext& context) {
    constexpr std::uint32_t kWorkgroup = 64;
    const Shape& history = context.graph.shape(op.history);  // [capacity, rows]
    VKFORMER_TRY(const auto groups, folded_grid(ceil_div(history[1], kWorkgroup), context.device));
    Dispatch dispatch{
        .shader = "greedy_step",
        .bindings = {op.next, or_else(op.given, op.next), or_else(op.log_probs, op.next), op.tokens, op.starts,
                     op.finished, op.history, or_else(op.scores, op.history)},
        .constants = {kWorkgroup},
        .groups = groups,
    };
    dispatch.push.set(shaders::GreedyStepPush{
        .rows = static_cast<std::uint32_t>(history[1]),
        .capacity = static_cast<std::uint32_t>(history[0]),
        .eos = op.eos,
        .pad = op.pad,
        .positions = op.given ? static_cast<std::uint32_t>(context.graph.shape(op.given)[1]) : 0,
        .vocab = op.log_probs ? static_cast<std::uint32_t>(context.graph.shape(op.log_probs)[1]) : 0,
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
