// SPDX-License-Identifier: MIT
#include "interface/positional_embedding.h"

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::PositionalEmbeddingPush) == 16);

Result<Dispatch> plan_dispatch(const graph::PositionalEmbedding& op, const KernelContext& context) {
    const Shape& shape = context.graph.shape(op.x);
    constexpr std::uint32_t kWorkgroup = 64;
    VKFORMER_TRY(const auto groups, folded_grid(shape.row_count(), context.device));
    Dispatch dispatch{
        .shader = variant_for("positional_embedding", context.graph.dtype(op.x), context.device),
        .bindings = {op.x, op.table, or_else(op.starts, op.table), op.y},
        .constants = {kWorkgroup, op.starts ? 1u : 0u},
        .groups = groups,
    };
    dispatch.push.set(shaders::PositionalEmbeddingPush{
        .rows = static_cast<std::uint32_t>(shape.row_count()),
        .len = static_cast<std::uint32_t>(shape[1]),
        .positions = static_cast<std::uint32_t>(context.graph.shape(op.table)[0]),
        .width = static_cast<std::uint32_t>(shape[2]),
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
