// SPDX-License-Identifier: MIT
#include "vulkan/kernels/rope.hpp"

#include <algorithm>

#include "core/try.hpp"
#include "rope/contract.h"

namespace vkformer::vulkan {
namespace {

/// Several heads per workgroup read their angles once; but a decode step has one token, and its heads are all the work there is.
std::uint64_t heads_per_workgroup(std::uint64_t tokens, std::uint64_t heads) {
    return std::min<std::uint64_t>(heads, tokens >= kRopeManyTokens ? kRopeMostHeads : 1);
}

}  // namespace

static_assert(sizeof(shaders::RopePush) == 28);

Result<DispatchPlan> plan_rope(const graph::Rope& op, std::uint32_t workgroup, const KernelContext& context) {
    const Shape& x = context.graph.shape(op.x);
    const Shape& table = context.graph.shape(op.table);
    const std::uint64_t tokens = x[0] * x[1];
    const std::uint64_t heads = heads_per_workgroup(tokens, x[2]);
    VKFORMER_TRY(const auto groups, folded_grid(tokens * ceil_div(x[2], heads), context.device));
    Dispatch dispatch{.module = {&modules::rope, storage_for(context.graph.dtype(op.x), context.device)},
                      .groups = groups};
    dispatch.bind(shaders::kRopeX, op.x)
        .bind(shaders::kRopeTable, op.table)
        .bind(shaders::kRopeStarts, or_else(op.starts, op.table))
        .bind(shaders::kRopeY, op.y)
        .set(shaders::kWorkgroupConstant, workgroup)
        .set(shaders::kRopeHasStarts, !!op.starts)
        .set(shaders::kRopeInterleaved, op.pairing == graph::RopePairing::interleaved);
    dispatch.push.set(shaders::RopePush{
        .tokens = static_cast<std::uint32_t>(tokens),
        .len = static_cast<std::uint32_t>(x[1]),
        .heads = static_cast<std::uint32_t>(x[2]),
        .heads_per_workgroup = static_cast<std::uint32_t>(heads),
        .head_dim = static_cast<std::uint32_t>(x[3]),
        .rotary_dim = static_cast<std::uint32_t>(table[1]),
        .positions = static_cast<std::uint32_t>(table[0]),
    });
    return DispatchPlan(std::move(dispatch));
}

/// 32 invocations: the pairs of a head of 64; wider ones take more turns.
std::span<const Kernel<graph::Rope>> kernels(const graph::Rope&) {
    static constexpr Kernel<graph::Rope> kKernels[] = {
        {.traits = {.name = "pairs", .edges = kRopeEdges, .is_reference = true},
         .plan = [](const graph::Rope& op, const KernelContext& context) { return plan_rope(op, 32, context); }}};
    return kKernels;
}

}  // namespace vkformer::vulkan
