// SPDX-License-Identifier: MIT
#include "interface/masked_softmax.h"

#include "core/try.hpp"
#include "vulkan/kernels/attention_mask.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::MaskedSoftmaxPush) == 32);

Result<Dispatch> plan_dispatch(const graph::MaskedSoftmax& op, const KernelContext& context) {
    const Shape& scores = context.graph.shape(op.scores);
    const std::uint32_t workgroup = scores[3] <= 64 ? 32 : 128;  // a short row would leave most of 128 without a key
    VKFORMER_TRY(const auto groups, folded_grid(scores.row_count(), context.device));
    Dispatch dispatch{
        .shader = variant_for("masked_softmax", DType::f32, context.device),
        .bindings = {op.scores, or_else(op.mask.key_lengths, op.scores), or_else(op.mask.starts, op.scores),
                     or_else(op.mask.additive, op.scores), op.weights},
        .constants = {workgroup, mask_bits(op.mask)},
        .groups = groups,
    };
    dispatch.push.set(shaders::MaskedSoftmaxPush{
        .batch = static_cast<std::uint32_t>(scores[0]),
        .heads = static_cast<std::uint32_t>(scores[1]),
        .query_len = static_cast<std::uint32_t>(scores[2]),
        .mask = mask_push(op.mask, scores[3], context.graph),
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
