// SPDX-License-Identifier: MIT
#include "core/try.hpp"
#include "patchify/contract.h"
#include "vulkan/kernels/edges.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

static_assert(sizeof(shaders::PatchifyPush) == 36);

Result<DispatchPlan> plan(const graph::Patchify& op, const KernelContext& context) {
    const Shape& pixels = context.graph.shape(op.pixels);
    const Shape& y = context.graph.shape(op.y);
    const auto dim = [](const Shape& shape, std::size_t i) { return static_cast<std::uint32_t>(shape[i]); };
    const std::uint64_t per_workgroup = std::uint64_t{kElementsWorkgroup} * shaders::kPatchifyElementsPerInvocation;
    VKFORMER_TRY(const auto groups, folded_grid(ceil_div(y.element_count(), per_workgroup), context.device));
    Dispatch dispatch{.module = {&modules::patchify, storage_for(context.graph.dtype(op.y), context.device)},
                      .groups = groups};
    dispatch.bind(shaders::kPatchifyPixels, op.pixels)
        .bind(shaders::kPatchifyY, op.y)
        .set(shaders::kWorkgroupConstant, kElementsWorkgroup);
    dispatch.push.set(shaders::PatchifyPush{
        .count = static_cast<std::uint32_t>(y.element_count()),
        .channels = dim(pixels, 1),
        .height = dim(pixels, 2),
        .width = dim(pixels, 3),
        .patch_height = op.patch_height,
        .patch_width = op.patch_width,
        .columns = dim(pixels, 3) / op.patch_width,
        .rows = dim(y, 1),
        .prefix = op.prefix,
    });
    return DispatchPlan(std::move(dispatch));
}

/// Batch x size x patch: 507, 588 and 3072 elements, and images that are no whole patches.
constexpr Edge kPatchifyEdges[] = {{1, 1, 1}, {1, 13, 1}, {1, 14, 7}, {2, 33, 5}, {1, 32, 16}};

}  // namespace

std::span<const Kernel<graph::Patchify>> kernels(const graph::Patchify&) {
    static constexpr Kernel<graph::Patchify> kKernels[] = {
        {.traits = {.name = "elements", .edges = kPatchifyEdges, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
