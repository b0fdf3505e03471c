// SPDX-License-Identifier: MIT
#include <algorithm>

#include "arg_max/contract.h"
#include "core/try.hpp"
#include "vulkan/kernels/edges.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

constexpr std::uint32_t kArgMaxWorkgroup = 128;

static_assert(sizeof(shaders::ArgMaxPush) == 8);

/// All but what row_split.comp has besides.
Result<Dispatch> dispatch_arg_max(const graph::ArgMax& op, const ShaderFamily& family, std::uint64_t workgroups,
                                  const KernelContext& context) {
    const Shape& shape = context.graph.shape(op.x);
    VKFORMER_TRY(const auto groups, folded_grid(workgroups, context.device));
    Dispatch dispatch{.module = {&family}, .groups = groups};
    dispatch.bind(shaders::kArgMaxX, op.x)
        .bind(shaders::kArgMaxY, op.y)
        .set(shaders::kWorkgroupConstant, kArgMaxWorkgroup);
    dispatch.push.set(shaders::ArgMaxPush{
        .rows = static_cast<std::uint32_t>(shape.row_count()),
        .width = static_cast<std::uint32_t>(shape.back()),
    });
    return dispatch;
}

Result<DispatchPlan> plan_row(const graph::ArgMax& op, const KernelContext& context) {
    VKFORMER_TRY(Dispatch dispatch,
                 dispatch_arg_max(op, modules::arg_max, context.graph.shape(op.x).row_count(), context));
    return DispatchPlan(std::move(dispatch));
}

constexpr std::uint32_t kMostArgMaxSplits = 64, kLeastArgMaxPart = 8 * kArgMaxWorkgroup;
// Devices that are CPUs are full with a row or two: there it is for short rows only, which models have not, and tests.
constexpr std::uint32_t kLeastArgMaxPartOnCpu = 64, kLongestSplitRowOnCpu = 2048;

/// The parts of a row that fill a large GPU together with the other rows, or fewer than 2.
std::uint64_t arg_max_splits(const graph::ArgMax& op, const KernelContext& context) {
    const Shape& shape = context.graph.shape(op.x);
    const bool is_cpu = context.device.is_cpu();
    if (is_cpu && shape.back() > kLongestSplitRowOnCpu) return 0;
    constexpr std::uint64_t kEnoughWorkgroups = 256;
    return std::min({std::uint64_t{kMostArgMaxSplits},
                     shape.back() / (is_cpu ? kLeastArgMaxPartOnCpu : kLeastArgMaxPart),
                     kEnoughWorkgroups / shape.row_count()});
}

bool fits_row_split(const graph::ArgMax& op, const KernelContext& context) { return arg_max_splits(op, context) > 1; }

Result<DispatchPlan> plan_row_split(const graph::ArgMax& op, const KernelContext& context) {
    const std::uint64_t rows = context.graph.shape(op.x).row_count(), splits = arg_max_splits(op, context);
    DispatchPlan plan;
    plan.scratch_bytes = rows * splits * 2 * sizeof(std::uint32_t);
    for (const std::uint32_t combines : {0u, 1u}) {
        VKFORMER_TRY(Dispatch dispatch,
                     dispatch_arg_max(op, modules::arg_max_row_split, combines ? rows : rows * splits, context));
        dispatch.bind(shaders::kArgMaxParts, Operand::scratch())
            .set(shaders::kArgMaxSplits, splits)
            .set(shaders::kArgMaxCombines, combines);
        plan.dispatches.push_back(std::move(dispatch));
    }
    return plan;
}

/// Rows x vocab: of devices that are CPUs, then of others.
constexpr Edge kArgMaxSplitEdges[] = {{1, 2 * kLeastArgMaxPartOnCpu},
                                      {3, 5 * kLeastArgMaxPartOnCpu + 1},
                                      {2, kLongestSplitRowOnCpu - 1},
                                      {1, 2 * kLeastArgMaxPart},
                                      {2, kMostArgMaxSplits* kLeastArgMaxPart - 1},
                                      {3, kMostArgMaxSplits* kLeastArgMaxPart + 1}};

}  // namespace

std::span<const Kernel<graph::ArgMax>> kernels(const graph::ArgMax&) {
    static constexpr Kernel<graph::ArgMax> kKernels[] = {
        {.traits = {.name = "row_split", .edges = kArgMaxSplitEdges}, .fits = fits_row_split, .plan = plan_row_split},
        {.traits = {.name = "row", .edges = kRowEdges<kArgMaxWorkgroup>, .is_reference = true}, .plan = plan_row}};
    return kKernels;
}

}  // namespace vkformer::vulkan
