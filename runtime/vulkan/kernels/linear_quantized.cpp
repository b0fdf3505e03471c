// SPDX-License-Identifier: MIT
#include "vulkan/kernels/linear_quantized.hpp"

#include <algorithm>
#include <optional>

#include "core/try.hpp"
#include "interface/halve_rows.h"
#include "interface/linear_quantized.h"
#include "vulkan/kernels/linear_matrices.hpp"
#include "vulkan/kernels/linear_split.hpp"
#include "vulkan/kernels/weight_format.hpp"

namespace vkformer::vulkan {
namespace {

/// How a variant cuts y: its shader, its workgroup, and the rows and columns that a workgroup computes.
struct Tiling {
    std::string_view shader;
    std::uint32_t workgroup;
    std::uint64_t rows, columns;
    std::uint32_t splits = 0;  ///< parts of the depth; 0: the shader knows of none
};

Tiling tiling_of(std::string_view variant, std::uint64_t rows, bool gated) {
    const std::uint64_t few_rows = std::min<std::uint64_t>(rows, shaders::kLinearMaxRows);
    // Many columns for one row: what is done to x serves all of them, and more loads are in flight.
    const std::uint64_t row_columns = columns_of_row_workgroup(few_rows, gated);
    constexpr std::uint32_t kDirectWorkgroup = 8;  // as that of linear_direct
    if (variant == "direct")
        return {"linear_quantized_direct", kDirectWorkgroup, few_rows,
                kDirectWorkgroup * shaders::kQuantizedDirectColumns};
    if (variant == "broadcast")
        return {"linear_quantized_broadcast", shaders::kBroadcastLanes, shaders::kQuantizedBroadcastRows,
                std::uint64_t{shaders::kBroadcastLanes} *
                    (gated ? shaders::kQuantizedBroadcastGatedColumns : shaders::kQuantizedBroadcastColumns)};
    if (variant == "vectors")
        return {"linear_quantized_vectors", shaders::kBroadcastLanes, broadcast_rows(rows),
                shaders::kBroadcastLanes * shaders::kBroadcastColumns};
    if (variant == "depth")
        return {"linear_quantized_depth", shaders::kBroadcastLanes, few_rows, shaders::kLinearDepthColumns};
    if (variant == "row") return {"linear_quantized_row", shaders::kQuantizedRowWorkgroup, few_rows, row_columns, 1};
    if (variant == "row_int8")
        return {"linear_quantized_row_int8", shaders::kQuantizedRowWorkgroup, few_rows, row_columns};
    const bool int8 = variant == "int8";
    return {int8 ? "linear_quantized_int8" : "linear_quantized", shaders::kQuantizedTileWorkgroup,
            shaders::kQuantizedTileRows, shaders::kQuantizedTileColumns, int8 ? 0u : 1u};
}

bool has_few_rows(const graph::Linear& op, const graph::Graph& graph) {
    return graph.shape(op.x).row_count() <= shaders::kLinearMaxRows;
}

/// `row` or `plain` with the depth in parts, or nothing where parts_of_depth says so.
std::optional<Tiling> split_tiling(const graph::Linear& op, const KernelContext& context) {
    const bool few_rows = has_few_rows(op, context.graph);
    Tiling tiling = tiling_of(few_rows ? "row" : "plain", context.graph.shape(op.x).row_count(), op.gated);
    // The invocations of `row` take sixteen elements at a time: 1024.
    const std::uint64_t least_depth = few_rows ? shaders::kQuantizedRowWorkgroup * 16 : 256;
    tiling.splits =
        parts_of_depth(op, {.rows = tiling.rows, .columns = tiling.columns, .least_depth = least_depth}, context);
    if (tiling.splits == 0) return std::nullopt;
    return tiling;
}

/// Whether linear_quantized_depth.comp takes x and weight.
bool takes_depth(const graph::Linear& op, const KernelContext& context) {
    if (context.graph.shape(op.x).row_count() > shaders::kLinearDepthMaxRows) return false;
    const Capabilities& device = context.device;
    const DType format = context.graph.dtype(op.weight);
    return (format == DType::q8_0 || format == DType::q4_0) && context.graph.dtype(op.x) == DType::f32 &&
           context.graph.shape(op.x).back() % shaders::kQuantizedDepth == 0 && has_broadcast_lanes(device) &&
           device.buffer_addresses;
}

/// Whether linear_coopmat.comp takes x and weight, where the device has such matrices. With float32 activations only what 8 bits of them
/// would be good enough for; weights of 16 bits promise the accuracy of float32 there.
bool takes_matrices(const graph::Linear& op, const graph::Graph& graph) {
    return !has_few_rows(op, graph) && (graph.dtype(op.x) == DType::f16 || is_quantized(graph.dtype(op.weight)));
}

bool is_of_matrices(std::string_view variant) { return variant.starts_with("coopmat"); }

constexpr std::string_view kMatrixSplit = "coopmat_split";  // coopmat_small with the depth in parts

/// Parts of the depth for kMatrixSplit, or 0.
std::uint32_t matrix_parts(const graph::Linear& op, const KernelContext& context) {
    const auto matrices = linear_matrices("coopmat_small", context.device);
    if (!matrices || !takes_matrices(op, context.graph)) return 0;
    constexpr std::uint64_t kLeastDepth = 256;
    return parts_of_depth(op, {.rows = matrices->rows, .columns = matrices->columns, .least_depth = kLeastDepth},
                          context);
}

/// Of float32 x as halves, and its scales.
std::uint64_t halves_bytes(const Shape& x) { return x.element_count() * 2 + x.row_count() * sizeof(float); }

/// Float32 x as halves in the scratch memory, the scales of the rows behind them; `then` multiplies these.
Result<Dispatch> halve_rows_before(Dispatch then, const graph::Linear& op, const KernelContext& context) {
    const Shape& x = context.graph.shape(op.x);
    const std::uint64_t rows = x.row_count(), width = x.back();
    VKFORMER_TRY(const auto groups, folded_grid(rows, context.device));
    Dispatch halve{
        .shader = "halve_rows",
        .bindings = {op.x, kScratch, kScratch},
        .constants = {shaders::kHalveRowsWorkgroup},
        .groups = groups,
        .scratch_bytes = halves_bytes(x) + then.scratch_bytes,
    };
    halve.push.set(
        shaders::HalveRowsPush{.rows = static_cast<std::uint32_t>(rows), .width = static_cast<std::uint32_t>(width)});
    halve.then = std::make_shared<const Dispatch>(std::move(then));
    return halve;
}

Result<Dispatch> plan_matrices(std::string_view variant, const graph::Linear& op, const KernelContext& context) {
    const std::uint64_t rows = context.graph.shape(op.x).row_count(), in_width = context.graph.shape(op.x).back();
    const std::uint64_t out_width = context.graph.shape(op.weight)[0];
    const DType dtype = context.graph.dtype(op.x);
    const bool is_split = variant == kMatrixSplit;
    const std::uint32_t splits = is_split ? matrix_parts(op, context) : 1;
    const LinearMatrices matrices = *linear_matrices(is_split ? "coopmat_small" : variant, context.device);
    VKFORMER_TRY(
        const auto groups,
        folded_grid(ceil_div(rows, matrices.rows) * ceil_div(out_width, matrices.columns) * splits, context.device));
    const auto& [m, n, k, steps, row_grid] = matrices.constants;
    Dispatch dispatch{
        .shader = variant_for(matrices.per_element ? "linear_quantized_coopmat2" : "linear_quantized_coopmat", dtype,
                              context.device),
        .bindings = {op.x, op.weight, or_else(op.bias, op.weight), or_else(op.residual, op.y), op.y, op.y},
        .constants = {matrices.workgroup, op.bias ? 1u : 0u, end_of(op), static_cast<std::uint32_t>(op.activation),
                      matrices.rows, splits, m, n, k, steps, row_grid, weight_format(context.graph.dtype(op.weight))},
        .groups = groups,
    };
    if (context.graph.dtype(op.y) != dtype) dispatch.shader += "_to_f32";
    dispatch.push.set(shaders::LinearPush{
        .rows = static_cast<std::uint32_t>(rows),
        .in_width = static_cast<std::uint32_t>(in_width),
        .out_width = static_cast<std::uint32_t>(out_width),
        .partial_before =
            dtype == DType::f16 ? 0 : static_cast<std::uint32_t>(halves_bytes(context.graph.shape(op.x)) / 4),
    });
    if (is_split) VKFORMER_CHECK(combine_parts(dispatch, splits, op, context));
    if (dtype == DType::f16) return dispatch;
    dispatch.bindings[shaders::kLinearX] = kScratch;
    dispatch.bindings.push_back(kScratch);
    return halve_rows_before(std::move(dispatch), op, context);
}

/// Of a workgroup.
std::uint64_t staged_bytes(const graph::Linear& op, const graph::Graph& graph) {
    return graph.shape(op.x).element_count() * sizeof(float);
}

/// Workgroups that stage rows: so many that their memory stays small.
std::uint32_t most_staging(const graph::Linear& op, const graph::Graph& graph) {
    constexpr std::uint64_t kMostBytes = 4 << 20;
    return static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(kMostBytes / staged_bytes(op, graph), 1, taking_workgroups(~std::uint64_t{0})[0]));
}

}  // namespace

void stage_rows(Dispatch& dispatch, const graph::Linear& op, const graph::Graph& graph) {
    dispatch.groups[0] = std::min(dispatch.groups[0], most_staging(op, graph));
    dispatch.addressed.push_back({kScratch, shaders::kLinearStagedAddress});
    dispatch.scratch_bytes = dispatch.groups[0] * staged_bytes(op, graph);
}

static_assert(sizeof(shaders::LinearPush) <= shaders::kLinearXAddress);

std::uint32_t end_of(const graph::Linear& op) {
    if (op.gated) return shaders::kLinearEndGate;
    return op.residual ? shaders::kLinearEndResidual : shaders::kLinearEndNone;
}

std::uint32_t operands_of(const graph::Linear& op) {
    return (op.bias ? shaders::kLinearBiasBit : 0) | (op.normed ? shaders::kLinearNormBit : 0) |
           (op.norm_gain ? shaders::kLinearGainBit : 0);
}

graph::Value residual_or_gain(const graph::Linear& op) { return or_else(op.normed ? op.norm_gain : op.residual, op.y); }

std::vector<Dispatch::Addressed> addresses_for(std::string_view variant, const graph::Linear& op) {
    if (variant != "vectors" && variant != "depth") return {};
    return {{op.x, shaders::kLinearXAddress},
            {op.weight, shaders::kLinearWeightAddress},
            {or_else(op.norm_gain, op.weight), shaders::kLinearGainAddress}};
}

void take_tiles(Dispatch& dispatch) {
    dispatch.bindings.push_back(kTaken);
    dispatch.groups = taking_workgroups(dispatch.groups[0] * std::uint64_t{dispatch.groups[1]});
}

std::uint64_t columns_of_row_workgroup(std::uint64_t rows, bool gated) {
    const std::uint64_t columns =
        std::min<std::uint64_t>(shaders::kQuantizedRowMaxSums / rows, shaders::kQuantizedRowMaxColumns);
    return gated ? columns / 2 * 2 : columns;
}

std::uint32_t broadcast_rows(std::uint64_t rows) {
    // Half the rows where that leaves a quarter fewer of them empty.
    constexpr std::uint32_t kMost = shaders::kBroadcastMaxRows, kHalf = kMost / 2;
    return 4 * ceil_div(rows, kMost) * kMost > 5 * ceil_div(rows, kHalf) * kHalf ? kHalf : kMost;
}

VariantNames linear_quantized_variants(const graph::Linear& op, const KernelContext& context) {
    const bool few_rows = has_few_rows(op, context.graph);
    const bool has_dot = context.device.integer_dot && is_quantized(context.graph.dtype(op.weight));
    VariantNames names;
    if (!few_rows && has_broadcast_lanes(context.device)) names.push_back("broadcast");
    if (!few_rows && has_broadcast_lanes(context.device) && context.device.buffer_addresses) names.push_back("vectors");
    if (context.device.type == "cpu") names.push_back("direct");
    if (takes_depth(op, context)) names.push_back("depth");
    if (few_rows) names.push_back("row");
    names.push_back("plain");
    if (has_dot && few_rows) names.push_back("row_int8");
    if (has_dot) names.push_back("int8");
    if (takes_matrices(op, context.graph))
        for (const std::string_view name : matrix_variants(context.graph.shape(op.x).row_count(), context.device))
            names.push_back(name);
    if (matrix_parts(op, context) > 0)
        names.push_back(kMatrixSplit);
    else if (split_tiling(op, context))
        names.push_back("split");
    return names;
}

Result<Dispatch> plan_linear_quantized(const graph::Linear& op, const KernelContext& context) {
    const Shape& x = context.graph.shape(op.x);
    const std::uint64_t out_width = context.graph.shape(op.weight)[0];
    const DType dtype = context.graph.dtype(op.x);
    VKFORMER_TRY(const std::string_view variant,
                 pick_variant(graph::Linear::kName, linear_quantized_variants(op, context), context.variant));
    if (is_of_matrices(variant)) return plan_matrices(variant, op, context);
    const Tiling tiling = variant == "split" ? *split_tiling(op, context) : tiling_of(variant, x.row_count(), op.gated);
    const std::uint64_t splits = std::max(tiling.splits, 1u);
    VKFORMER_TRY(const auto groups,
                 folded_grid(ceil_div(x.row_count(), tiling.rows) * ceil_div(out_width, tiling.columns) * splits,
                             context.device));
    Dispatch dispatch{
        .shader = variant == "direct" ? wide_variant_for(tiling.shader, dtype, context.device)
                                      : variant_for(tiling.shader, dtype, context.device),
        .bindings = {op.x, op.weight, or_else(op.bias, op.weight), residual_or_gain(op), op.y},
        .constants = {tiling.workgroup, operands_of(op), end_of(op), static_cast<std::uint32_t>(op.activation),
                      static_cast<std::uint32_t>(tiling.rows), weight_format(context.graph.dtype(op.weight)),
                      static_cast<std::uint32_t>(tiling.columns)},
        .groups = groups,
    };
    if (context.graph.dtype(op.y) != dtype) dispatch.shader += "_to_f32";
    dispatch.push.set(shaders::LinearPush{
        .rows = static_cast<std::uint32_t>(x.row_count()),
        .in_width = static_cast<std::uint32_t>(x.back()),
        .out_width = static_cast<std::uint32_t>(out_width),
        .norm_eps = op.norm_eps,
        .norm_gain_offset = op.norm_gain_offset,
    });
    dispatch.addressed = addresses_for(variant, op);
    if (tiling.splits > 0) {
        dispatch.constants.push_back(tiling.splits);
        dispatch.bindings.push_back(op.y);
    }
    if (splits > 1) VKFORMER_CHECK(combine_parts(dispatch, tiling.splits, op, context));
    if (variant == "depth") {
        take_tiles(dispatch);
        stage_rows(dispatch, op, context.graph);
    }
    return dispatch;
}

}  // namespace vkformer::vulkan
