// SPDX-License-Identifier: MIT
#include "concat/contract.h"
#include "core/try.hpp"
#include "vulkan/kernels/edges.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

static_assert(sizeof(shaders::ConcatPush) == 12);

Result<DispatchPlan> plan(const graph::Concat& op, const KernelContext& context) {
    const std::uint64_t count = context.graph.shape(op.y).element_count();
    const std::uint64_t per_workgroup = std::uint64_t{kElementsWorkgroup} * shaders::kConcatElementsPerInvocation;
    VKFORMER_TRY(const auto groups, folded_grid(ceil_div(count, per_workgroup), context.device));
    Dispatch dispatch{.module = {&modules::concat, storage_for(context.graph.dtype(op.y), context.device)},
                      .groups = groups};
    dispatch.bind(shaders::kConcatA, op.a)
        .bind(shaders::kConcatB, op.b)
        .bind(shaders::kConcatY, op.y)
        .set(shaders::kWorkgroupConstant, kElementsWorkgroup);
    dispatch.push.set(shaders::ConcatPush{
        .count = static_cast<std::uint32_t>(count),
        .a_width = static_cast<std::uint32_t>(context.graph.shape(op.a).back()),
        .b_width = static_cast<std::uint32_t>(context.graph.shape(op.b).back()),
    });
    return DispatchPlan(std::move(dispatch));
}

constexpr std::uint32_t kConcatChunk = kElementsWorkgroup * shaders::kConcatElementsPerInvocation;
/// Rows x left x right.
constexpr Edge kConcatEdges[] = {
    {1, 1, 1}, {1, kConcatChunk - 2, 1}, {1, 1, kConcatChunk - 1}, {1, 2, kConcatChunk - 1}, {7, 129, 64}};

}  // namespace

std::span<const Kernel<graph::Concat>> kernels(const graph::Concat&) {
    static constexpr Kernel<graph::Concat> kKernels[] = {
        {.traits = {.name = "elements", .edges = kConcatEdges, .is_reference = true}, .plan = plan}};
    return kKernels;
}

}  // namespace vkformer::vulkan
