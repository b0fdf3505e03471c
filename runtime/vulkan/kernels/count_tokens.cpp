// SPDX-License-Identifier: MIT
#include "interface/count_tokens.h"
#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::CountTokensPush) == 12);
static_assert(graph::kInPrompt == shaders::kInPrompt);

Result<Dispatch> plan_dispatch(const graph::CountTokens& op, const KernelContext& context) {
    constexpr std::uint32_t kWorkgroup = 32;  // a step has but one token per row
    const Shape& tokens = context.graph.shape(op.tokens);
    VKFORMER_TRY(const auto groups, folded_grid(ceil_div(tokens.element_count(), kWorkgroup), context.device));
    Dispatch dispatch{
        .shader = "count_tokens",
        .bindings = {op.tokens, or_else(op.lengths, op.tokens), op.counts},
        .constants = {kWorkgroup, op.lengths ? 1u : 0u, op.origin == graph::TokenOrigin::generated ? 1u : 0u},
        .groups = groups,
    };
    dispatch.push.set(shaders::CountTokensPush{
        .rows = static_cast<std::uint32_t>(tokens[0]),
        .len = static_cast<std::uint32_t>(tokens.element_count() / tokens[0]),
        .vocab = static_cast<std::uint32_t>(context.graph.shape(op.counts).back()),
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
