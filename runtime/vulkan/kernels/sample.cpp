// SPDX-License-Identifier: MIT
#include "sample/contract.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

/// In units of 2^-32; 0 stands for 1, all of it, so nothing else becomes 0.
std::uint32_t share_in_words(float top_p) {
    if (top_p >= 1) return 0;
    return static_cast<std::uint32_t>(std::clamp(static_cast<double>(top_p) * 0x1p32, 1.0, 0x1p32 - 1));
}

/// One workgroup has the whole row, an invocation four elements at a time: the larger it is, the sooner it is through.
std::uint32_t workgroup_size(const Capabilities& device, std::uint64_t width) {
    const std::uint32_t largest = device.max_workgroup_invocations >= 256 ? 256 : 128;
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(std::bit_ceil(ceil_div(width, 4)), 8, largest));
}

static_assert(sizeof(shaders::SamplePush) == 24);

Result<DispatchPlan> plan(const graph::Sample& op, const KernelContext& context) {
    const Shape& shape = context.graph.shape(op.x);
    VKFORMER_TRY(const auto groups, folded_grid(shape.row_count(), context.device));
    Dispatch dispatch{.module = {&modules::sample}, .groups = groups};
    dispatch.bind(shaders::kSampleX, op.x)
        .bind(shaders::kSampleRandom, op.random)
        .bind(shaders::kSampleSettings, or_else(op.settings, op.x))
        .bind(shaders::kSampleY, op.y)
        .set(shaders::kWorkgroupConstant, workgroup_size(context.device, shape.back()))
        .set(shaders::kSampleHasSettings, !!op.settings);
    dispatch.push.set(shaders::SamplePush{
        .rows = static_cast<std::uint32_t>(shape.row_count()),
        .width = static_cast<std::uint32_t>(shape.back()),
        .inverse_temperature = op.temperature == 0 ? 0.0f : 1 / op.temperature,
        .top_k = op.top_k,
        .top_p = share_in_words(op.top_p),
        .lowest = std::log(op.min_p),
    });
    return DispatchPlan(std::move(dispatch));
}

/// Rows x vocab. Invocations take four elements at a time.
constexpr Edge kSampleEdges[] = {{1, 1}, {3, 127}, {2, 1023}, {2, 1025}, {2, 30011}};

}  // namespace

std::span<const Kernel<graph::Sample>> kernels(const graph::Sample&) {
    static constexpr Kernel<graph::Sample> kKernels[] = {
        {.traits = {.name = "row", .edges = kSampleEdges, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
