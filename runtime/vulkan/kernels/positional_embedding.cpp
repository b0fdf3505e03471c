// SPDX-License-Identifier: MIT
#include "positional_embedding/contract.h"

#include "core/try.hpp"
#include "vulkan/kernels/edges.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

constexpr std::uint32_t kPositionalEmbeddingWorkgroup = 64;

static_assert(sizeof(shaders::PositionalEmbeddingPush) == 16);

Result<DispatchPlan> plan(const graph::PositionalEmbedding& op, const KernelContext& context) {
    const Shape& shape = context.graph.shape(op.x);
    VKFORMER_TRY(const auto groups, folded_grid(shape.row_count(), context.device));
    Dispatch dispatch{
        .module = {&modules::positional_embedding, storage_for(context.graph.dtype(op.x), context.device)},
        .groups = groups};
    dispatch.bind(shaders::kPositionalEmbeddingX, op.x)
        .bind(shaders::kPositionalEmbeddingTable, op.table)
        .bind(shaders::kPositionalEmbeddingStarts, or_else(op.starts, op.table))
        .bind(shaders::kPositionalEmbeddingY, op.y)
        .set(shaders::kWorkgroupConstant, kPositionalEmbeddingWorkgroup)
        .set(shaders::kPositionalEmbeddingHasStarts, !!op.starts);
    dispatch.push.set(shaders::PositionalEmbeddingPush{
        .rows = static_cast<std::uint32_t>(shape.row_count()),
        .len = static_cast<std::uint32_t>(shape[1]),
        .positions = static_cast<std::uint32_t>(context.graph.shape(op.table)[0]),
        .width = static_cast<std::uint32_t>(shape[2]),
    });
    return DispatchPlan(std::move(dispatch));
}

}  // namespace

std::span<const Kernel<graph::PositionalEmbedding>> kernels(const graph::PositionalEmbedding&) {
    static constexpr Kernel<graph::PositionalEmbedding> kKernels[] = {
        {.traits = {.name = "row", .edges = kRowEdges<kPositionalEmbeddingWorkgroup>, .is_reference = true},
         .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
