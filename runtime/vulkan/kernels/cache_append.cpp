// SPDX-License-Identifier: MIT
#include "interface/cache_append.h"
#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::CacheAppendPush) == 16);

Result<Dispatch> plan_dispatch(const graph::CacheAppend& op, const KernelContext& context) {
    constexpr std::uint32_t kWorkgroup = shaders::kCacheAppendWorkgroup;
    const Shape& x = context.graph.shape(op.x);
    const std::uint64_t count = x.element_count(), width = count / (x[0] * x[1]);
    const std::uint64_t per_workgroup = std::uint64_t{kWorkgroup} * shaders::kCacheAppendElementsPerInvocation;
    const bool is_q8 = context.graph.dtype(op.cache) == DType::q8_0;
    VKFORMER_TRY(const auto groups, folded_grid(ceil_div(count, per_workgroup), context.device));
    Dispatch dispatch{
        .shader = is_q8 ? variant_for("cache_append_q8", context.graph.dtype(op.x), context.device)
                        : copy_variant_for("cache_append", context.graph.dtype(op.x), context.device),
        .bindings = {op.x, or_else(op.starts, op.x), op.cache},
        .constants = {kWorkgroup, op.starts ? 1u : 0u},
        .groups = groups,
    };
    dispatch.push.set(shaders::CacheAppendPush{
        .count = static_cast<std::uint32_t>(count),
        .len = static_cast<std::uint32_t>(x[1]),
        .capacity = static_cast<std::uint32_t>(context.graph.shape(op.cache)[1]),
        .width = static_cast<std::uint32_t>(width),
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
