// SPDX-License-Identifier: MIT
#include "interface/decode_attention.h"
#include "interface/wide.h"

#include <algorithm>
#include <bit>

#include "core/try.hpp"
#include "graph/splits.hpp"
#include "interface/attention.h"
#include "vulkan/kernels/attention.hpp"
#include "vulkan/kernels/attention_mask.hpp"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

static_assert(graph::kLeastSplitKeys == shaders::kLeastSplitKeys);
static_assert(sizeof(shaders::DecodeAttentionPush) == 52);  // kAttentionQueryAddress is the next multiple of 8

namespace {

struct Sizes {
    std::uint64_t batch, heads, kv_heads, head_dim, value_dim, key_len, splits;
    DType keys;
};

/// A variant's shader, its first three specialization constants, its workgroups per sequence and split, and its other constants.
struct Tiling {
    std::string shader;
    std::uint32_t workgroup, first_constant, second_constant;
    std::uint64_t groups;
    std::vector<std::uint32_t> more_constants{};  ///< behind the mask
};

Tiling direct_tiling(const Sizes& s, DType dtype, const Capabilities& device) {
    return {variant_for(shader_for_keys("decode_attention_direct", s.keys), dtype, device),
            shaders::kAttentionDirectWorkgroup, static_cast<std::uint32_t>(s.head_dim),
            static_cast<std::uint32_t>(s.value_dim),
            s.kv_heads * ceil_div(s.heads / s.kv_heads, shaders::kAttentionDirectWorkgroup)};
}

Tiling broadcast_tiling(std::string_view shader, const Sizes& s, DType dtype, const Capabilities& device) {
    const std::uint64_t group = s.heads / s.kv_heads;
    const std::uint32_t rows = attention_broadcast_rows(group, s.value_dim, shader == "decode_attention_vectors");
    return {variant_for(shader, dtype, device),     shaders::kBroadcastLanes,
            static_cast<std::uint32_t>(s.head_dim), static_cast<std::uint32_t>(s.value_dim),
            s.kv_heads * ceil_div(group, rows),     {rows}};
}

/// The shader is decode_attention, whose columns are single, or decode_attention_quads, whose columns are four.
Tiling plain_tiling(std::string_view shader, std::uint32_t column_width, const Sizes& s, DType dtype,
                    const Capabilities& device) {
    // One key per invocation; a short cache takes a smaller workgroup.
    const auto split_keys = static_cast<std::uint32_t>(graph::keys_per_split(s.key_len, s.splits));
    const std::uint32_t workgroup =
        std::clamp(std::bit_ceil(std::min(split_keys, std::uint32_t{shaders::kDecodeAttentionMaxWorkgroup})), 32u,
                   std::uint32_t{shaders::kDecodeAttentionMaxWorkgroup});
    const auto width = static_cast<std::uint32_t>(ceil_div(s.value_dim, column_width));
    const std::uint32_t columns = std::min(workgroup, std::bit_ceil(width));
    return {variant_for(shader_for_keys(shader, s.keys), dtype, device), workgroup, columns,
            static_cast<std::uint32_t>(ceil_div(width, columns)), s.heads};
}

/// The sizes that a subgroup may have on a device: without subgroup_size_control there is but one.
struct SubgroupSizes {
    std::uint32_t least, most;
};

SubgroupSizes subgroup_sizes(const Capabilities& device) {
    return device.subgroup_size_control ? SubgroupSizes{device.min_subgroup_size, device.max_subgroup_size}
                                        : SubgroupSizes{device.subgroup_size, device.subgroup_size};
}

Tiling subgroup_tiling(const Sizes& s, DType dtype, const Capabilities& device) {
    const auto [least, most] = subgroup_sizes(device);
    const auto head_steps = static_cast<std::uint32_t>(ceil_div(s.head_dim / 2, least));
    const auto value_steps = static_cast<std::uint32_t>(ceil_div(s.value_dim / 2, least));
    // A query and the sums of a head are in registers: 128 of them for all heads together.
    const auto group = static_cast<std::uint32_t>(s.heads / s.kv_heads);
    const std::uint32_t most_heads =
        std::clamp(64 / (head_steps + value_steps), 1u, std::uint32_t{shaders::kDecodeAttentionMaxHeads});
    const auto chunks = static_cast<std::uint32_t>(ceil_div(group, most_heads));
    const auto heads = static_cast<std::uint32_t>(ceil_div(group, chunks));
    const std::uint32_t workgroup = std::min(4 * most, std::uint32_t{shaders::kDecodeAttentionMaxWorkgroup});
    const auto sums = static_cast<std::uint32_t>(workgroup / least * s.value_dim);
    const char* const storage = dtype == DType::f16 ? "_f16_words" : "_f32";  // a pair of halves is a word
    return {.shader = shader_for_keys("decode_attention_subgroup", s.keys) + storage,
            .workgroup = workgroup,
            .first_constant = heads,
            .second_constant = head_steps,
            .groups = s.kv_heads * chunks,
            .more_constants = {value_steps, sums}};
}

/// Rows are pairs of elements, subgroups of a size that is known, and their sums have room.
bool subgroup_fits(const Sizes& s, const Capabilities& device) {
    const auto [least, most] = subgroup_sizes(device);
    if (!device.subgroup_arithmetic || s.head_dim % 2 != 0 || s.value_dim % 2 != 0) return false;
    if (least < 4 || most > shaders::kDecodeAttentionMaxWorkgroup) return false;
    const std::uint64_t sums = subgroup_tiling(s, DType::f32, device).more_constants.back();
    const std::uint64_t heads = shaders::kDecodeAttentionMaxSubgroups * shaders::kDecodeAttentionMaxHeads;
    return (sums + 2 * heads) * 4 <= device.max_shared_memory_bytes;
}

Tiling tiling_of(std::string_view variant, const Sizes& s, DType dtype, const Capabilities& device) {
    if (variant == "direct") return direct_tiling(s, dtype, device);
    if (variant == "broadcast") return broadcast_tiling("decode_attention_broadcast", s, dtype, device);
    if (variant == "vectors") return broadcast_tiling("decode_attention_vectors", s, dtype, device);
    if (variant == "subgroup") return subgroup_tiling(s, dtype, device);
    if (variant == "quads") return plain_tiling("decode_attention_quads", 4, s, dtype, device);
    return plain_tiling("decode_attention", 1, s, dtype, device);
}

Sizes sizes_of(const graph::DecodeAttention& op, const graph::Graph& graph) {
    const Shape& query = graph.shape(op.query);
    const Shape& key = graph.shape(op.key);
    const std::uint64_t value_dim = graph.shape(op.value)[3];
    return {.batch = query[0],
            .heads = query[2],
            .kv_heads = key[2],
            .head_dim = query[3],
            .value_dim = value_dim,
            .key_len = key[1],
            .splits = graph::splits_in(graph.shape(op.partial).back(), value_dim),
            .keys = graph.dtype(op.key)};
}

}  // namespace

VariantNames variants(const graph::DecodeAttention& op, const KernelContext& context) {
    const Sizes sizes = sizes_of(op, context.graph);
    VariantNames names;
    if (direct_attention_fits(sizes.head_dim, sizes.value_dim, context.device)) {
        if (broadcast_attention_fits(sizes.head_dim, sizes.value_dim, sizes.keys, context.device))
            names.push_back("broadcast");
        if (vector_attention_fits(sizes.head_dim, sizes.value_dim, sizes.keys, context.device))
            names.push_back("vectors");
        names.push_back("direct");
    }
    if (rows_are_quads(sizes.head_dim, sizes.value_dim, context.graph.dtype(op.query), context.device))
        names.push_back("quads");
    names.push_back("plain");
    if (subgroup_fits(sizes, context.device)) names.push_back("subgroup");
    return names;
}

Result<Dispatch> plan_dispatch(const graph::DecodeAttention& op, const KernelContext& context) {
    const Sizes sizes = sizes_of(op, context.graph);
    VKFORMER_TRY(const std::string_view variant, chosen_variant(op, context));
    const Tiling tiling = tiling_of(variant, sizes, context.graph.dtype(op.query), context.device);
    VKFORMER_TRY(const auto groups, folded_grid(sizes.batch * tiling.groups * sizes.splits, context.device));
    Dispatch dispatch{
        .shader = tiling.shader,
        .bindings = {op.query, op.key, op.value, or_else(op.mask.key_lengths, op.query),
                     or_else(op.mask.starts, op.query), or_else(op.mask.additive, op.query), op.partial, op.y},
        .constants = {tiling.workgroup, tiling.first_constant, tiling.second_constant,
                      mask_bits(op.mask) | (op.soft_cap == 0 ? 0 : shaders::kScoreSoftCap)},
        .groups = groups,
    };
    dispatch.constants.insert(dispatch.constants.end(), tiling.more_constants.begin(), tiling.more_constants.end());
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
    if (variant == "vectors")
        dispatch.addressed = {{op.query, shaders::kAttentionQueryAddress},
                              {op.key, shaders::kAttentionKeyAddress},
                              {op.value, shaders::kAttentionValueAddress}};
    return dispatch;
}

}  // namespace vkformer::vulkan
