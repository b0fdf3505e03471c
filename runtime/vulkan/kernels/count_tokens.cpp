// SPDX-License-Identifier: MIT
#include "core/try.hpp"
#include "count_tokens/contract.h"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

constexpr std::uint32_t kCountTokensWorkgroup = 32;  // a step has but one token per row

static_assert(sizeof(shaders::CountTokensPush) == 12);
static_assert(graph::kInPrompt == shaders::kInPrompt);

Result<DispatchPlan> plan(const graph::CountTokens& op, const KernelContext& context) {
    const Shape& tokens = context.graph.shape(op.tokens);
    VKFORMER_TRY(const auto groups,
                 folded_grid(ceil_div(tokens.element_count(), kCountTokensWorkgroup), context.device));
    Dispatch dispatch{.module = {&modules::count_tokens}, .groups = groups};
    dispatch.bind(shaders::kCountTokensTokens, op.tokens)
        .bind(shaders::kCountTokensLengths, or_else(op.lengths, op.tokens))
        .bind(shaders::kCountTokensCounts, op.counts)
        .set(shaders::kWorkgroupConstant, kCountTokensWorkgroup)
        .set(shaders::kCountTokensHasLengths, !!op.lengths)
        .set(shaders::kCountTokensAdds, op.origin == graph::TokenOrigin::generated);
    dispatch.push.set(shaders::CountTokensPush{
        .rows = static_cast<std::uint32_t>(tokens[0]),
        .len = static_cast<std::uint32_t>(tokens.element_count() / tokens[0]),
        .vocab = static_cast<std::uint32_t>(context.graph.shape(op.counts).back()),
    });
    return DispatchPlan(std::move(dispatch));
}

/// Rows x len x vocab.
constexpr Edge kCountTokensEdges[] = {{1, 1, 1},
                                      {1, kCountTokensWorkgroup - 1, 5},
                                      {1, kCountTokensWorkgroup, 97},
                                      {1, kCountTokensWorkgroup + 1, 3},
                                      {7, 13, 1009}};

}  // namespace

std::span<const Kernel<graph::CountTokens>> kernels(const graph::CountTokens&) {
    static constexpr Kernel<graph::CountTokens> kKernels[] = {
        {.traits = {.name = "tokens", .edges = kCountTokensEdges, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
