// SPDX-License-Identifier: MIT
#include "gated_delta_rule/contract.h"

#include "core/try.hpp"
#include "vulkan/kernels/kernels.hpp"
#include "vulkan/kernels/state_place.hpp"

namespace vkformer::vulkan {
namespace {

using graph::GatedDeltaRule;

static_assert(sizeof(shaders::GatedDeltaRulePush) == 28);

constexpr std::uint32_t kWorkgroup = shaders::kGatedDeltaRuleWorkgroup;

/// Tokens in shared memory: 8 KiB of queries and keys, so that the rest fits in what every device has.
std::uint32_t tokens_of(std::uint64_t key_dim) { return key_dim <= 128 ? 8 : 4; }

template <std::uint32_t kLanes>
bool fits(const GatedDeltaRule& op, const KernelContext& context) {
    return context.graph.shape(op.state)[2] % kLanes == 0;
}

template <std::uint32_t kLanes>
Result<DispatchPlan> plan(const GatedDeltaRule& op, const KernelContext& context) {
    const Shape& qkv = context.graph.shape(op.qkv);
    const Shape& state = context.graph.shape(op.state);
    const std::uint64_t heads = state[1], key_dim = state[2], value_dim = state[3];
    const std::uint64_t per_head = ceil_div(value_dim * kLanes, kWorkgroup), workgroups = qkv[0] * heads * per_head;
    VKFORMER_TRY(const auto groups, folded_grid(workgroups, context.device));
    Dispatch dispatch{.module = {&modules::gated_delta_rule, storage_for(context.graph.dtype(op.y), context.device)},
                      .groups = groups};
    dispatch.bind(shaders::kGatedDeltaRuleQkv, op.qkv)
        .bind(shaders::kGatedDeltaRuleGates, op.gates)
        .bind(shaders::kGatedDeltaRuleDecay, op.decay)
        .bind(shaders::kGatedDeltaRuleStarts, or_else(op.starts, op.gates))
        .bind(shaders::kGatedDeltaRuleCounts, or_else(op.counts, op.gates))
        .bind(shaders::kGatedDeltaRuleSlots, or_else(op.slots, op.gates))
        .bind(shaders::kGatedDeltaRuleState, op.state)
        .bind(shaders::kGatedDeltaRuleY, op.y)
        .set(shaders::kWorkgroupConstant, kWorkgroup)
        .set(shaders::kGatedDeltaRuleKeyDim, key_dim)
        .set(shaders::kGatedDeltaRuleLanes, kLanes)
        .set(shaders::kGatedDeltaRuleTokens, tokens_of(key_dim))
        .set(shaders::kGatedDeltaRulePlace, place_bits(op))
        .set(shaders::kGatedDeltaRuleInTurns, op.heads_in_turns);
    dispatch.push.set(shaders::GatedDeltaRulePush{
        .len = static_cast<std::uint32_t>(qkv[1]),
        .slots = static_cast<std::uint32_t>(state[0]),
        .heads = static_cast<std::uint32_t>(heads),
        .key_heads = op.key_heads,
        .value_dim = static_cast<std::uint32_t>(value_dim),
        .groups = static_cast<std::uint32_t>(per_head),
        .workgroups = static_cast<std::uint32_t>(workgroups),
    });
    return DispatchPlan(std::move(dispatch));
}

/// Batch x len x key heads x heads of each x key_dim x value_dim: around the tokens in shared memory and the columns of a workgroup.
constexpr Edge kEdges[] = {{1, 1, 1, 1, 1, 1},           {2, 8, 1, 2, 20, kWorkgroup - 1},
                           {1, 9, 2, 1, 32, kWorkgroup}, {2, 5, 1, 1, 132, kWorkgroup + 1},
                           {1, 17, 1, 3, 24, 17},        {1, 5, 1, 1, 255, 3}};
constexpr Edge kSharedEdges[] = {{1, 1, 1, 1, 8, 1},
                                 {2, 8, 1, 2, 24, kWorkgroup / 8 - 1},
                                 {1, 9, 2, 1, 32, kWorkgroup / 8},
                                 {2, 5, 1, 1, 136, kWorkgroup / 8 + 1},
                                 {1, 17, 1, 3, 64, 17},
                                 {1, 5, 1, 1, 256, 3}};

}  // namespace

std::span<const Kernel<GatedDeltaRule>> kernels(const GatedDeltaRule&) {
    static constexpr Kernel<GatedDeltaRule> kKernels[] = {
        {.traits = {.name = "columns_shared", .edges = kSharedEdges}, .fits = fits<8>, .plan = plan<8>},
        {.traits = {.name = "columns", .edges = kEdges, .is_reference = true}, .plan = plan<1>}};
    return kKernels;
}

}  // namespace vkformer::vulkan
