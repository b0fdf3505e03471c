// SPDX-License-Identifier: MIT
#include "core/try.hpp"
#include "embedding/contract.h"
#include "vulkan/kernels/kernels.hpp"
#include "vulkan/kernels/weight_format.hpp"

namespace vkformer::vulkan {
namespace {

constexpr std::uint32_t kEmbeddingWorkgroup =
    64;  // a row is copied, not reduced: idle invocations would cost more than passes

static_assert(sizeof(shaders::EmbeddingPush) == 24);

Module module_for(DType table, DType y, const Capabilities& device) {
    if (is_weight_only(table)) return {&modules::embedding_quantized, storage_for(y, device)};
    if (table == y) return {&modules::embedding, storage_for(y, device)};
    if (table != DType::f32) return {&modules::embedding, with_float_results(storage_for(table, device))};
    return {&modules::embedding, device.storage16 ? Storage::f32_to_f16 : Storage::f32_to_f16_words};
}

Result<DispatchPlan> plan(const graph::Embedding& op, const KernelContext& context) {
    const Shape& table = context.graph.shape(op.table);
    const DType stored = context.graph.dtype(op.table);
    const Piece piece = context.piece.whole_rows ? context.piece : Piece{.whole_rows = table[0]};
    const std::uint64_t rows = context.graph.shape(op.tokens).element_count();
    VKFORMER_TRY(const auto groups, folded_grid(rows, context.device));
    Dispatch dispatch{.module = module_for(stored, context.graph.dtype(op.y), context.device), .groups = groups};
    dispatch.bind(shaders::kEmbeddingTokens, op.tokens)
        .bind(shaders::kEmbeddingTable, op.table)
        .bind(shaders::kEmbeddingY, op.y)
        .set(shaders::kWorkgroupConstant, kEmbeddingWorkgroup);
    if (is_weight_only(stored)) dispatch.set(shaders::kEmbeddingFormat, weight_format(stored));
    dispatch.push.set(shaders::EmbeddingPush{
        .rows = static_cast<std::uint32_t>(rows),
        .vocab = static_cast<std::uint32_t>(piece.whole_rows),
        .width = static_cast<std::uint32_t>(table[1]),
        .scale = op.scale,
        .first = static_cast<std::uint32_t>(piece.first_row),
        .count = static_cast<std::uint32_t>(table[0]),
    });
    return DispatchPlan(std::move(dispatch));
}

/// Tokens x vocab x width.
constexpr Edge kEmbeddingEdges[] = {{1, 1, 1},
                                    {2, 3, kEmbeddingWorkgroup - 1},
                                    {5, 7, kEmbeddingWorkgroup},
                                    {3, 11, kEmbeddingWorkgroup + 1},
                                    {17, 101, 513}};

}  // namespace

std::span<const Kernel<graph::Embedding>> kernels(const graph::Embedding&) {
    static constexpr Kernel<graph::Embedding> kKernels[] = {
        {.traits = {.name = "row", .edges = kEmbeddingEdges, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
