// SPDX-License-Identifier: MIT
#include "split_qkv/contract.h"

#include <algorithm>

#include "core/try.hpp"
#include "graph/pages.hpp"
#include "vulkan/kernels/kernels.hpp"
#include "vulkan/kernels/packed_words.hpp"

namespace vkformer::vulkan {
namespace {

/// Several heads per workgroup read their angles once; but a decode step has one token, and its heads are all the work there is.
std::uint64_t placed_heads_per_workgroup(std::uint64_t tokens, std::uint64_t heads) {
    constexpr std::uint64_t kManyTokens = 256;
    return std::min<std::uint64_t>(heads, tokens >= kManyTokens ? shaders::kSplitQkvMaxHeads : 1);
}

static_assert(sizeof(shaders::SplitQkvPush) == 48);

/// All but the bindings of starts and pages.
Result<Dispatch> dispatch_split_qkv(const graph::SplitQkv& op, const ShaderFamily& family,
                                    const KernelContext& context) {
    // As many invocations as a CPU has lanes; elsewhere as many as a head of 64 has pairs.
    const std::uint32_t workgroup = context.device.is_cpu() ? 8 : 32;
    const graph::Graph& graph = context.graph;
    const Shape& qkv = graph.shape(op.qkv);
    const Shape& cache = graph.shape(op.key_cache);
    const std::uint64_t tokens = qkv[0] * qkv[1];
    const std::uint64_t heads = placed_heads_per_workgroup(tokens, qkv[2]);
    VKFORMER_TRY(const auto groups, folded_grid(tokens * ceil_div(qkv[2], heads), context.device));
    Dispatch dispatch{.module = {&family, storage_for(graph.dtype(op.qkv), context.device)}, .groups = groups};
    dispatch.bind(shaders::kSplitQkvQkv, op.qkv)
        .bind(shaders::kSplitQkvTable, or_else(op.table, op.qkv))
        .bind(shaders::kSplitQkvQuery, op.query)
        .bind(shaders::kSplitQkvKeyCache, op.key_cache)
        .bind(shaders::kSplitQkvValueCache, op.value_cache)
        .bind(shaders::kSplitQkvQueryGain, or_else(op.query_gain, op.qkv))
        .bind(shaders::kSplitQkvKeyGain, or_else(op.key_gain, op.qkv))
        .set(shaders::kWorkgroupConstant, workgroup)
        .set(shaders::kSplitQkvHasStarts, !!op.starts)
        .set(shaders::kSplitQkvHasTable, !!op.table)
        .set(shaders::kSplitQkvInterleaved, op.pairing == graph::RopePairing::interleaved)
        .set(shaders::kSplitQkvHasNorms, (op.query_gain ? 1u : 0u) + (op.norms_values ? 1u : 0u))
        .set(shaders::kSplitQkvHasPages, !!op.pages);
    dispatch.push.set(shaders::SplitQkvPush{
        .tokens = static_cast<std::uint32_t>(tokens),
        .len = static_cast<std::uint32_t>(qkv[1]),
        .heads = static_cast<std::uint32_t>(qkv[2] - 2 * cache[2]),
        .kv_heads = static_cast<std::uint32_t>(cache[2]),
        .heads_per_workgroup = static_cast<std::uint32_t>(heads),
        .head_dim = static_cast<std::uint32_t>(qkv[3]),
        .rotary_dim = op.table ? static_cast<std::uint32_t>(graph.shape(op.table)[1]) : 0,
        .positions = op.table ? static_cast<std::uint32_t>(graph.shape(op.table)[0]) : 0,
        .capacity = static_cast<std::uint32_t>(graph::capacity_of(graph, op.key_cache, op.pages)),
        .rows = static_cast<std::uint32_t>(cache[0] * cache[1]),
        .eps = op.norm_eps,
        .gain_offset = op.norm_gain_offset,
    });
    return dispatch;
}

Result<DispatchPlan> plan_pairs(const graph::SplitQkv& op, const KernelContext& context) {
    VKFORMER_TRY(Dispatch dispatch, dispatch_split_qkv(op, modules::split_qkv, context));
    dispatch.bind(shaders::kSplitQkvStarts, or_else(op.starts, op.qkv))
        .bind(shaders::kSplitQkvPages, or_else(op.pages, op.qkv));
    return DispatchPlan(std::move(dispatch));
}

Result<DispatchPlan> plan_pairs_packed(const graph::SplitQkv& op, const KernelContext& context) {
    VKFORMER_TRY(Dispatch dispatch, dispatch_split_qkv(op, modules::split_qkv_packed, context));
    dispatch.bind(shaders::kSplitQkvWords, packed_words(op.pages, op.starts, op.qkv));
    return plan_packed(op.pages, op.starts, std::move(dispatch), context);
}

/// Batch x len x heads x kv heads x dim: with a head per workgroup, and with several.
constexpr Edge kSplitQkvEdges[] = {{1, 1, 1, 1, 2},
                                   {2, 3, 4, 2, 6},
                                   {1, 5, 2, 1, 66},
                                   {1, 255, 3, 1, 8},
                                   {1, 257, shaders::kSplitQkvMaxHeads + 1, 1, 4}};

}  // namespace

std::span<const Kernel<graph::SplitQkv>> kernels(const graph::SplitQkv&) {
    static constexpr Kernel<graph::SplitQkv> kKernels[] = {
        {.traits = {.name = "pairs", .edges = kSplitQkvEdges, .storage_buffers = 9}, .plan = plan_pairs},
        {.traits = {.name = "pairs_packed", .edges = kSplitQkvEdges, .is_reference = true}, .plan = plan_pairs_packed}};
    return kKernels;
}

}  // namespace vkformer::vulkan
