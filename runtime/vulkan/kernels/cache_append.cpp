// SPDX-License-Identifier: MIT
#include "cache_append/contract.h"
#include "core/try.hpp"
#include "graph/pages.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

static_assert(sizeof(shaders::CacheAppendPush) == 20);

Result<DispatchPlan> plan(const graph::CacheAppend& op, const KernelContext& context) {
    const Shape& x = context.graph.shape(op.x);
    const Shape& cache = context.graph.shape(op.cache);
    const std::uint64_t count = x.element_count(), width = count / (x[0] * x[1]);
    const std::uint64_t per_workgroup =
        std::uint64_t{shaders::kCacheAppendWorkgroup} * shaders::kCacheAppendElementsPerInvocation;
    const bool is_q8 = context.graph.dtype(op.cache) == DType::q8_0;
    VKFORMER_TRY(const auto groups, folded_grid(ceil_div(count, per_workgroup), context.device));
    Dispatch dispatch{
        .module = is_q8 ? Module{&modules::cache_append_q8, storage_for(context.graph.dtype(op.x), context.device)}
                        : Module{&modules::cache_append, copy_storage_for(context.graph.dtype(op.x), context.device)},
        .groups = groups};
    dispatch.bind(shaders::kCacheAppendX, op.x)
        .bind(shaders::kCacheAppendStarts, or_else(op.starts, op.x))
        .bind(shaders::kCacheAppendCache, op.cache)
        .bind(shaders::kCacheAppendPages, or_else(op.pages, op.x))
        .set(shaders::kWorkgroupConstant, shaders::kCacheAppendWorkgroup)
        .set(shaders::kCacheAppendHasStarts, !!op.starts)
        .set(shaders::kCacheAppendHasPages, !!op.pages);
    dispatch.push.set(shaders::CacheAppendPush{
        .count = static_cast<std::uint32_t>(count),
        .len = static_cast<std::uint32_t>(x[1]),
        .capacity = static_cast<std::uint32_t>(graph::capacity_of(context.graph, op.cache, op.pages)),
        .rows = static_cast<std::uint32_t>(cache[0] * cache[1]),
        .width = static_cast<std::uint32_t>(width),
    });
    return DispatchPlan(std::move(dispatch));
}

constexpr std::uint32_t kCacheAppendChunk = shaders::kCacheAppendWorkgroup * shaders::kCacheAppendElementsPerInvocation;
/// Batch x len x heads x dim.
constexpr Edge kCacheAppendEdges[] = {
    {1, 1, 1, 1}, {2, 3, 2, 5}, {1, 1, 1, kCacheAppendChunk - 1}, {1, 2, 3, kCacheAppendChunk / 2}, {3, 7, 1, 97}};

}  // namespace

std::span<const Kernel<graph::CacheAppend>> kernels(const graph::CacheAppend&) {
    static constexpr Kernel<graph::CacheAppend> kKernels[] = {
        {.traits = {.name = "elements", .edges = kCacheAppendEdges, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
