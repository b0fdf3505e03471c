// SPDX-License-Identifier: MIT
#include "interface/split_qkv.h"

#include <algorithm>

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

/// Several heads per workgroup read their angles once; but a decode step has one token, and its heads are all the work there is.
std::uint64_t placed_heads_per_workgroup(std::uint64_t tokens, std::uint64_t heads) {
    constexpr std::uint64_t kManyTokens = 256;
    return std::min<std::uint64_t>(heads, tokens >= kManyTokens ? shaders::kSplitQkvMaxHeads : 1);
}

}  // namespace

static_assert(sizeof(shaders::SplitQkvPush) == 44);

Result<Dispatch> plan_dispatch(const graph::SplitQkv& op, const KernelContext& context) {
    // As many invocations as a CPU has lanes; elsewhere as many as a head of 64 has pairs.
    const std::uint32_t workgroup = context.device.type == "cpu" ? 8 : 32;
    const graph::Graph& graph = context.graph;
    const Shape& qkv = graph.shape(op.qkv);
    const Shape& cache = graph.shape(op.key_cache);
    const std::uint64_t tokens = qkv[0] * qkv[1];
    const std::uint64_t heads = placed_heads_per_workgroup(tokens, qkv[2]);
    VKFORMER_TRY(const auto groups, folded_grid(tokens * ceil_div(qkv[2], heads), context.device));
    Dispatch dispatch{
        .shader = variant_for("split_qkv", graph.dtype(op.qkv), context.device),
        .bindings = {op.qkv, or_else(op.table, op.qkv), or_else(op.starts, op.qkv), op.query, op.key_cache,
                     op.value_cache, or_else(op.query_gain, op.qkv), or_else(op.key_gain, op.qkv)},
        .constants = {workgroup, op.starts ? 1u : 0u, op.table ? 1u : 0u,
                      op.pairing == graph::RopePairing::interleaved ? 1u : 0u, op.query_gain ? 1u : 0u},
        .groups = groups,
    };
    dispatch.push.set(shaders::SplitQkvPush{
        .tokens = static_cast<std::uint32_t>(tokens),
        .len = static_cast<std::uint32_t>(qkv[1]),
        .heads = static_cast<std::uint32_t>(qkv[2] - 2 * cache[2]),
        .kv_heads = static_cast<std::uint32_t>(cache[2]),
        .heads_per_workgroup = static_cast<std::uint32_t>(heads),
        .head_dim = static_cast<std::uint32_t>(qkv[3]),
        .rotary_dim = op.table ? static_cast<std::uint32_t>(graph.shape(op.table)[1]) : 0,
        .positions = op.table ? static_cast<std::uint32_t>(graph.shape(op.table)[0]) : 0,
        .capacity = static_cast<std::uint32_t>(cache[1]),
        .eps = op.norm_eps,
        .gain_offset = op.norm_gain_offset,
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
