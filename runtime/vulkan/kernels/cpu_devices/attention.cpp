// SPDX-License-Identifier: MIT
/// Attention and decode attention: the lanes lie along queries, or along keys and then values.
#include "vulkan/kernels/attention/attention.hpp"

#include <algorithm>

#include "core/try.hpp"
#include "cpu_devices/attention/contract.h"
#include "decode_attention/contract.h"
#include "vulkan/kernels/cpu_devices/kernels.hpp"
#include "vulkan/kernels/cpu_devices/lanes.hpp"
#include "vulkan/kernels/decode_attention/decode_attention.hpp"
#include "vulkan/kernels/packed_words.hpp"

namespace vkformer::vulkan::cpu_devices {
namespace {

static_assert(shaders::kAttentionMask == shaders::kDecodeAttentionMask);  // one constant of both ops' shaders
static_assert(PushConstants::kOwn + sizeof(shaders::DecodeAttentionPush) == shaders::kCpuAttentionQueryAddress);

/// Rows are whole vectors that the shaders can unroll.
bool fits_queries(std::uint64_t head_dim, std::uint64_t value_dim) {
    const auto fits = [](std::uint64_t dim) { return dim % 4 == 0 && dim <= shaders::kCpuAttentionMaxDim; };
    return fits(head_dim) && fits(value_dim);
}

bool fits_keys(std::uint64_t head_dim, std::uint64_t value_dim, DType keys, const Capabilities& device) {
    return fits_queries(head_dim, value_dim) && head_dim % shaders::kCpuAttentionDepth == 0 &&
           has_shuffled_lanes(device) && keys != DType::q8_0;
}

/// A head's keys and values are whole vectors.
bool fits_keys_vectors(std::uint64_t head_dim, std::uint64_t value_dim, DType keys, const Capabilities& device) {
    const std::uint64_t vector = shaders::kCpuLanes * (keys == DType::f16 ? 2 : 1);
    return fits_keys(head_dim, value_dim, keys, device) && has_vector_loads(device) && head_dim % vector == 0 &&
           value_dim % vector == 0 && std::max(head_dim, value_dim) <= shaders::kCpuAttentionVectorsMaxDim;
}

/// How many of the `rows` that share a key head a workgroup of cpu_devices/attention/keys.comp owns.
std::uint32_t rows_of_workgroup(std::uint64_t rows, std::uint64_t value_dim, Loads loads) {
    if (rows <= 4) return static_cast<std::uint32_t>(rows);
    // The sums of so many rows are unrolled for every element of a value.
    const bool are_many = rows > shaders::kCpuAttentionFewRows;
    const std::uint64_t most = value_dim > 128 || !are_many ? 8 : loads == Loads::vectors || value_dim > 64 ? 16 : 24;
    return static_cast<std::uint32_t>(std::min(most, round_up(rows, 4)));
}

template <class Op>
Storage storage_of(const Op& op, const KernelContext& context) {
    return storage_for(context.graph.dtype(op.query), context.device);
}

void set_dims(Dispatch& dispatch, std::uint64_t head_dim, std::uint64_t value_dim) {
    dispatch.set(shaders::kCpuAttentionHeadDim, head_dim).set(shaders::kCpuAttentionValueDim, value_dim);
}

template <class Op>
void point_at_operands(Dispatch& dispatch, const Op& op) {
    dispatch.point(shaders::kCpuAttentionQueryAddress, op.query)
        .point(shaders::kCpuAttentionKeyAddress, op.key)
        .point(shaders::kCpuAttentionValueAddress, op.value);
}

Result<DispatchPlan> plan_queries(const graph::Attention& op, const KernelContext& context) {
    const AttentionSizes sizes = sizes_of(op, context.graph);
    const ShaderFamily& family =
        family_for_keys(context.graph.dtype(op.key), modules::cpu_attention_queries, modules::cpu_attention_queries_q8);
    const std::uint64_t groups = sizes.batch * sizes.kv_heads * ceil_div(sizes.rows(), shaders::kCpuAttentionWorkgroup);
    VKFORMER_TRY(Dispatch dispatch, dispatch_attention(op, {&family, storage_of(op, context)}, groups, context));
    dispatch.set(shaders::kWorkgroupConstant, shaders::kCpuAttentionWorkgroup);
    set_dims(dispatch, sizes.head_dim, sizes.value_dim);
    return DispatchPlan(std::move(dispatch));
}

template <Loads kLoads>
Result<DispatchPlan> plan_keys(const graph::Attention& op, const KernelContext& context) {
    const AttentionSizes sizes = sizes_of(op, context.graph);
    const std::uint32_t rows = rows_of_workgroup(sizes.rows(), sizes.value_dim, kLoads);
    const ShaderFamily& family =
        kLoads == Loads::vectors ? modules::cpu_attention_keys_vectors : modules::cpu_attention_keys;
    const std::uint64_t groups = sizes.batch * sizes.kv_heads * ceil_div(sizes.rows(), rows);
    VKFORMER_TRY(Dispatch dispatch, dispatch_attention(op, {&family, storage_of(op, context)}, groups, context));
    dispatch.set(shaders::kWorkgroupConstant, shaders::kCpuLanes).set(shaders::kCpuAttentionRows, rows);
    set_dims(dispatch, sizes.head_dim, sizes.value_dim);
    if (kLoads == Loads::vectors) point_at_operands(dispatch, op);
    return DispatchPlan(std::move(dispatch));
}

Result<DispatchPlan> plan_decode_heads(const graph::DecodeAttention& op, const KernelContext& context) {
    const DecodeSizes sizes = sizes_of(op, context.graph);
    const ShaderFamily& family = family_for_keys(context.graph.dtype(op.key), modules::cpu_decode_attention_heads,
                                                 modules::cpu_decode_attention_heads_q8);
    const std::uint64_t groups =
        sizes.kv_heads * ceil_div(sizes.heads / sizes.kv_heads, shaders::kCpuAttentionWorkgroup);
    VKFORMER_TRY(Dispatch dispatch, dispatch_decode_attention(op, {&family, storage_of(op, context)}, groups, context));
    dispatch.set(shaders::kWorkgroupConstant, shaders::kCpuAttentionWorkgroup);
    set_dims(dispatch, sizes.head_dim, sizes.value_dim);
    return plan_packed(op.mask.key_lengths, op.mask.starts, std::move(dispatch), context);
}

template <Loads kLoads>
Result<DispatchPlan> plan_decode_keys(const graph::DecodeAttention& op, const KernelContext& context) {
    const DecodeSizes sizes = sizes_of(op, context.graph);
    const std::uint64_t heads = sizes.heads / sizes.kv_heads;
    const std::uint32_t rows = rows_of_workgroup(heads, sizes.value_dim, kLoads);
    const ShaderFamily& family =
        kLoads == Loads::vectors ? modules::cpu_decode_attention_keys_vectors : modules::cpu_decode_attention_keys;
    VKFORMER_TRY(Dispatch dispatch, dispatch_decode_attention(op, {&family, storage_of(op, context)},
                                                              sizes.kv_heads * ceil_div(heads, rows), context));
    dispatch.set(shaders::kWorkgroupConstant, shaders::kCpuLanes).set(shaders::kCpuAttentionRows, rows);
    set_dims(dispatch, sizes.head_dim, sizes.value_dim);
    if (kLoads == Loads::vectors) point_at_operands(dispatch, op);
    return plan_packed(op.mask.key_lengths, op.mask.starts, std::move(dispatch), context);
}

/// Whether `fits` takes an op's rows and keys.
template <class Op, auto kFits>
bool fits_rows(const Op& op, const KernelContext& context) {
    const auto sizes = sizes_of(op, context.graph);
    if constexpr (std::is_invocable_v<decltype(kFits), std::uint64_t, std::uint64_t>)
        return kFits(sizes.head_dim, sizes.value_dim);
    else
        return kFits(sizes.head_dim, sizes.value_dim, context.graph.dtype(op.key), context.device);
}

// Edges: batch x queries x keys x heads x kv_heads x head_dim x value_dim. A row is a query of one of the heads that share a key head.
constexpr std::uint32_t kRows = shaders::kCpuAttentionWorkgroup, kKeys = shaders::kCpuAttentionKeys;
constexpr Edge kKeysEdges[] = {{2, 1, kKeys - 1, 1, 1, 8, 16},
                               {1, 3, kKeys, 2, 1, 16, 8},
                               {2, 7, kKeys + 1, 6, 3, 24, 40},
                               {1, 67, 2 * kKeys + 1, 1, 1, 8, 8}};
constexpr Edge kQueriesEdges[] = {
    {1, 1, 1, 1, 1, 4, 4}, {2, kRows - 1, 31, 1, 1, 12, 8}, {1, kRows, 33, 2, 2, 8, 12}, {1, 3, 40, 9, 3, 16, 20}};
// Of decode_attention: batch x keys x heads x kv_heads x head_dim x value_dim x split_keys.
constexpr Edge kDecodeKeysEdges[] = {{2, kKeys - 1, 1, 1, 8, 16, 16},
                                     {1, kKeys, 2, 1, 16, 8, kKeys},
                                     {2, 3 * kKeys + 1, 6, 2, 24, 40, kKeys},
                                     {1, 300, 9, 1, 8, 8, 100}};
constexpr Edge kHeadsEdges[] = {
    {1, 1, 1, 1, 4, 4, 1}, {2, 33, kRows, 1, 12, 8, 32}, {1, 70, kRows + 1, 1, 8, 12, 32}, {2, 65, 6, 3, 16, 20, 40}};

}  // namespace

std::span<const Kernel<graph::Attention>> kernels(const graph::Attention&) {
    using Op = graph::Attention;
    static constexpr Kernel<Op> kKernels[] = {
        {.traits = {.name = "cpu_keys", .edges = kKeysEdges, .device = DeviceClass::cpu},
         .fits = fits_rows<Op, fits_keys>,
         .plan = plan_keys<Loads::shuffled>},
        {.traits = {.name = "cpu_keys_vectors",
                    .edges = kKeysEdges,
                    .device = DeviceClass::cpu,
                    .needs = needs(ShaderRequirement::addresses)},
         .fits = fits_rows<Op, fits_keys_vectors>,
         .plan = plan_keys<Loads::vectors>},
        {.traits = {.name = "cpu_queries", .edges = kQueriesEdges, .device = DeviceClass::cpu},
         .fits = fits_rows<Op, fits_queries>,
         .plan = plan_queries},
    };
    return kKernels;
}

std::span<const Kernel<graph::DecodeAttention>> kernels(const graph::DecodeAttention&) {
    using Op = graph::DecodeAttention;
    static constexpr Kernel<Op> kKernels[] = {
        {.traits = {.name = "cpu_keys", .edges = kDecodeKeysEdges, .device = DeviceClass::cpu},
         .fits = fits_rows<Op, fits_keys>,
         .plan = plan_decode_keys<Loads::shuffled>},
        {.traits = {.name = "cpu_keys_vectors",
                    .edges = kDecodeKeysEdges,
                    .device = DeviceClass::cpu,
                    .needs = needs(ShaderRequirement::addresses)},
         .fits = fits_rows<Op, fits_keys_vectors>,
         .plan = plan_decode_keys<Loads::vectors>},
        {.traits = {.name = "cpu_heads", .edges = kHeadsEdges, .device = DeviceClass::cpu},
         .fits = fits_rows<Op, fits_queries>,
         .plan = plan_decode_heads},
    };
    return kKernels;
}

std::uint64_t unrolled_elements(const graph::Attention& op, const KernelContext& context) {
    return sizes_of(op, context.graph).longest_row();
}

std::uint64_t unrolled_elements(const graph::DecodeAttention& op, const KernelContext& context) {
    const DecodeSizes sizes = sizes_of(op, context.graph);
    return std::max(sizes.head_dim, sizes.value_dim);
}

}  // namespace vkformer::vulkan::cpu_devices
