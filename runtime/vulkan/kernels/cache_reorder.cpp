// SPDX-License-Identifier: MIT
#include <algorithm>

#include "cache_reorder/contract.h"
#include "core/try.hpp"
#include "graph/builders.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

constexpr std::uint32_t kCacheReorderWorkgroup = 128;

static_assert(sizeof(shaders::CacheReorderPush) == 20);
static_assert(shaders::kCacheReorderMaxBeams == graph::kMaxBeams);

Result<DispatchPlan> plan(const graph::CacheReorder& op, const KernelContext& context) {
    // Per group; the part that moves, which is not known here, may be short. A CPU's driver takes about a microsecond for each.
    const std::uint64_t most_workgroups = context.device.is_cpu() ? 8 : 64;
    const Shape& cache = context.graph.shape(op.cache);
    const bool is_q8 = context.graph.dtype(op.cache) == DType::q8_0;
    // A cache in blocks is copied in words: four integers, or the scales of two blocks.
    const std::uint64_t position = cache.element_count() / (cache[0] * cache[1]);
    const std::uint64_t width = is_q8 ? position / 4 : position, scale_width = is_q8 ? position / 64 : 0;
    const std::uint64_t row_elements = cache[1] * width;
    const std::uint64_t workgroups =
        std::clamp<std::uint64_t>(row_elements / kCacheReorderWorkgroup, 1, most_workgroups);
    const std::uint64_t beam_groups = cache[0] / op.beams;
    VKFORMER_TRY(const auto groups, folded_grid(beam_groups * workgroups, context.device));
    Dispatch dispatch{
        .module = {&modules::cache_reorder, copy_storage_for(context.graph.dtype(op.cache), context.device)},
        .groups = groups};
    dispatch.bind(shaders::kCacheReorderParents, op.parents)
        .bind(shaders::kCacheReorderBegins, or_else(op.begins, op.parents))
        .bind(shaders::kCacheReorderLengths, op.lengths)
        .bind(shaders::kCacheReorderCache, op.cache)
        .set(shaders::kWorkgroupConstant, kCacheReorderWorkgroup)
        .set(shaders::kCacheReorderBeams, op.beams)
        .set(shaders::kCacheReorderPlanes, is_q8 ? 2 : 1)
        .set(shaders::kCacheReorderHasBegins, !!op.begins);
    dispatch.push.set(shaders::CacheReorderPush{
        .groups = static_cast<std::uint32_t>(beam_groups),
        .workgroups_per_group = static_cast<std::uint32_t>(workgroups),
        .capacity = static_cast<std::uint32_t>(cache[1]),
        .width = static_cast<std::uint32_t>(width),
        .scale_width = static_cast<std::uint32_t>(scale_width),
    });
    return DispatchPlan(std::move(dispatch));
}

/// Beams x len x heads x dim.
constexpr Edge kCacheReorderEdges[] = {
    {1, 1, 1, 1}, {2, 3, 1, 5}, {5, 127, 2, 3}, {4, 129, 1, 64}, {graph::kMaxBeams, 2, 1, 2}};

}  // namespace

std::span<const Kernel<graph::CacheReorder>> kernels(const graph::CacheReorder&) {
    static constexpr Kernel<graph::CacheReorder> kKernels[] = {
        {.traits = {.name = "rows", .edges = kCacheReorderEdges, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
