// SPDX-License-Identifier: MIT
#include "core/try.hpp"
#include "count_tokens/contract.h"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

static_assert(sizeof(shaders::CountTokensPush) == 12);
static_assert(graph::kInPrompt == shaders::kInPrompt);

Result<DispatchPlan> plan(const graph::CountTokens& op, const KernelContext& context) {
    constexpr std::uint32_t kWorkgroup = 32;  // a step has but one token per row
    const Shape& tokens = context.graph.shape(op.tokens);
    VKFORMER_TRY(const auto groups, folded_grid(ceil_div(tokens.element_count(), kWorkgroup), context.device));
    Dispatch dispatch{.module = {&modules::count_tokens}, .groups = groups};
    dispatch.bind(shaders::kCountTokensTokens, op.tokens)
        .bind(shaders::kCountTokensLengths, or_else(op.lengths, op.tokens))
        .bind(shaders::kCountTokensCounts, op.counts)
        .set(shaders::kWorkgroupConstant, kWorkgroup)
        .set(shaders::kCountTokensHasLengths, !!op.lengths)
        .set(shaders::kCountTokensAdds, op.origin == graph::TokenOrigin::generated);
    dispatch.push.set(shaders::CountTokensPush{
        .rows = static_cast<std::uint32_t>(tokens[0]),
        .len = static_cast<std::uint32_t>(tokens.element_count() / tokens[0]),
        .vocab = static_cast<std::uint32_t>(context.graph.shape(op.counts).back()),
    });
    return DispatchPlan(std::move(dispatch));
}

}  // namespace

std::span<const Kernel<graph::CountTokens>> kernels(const graph::CountTokens&) {
    static constexpr Kernel<graph::CountTokens> kKernels[] = {
        {.traits = {.name = "tokens", .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
