// SPDX-License-Identifier: MIT
#include "interface/local_softmax.h"

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::LocalSoftmaxPush) == 20);

Result<Dispatch> plan_dispatch(const graph::LocalSoftmax& op, const KernelContext& context) {
    const Shape& scores = context.graph.shape(op.scores);
    const std::uint32_t workgroup = scores[3] <= 64 ? 32 : 128;  // as masked_softmax
    VKFORMER_TRY(const auto groups, folded_grid(scores.row_count(), context.device));
    Dispatch dispatch{
        .shader = variant_for("local_softmax", DType::f32, context.device),
        .bindings = {op.scores, or_else(op.window.positions, op.scores), or_else(op.window.relative, op.scores),
                     or_else(op.window.key_lengths, op.scores), op.weights},
        .constants = {workgroup, op.window.relative ? 1u : 0u, op.window.key_lengths ? 1u : 0u},
        .groups = groups,
    };
    dispatch.push.set(shaders::LocalSoftmaxPush{
        .batch = static_cast<std::uint32_t>(scores[0]),
        .heads = static_cast<std::uint32_t>(scores[1]),
        .query_len = static_cast<std::uint32_t>(scores[2]),
        .key_len = static_cast<std::uint32_t>(scores[3]),
        .half_width = op.window.half_width,
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
