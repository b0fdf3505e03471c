// SPDX-License-Identifier: MIT
#include "interface/rope.h"

#include <algorithm>

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

/// Several heads per workgroup read their angles once; but a decode step has one token, and its heads are all the work there is.
std::uint64_t heads_per_workgroup(std::uint64_t tokens, std::uint64_t heads) {
    constexpr std::uint64_t kManyTokens = 256, kMost = 8;
    return std::min(heads, tokens >= kManyTokens ? kMost : 1);
}

}  // namespace

static_assert(sizeof(shaders::RopePush) == 28);

/// direct: Vulkan devices that are CPUs, workgroups of as many invocations as such a device has lanes.
VariantNames variants(const graph::Rope&, const KernelContext& context) {
    if (context.device.type == "cpu") return {"direct", "plain"};
    return {"plain"};
}

Result<Dispatch> plan_dispatch(const graph::Rope& op, const KernelContext& context) {
    VKFORMER_TRY(const std::string_view variant, chosen_variant(op, context));
    const std::uint32_t workgroup =
        variant == "direct" ? 8 : 32;  // 32: the pairs of a head of 64; wider ones take more turns
    const Shape& x = context.graph.shape(op.x);
    const Shape& table = context.graph.shape(op.table);
    const std::uint64_t tokens = x[0] * x[1];
    const std::uint64_t heads = heads_per_workgroup(tokens, x[2]);
    VKFORMER_TRY(const auto groups, folded_grid(tokens * ceil_div(x[2], heads), context.device));
    Dispatch dispatch{
        .shader = variant_for("rope", context.graph.dtype(op.x), context.device),
        .bindings = {op.x, op.table, or_else(op.starts, op.table), op.y},
        .constants = {workgroup, op.starts ? 1u : 0u, op.pairing == graph::RopePairing::interleaved ? 1u : 0u},
        .groups = groups,
    };
    dispatch.push.set(shaders::RopePush{
        .tokens = static_cast<std::uint32_t>(tokens),
        .len = static_cast<std::uint32_t>(x[1]),
        .heads = static_cast<std::uint32_t>(x[2]),
        .heads_per_workgroup = static_cast<std::uint32_t>(heads),
        .head_dim = static_cast<std::uint32_t>(x[3]),
        .rotary_dim = static_cast<std::uint32_t>(table[1]),
        .positions = static_cast<std::uint32_t>(table[0]),
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
