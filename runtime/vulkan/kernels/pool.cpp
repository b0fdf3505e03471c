// SPDX-License-Identifier: MIT
#include "pool/contract.h"

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

constexpr std::uint32_t kPoolWorkgroup = 64;

static_assert(sizeof(shaders::PoolPush) == 16);
static_assert(static_cast<std::uint32_t>(graph::Pooling::first) == shaders::kPoolFirst);
static_assert(static_cast<std::uint32_t>(graph::Pooling::last) == shaders::kPoolLast);
static_assert(static_cast<std::uint32_t>(graph::Pooling::mean) == shaders::kPoolMean);
static_assert(static_cast<std::uint32_t>(graph::Pooling::root_mean) == shaders::kPoolRootMean);
static_assert(static_cast<std::uint32_t>(graph::Pooling::weighted_mean) == shaders::kPoolWeightedMean);
static_assert(static_cast<std::uint32_t>(graph::Pooling::max) == shaders::kPoolMax);

Result<DispatchPlan> plan(const graph::Pool& op, const KernelContext& context) {
    const Shape& shape = context.graph.shape(op.x);
    const std::uint64_t blocks = ceil_div(shape[2], kPoolWorkgroup);
    VKFORMER_TRY(const auto groups, folded_grid(shape[0] * blocks, context.device));
    Dispatch dispatch{.module = {&modules::pool, storage_for(context.graph.dtype(op.x), context.device)},
                      .groups = groups};
    dispatch.bind(shaders::kPoolX, op.x)
        .bind(shaders::kPoolLengths, or_else(op.lengths, op.x))
        .bind(shaders::kPoolY, op.y)
        .set(shaders::kWorkgroupConstant, kPoolWorkgroup)
        .set(shaders::kPoolMode, static_cast<std::uint32_t>(op.pooling))
        .set(shaders::kPoolHasLengths, !!op.lengths);
    dispatch.push.set(shaders::PoolPush{
        .batch = static_cast<std::uint32_t>(shape[0]),
        .len = static_cast<std::uint32_t>(shape[1]),
        .width = static_cast<std::uint32_t>(shape[2]),
        .blocks = static_cast<std::uint32_t>(blocks),
    });
    return DispatchPlan(std::move(dispatch));
}

/// Batch x len x dim.
constexpr Edge kPoolEdges[] = {{1, 1, 1},
                               {2, 3, kPoolWorkgroup - 1},
                               {5, 1, kPoolWorkgroup},
                               {3, 17, kPoolWorkgroup + 1},
                               {2, 131, 2 * kPoolWorkgroup + 1}};

}  // namespace

std::span<const Kernel<graph::Pool>> kernels(const graph::Pool&) {
    static constexpr Kernel<graph::Pool> kKernels[] = {
        {.traits = {.name = "columns", .edges = kPoolEdges, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
