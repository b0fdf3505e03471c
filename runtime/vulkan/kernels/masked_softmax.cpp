// SPDX-License-Identifier: MIT
#include "vulkan/kernels/masked_softmax.hpp"

#include "core/try.hpp"
#include "masked_softmax/contract.h"
#include "vulkan/kernels/attention/mask.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::MaskedSoftmaxPush) == 32);

Result<Dispatch> plan_masked_softmax_rows(const graph::MaskedSoftmax& op, const RowForm& form, Module module,
                                          const KernelContext& context) {
    const Shape& scores = context.graph.shape(op.scores);
    VKFORMER_TRY(const auto groups, folded_grid(scores.row_count(), context.device));
    Dispatch dispatch{.module = module, .groups = groups};
    dispatch.bind(shaders::kMaskedSoftmaxScores, op.scores)
        .bind(shaders::kMaskedSoftmaxKeyLengths, or_else(op.mask.key_lengths, op.scores))
        .bind(shaders::kMaskedSoftmaxStarts, or_else(op.mask.starts, op.scores))
        .bind(shaders::kMaskedSoftmaxAdditive, or_else(op.mask.additive, or_else(op.mask.sinks, op.scores)))
        .bind(shaders::kMaskedSoftmaxWeights, op.weights)
        .set(shaders::kWorkgroupConstant, form.workgroup)
        .set(shaders::kMaskedSoftmaxMask, mask_bits(op.mask));
    if (form.loads == RowForm::Loads::vec4) dispatch.set(shaders::kMaskedSoftmaxKept, form.kept);
    dispatch.push.set(shaders::MaskedSoftmaxPush{
        .batch = static_cast<std::uint32_t>(scores[0]),
        .heads = static_cast<std::uint32_t>(scores[1]),
        .query_len = static_cast<std::uint32_t>(scores[2]),
        .mask = mask_push(op.mask, scores[3], context.graph),
    });
    return dispatch;
}

std::span<const Kernel<graph::MaskedSoftmax>> kernels(const graph::MaskedSoftmax&) {
    return kRowKernels<graph::MaskedSoftmax, &graph::MaskedSoftmax::scores, plan_masked_softmax_rows,
                       modules::masked_softmax_row, modules::masked_softmax_row_vec4,
                       modules::masked_softmax_row_subgroup>;
}

}  // namespace vkformer::vulkan
