// SPDX-License-Identifier: MIT
#include "vulkan/kernels/decode_attention/decode_attention.hpp"

#include <algorithm>
#include <bit>

#include "core/try.hpp"
#include "decode_attention/contract.h"
#include "graph/splits.hpp"
#include "vulkan/kernels/attention/attention.hpp"
#include "vulkan/kernels/attention/mask.hpp"
#include "vulkan/kernels/packed_words.hpp"
#include "vulkan/vendors.hpp"

namespace vkformer::vulkan {

static_assert(graph::kLeastSplitKeys == shaders::kLeastSplitKeys);

DecodeSizes sizes_of(const graph::DecodeAttention& op, const graph::Graph& graph) {
    const Shape& query = graph.shape(op.query);
    const Shape& key = graph.shape(op.key);
    const std::uint64_t value_dim = graph.shape(op.value)[3];
    return {.batch = query[0],
            .heads = query[2],
            .kv_heads = key[2],
            .head_dim = query[3],
            .value_dim = value_dim,
            .key_len = graph::capacity_of(graph, op.key, op.pages),
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
        .bind(shaders::kDecodeAttentionWords, packed_words(op.mask.key_lengths, op.mask.starts, op.query))
        .bind(shaders::kDecodeAttentionAdditive, or_else(op.mask.additive, or_else(op.mask.sinks, op.query)))
        .bind(shaders::kDecodeAttentionPartial, op.partial)
        .bind(shaders::kDecodeAttentionPages, or_else(op.pages, op.query))
        .bind(shaders::kDecodeAttentionY, op.y)
        .set(shaders::kDecodeAttentionMask, score_bits(op));
    dispatch.push.set(shaders::DecodeAttentionPush{
        .batch = static_cast<std::uint32_t>(sizes.batch),
        .heads = static_cast<std::uint32_t>(sizes.heads),
        .kv_heads = static_cast<std::uint32_t>(sizes.kv_heads),
        .head_dim = static_cast<std::uint32_t>(sizes.head_dim),
        .value_dim = static_cast<std::uint32_t>(sizes.value_dim),
        .kv_rows = kv_rows(op, context.graph),
        .splits = static_cast<std::uint32_t>(sizes.splits),
        .scale = op.scale,
        .soft_cap = op.soft_cap,
        .mask = mask_push(op.mask, sizes.key_len, context.graph),
    });
    return dispatch;
}

namespace {

/// Invocations of a workgroup of decode_attention/split.comp and split_vec4.comp: one key each; a short cache takes fewer.
std::uint32_t keys_of_workgroup(const DecodeSizes& sizes) {
    constexpr std::uint32_t kMost = shaders::kDecodeAttentionMaxWorkgroup;
    const auto split_keys = static_cast<std::uint32_t>(graph::keys_per_split(sizes.key_len, sizes.splits));
    return std::clamp(std::bit_ceil(std::min(split_keys, kMost)), 32u, kMost);
}

/// `width`: columns of values, of which an invocation has some; `groups`: workgroups per sequence and split.
Result<Dispatch> dispatch_columns(const graph::DecodeAttention& op, const KernelContext& context, Module module,
                                  std::uint64_t width, std::uint64_t groups) {
    const std::uint32_t workgroup = keys_of_workgroup(sizes_of(op, context.graph));
    const std::uint32_t columns = std::min(workgroup, std::bit_ceil(static_cast<std::uint32_t>(width)));
    VKFORMER_TRY(Dispatch dispatch, dispatch_decode_attention(op, module, groups, context));
    dispatch.set(shaders::kWorkgroupConstant, workgroup)
        .set(shaders::kDecodeAttentionColumns, columns)
        .set(shaders::kDecodeAttentionColumnSteps, ceil_div(width, columns));
    return dispatch;
}

Result<DispatchPlan> plan_split(const graph::DecodeAttention& op, const KernelContext& context) {
    const DecodeSizes sizes = sizes_of(op, context.graph);
    const ShaderFamily& family = family_for_keys(context.graph.dtype(op.key), modules::decode_attention_split,
                                                 modules::decode_attention_split_q8);
    const Module module{&family, storage_for(context.graph.dtype(op.query), context.device)};
    VKFORMER_TRY(Dispatch dispatch, dispatch_columns(op, context, module, sizes.value_dim, sizes.heads));
    return plan_packed(op.mask.key_lengths, op.mask.starts, std::move(dispatch), context);
}

/// Elements that decode_attention/split_vec4.comp loads at a time: 16 bytes, or eight of a block.
std::uint32_t piece_elements(DType keys) { return keys == DType::f32 ? 4 : 8; }

/// The sizes that a subgroup may have on a device: without subgroup_size_control there is but one.
struct SubgroupSizes {
    std::uint32_t least, most;
};

SubgroupSizes subgroup_sizes(const Capabilities& device) {
    return device.subgroup_size_control ? SubgroupSizes{device.min_subgroup_size, device.max_subgroup_size}
                                        : SubgroupSizes{device.subgroup_size, device.subgroup_size};
}

/// Mali and Raspberry Pi have 64 registers. NVIDIA and, with subgroups of 32, AMD: with 168 registers for an invocation in place of 120 a
/// quarter fewer subgroups are in flight at most, with twice the loads each. Of AMD's older ones it would be half; Apple's and Qualcomm's
/// compilers spill from 128 on.
std::uint32_t room_for_loads(const Capabilities& device) {
    if (vendors::has_fewest_registers(device.vendor_id)) return shaders::kDecodeAttentionNoRoom;
    const bool has_many_registers = device.vendor_id == vendors::kNvidia ||
                                    (device.vendor_id == vendors::kAmd && subgroup_sizes(device).least <= 32);
    return has_many_registers ? shaders::kDecodeAttentionMuchRoom : shaders::kDecodeAttentionSomeRoom;
}

/// Heads that a workgroup of split_vec4.comp owns, of those that share a key head: at most four, and as many as there is shared memory
/// for. GPUs with small subgroups (Intel's) have 128 registers or fewer for an invocation, and the sums of more than two do not fit;
/// Mali has 64, for those of one.
std::uint32_t heads_of_workgroup(const DecodeSizes& sizes, bool in_pages, const Capabilities& device) {
    const std::uint64_t workgroup = keys_of_workgroup(sizes);
    const std::uint64_t per_head = workgroup * 5 * 4 + sizes.head_dim * 4;  // parts of scores, and the query
    const std::uint64_t per_workgroup =
        workgroup * (in_pages ? 20 : 16) + 4;  // weights, in pages the rows of keys, and who is last
    const std::uint64_t room = std::max(device.max_shared_memory_bytes, std::uint32_t{16384}) - per_workgroup;
    const bool has_few_registers = !device.is_cpu() && subgroup_sizes(device).least <= 16;
    const std::uint64_t most = std::min<std::uint64_t>(device.vendor_id == vendors::kArm ? 1
                                                       : has_few_registers               ? 2
                                                                           : shaders::kDecodeAttentionVec4MaxHeads,
                                                       room / per_head);
    const std::uint64_t shared_by = sizes.heads / sizes.kv_heads;
    return static_cast<std::uint32_t>(ceil_div(shared_by, ceil_div(shared_by, most)));
}

bool fits_split_vec4(const graph::DecodeAttention& op, const KernelContext& context) {
    const DecodeSizes sizes = sizes_of(op, context.graph);
    const std::uint32_t piece = piece_elements(context.graph.dtype(op.key));
    return sizes.head_dim % piece == 0 && sizes.value_dim % piece == 0 &&
           are_vec4_rows(sizes.head_dim, sizes.value_dim, context.graph.dtype(op.query), context.device);
}

Result<DispatchPlan> plan_split_vec4(const graph::DecodeAttention& op, const KernelContext& context) {
    const DecodeSizes sizes = sizes_of(op, context.graph);
    const ShaderFamily& family = family_for_keys(context.graph.dtype(op.key), modules::decode_attention_split_vec4,
                                                 modules::decode_attention_split_vec4_q8);
    const Module module{&family, storage_for(context.graph.dtype(op.query), context.device)};
    const std::uint32_t piece = piece_elements(context.graph.dtype(op.key));
    const std::uint32_t heads = heads_of_workgroup(sizes, static_cast<bool>(op.pages), context.device);
    const std::uint64_t groups = sizes.kv_heads * ceil_div(sizes.heads / sizes.kv_heads, heads);
    VKFORMER_TRY(Dispatch dispatch, dispatch_columns(op, context, module, sizes.value_dim / piece, groups));
    dispatch.set(shaders::kDecodeAttentionHeads, heads)
        .set(shaders::kDecodeAttentionHeadPieces, sizes.head_dim / piece)
        .set(shaders::kDecodeAttentionRoom, room_for_loads(context.device));
    return plan_packed(op.mask.key_lengths, op.mask.starts, std::move(dispatch), context);
}

/// How decode_attention/split_subgroup.comp is cut.
struct SubgroupTiling {
    std::uint32_t workgroup, heads, head_steps, value_steps;
    std::uint32_t sums;    ///< floats of shared memory
    std::uint64_t groups;  ///< workgroups per sequence and split
};

/// Of a query and the sums of a head, all heads together: they are in 128 registers.
constexpr std::uint32_t kMostSteps = 64;

SubgroupTiling subgroup_tiling(const DecodeSizes& s, const Capabilities& device) {
    const auto [least, most] = subgroup_sizes(device);
    const auto head_steps = static_cast<std::uint32_t>(ceil_div(s.head_dim / 2, least));
    const auto value_steps = static_cast<std::uint32_t>(ceil_div(s.value_dim / 2, least));
    const auto group = static_cast<std::uint32_t>(s.heads / s.kv_heads);
    const std::uint32_t most_heads =
        std::clamp(kMostSteps / (head_steps + value_steps), 1u, std::uint32_t{shaders::kDecodeAttentionMaxHeads});
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
    const SubgroupTiling tiling = subgroup_tiling(sizes, context.device);
    const std::uint64_t heads = shaders::kDecodeAttentionMaxSubgroups * shaders::kDecodeAttentionMaxHeads;
    return tiling.head_steps + tiling.value_steps <= kMostSteps &&
           (tiling.sums + 2 * heads) * 4 <= context.device.max_shared_memory_bytes;
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
    return plan_packed(op.mask.key_lengths, op.mask.starts, std::move(dispatch), context);
}

// Edges: batch x keys x heads x kv_heads x head_dim x value_dim x split_keys. A split has as many keys as it is said here, or 32.
constexpr std::uint32_t kFewKeys = graph::kLeastSplitKeys, kMostKeys = shaders::kDecodeAttentionMaxWorkgroup,
                        kMostDim = shaders::kDecodeAttentionMaxHeadDim;
constexpr Edge kDecodeSplitEdges[] = {{1, 1, 1, 1, 1, 1, kMostKeys},
                                      {2, kFewKeys - 1, 2, 1, 15, 17, kFewKeys - 1},
                                      {2, kFewKeys + 1, 4, 2, 17, 33, kFewKeys},
                                      {3, kMostKeys - 1, 2, 1, 64, 64, kMostKeys / 2},
                                      {2, kMostKeys + 1, 2, 2, 5, kMostKeys, kMostKeys},
                                      {2, 300, 6, 3, 33, 65, kMostKeys},
                                      {1, 1031, 2, 1, kMostDim, kMostDim, 500},
                                      {1, 20, 1, 1, 255, 129, 7},
                                      {2, 90, 2, 2, 8, 1, 0x7FFFFFFF}};
/// One to ten heads share a key head, of which a workgroup has up to four; rows of whole and of broken steps of pieces.
constexpr Edge kDecodeVec4Edges[] = {{2, kFewKeys, 2, 2, 16, 32, kFewKeys},
                                     {1, 300, 2, 2, 40, 24, 1},
                                     {1, 300, 9, 3, 64, 64, 100},
                                     {2, kMostKeys + 1, 2, 1, 8, 4, kMostKeys},
                                     {1, kMostKeys + 3, 8, 1, 128, 128, kMostKeys},
                                     {2, 70, 20, 2, 80, 96, kFewKeys},
                                     {1, 1031, 4, 1, 24, 256, 500},
                                     {1, 50, 2, 1, 100, 112, 16},
                                     {1, 70, 5, 1, kMostDim, 512, kFewKeys}};
/// More heads share a key head than a workgroup has, as many, and fewer.
constexpr Edge kDecodeSubgroupEdges[] = {{2, 70, 20, 2, 80, 96, kFewKeys},
                                         {1, 33, shaders::kDecodeAttentionMaxHeads, 1, 2, 2, kFewKeys},
                                         {1, kMostKeys + 1, shaders::kDecodeAttentionMaxHeads + 1, 1, 64, 62, 64},
                                         {2, 300, 6, 3, 34, 66, kMostKeys},
                                         {1, 70, 5, 1, kMostDim, 512, kFewKeys}};

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
