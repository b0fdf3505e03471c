// SPDX-License-Identifier: MIT
#include "vulkan/kernels/attention/attention.hpp"

#include "attention/contract.h"
#include "core/try.hpp"
#include "vulkan/kernels/attention/mask.hpp"
#include "vulkan/kernels/attention/matrices.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::AttentionPush) == 56);

AttentionSizes sizes_of(const graph::Attention& op, const graph::Graph& graph) {
    const Shape& query = graph.shape(op.query);
    return {query[0], query[1], query[2], graph.shape(op.key)[2], query[3], graph.shape(op.value)[3]};
}

const ShaderFamily& family_for_keys(DType keys, const ShaderFamily& floats, const ShaderFamily& blocks) {
    return keys == DType::q8_0 ? blocks : floats;
}

bool are_vec4_rows(std::uint64_t head_dim, std::uint64_t value_dim, DType dtype, const Capabilities& device) {
    return head_dim % 4 == 0 && value_dim % 4 == 0 && (dtype != DType::f16 || device.storage16);
}

Result<Dispatch> dispatch_attention(const graph::Attention& op, Module module, std::uint64_t groups,
                                    const KernelContext& context) {
    const AttentionSizes sizes = sizes_of(op, context.graph);
    VKFORMER_TRY(const auto grid, folded_grid(groups, context.device));
    Dispatch dispatch{.module = module, .groups = grid};
    dispatch.bind(shaders::kAttentionQuery, op.query)
        .bind(shaders::kAttentionKey, op.key)
        .bind(shaders::kAttentionValue, op.value)
        .bind(shaders::kAttentionKeyLengths, or_else(op.mask.key_lengths, op.query))
        .bind(shaders::kAttentionStarts, or_else(op.mask.starts, op.query))
        .bind(shaders::kAttentionAdditive, or_else(op.mask.additive, or_else(op.mask.sinks, op.query)))
        .bind(shaders::kAttentionPages, or_else(op.pages, op.query))
        .bind(shaders::kAttentionY, op.y)
        .set(shaders::kAttentionMask, score_bits(op));
    dispatch.push.set(shaders::AttentionPush{
        .batch = static_cast<std::uint32_t>(sizes.batch),
        .query_len = static_cast<std::uint32_t>(sizes.query_len),
        .heads = static_cast<std::uint32_t>(sizes.heads),
        .kv_heads = static_cast<std::uint32_t>(sizes.kv_heads),
        .head_dim = static_cast<std::uint32_t>(sizes.head_dim),
        .value_dim = static_cast<std::uint32_t>(sizes.value_dim),
        .kv_rows = kv_rows(op, context.graph),
        .scale = op.scale,
        .soft_cap = op.soft_cap,
        .mask = mask_push(op.mask, graph::capacity_of(context.graph, op.key, op.pages), context.graph),
    });
    return dispatch;
}

namespace {

Module module_for(const graph::Attention& op, const KernelContext& context, const ShaderFamily& floats,
                  const ShaderFamily& blocks) {
    return {&family_for_keys(context.graph.dtype(op.key), floats, blocks),
            storage_for(context.graph.dtype(op.query), context.device)};
}

/// attention/tile.comp
Result<DispatchPlan> plan_tile(const graph::Attention& op, const KernelContext& context) {
    const AttentionSizes sizes = sizes_of(op, context.graph);
    // More queries per tile read the keys less often; rows of a tile without a query are wasted, and the sums of long values are many.
    const bool takes_four =
        sizes.query_len > 2 * shaders::kAttentionLaneRows && sizes.value_dim > 128 && sizes.value_dim <= 256;
    const std::uint64_t query_steps = sizes.query_len <= shaders::kAttentionLaneRows ? 1 : takes_four ? 4 : 2;
    const std::uint64_t tiles = ceil_div(sizes.query_len, shaders::kAttentionLaneRows * query_steps);
    const Module module = module_for(op, context, modules::attention_tile, modules::attention_tile_q8);
    VKFORMER_TRY(Dispatch dispatch, dispatch_attention(op, module, sizes.batch * sizes.heads * tiles, context));
    dispatch.set(shaders::kWorkgroupConstant, shaders::kAttentionWorkgroup)
        .set(shaders::kAttentionQuerySteps, query_steps)
        .set(shaders::kAttentionValueTiles, ceil_div(sizes.value_dim, shaders::kAttentionTile));
    return DispatchPlan(std::move(dispatch));
}

/// attention/tile_vec4.comp: rows of queries that the workgroup has at a time.
constexpr std::uint32_t kVec4Rows = shaders::kAttentionWorkgroup / (shaders::kAttentionTile / 4);

bool fits_tile_vec4(const graph::Attention& op, const KernelContext& context) {
    const AttentionSizes sizes = sizes_of(op, context.graph);
    // Half of the workgroup would have no query of a short batch.
    return sizes.query_len > kVec4Rows / 2 &&
           are_vec4_rows(sizes.head_dim, sizes.value_dim, context.graph.dtype(op.query), context.device);
}

Result<DispatchPlan> plan_tile_vec4(const graph::Attention& op, const KernelContext& context) {
    const AttentionSizes sizes = sizes_of(op, context.graph);
    // Two queries per invocation halve what is read of keys and values. With longer rows Apple's compiler spills then, and RADV, by its
    // estimate, gains nothing.
    constexpr std::uint64_t kLongestForTwo = 64;
    const std::uint64_t steps = sizes.query_len <= kVec4Rows || sizes.value_dim > kLongestForTwo ? 1 : 2;
    const Module module = module_for(op, context, modules::attention_tile_vec4, modules::attention_tile_vec4_q8);
    VKFORMER_TRY(Dispatch dispatch,
                 dispatch_attention(op, module,
                                    sizes.batch * sizes.heads * ceil_div(sizes.query_len, kVec4Rows * steps), context));
    dispatch.set(shaders::kWorkgroupConstant, shaders::kAttentionWorkgroup)
        .set(shaders::kAttentionQuerySteps, steps)
        .set(shaders::kAttentionValueTiles, ceil_div(sizes.value_dim, shaders::kAttentionTile));
    return DispatchPlan(std::move(dispatch));
}

// Edges: batch x queries x keys x heads x kv_heads x head_dim x value_dim.
constexpr std::uint32_t kKeyTile = shaders::kAttentionTile, kLaneRows = shaders::kAttentionLaneRows;
constexpr Edge kAttentionTileEdges[] = {{1, 1, 1, 1, 1, 1, 1},
                                        {2, kLaneRows - 1, kKeyTile - 1, 2, 2, kKeyTile - 1, kKeyTile + 1},
                                        {3, kLaneRows, kKeyTile, 2, 1, kKeyTile, kKeyTile},
                                        {2, kLaneRows + 1, kKeyTile + 1, 4, 2, kKeyTile + 1, kKeyTile - 1},
                                        {2, 2 * kLaneRows, 2 * kKeyTile, 2, 2, 5, 64},
                                        {2, 2 * kLaneRows + 1, 2 * kKeyTile + 1, 3, 1, 64, 5},
                                        {1, 4 * kLaneRows - 1, 100, 2, 2, 97, 128},
                                        {2, 4 * kLaneRows + 1, 33, 2, 2, 17, 65},
                                        {1, 40, 40, 1, 1, 256, 254},
                                        {2, 3, 5, 2, 1, 255, 129},
                                        {1, 2 * kLaneRows + 1, 40, 3, 1, 576, 575},
                                        {1, 35, 34, 4, 4, 33, 33}};
constexpr Edge kAttentionTileVec4Edges[] = {{2, kVec4Rows / 2 + 1, kKeyTile - 1, 2, 2, 8, 4},
                                            {1, kVec4Rows - 1, kKeyTile, 3, 1, 64, 64},
                                            {2, kVec4Rows, kKeyTile + 1, 2, 1, 36, 28},
                                            {1, 2 * kVec4Rows + 1, 2 * kKeyTile + 1, 6, 3, 40, 24},
                                            {1, kVec4Rows + 1, 2 * kKeyTile, 2, 2, 100, 112},
                                            {1, 67, 131, 6, 3, 16, 20},
                                            {1, kVec4Rows + 1, 40, 3, 1, 576, 512}};
/// One, two, four and eight matrices of rows, which are the queries of all heads that share a key head, with 32 and 64 keys.
constexpr Edge kAttentionMatrixEdges[] = {
    {1, 5, 70, 9, 3, 64, 64},   {2, 9, 31, 2, 2, 16, 24},    {1, 17, 65, 2, 1, 33, 31},
    {2, 3, 40, 20, 2, 80, 96},  {1, 20, 33, 2, 2, 100, 112}, {1, 67, 131, 1, 1, shaders::kAttentionMatrixMaxDim, 8},
    {2, 70, 68, 48, 48, 16, 24}};

/// float32 operands would be rounded to float16: not what a float32 model asked for.
template <MatrixAttention kAlgorithm>
bool fits_matrices(const graph::Attention& op, const KernelContext& context) {
    return context.graph.dtype(op.query) == DType::f16 &&
           attention_matrices(kAlgorithm, sizes_of(op, context.graph), context.device) &&
           module_for(op, context, family_of(kAlgorithm, false), family_of(kAlgorithm, true)).binary() != nullptr;
}

template <MatrixAttention kAlgorithm>
Result<DispatchPlan> plan_matrices(const graph::Attention& op, const KernelContext& context) {
    const AttentionSizes sizes = sizes_of(op, context.graph);
    const AttentionMatrices matrices = *attention_matrices(kAlgorithm, sizes, context.device);
    const Module module = module_for(op, context, family_of(kAlgorithm, false), family_of(kAlgorithm, true));
    VKFORMER_TRY(Dispatch dispatch,
                 dispatch_attention(op, module, sizes.batch * sizes.kv_heads * ceil_div(sizes.rows(), matrices.rows()),
                                    context));
    dispatch.set(shaders::kWorkgroupConstant, matrices.workgroup)
        .set(shaders::kAttentionMatrixHeadDim, sizes.head_dim)
        .set(shaders::kAttentionMatrixValueDim, sizes.value_dim)
        .set(shaders::kAttentionMatrixM, matrices.matrix.m)
        .set(shaders::kAttentionMatrixN, matrices.matrix.n)
        .set(shaders::kAttentionMatrixK, matrices.matrix.k)
        .set(shaders::kAttentionMatrixSubgroups, matrices.subgroups)
        .set(shaders::kAttentionMatrixTileKeys, matrices.tile_keys);
    return DispatchPlan(std::move(dispatch));
}

}  // namespace

std::span<const Kernel<graph::Attention>> kernels(const graph::Attention&) {
    using enum ShaderRequirement;
    static constexpr Kernel<graph::Attention> kKernels[] = {
        {.traits = {.name = "tile_vec4", .edges = kAttentionTileVec4Edges, .cpu_limit = 32},
         .fits = fits_tile_vec4,
         .plan = plan_tile_vec4},
        {.traits = {.name = "tile", .edges = kAttentionTileEdges, .is_reference = true}, .plan = plan_tile},
        {.traits = {.name = "matrix",
                    .edges = kAttentionMatrixEdges,
                    .needs = needs(storage16, float16, coopmat),
                    .cpu_limit = 128,
                    .is_emulated_on_cpus = true},
         .fits = fits_matrices<MatrixAttention::shared_weights>,
         .plan = plan_matrices<MatrixAttention::shared_weights>},
        {.traits = {.name = "matrix2",
                    .edges = kAttentionMatrixEdges,
                    .needs = needs(storage16, float16, coopmat, coopmat2),
                    .cpu_limit = 128,
                    .is_emulated_on_cpus = true},
         .fits = fits_matrices<MatrixAttention::register_weights>,
         .plan = plan_matrices<MatrixAttention::register_weights>},
    };
    return kKernels;
}

}  // namespace vkformer::vulkan
