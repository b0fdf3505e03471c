// SPDX-License-Identifier: MIT
#include "interface/greedy_step.h"
#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::GreedyStepPush) == 16);

Result<Dispatch> plan_dispatch(const graph::GreedyStep& op, const KernelContext& context) {
    constexpr std::uint32_t kWorkgroup = 64;
    const Shape& history = context.graph.shape(op.history);  // [capacity, rows]
    VKFORMER_TRY(const auto groups, folded_grid(ceil_div(history[1], kWorkgroup), context.device));
    Dispatch dispatch{
        .shader = "greedy_step",
        .bindings = {op.next, op.tokens, op.starts, op.finished, op.history},
        .constants = {kWorkgroup},
        .groups = groups,
    };
    dispatch.push.set(shaders::GreedyStepPush{
        .rows = static_cast<std::uint32_t>(history[1]),
        .capacity = static_cast<std::uint32_t>(history[0]),
        .eos = op.eos,
        .pad = op.pad,
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
