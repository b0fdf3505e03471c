// SPDX-License-Identifier: MIT
#include "interface/embedding.h"
#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::EmbeddingPush) == 16);

Result<Dispatch> plan_dispatch(const graph::Embedding& op, const KernelContext& context) {
    const Shape& table = context.graph.shape(op.table);
    const std::uint64_t rows = context.graph.shape(op.tokens).element_count();
    constexpr std::uint32_t kWorkgroup =
        64;  // a row is copied, not reduced: idle invocations would cost more than passes
    VKFORMER_TRY(const auto groups, folded_grid(rows, context.device));
    Dispatch dispatch{
        .shader = variant_for("embedding", context.graph.dtype(op.table), context.device),
        .bindings = {op.tokens, op.table, op.y},
        .constants = {kWorkgroup},
        .groups = groups,
    };
    dispatch.push.set(shaders::EmbeddingPush{
        .rows = static_cast<std::uint32_t>(rows),
        .vocab = static_cast<std::uint32_t>(table[0]),
        .width = static_cast<std::uint32_t>(table[1]),
        .scale = op.scale,
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
