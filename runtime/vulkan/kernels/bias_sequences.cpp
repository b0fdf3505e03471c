// SPDX-License-Identifier: MIT
#include "bias_sequences/contract.h"
#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

constexpr std::uint32_t kBiasSequencesWorkgroup = 128;

static_assert(sizeof(shaders::BiasSequencesPush) == 16);
static_assert(graph::kPhraseLast == shaders::kPhraseLast && graph::kPhraseBegin == shaders::kPhraseBegin &&
              graph::kPhraseLen == shaders::kPhraseLen && graph::kPhraseWords == shaders::kPhraseWords);

Result<DispatchPlan> plan(const graph::BiasSequences& op, const KernelContext& context) {
    const Shape& shape = context.graph.shape(op.x);
    const std::uint64_t chunks = ceil_div(shape.back(), shaders::kBiasSequencesChunk);
    const std::uint64_t capacity = op.sequences ? context.graph.shape(op.sequences)[1] : 0;
    VKFORMER_TRY(const auto groups, folded_grid(shape.row_count() * chunks, context.device));
    Dispatch dispatch{.module = {&modules::bias_sequences}, .groups = groups};
    dispatch.bind(shaders::kBiasSequencesX, op.x)
        .bind(shaders::kBiasSequencesStarts, op.starts)
        .bind(shaders::kBiasSequencesSequences, or_else(op.sequences, op.starts))
        .bind(shaders::kBiasSequencesPhrases, op.phrases)
        .bind(shaders::kBiasSequencesTokens, or_else(op.tokens, op.starts))
        .bind(shaders::kBiasSequencesBiases, op.biases)
        .bind(shaders::kBiasSequencesY, op.y)
        .set(shaders::kWorkgroupConstant, kBiasSequencesWorkgroup);
    dispatch.push.set(shaders::BiasSequencesPush{
        .rows = static_cast<std::uint32_t>(shape.row_count()),
        .width = static_cast<std::uint32_t>(shape.back()),
        .phrases = static_cast<std::uint32_t>(context.graph.shape(op.phrases)[0]),
        .capacity = static_cast<std::uint32_t>(capacity),
    });
    return DispatchPlan(std::move(dispatch));
}

/// Rows x vocab x phrases.
constexpr Edge kBiasSequencesEdges[] = {{1, 2, 1},
                                        {3, kBiasSequencesWorkgroup - 1, 7},
                                        {2, kBiasSequencesWorkgroup, 64},
                                        {3, kBiasSequencesWorkgroup + 1, 65},
                                        {2, 30011, 301}};

}  // namespace

std::span<const Kernel<graph::BiasSequences>> kernels(const graph::BiasSequences&) {
    static constexpr Kernel<graph::BiasSequences> kKernels[] = {
        {.traits = {.name = "chunks", .edges = kBiasSequencesEdges, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
