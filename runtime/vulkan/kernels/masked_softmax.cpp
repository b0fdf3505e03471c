// SPDX-License-Identifier: MIT
#include "interface/masked_softmax.h"

#include "core/try.hpp"
#include "vulkan/kernels/attention_mask.hpp"
#include "vulkan/kernels/rows.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::MaskedSoftmaxPush) == 32);

VariantNames variants(const graph::MaskedSoftmax& op, const KernelContext& context) {
    return row_variants(context.graph.shape(op.scores).back(), context.device);
}

Result<Dispatch> plan_dispatch(const graph::MaskedSoftmax& op, const KernelContext& context) {
    const Shape& scores = context.graph.shape(op.scores);
    VKFORMER_TRY(const std::string_view variant, chosen_variant(op, context));
    const RowTiling tiling = row_tiling(variant, scores.back());
    VKFORMER_TRY(const auto groups, folded_grid(scores.row_count(), context.device));
    Dispatch dispatch{
        .shader = variant_for("masked_softmax" + std::string(tiling.suffix), DType::f32, context.device),
        .bindings = {op.scores, or_else(op.mask.key_lengths, op.scores), or_else(op.mask.starts, op.scores),
                     or_else(op.mask.additive, op.scores), op.weights},
        .constants = {tiling.workgroup, mask_bits(op.mask), tiling.kept},
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
