// SPDX-License-Identifier: MIT
#include "core/try.hpp"
#include "mask_timestamps/contract.h"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

constexpr std::uint32_t kMaskTimestampsWorkgroup = 128;

static_assert(sizeof(shaders::MaskTimestampsPush) == 24);

Result<DispatchPlan> plan(const graph::MaskTimestamps& op, const KernelContext& context) {
    const Shape& shape = context.graph.shape(op.x);
    VKFORMER_TRY(const auto groups, folded_grid(shape.row_count(), context.device));
    Dispatch dispatch{.module = {&modules::mask_timestamps}, .groups = groups};
    dispatch.bind(shaders::kMaskTimestampsX, op.x)
        .bind(shaders::kMaskTimestampsStarts, op.starts)
        .bind(shaders::kMaskTimestampsBegins, op.begins)
        .bind(shaders::kMaskTimestampsSequences, op.sequences)
        .bind(shaders::kMaskTimestampsY, op.y)
        .set(shaders::kWorkgroupConstant, kMaskTimestampsWorkgroup);
    dispatch.push.set(shaders::MaskTimestampsPush{
        .rows = static_cast<std::uint32_t>(shape.row_count()),
        .width = static_cast<std::uint32_t>(shape.back()),
        .capacity = static_cast<std::uint32_t>(context.graph.shape(op.sequences)[1]),
        .first = static_cast<std::uint32_t>(op.first),
        .eos = static_cast<std::uint32_t>(op.eos),
        .latest_initial = op.latest_initial,
    });
    return DispatchPlan(std::move(dispatch));
}

/// Rows x vocab.
constexpr Edge kMaskTimestampsEdges[] = {{1, 4},
                                         {3, kMaskTimestampsWorkgroup - 1},
                                         {2, kMaskTimestampsWorkgroup},
                                         {3, kMaskTimestampsWorkgroup + 1},
                                         {2, 4001}};

}  // namespace

std::span<const Kernel<graph::MaskTimestamps>> kernels(const graph::MaskTimestamps&) {
    static constexpr Kernel<graph::MaskTimestamps> kKernels[] = {
        {.traits = {.name = "row", .edges = kMaskTimestampsEdges, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
