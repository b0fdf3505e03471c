// SPDX-License-Identifier: MIT
#include "interface/pool.h"

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::PoolPush) == 16);
static_assert(static_cast<std::uint32_t>(graph::Pooling::first) == shaders::kPoolFirst);
static_assert(static_cast<std::uint32_t>(graph::Pooling::last) == shaders::kPoolLast);
static_assert(static_cast<std::uint32_t>(graph::Pooling::mean) == shaders::kPoolMean);
static_assert(static_cast<std::uint32_t>(graph::Pooling::root_mean) == shaders::kPoolRootMean);
static_assert(static_cast<std::uint32_t>(graph::Pooling::weighted_mean) == shaders::kPoolWeightedMean);
static_assert(static_cast<std::uint32_t>(graph::Pooling::max) == shaders::kPoolMax);

Result<Dispatch> plan_dispatch(const graph::Pool& op, const KernelContext& context) {
    constexpr std::uint32_t kWorkgroup = 64;
    const Shape& shape = context.graph.shape(op.x);
    const std::uint64_t blocks = ceil_div(shape[2], kWorkgroup);
    VKFORMER_TRY(const auto groups, folded_grid(shape[0] * blocks, context.device));
    Dispatch dispatch{
        .shader = variant_for("pool", context.graph.dtype(op.x), context.device),
        .bindings = {op.x, or_else(op.lengths, op.x), op.y},
        .constants = {kWorkgroup, static_cast<std::uint32_t>(op.pooling), op.lengths ? 1u : 0u},
        .groups = groups,
    };
    dispatch.push.set(shaders::PoolPush{
        .batch = static_cast<std::uint32_t>(shape[0]),
        .len = static_cast<std::uint32_t>(shape[1]),
        .width = static_cast<std::uint32_t>(shape[2]),
        .blocks = static_cast<std::uint32_t>(blocks),
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
