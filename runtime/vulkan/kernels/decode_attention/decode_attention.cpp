// SPDX-License-Identifier: MIT
#include "vulkan/kernels/decode_attention/decode_attention.hpp"

#include <algorithm>
#include <bit>

#include "core/try.hpp"
#include "decode_attention/contract.h"
#include "graph/splits.hpp"
#include "vulkan/kernels/attention/attention.hpp"
#include "vulkan/kernels/attention/mask.hpp"

namespace vkformer::vulkan {

static_assert(graph::kLeastSplitKeys == shaders::kLeastSplitKeys);
static_assert(sizeof(shaders::DecodeAttentionPush) == 52);  // kAttentionQueryAddress is the next multiple of 8

DecodeSizes sizes_of(const graph::DecodeAttention& op, const graph::Graph& graph) {
    const Shape& query = graph.shape(op.query);
    const Shape& key = graph.shape(op.key);
    const std::uint64_t value_dim = graph.shape(op.value)[3];
    return {.batch = query[0],
            .heads = query[2],
            .kv_heads = key[2],
            .head_dim = query[3],
            .value_dim = value_dim,
            .key_len = key[1],
            .splits = graph::splits_in(graph.shape(op.partial).back(), value_dim)};
}

Result<Dispatch> dispatch_decode_attention(const graph::DecodeAttention& op, Module module, std::uint64_t groups,
                                           const KernelContext& context) {
    const DecodeSizes sizes = sizes_of(op, context.graph);
    VKFORMER_TRY(const auto grid, folded_grid(sizes.batch * groups * sizes.splits, context.device));
    Dispatch dispatch{.module = module, .groups = grid};
    dispatch.bind(shaders::kDecodeAttentionQuery, op.query)
        .bind(shaders::kDecodeAttentionKey, op.key)
        .bind(shaders::kDecodeAttentionValue, op.value)
        .bind(shaders::kDecodeAttentionKeyLengths, or_else(op.mask.key_lengths, op.query))
        .bind(shaders::kDecodeAttentionStarts, or_else(op.mask.starts, op.query))
        .bind(shaders::kDecodeAttentionAdditive, or_else(op.mask.additive, op.query))
        .bind(shaders::kDecodeAttentionPartial, op.partial)
        .bind(shaders::kDecodeAttentionY, op.y)
        .set(shaders::kDecodeAttentionMask, mask_bits(op.mask) | (op.soft_cap == 0 ? 0 : shaders::kScoreSoftCap));
    dispatch.push.set(shaders::DecodeAttentionPush{
        .batch = static_cast<std::uint32_t>(sizes.batch),
        .heads = static_cast<std::uint32_t>(sizes.heads),
        .kv_heads = static_cast<std::uint32_t>(sizes.kv_heads),
        .head_dim = static_cast<std::uint32_t>(sizes.head_dim),
        .value_dim = static_cast<std::uint32_t>(sizes.value_dim),
        .splits = static_cast<std::uint32_t>(sizes.splits),
        .scale = op.scale,
        .soft_cap = op.soft_cap,
        .mask = mask_push(op.mask, sizes.key_len, context.graph),
    });
    return dispatch;
}

namespace {

/// decode_attention/split.comp, whose columns of values are single elements, and split_vec4.comp, whose columns are four.
Result<DispatchPlan> plan_columns(const graph::DecodeAttention& op, const KernelContext& context, Module module,
                                  std::uint32_t column_width) {
    const DecodeSizes sizes = sizes_of(op, context.graph);
    // One key per invocation; a short cache takes a smaller workgroup.
    const auto split_keys = static_cast<std::uint32_t>(graph::keys_per_split(sizes.key_len, sizes.splits));
    const std::uint32_t workgroup =
        std::clamp(std::bit_ceil(std::min(split_keys, std::uint32_t{shaders::kDecodeAttentionMaxWorkgroup})), 32u,
                   std::uint32_t{shaders::kDecodeAttentionMaxWorkgroup});
    const auto width = static_cast<std::uint32_t>(ceil_div(sizes.value_dim, column_width));
    const std::uint32_t columns = std::min(workgroup, std::bit_ceil(width));
    VKFORMER_TRY(Dispatch dispatch, dispatch_decode_attention(op, module, sizes.heads, context));
    dispatch.set(shaders::kWorkgroupConstant, workgroup)
        .set(shaders::kDecodeAttentionColumns, columns)
        .set(shaders::kDecodeAttentionColumnSteps, ceil_div(width, columns));
    return DispatchPlan(std::move(dispatch));
}

Result<DispatchPlan> plan_split(const graph::DecodeAttention& op, const KernelContext& context) {
    const ShaderFamily& family = family_for_keys(context.graph.dtype(op.key), modules::decode_attention_split,
                                                 modules::decode_attention_split_q8);
    return plan_columns(op, context, {&family, storage_for(context.graph.dtype(op.query), context.device)}, 1);
}

bool fits_split_vec4(const graph::DecodeAttention& op, const KernelContext& context) {
    const DecodeSizes sizes = sizes_of(op, context.graph);
    return are_vec4_rows(sizes.head_dim, sizes.value_dim, context.graph.dtype(op.query), context.device);
}

Result<DispatchPlan> plan_split_vec4(const graph::DecodeAttention& op, const KernelContext& context) {
    const ShaderFamily& family = family_for_keys(context.graph.dtype(op.key), modules::decode_attention_split_vec4,
                                                 modules::decode_attention_split_vec4_q8);
    return plan_columns(op, context, {&family, storage_for(context.graph.dtype(op.query), context.device)}, 4);
}

/// The sizes that a subgroup may have on a device: without subgroup_size_control there is but one.
struct SubgroupSizes {
    std::uint32_t least, most;
};

SubgroupSizes subgroup_sizes(const Capabilities& device) {
    return device.subgroup_size_control ? SubgroupSizes{device.min_subgroup_size, device.max_subgroup_size}
                                        : SubgroupSizes{device.subgroup_size, device.subgroup_size};
}

/// How decode_attention/split_subgroup.comp is cut.
struct SubgroupTiling {
    std::uint32_t workgroup, heads, head_steps, value_steps;
    std::uint32_t sums;    ///< floats of shared memory
    std::uint64_t groups;  ///< workgroups per sequence and split
};

SubgroupTiling subgroup_tiling(const DecodeSizes& s, const Capabilities& device) {
    const auto [least, most] = subgroup_sizes(device);
    const auto head_steps = static_cast<std::uint32_t>(ceil_div(s.head_dim / 2, least));
    const auto value_steps = static_cast<std::uint32_t>(ceil_div(s.value_dim / 2, least));
    // A query and the sums of a head are in registers: 128 of them for all heads together.
    const auto group = static_cast<std::uint32_t>(s.heads / s.kv_heads);
    const std::uint32_t most_heads =
        std::clamp(64 / (head_steps + value_steps), 1u, std::uint32_t{shaders::kDecodeAttentionMaxHeads});
    const auto chunks = static_cast<std::uint32_t>(ceil_div(group, most_heads));
    const std::uint32_t workgroup = std::min(4 * most, std::uint32_t{shaders::kDecodeAttentionMaxWorkgroup});
    return {.workgroup = workgroup,
            .heads = static_cast<std::uint32_t>(ceil_div(group, chunks)),
            .head_steps = head_steps,
            .value_steps = value_steps,
            .sums = static_cast<std::uint32_t>(workgroup / least * s.value_dim),
            .groups = s.kv_heads * chunks};
}

/// Rows are pairs of elements, subgroups of a size that is known, and their sums have room.
bool fits_split_subgroup(const graph::DecodeAttention& op, const KernelContext& context) {
    const DecodeSizes sizes = sizes_of(op, context.graph);
    const auto [least, most] = subgroup_sizes(context.device);
    if (sizes.head_dim % 2 != 0 || sizes.value_dim % 2 != 0) return false;
    if (least < 4 || most > shaders::kDecodeAttentionMaxWorkgroup) return false;
    const std::uint64_t sums = subgroup_tiling(sizes, context.device).sums;
    const std::uint64_t heads = shaders::kDecodeAttentionMaxSubgroups * shaders::kDecodeAttentionMaxHeads;
    return (sums + 2 * heads) * 4 <= context.device.max_shared_memory_bytes;
}

Result<DispatchPlan> plan_split_subgroup(const graph::DecodeAttention& op, const KernelContext& context) {
    const SubgroupTiling tiling = subgroup_tiling(sizes_of(op, context.graph), context.device);
    const ShaderFamily& family = family_for_keys(context.graph.dtype(op.key), modules::decode_attention_split_subgroup,
                                                 modules::decode_attention_split_subgroup_q8);
    // A pair of halves is a word.
    const Storage storage = context.graph.dtype(op.query) == DType::f16 ? Storage::f16_words : Storage::f32;
    VKFORMER_TRY(Dispatch dispatch, dispatch_decode_attention(op, {&family, storage}, tiling.groups, context));
    dispatch.set(shaders::kWorkgroupConstant, tiling.workgroup)
        .set(shaders::kDecodeAttentionHeads, tiling.heads)
        .set(shaders::kDecodeAttentionHeadSteps, tiling.head_steps)
        .set(shaders::kDecodeAttentionValueSteps, tiling.value_steps)
        .set(shaders::kDecodeAttentionSums, tiling.sums);
    return DispatchPlan(std::move(dispatch));
}

// Edges: batch x keys x heads x kv_heads x head_dim x value_dim x split_keys. A split has as many keys as it is said here, or 32.
constexpr std::uint32_t kFewKeys = graph::kLeastSplitKeys, kMostKeys = shaders::kDecodeAttentionMaxWorkgroup;
constexpr Edge kDecodeSplitEdges[] = {{1, 1, 1, 1, 1, 1, kMostKeys},
                                      {2, kFewKeys - 1, 2, 1, 15, 17, kFewKeys - 1},
                                      {2, kFewKeys + 1, 4, 2, 17, 33, kFewKeys},
                                      {3, kMostKeys - 1, 2, 1, 64, 64, kMostKeys / 2},
                                      {2, kMostKeys + 1, 2, 2, 5, kMostKeys, kMostKeys},
                                      {2, 300, 6, 3, 33, 65, kMostKeys},
                                      {1, 1031, 2, 1, shaders::kDecodeAttentionMaxHeadDim, 256, 500},
                                      {1, 20, 1, 1, 255, 129, 7},
                                      {2, 90, 2, 2, 8, 1, 0x7FFFFFFF}};
constexpr Edge kDecodeVec4Edges[] = {{2, kFewKeys, 2, 2, 16, 32, kFewKeys},
                                     {1, 300, 2, 2, 40, 24, 1},
                                     {1, 300, 9, 3, 64, 64, 100},
                                     {2, kMostKeys + 1, 2, 1, 8, 4, kMostKeys},
                                     {1, 50, 2, 1, 100, 112, 16}};
/// More heads share a key head than a workgroup has, as many, and fewer.
constexpr Edge kDecodeSubgroupEdges[] = {{2, 70, 20, 2, 80, 96, kFewKeys},
                                         {1, 33, shaders::kDecodeAttentionMaxHeads, 1, 2, 2, kFewKeys},
                                         {1, kMostKeys + 1, shaders::kDecodeAttentionMaxHeads + 1, 1, 64, 62, 64},
                                         {2, 300, 6, 3, 34, 66, kMostKeys}};

}  // namespace

std::span<const Kernel<graph::DecodeAttention>> kernels(const graph::DecodeAttention&) {
    static constexpr Kernel<graph::DecodeAttention> kKernels[] = {
        {.traits = {.name = "split_vec4", .edges = kDecodeVec4Edges, .cpu_limit = 32},
         .fits = fits_split_vec4,
         .plan = plan_split_vec4},
        {.traits = {.name = "split", .edges = kDecodeSplitEdges, .is_reference = true}, .plan = plan_split},
        {.traits = {.name = "split_subgroup",
                    .edges = kDecodeSubgroupEdges,
                    .needs = needs(ShaderRequirement::subgroup)},
         .fits = fits_split_subgroup,
         .plan = plan_split_subgroup},
    };
    return kKernels;
}

}  // namespace vkformer::vulkan
