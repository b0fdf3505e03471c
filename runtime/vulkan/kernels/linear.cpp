// SPDX-License-Identifier: MIT
#include <algorithm>
#include <optional>

#include "core/try.hpp"
#include "graph/plan.hpp"
#include "graph/weight_dtype.hpp"
#include "interface/linear_quantized.h"
#include "vulkan/kernels/kernels.hpp"
#include "vulkan/kernels/linear_matrices.hpp"
#include "vulkan/kernels/linear_quantized.hpp"
#include "vulkan/kernels/linear_split.hpp"

namespace vkformer::vulkan {
namespace {

/// What the variants are chosen by.
struct Product {
    std::uint64_t batch;                      ///< products
    std::uint64_t rows, in_width, out_width;  ///< of each
    DType dtype;
    bool gated, normed;
    bool has_many_rows() const { return rows > shaders::kLinearMaxRows; }
};

Product product_of(const graph::Linear& op, const graph::Graph& graph) {
    const Shape &weight = graph.shape(op.weight), &y = graph.shape(op.y);
    const std::uint64_t batch = weight.rank() == 3 ? weight[0] : 1;
    return {.batch = batch,
            .rows = y.row_count() / batch,
            .in_width = weight.back(),
            .out_width = weight.row_count() / batch,
            .dtype = graph.dtype(op.x),
            .gated = op.gated,
            .normed = op.normed};
}

/// How a variant cuts y: its shader, its workgroup, and the rows and columns that a workgroup computes.
struct Tiling {
    std::string_view shader;
    std::uint32_t workgroup;
    std::uint64_t rows, columns;
    std::vector<std::uint32_t> more_constants{};  ///< behind those of all
    std::uint32_t splits = 0;                     ///< parts of the depth; 0: the shader knows of none
};

/// linear_quads.comp: rows of an invocation.
std::uint32_t quads_rows(std::string_view variant) { return variant == "quads_large" ? 16 : 8; }

/// Whether the shaders with loads of four (of 16 bytes, for few rows) take x and weight. Devices that are CPUs have better ones and
/// compile these for a second or more: there they are for small widths, and tests.
bool takes_quads(const Product& product, const Capabilities& device) {
    constexpr std::uint64_t kMostOnCpu = 512;
    if (device.type == "cpu" && product.in_width > kMostOnCpu) return false;
    if (product.dtype == DType::f16 && !device.storage16) return false;
    return product.in_width % (product.dtype == DType::f16 && !product.has_many_rows() ? 8 : 4) == 0;
}

/// Of 32 bits, in a row of x or weight.
std::uint64_t words_of(const Product& product) { return product.in_width / (product.dtype == DType::f16 ? 2 : 1); }

/// Whether linear_depth.comp does.
bool takes_depth(const Product& product, const Capabilities& device) {
    if (product.batch > 1 || product.rows > shaders::kLinearDepthMaxRows) return false;
    if (!has_broadcast_lanes(device) || !device.buffer_addresses) return false;
    return words_of(product) % shaders::kLinearDepthWords == 0;
}

/// Whether linear_coopmat.comp does, where the device has such matrices.
bool takes_matrices(const Product& product) {
    return product.has_many_rows() && product.dtype == DType::f16 && product.in_width % 8 == 0;
}

/// Whether linear_halves.comp does. Where there are cooperative matrices they multiply halves faster, and add them up in float32.
bool takes_halves(const Product& product, const Capabilities& device) {
    return product.has_many_rows() && product.dtype == DType::f16 && product.in_width % 4 == 0 && device.float16 &&
           device.storage16 && !device.cooperative_matrix;
}

/// Nothing where the device has no such matrices.
std::optional<Tiling> matrix_tiling(std::string_view variant, std::uint32_t splits, const Capabilities& device) {
    const auto matrices = linear_matrices(variant, device);
    if (!matrices) return std::nullopt;
    Tiling tiling{.shader = matrices->per_element ? "linear_coopmat2" : "linear_coopmat",
                  .workgroup = matrices->workgroup,
                  .rows = matrices->rows,
                  .columns = matrices->columns,
                  .more_constants = {splits},
                  .splits = splits};
    tiling.more_constants.insert(tiling.more_constants.end(), matrices->constants.begin(), matrices->constants.end());
    return tiling;
}

Tiling quads_tiling(std::uint32_t lane_rows, std::uint32_t splits) {
    return {.shader = "linear_quads",
            .workgroup = shaders::kLinearTileWorkgroup,
            .rows = std::uint64_t{lane_rows} * shaders::kLinearQuadsRowLanes,
            .columns = shaders::kLinearTileColumns,
            .more_constants = {splits},
            .splits = splits};
}

Tiling row_quads_tiling(const Product& product, std::uint32_t splits) {
    const std::uint64_t few_rows = std::min<std::uint64_t>(product.rows, shaders::kLinearMaxRows);
    const std::uint64_t columns = columns_of_row_workgroup(few_rows, product.gated);
    return {.shader = "linear_row_quads",
            .workgroup = shaders::kQuantizedRowWorkgroup,
            .rows = few_rows,
            .columns = columns,
            .more_constants = {splits, static_cast<std::uint32_t>(columns)},
            .splits = splits};
}

/// One of the three with the depth cut into `splits` parts, small tiles of many rows.
Tiling tiling_of_parts(const Product& product, std::uint32_t splits, const Capabilities& device) {
    if (!product.has_many_rows()) return row_quads_tiling(product, splits);
    if (takes_matrices(product))
        if (auto tiling = matrix_tiling("coopmat_small", splits, device)) return *std::move(tiling);
    return quads_tiling(quads_rows("quads"), splits);
}

/// Nothing where parts_of_depth says so.
std::optional<Tiling> split_tiling(const Product& product, const graph::Linear& op, const KernelContext& context) {
    if (!takes_quads(product, context.device)) return std::nullopt;
    const Tiling whole = tiling_of_parts(product, 1, context.device);
    const std::uint64_t least_depth = product.has_many_rows() ? 256 : 512;
    const std::uint32_t splits =
        parts_of_depth(op, {.rows = whole.rows, .columns = whole.columns, .least_depth = least_depth}, context);
    if (splits == 0) return std::nullopt;
    return tiling_of_parts(product, splits, context.device);
}

Tiling depth_tiling(const Product& product) {
    // Of one row, a loop's own instructions are more than a few of its loads.
    const bool many = product.rows == 1 && words_of(product) % shaders::kLinearDepthManyWords == 0;
    return {.shader = "linear_depth",
            .workgroup = shaders::kBroadcastLanes,
            .rows = product.rows,
            .columns = shaders::kLinearDepthColumns,
            .more_constants = {many ? shaders::kLinearDepthManyWords : shaders::kLinearDepthWords}};
}

Tiling tiling_of(std::string_view variant, const Product& product, const graph::Linear& op,
                 const KernelContext& context) {
    const Capabilities& device = context.device;
    const std::uint64_t few_rows = std::min<std::uint64_t>(product.rows, shaders::kLinearMaxRows);
    // 8 invocations: the lanes of lavapipe, two times those of SwiftShader; so few that small layers still fill all cores.
    constexpr std::uint32_t kDirectWorkgroup = 8;
    if (variant == "direct")
        return {"linear_direct", kDirectWorkgroup, few_rows, kDirectWorkgroup * shaders::kLinearDirectColumns};
    if (variant == "depth") return depth_tiling(product);
    if (variant == "broadcast" || variant == "vectors")
        return {variant == "vectors" ? "linear_vectors" : "linear_broadcast", shaders::kBroadcastLanes,
                broadcast_rows(product.rows), shaders::kBroadcastLanes * shaders::kBroadcastColumns};
    if (variant == "split") return *split_tiling(product, op, context);
    if (variant.starts_with("coopmat")) return *matrix_tiling(variant, 1, device);
    if (variant.starts_with("quads")) return quads_tiling(quads_rows(variant), 1);
    if (variant == "halves")
        return {"linear_halves", shaders::kLinearTileWorkgroup, shaders::kLinearTileRows, shaders::kLinearTileColumns};
    if (variant == "row_quads") return row_quads_tiling(product, 1);
    if (variant == "row") return {"linear_row", shaders::kLinearRowWorkgroup, few_rows, shaders::kLinearRowColumns};
    return {"linear", shaders::kLinearTileWorkgroup, shaders::kLinearTileRows, shaders::kLinearTileColumns};
}

/// The rows of a workgroup or, of linear_quads, of an invocation.
std::uint32_t rows_constant(const Tiling& tiling) {
    const std::uint64_t lanes = tiling.shader == "linear_quads" ? shaders::kLinearQuadsRowLanes : 1;
    return static_cast<std::uint32_t>(tiling.rows / lanes);
}

/// Whether the variant's shader norms x itself. Those of many rows do not, nor `direct`, for which a load of a gain costs as much as what is
/// done to four columns, nor those with partial sums in shared memory where there is no room for the squares.
bool norms_itself(std::string_view variant, const graph::Linear& op, const graph::Graph& graph) {
    if (variant == "depth") return true;
    if (!variant.starts_with("row")) return false;
    const bool has_four_columns = variant == "row" && !graph::is_unpacked(graph.dtype(op.weight), graph.dtype(op.x));
    const std::uint64_t rows = graph.shape(op.x).row_count();
    const std::uint64_t columns =
        has_four_columns ? shaders::kLinearRowColumns : columns_of_row_workgroup(rows, op.gated);
    return rows * (columns + 1) <= shaders::kQuantizedRowMaxSums;
}

/// The norm into scratch memory, then the product of that.
Result<Dispatch> plan_behind_norm(const graph::Linear& op, const KernelContext& context) {
    graph::Linear product = op;
    product.normed = false;
    product.norm_gain = {};
    VKFORMER_TRY(Dispatch then, plan_dispatch(product, context));
    then.bindings[shaders::kLinearX] = kScratch;
    const graph::RmsNorm norm{
        .x = op.x, .gain = op.norm_gain, .y = kScratch, .eps = op.norm_eps, .gain_offset = op.norm_gain_offset};
    VKFORMER_TRY(Dispatch dispatch, plan_dispatch(norm, {context.graph, context.device}));
    dispatch.scratch_bytes = graph::storage_bytes(context.graph.tensor(op.x));
    dispatch.then = std::make_shared<const Dispatch>(std::move(then));
    return dispatch;
}

}  // namespace

VariantNames variants(const graph::Linear& op, const KernelContext& context) {
    if (graph::is_unpacked(context.graph.dtype(op.weight), context.graph.dtype(op.x)))
        return linear_quantized_variants(op, context);
    const Product product = product_of(op, context.graph);
    const Capabilities& device = context.device;
    VariantNames names;
    if (device.type == "cpu" && product.in_width % 4 == 0) {
        if (product.has_many_rows() && has_broadcast_lanes(device) &&
            product.in_width % shaders::kBroadcastDepth == 0) {
            names.push_back("broadcast");
            if (device.buffer_addresses) names.push_back("vectors");
        }
        names.push_back("direct");
        if (takes_depth(product, device)) names.push_back("depth");
    }
    const bool quads = takes_quads(product, device);
    if (product.has_many_rows()) {
        if (quads) names.insert(names.end(), {"quads", "quads_large"});
    } else {
        if (quads) names.push_back("row_quads");
        names.push_back("row");
    }
    names.push_back("plain");
    if (takes_matrices(product))
        for (const std::string_view name : matrix_variants(product.rows, device)) names.push_back(name);
    if (takes_halves(product, device)) names.push_back("halves");
    if (split_tiling(product, op, context)) names.push_back("split");
    return names;
}

static_assert(sizeof(shaders::LinearPush) <= shaders::kLinearXAddress);

Result<Dispatch> plan_dispatch(const graph::Linear& op, const KernelContext& context) {
    VKFORMER_TRY(const std::string_view variant, chosen_variant(op, context));
    if (op.normed && !norms_itself(variant, op, context.graph)) return plan_behind_norm(op, context);
    if (graph::is_unpacked(context.graph.dtype(op.weight), context.graph.dtype(op.x)))
        return plan_linear_quantized(op, context);
    const Product product = product_of(op, context.graph);
    const Tiling tiling = tiling_of(variant, product, op, context);
    const std::uint64_t splits = std::max(tiling.splits, 1u);
    VKFORMER_TRY(auto groups,
                 folded_grid(ceil_div(product.rows, tiling.rows) * ceil_div(product.out_width, tiling.columns) * splits,
                             context.device));
    if (product.batch > context.device.max_workgroup_count[2])
        return Error{ErrorCode::MissingFeature, "linear has a batch of " + std::to_string(product.batch) +
                                                    "; device \"" + context.device.name + "\" allows " +
                                                    std::to_string(context.device.max_workgroup_count[2])};
    groups[2] = static_cast<std::uint32_t>(product.batch);
    Dispatch dispatch{
        .shader = variant == "direct" ? wide_variant_for(tiling.shader, product.dtype, context.device)
                                      : variant_for(tiling.shader, product.dtype, context.device),
        .bindings = {op.x, op.weight, or_else(op.bias, op.weight), residual_or_gain(op), op.y},
        .constants = {tiling.workgroup, operands_of(op), end_of(op), static_cast<std::uint32_t>(op.activation),
                      rows_constant(tiling)},
        .groups = groups,
    };
    dispatch.constants.insert(dispatch.constants.end(), tiling.more_constants.begin(), tiling.more_constants.end());
    if (context.graph.dtype(op.y) != product.dtype) dispatch.shader += "_to_f32";
    dispatch.push.set(shaders::LinearPush{
        .rows = static_cast<std::uint32_t>(product.rows),
        .in_width = static_cast<std::uint32_t>(product.in_width),
        .out_width = static_cast<std::uint32_t>(product.out_width),
        .x_batch = context.graph.shape(op.x).row_count() > product.rows ? static_cast<std::uint32_t>(product.rows) : 0,
        .weight_batch = static_cast<std::uint32_t>(product.out_width),
        .norm_eps = op.norm_eps,
        .norm_gain_offset = op.norm_gain_offset,
    });
    dispatch.addressed = addresses_for(variant, op);
    if (variant == "depth") take_tiles(dispatch);
    if (variant == "depth" && op.normed) stage_rows(dispatch, op, context.graph);
    if (tiling.splits > 0) dispatch.bindings.push_back(op.y);
    if (splits > 1) VKFORMER_CHECK(combine_parts(dispatch, tiling.splits, op, context));
    return dispatch;
}

}  // namespace vkformer::vulkan
