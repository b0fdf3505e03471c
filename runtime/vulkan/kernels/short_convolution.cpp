// SPDX-License-Identifier: MIT
#include "short_convolution/contract.h"

#include "core/try.hpp"
#include "vulkan/kernels/edges.hpp"
#include "vulkan/kernels/kernels.hpp"
#include "vulkan/kernels/state_place.hpp"

namespace vkformer::vulkan {
namespace {

static_assert(sizeof(shaders::ShortConvolutionPush) == 20);

/// Tokens of an invocation: so few are done with the state in one dispatch.
constexpr std::uint32_t kTokens = 4;

/// `tokens` of an invocation, 0 where it does nothing but keep.
Result<Dispatch> dispatch(const graph::ShortConvolution& op, std::uint32_t tokens, bool keeps,
                          const KernelContext& context) {
    const Shape& y = context.graph.shape(op.y);
    const std::uint64_t width = y.back(), tiles = tokens == 0 ? 1 : ceil_div(y[1], tokens);
    const std::uint64_t count = y[0] * tiles * width;
    VKFORMER_TRY(const auto groups, folded_grid(ceil_div(count, kElementsWorkgroup), context.device));
    Dispatch made{.module = {&modules::short_convolution, storage_for(context.graph.dtype(op.y), context.device)},
                  .groups = groups};
    made.bind(shaders::kShortConvolutionX, op.x)
        .bind(shaders::kShortConvolutionWeight, op.weight)
        .bind(shaders::kShortConvolutionBias, or_else(op.bias, op.x))
        .bind(shaders::kShortConvolutionStarts, or_else(op.starts, op.x))
        .bind(shaders::kShortConvolutionCounts, or_else(op.counts, op.x))
        .bind(shaders::kShortConvolutionSlots, or_else(op.slots, op.x))
        .bind(shaders::kShortConvolutionState, op.state)
        .bind(shaders::kShortConvolutionY, op.y)
        .set(shaders::kWorkgroupConstant, kElementsWorkgroup)
        .set(shaders::kShortConvolutionTaps, context.graph.shape(op.weight).back())
        .set(shaders::kShortConvolutionHasBias, !!op.bias)
        .set(shaders::kShortConvolutionIsGated, op.is_gated)
        .set(shaders::kShortConvolutionActivation, static_cast<std::uint32_t>(op.activation))
        .set(shaders::kShortConvolutionPlace, place_bits(op))
        .set(shaders::kShortConvolutionTokens, tokens)
        .set(shaders::kShortConvolutionKeeps, keeps);
    made.push.set(shaders::ShortConvolutionPush{
        .count = static_cast<std::uint32_t>(count),
        .width = static_cast<std::uint32_t>(width),
        .tiles = static_cast<std::uint32_t>(tiles),
        .len = static_cast<std::uint32_t>(y[1]),
        .slots = static_cast<std::uint32_t>(context.graph.shape(op.state)[0]),
    });
    return made;
}

Result<DispatchPlan> plan(const graph::ShortConvolution& op, const KernelContext& context) {
    const bool is_short = context.graph.shape(op.y)[1] <= kTokens;
    VKFORMER_TRY(Dispatch convolution, dispatch(op, kTokens, is_short, context));
    DispatchPlan plan(std::move(convolution));
    if (is_short) return plan;
    VKFORMER_TRY(Dispatch kept, dispatch(op, 0, true, context));
    plan.dispatches.push_back(std::move(kept));
    return plan;
}

/// Batch x len x width: around the tokens of an invocation, and the channels of a workgroup.
constexpr Edge kShortConvolutionEdges[] = {{1, 1, 1},
                                           {2, kTokens - 1, 31},
                                           {2, kTokens, kElementsWorkgroup},
                                           {3, kTokens + 1, kElementsWorkgroup + 1},
                                           {1, 5 * kTokens + 2, 2 * kElementsWorkgroup - 1}};

}  // namespace

std::span<const Kernel<graph::ShortConvolution>> kernels(const graph::ShortConvolution&) {
    static constexpr Kernel<graph::ShortConvolution> kKernels[] = {
        {.traits = {.name = "channels", .edges = kShortConvolutionEdges, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
