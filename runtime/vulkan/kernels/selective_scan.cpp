// SPDX-License-Identifier: MIT
#include "selective_scan/contract.h"

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"
#include "vulkan/kernels/state_place.hpp"

namespace vkformer::vulkan {
namespace {

using graph::SelectiveScan;

static_assert(sizeof(shaders::SelectiveScanPush) == 36);

/// Of `columns` and `columns_shared`, and of `columns_shared_wide`: more columns load B and C less often, and leave a device with fewer
/// workgroups.
constexpr std::uint32_t kScanWorkgroup = 64, kWideWorkgroup = 256, kLanes = 8;

/// Tokens in shared memory: no more than there are when texts are written, and at most 8 KiB of B and C, so that the rest fits in what
/// every device has.
std::uint32_t tokens_of(std::uint64_t len, std::uint64_t state_dim) { return len == 1 ? 1 : state_dim <= 128 ? 8 : 4; }

bool can_share(const SelectiveScan& op, const KernelContext& context) {
    return context.graph.shape(op.state)[2] % kLanes == 0;
}

template <std::uint32_t kSize, std::uint32_t kSharers>
Result<DispatchPlan> plan(const SelectiveScan& op, const KernelContext& context) {
    const Shape& steps = context.graph.shape(op.steps);
    const Shape& state = context.graph.shape(op.state);
    const std::uint64_t heads = state[1], state_dim = state[2], head_dim = state[3];
    const std::uint64_t per_head = ceil_div(head_dim * kSharers, kSize), workgroups = steps[0] * heads * per_head;
    VKFORMER_TRY(const auto groups, folded_grid(workgroups, context.device));
    Dispatch dispatch{.module = {&modules::selective_scan, storage_for(context.graph.dtype(op.y), context.device)},
                      .groups = groups};
    dispatch.bind(shaders::kSelectiveScanXbc, op.xbc)
        .bind(shaders::kSelectiveScanSteps, op.steps)
        .bind(shaders::kSelectiveScanRates, op.rates)
        .bind(shaders::kSelectiveScanStarts, or_else(op.starts, op.steps))
        .bind(shaders::kSelectiveScanCounts, or_else(op.counts, op.steps))
        .bind(shaders::kSelectiveScanSlots, or_else(op.slots, op.steps))
        .bind(shaders::kSelectiveScanState, op.state)
        .bind(shaders::kSelectiveScanY, op.y)
        .set(shaders::kWorkgroupConstant, kSize)
        .set(shaders::kSelectiveScanStateDim, state_dim)
        .set(shaders::kSelectiveScanLanes, kSharers)
        .set(shaders::kSelectiveScanTokens, tokens_of(steps[1], state_dim))
        .set(shaders::kSelectiveScanPlace, place_bits(op));
    dispatch.push.set(shaders::SelectiveScanPush{
        .len = static_cast<std::uint32_t>(steps[1]),
        .slots = static_cast<std::uint32_t>(state[0]),
        .heads = static_cast<std::uint32_t>(heads),
        .groups = op.groups,
        .head_dim = static_cast<std::uint32_t>(head_dim),
        .parts = static_cast<std::uint32_t>(per_head),
        .workgroups = static_cast<std::uint32_t>(workgroups),
        .least_step = op.least_step,
        .most_step = op.most_step,
    });
    return DispatchPlan(std::move(dispatch));
}

/// Batch x len x groups x heads of each x state_dim x head_dim: around the tokens in shared memory and the columns of a workgroup.
constexpr Edge kScanEdges[] = {{1, 1, 1, 1, 1, 1},
                               {2, 8, 1, 2, 20, kScanWorkgroup - 1},
                               {1, 9, 2, 1, 32, kScanWorkgroup},
                               {2, 5, 1, 1, 132, kScanWorkgroup + 1},
                               {1, 17, 1, 3, 24, 17},
                               {1, 5, 1, 1, 255, 3}};
template <std::uint32_t kColumns>
constexpr Edge kSharedScanEdges[] = {{1, 1, 1, 1, 8, 1},         {2, 8, 1, 2, 24, kColumns - 1},
                                     {1, 9, 2, 1, 32, kColumns}, {2, 5, 1, 1, 136, kColumns + 1},
                                     {1, 17, 1, 3, 64, 17},      {1, 5, 1, 1, 256, 3}};

}  // namespace

std::span<const Kernel<SelectiveScan>> kernels(const SelectiveScan&) {
    static constexpr Kernel<SelectiveScan> kKernels[] = {
        {.traits = {.name = "columns_shared_wide", .edges = kSharedScanEdges<kWideWorkgroup / kLanes>},
         .fits = can_share,
         .plan = plan<kWideWorkgroup, kLanes>},
        {.traits = {.name = "columns_shared", .edges = kSharedScanEdges<kScanWorkgroup / kLanes>},
         .fits = can_share,
         .plan = plan<kScanWorkgroup, kLanes>},
        {.traits = {.name = "columns", .edges = kScanEdges, .is_reference = true}, .plan = plan<kScanWorkgroup, 1>}};
    return kKernels;
}

}  // namespace vkformer::vulkan
