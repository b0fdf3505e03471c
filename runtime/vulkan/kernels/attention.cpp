// SPDX-License-Identifier: MIT
#include "interface/attention.h"
#include "interface/wide.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/try.hpp"
#include "vulkan/kernels/attention.hpp"
#include "vulkan/kernels/attention_mask.hpp"
#include "vulkan/kernels/half_matrix.hpp"
#include "vulkan/kernels/kernels.hpp"
#include "vulkan/shader_table.h"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::AttentionPush) == 52);

namespace {

/// The sizes that a variant cuts into workgroups.
struct Sizes {
    std::uint64_t batch, query_len, heads, kv_heads, head_dim, value_dim;
};

/// A variant's shader, its specialization constants without the mask, and its workgroups.
struct Tiling {
    std::string_view shader;
    std::uint32_t workgroup;
    std::uint64_t first_constant, second_constant;
    std::uint64_t groups;
    std::vector<std::uint32_t> more_constants{};  ///< behind the mask
};

Tiling direct_tiling(const Sizes& sizes) {
    const std::uint64_t rows = sizes.query_len * (sizes.heads / sizes.kv_heads);
    return {"attention_direct", shaders::kAttentionDirectWorkgroup, sizes.head_dim, sizes.value_dim,
            sizes.batch * sizes.kv_heads * ceil_div(rows, shaders::kAttentionDirectWorkgroup)};
}

Tiling broadcast_tiling(std::string_view variant, const Sizes& sizes) {
    const std::uint64_t rows = sizes.query_len * (sizes.heads / sizes.kv_heads);
    const std::uint32_t tile = attention_broadcast_rows(rows, sizes.value_dim, variant == "vectors");
    return {variant == "vectors" ? "attention_vectors" : "attention_broadcast",
            shaders::kBroadcastLanes,
            sizes.head_dim,
            sizes.value_dim,
            sizes.batch * sizes.kv_heads * ceil_div(rows, tile),
            {tile}};
}

Tiling plain_tiling(const Sizes& sizes) {
    // More queries per tile read the keys less often; rows of a tile without a query are wasted.
    const std::uint64_t query_steps = sizes.query_len <= shaders::kAttentionLaneRows ? 1
                                      : sizes.query_len <= 2 * shaders::kAttentionLaneRows || sizes.value_dim <= 128
                                          ? 2
                                          : 4;
    const std::uint64_t tiles = ceil_div(sizes.query_len, shaders::kAttentionLaneRows * query_steps);
    return {"attention", shaders::kAttentionWorkgroup, query_steps, ceil_div(sizes.value_dim, shaders::kAttentionTile),
            sizes.batch * sizes.heads * tiles};
}

/// attention_quads.comp: its rows of queries, as many as the workgroup has at a time.
constexpr std::uint32_t kQuadsRows = shaders::kAttentionWorkgroup / (shaders::kAttentionTile / 4);

Tiling quads_tiling(const Sizes& sizes) {
    // Two queries per invocation halve what is read of keys and values. With rows of 65 to 128 elements Apple's compiler spills then
    // (it schedules longer rows otherwise), and RADV, by its estimate, gains nothing.
    const bool is_spilling = sizes.value_dim > 64 && sizes.value_dim <= 128;
    const std::uint64_t steps = sizes.query_len <= kQuadsRows || is_spilling ? 1 : 2;
    return {"attention_quads", shaders::kAttentionWorkgroup, steps, ceil_div(sizes.value_dim, shaders::kAttentionTile),
            sizes.batch * sizes.heads * ceil_div(sizes.query_len, kQuadsRows * steps)};
}

/// Half of the workgroup would have no query of a short batch.
bool quads_fit(const Sizes& sizes, DType dtype, const Capabilities& device) {
    return sizes.query_len > kQuadsRows / 2 && rows_are_quads(sizes.head_dim, sizes.value_dim, dtype, device);
}

std::uint64_t round_up(std::uint64_t size, std::uint64_t multiple) { return ceil_div(size, multiple) * multiple; }

constexpr std::string_view kMatrix2Shader = "attention_coopmat2";
/// The variants on cooperative matrices, and their shaders.
constexpr std::pair<std::string_view, std::string_view> kMatrixVariants[] = {{"coopmat", "attention_coopmat"},
                                                                             {"coopmat2", kMatrix2Shader}};

/// How attention_coopmat.comp or attention_coopmat2.comp is cut.
struct MatrixTiling {
    std::string_view shader;
    CooperativeMatrix matrix;
    std::uint32_t subgroups;  ///< that multiply
    std::uint32_t tile_keys;

    std::uint64_t rows() const { return std::uint64_t{matrix.m} * subgroups; }
    /// At least that many subgroups, whatever size the driver gives them, and at least one invocation per row.
    std::uint32_t workgroup(const Capabilities& device) const {
        return subgroups * std::max({matrix.m, device.subgroup_size, device.max_subgroup_size});
    }
    /// What the shader declares.
    std::uint64_t shared_bytes(const Sizes& sizes) const {
        const std::uint64_t pitch =
            std::max(round_up(sizes.head_dim, matrix.k), round_up(sizes.value_dim, matrix.n)) + 8;
        const std::uint64_t stage = std::max<std::uint64_t>(rows(), tile_keys) * pitch * 2;
        if (shader == kMatrix2Shader) return 2 * stage + rows() * 12 + 4;
        const std::uint64_t scores_and_weights = rows() * ((tile_keys + 4) * 4 + (tile_keys + 8) * 2);
        return stage + scores_and_weights + rows() * matrix.n * 4 + shaders::kMaxWorkgroup * 4 + 4;
    }
};

/// Whether attention_coopmat2.comp runs there: the sums of one product are an operand of the next.
bool takes_matrix2(const CooperativeMatrix& matrix, const Capabilities& device) {
    const CooperativeMatrix2& has = device.cooperative_matrix2_parts;
    return device.cooperative_matrix2 && has.per_element_operations && has.reductions && has.conversions &&
           matrix.n == matrix.k;
}

/// The largest tiling of the rows that the device has memory for, or none.
std::optional<MatrixTiling> matrix_tiling(std::string_view shader, const Sizes& sizes, const Capabilities& device) {
    constexpr std::uint32_t kShortTile = 32;  // of keys
    const auto matrix = half_matrix(device, kShortTile, 4);
    const std::uint64_t longest = std::max(sizes.head_dim, sizes.value_dim);
    // Every step of a row is unrolled. lavapipe, with its small matrices, compiles 128 for 20 seconds and 256 for a minute.
    const std::uint64_t limit = device.type == "cpu" ? 128 : shaders::kAttentionMatrixMaxDim;
    if (!matrix || !device.float16 || !device.storage16 || longest > limit) return std::nullopt;
    if (shader == kMatrix2Shader && !takes_matrix2(*matrix, device)) return std::nullopt;
    const std::uint64_t rows = sizes.query_len * (sizes.heads / sizes.kv_heads);
    // 64 keys halve the barriers; with rows longer than 96 elements they would leave room for one workgroup per core only.
    for (std::uint32_t subgroups = rows > 2 * matrix->m ? 4 : rows > matrix->m ? 2 : 1; subgroups > 0; subgroups /= 2)
        for (const std::uint32_t tile_keys : {longest > 96 ? 32u : 64u, 32u}) {
            const MatrixTiling tiling{shader, *matrix, subgroups, tile_keys};
            const std::uint32_t workgroup = tiling.workgroup(device);
            if (tiling.shared_bytes(sizes) <= device.max_shared_memory_bytes && workgroup <= shaders::kMaxWorkgroup &&
                workgroup <= device.max_workgroup_invocations)
                return tiling;
        }
    return std::nullopt;
}

Tiling coopmat_tiling(const Sizes& sizes, const MatrixTiling& tiling, const Capabilities& device) {
    const std::uint64_t rows = sizes.query_len * (sizes.heads / sizes.kv_heads);
    const CooperativeMatrix& matrix = tiling.matrix;
    return {tiling.shader,
            tiling.workgroup(device),
            sizes.head_dim,
            sizes.value_dim,
            sizes.batch * sizes.kv_heads * ceil_div(rows, tiling.rows()),
            {matrix.m, matrix.n, matrix.k, tiling.subgroups, tiling.tile_keys}};
}

Tiling tiling_of(std::string_view variant, const Sizes& sizes, const Capabilities& device) {
    if (variant == "direct") return direct_tiling(sizes);
    if (variant == "broadcast" || variant == "vectors") return broadcast_tiling(variant, sizes);
    if (variant == "quads") return quads_tiling(sizes);
    for (const auto& [name, shader] : kMatrixVariants)
        if (variant == name) return coopmat_tiling(sizes, *matrix_tiling(shader, sizes, device), device);
    return plain_tiling(sizes);
}

Sizes sizes_of(const graph::Attention& op, const graph::Graph& graph) {
    const Shape& query = graph.shape(op.query);
    return {query[0], query[1], query[2], graph.shape(op.key)[2], query[3], graph.shape(op.value)[3]};
}

}  // namespace

bool direct_attention_fits(std::uint64_t head_dim, std::uint64_t value_dim, const Capabilities& device) {
    const auto fits = [](std::uint64_t dim) { return dim % 4 == 0 && dim <= shaders::kAttentionDirectMaxDim; };
    return device.type == "cpu" && fits(head_dim) && fits(value_dim);
}

bool broadcast_attention_fits(std::uint64_t head_dim, std::uint64_t value_dim, DType keys, const Capabilities& device) {
    return direct_attention_fits(head_dim, value_dim, device) && head_dim % shaders::kAttentionBroadcastDepth == 0 &&
           has_broadcast_lanes(device) && keys != DType::q8_0;
}

bool vector_attention_fits(std::uint64_t head_dim, std::uint64_t value_dim, DType keys, const Capabilities& device) {
    const std::uint64_t vector = shaders::kBroadcastLanes * (keys == DType::f16 ? 2 : 1);
    return broadcast_attention_fits(head_dim, value_dim, keys, device) && device.buffer_addresses &&
           (keys == DType::f32 || device.storage16) && head_dim % vector == 0 && value_dim % vector == 0 &&
           std::max(head_dim, value_dim) <= shaders::kAttentionVectorsMaxDim;
}

std::uint32_t attention_broadcast_rows(std::uint64_t rows, std::uint64_t value_dim, bool by_vectors) {
    if (rows <= 4) return static_cast<std::uint32_t>(rows);
    // The sums of so many rows are unrolled for every element of a value.
    const bool are_many = rows > shaders::kAttentionFewRows;
    const std::uint64_t most = value_dim > 128 || !are_many ? 8 : by_vectors || value_dim > 64 ? 16 : 24;
    return static_cast<std::uint32_t>(std::min(most, round_up(rows, 4)));
}

bool rows_are_quads(std::uint64_t head_dim, std::uint64_t value_dim, DType dtype, const Capabilities& device) {
    if (head_dim % 4 != 0 || value_dim % 4 != 0 || (dtype == DType::f16 && !device.storage16)) return false;
    // Devices that are CPUs have better ones, and compile these for many seconds: there they are for small rows, and tests.
    constexpr std::uint64_t kMostOnCpu = 32;
    return device.type != "cpu" || std::max(head_dim, value_dim) <= kMostOnCpu;
}

std::string shader_for_keys(std::string_view shader, DType keys) {
    return std::string(shader) + (keys == DType::q8_0 ? "_q8" : "");
}

VariantNames variants(const graph::Attention& op, const KernelContext& context) {
    const Sizes sizes = sizes_of(op, context.graph);
    const DType keys = context.graph.dtype(op.key);
    VariantNames names;
    if (direct_attention_fits(sizes.head_dim, sizes.value_dim, context.device)) {
        if (broadcast_attention_fits(sizes.head_dim, sizes.value_dim, keys, context.device))
            names.push_back("broadcast");
        if (vector_attention_fits(sizes.head_dim, sizes.value_dim, keys, context.device)) names.push_back("vectors");
        names.push_back("direct");
    }
    if (quads_fit(sizes, context.graph.dtype(op.query), context.device)) names.push_back("quads");
    names.push_back("plain");
    // float32 operands would be rounded to float16: not what a float32 model asked for.
    if (context.graph.dtype(op.query) == DType::f16)
        for (const auto& [name, shader] : kMatrixVariants)
            if (matrix_tiling(shader, sizes, context.device) && is_built(shader_for_keys(shader, keys) + "_f16"))
                names.push_back(name);
    return names;
}

Result<Dispatch> plan_dispatch(const graph::Attention& op, const KernelContext& context) {
    const Sizes sizes = sizes_of(op, context.graph);
    VKFORMER_TRY(const std::string_view variant, chosen_variant(op, context));
    const Tiling tiling = tiling_of(variant, sizes, context.device);
    VKFORMER_TRY(const auto groups, folded_grid(tiling.groups, context.device));
    Dispatch dispatch{
        .shader = variant_for(shader_for_keys(tiling.shader, context.graph.dtype(op.key)),
                              context.graph.dtype(op.query), context.device),
        .bindings = {op.query, op.key, op.value, or_else(op.mask.key_lengths, op.query),
                     or_else(op.mask.starts, op.query), or_else(op.mask.additive, op.query), op.y},
        .constants = {tiling.workgroup, static_cast<std::uint32_t>(tiling.first_constant),
                      static_cast<std::uint32_t>(tiling.second_constant),
                      mask_bits(op.mask) | (op.soft_cap == 0 ? 0 : shaders::kScoreSoftCap)},
        .groups = groups,
    };
    dispatch.constants.insert(dispatch.constants.end(), tiling.more_constants.begin(), tiling.more_constants.end());
    dispatch.push.set(shaders::AttentionPush{
        .batch = static_cast<std::uint32_t>(sizes.batch),
        .query_len = static_cast<std::uint32_t>(sizes.query_len),
        .heads = static_cast<std::uint32_t>(sizes.heads),
        .kv_heads = static_cast<std::uint32_t>(sizes.kv_heads),
        .head_dim = static_cast<std::uint32_t>(sizes.head_dim),
        .value_dim = static_cast<std::uint32_t>(sizes.value_dim),
        .scale = op.scale,
        .soft_cap = op.soft_cap,
        .mask = mask_push(op.mask, context.graph.shape(op.key)[1], context.graph),
    });
    if (variant == "vectors")
        dispatch.addressed = {{op.query, shaders::kAttentionQueryAddress},
                              {op.key, shaders::kAttentionKeyAddress},
                              {op.value, shaders::kAttentionValueAddress}};
    return dispatch;
}

}  // namespace vkformer::vulkan
