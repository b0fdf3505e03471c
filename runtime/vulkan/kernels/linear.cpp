// SPDX-License-Identifier: MIT
#include <algorithm>
#include <optional>

#include "core/try.hpp"
#include "interface/linear_quantized.h"
#include "vulkan/kernels/half_matrix.hpp"
#include "vulkan/kernels/kernels.hpp"
#include "vulkan/kernels/linear_quantized.hpp"
#include "vulkan/shader_table.h"

namespace vkformer::vulkan {
namespace {

/// How a variant cuts y: its shader, its workgroup, and the rows and columns that a workgroup computes.
struct Tiling {
    std::string_view shader;
    std::uint32_t workgroup;
    std::uint64_t rows, columns;
    std::vector<std::uint32_t> more_constants{};  ///< behind those of all
};

/// linear_coopmat.comp: how many matrices a subgroup owns along the rows, and as many along the columns.
std::uint32_t matrix_steps(std::string_view variant) { return variant == "coopmat" ? 4 : 2; }

/// linear_quads.comp: rows of an invocation.
std::uint32_t quads_rows(std::string_view variant) { return variant == "quads_large" ? 16 : 8; }

/// Whether the shaders with loads of four (of 16 bytes, for few rows) take x and weight. Devices that are CPUs have better ones and
/// compile these for a second or more: there they are for small widths, and tests.
bool takes_quads(bool has_many_rows, std::uint64_t in_width, DType dtype, const Capabilities& device) {
    constexpr std::uint64_t kMostOnCpu = 512;
    if (device.type == "cpu" && in_width > kMostOnCpu) return false;
    if (dtype == DType::f16 && !device.storage16) return false;
    return in_width % (dtype == DType::f16 && !has_many_rows ? 8 : 4) == 0;
}

/// Whether linear_depth.comp does.
bool takes_depth(bool has_many_rows, std::uint64_t in_width, DType dtype, const Capabilities& device) {
    if (has_many_rows || !has_broadcast_lanes(device) || !device.subgroup_arithmetic) return false;
    return in_width % (dtype == DType::f16 ? 8 : 4) == 0;
}

/// `steps` × `steps` matrices per subgroup, or nothing where the device has no such matrices or too little memory for the tiles.
/// lavapipe, with its small matrices, would compile 4 × 4 of them for many seconds and be no faster.
std::optional<Tiling> matrix_tiling(std::uint32_t steps, const Capabilities& device) {
    const auto matrix = half_matrix(device, shaders::kLinearMatrixDepth, 8);
    if (!matrix || !device.float16 || !device.storage16 || (device.type == "cpu" && steps > 2)) return std::nullopt;
    constexpr std::uint32_t kSubgroups = shaders::kLinearMatrixGrid * shaders::kLinearMatrixGrid;
    const std::uint32_t rows = shaders::kLinearMatrixGrid * steps * matrix->m;
    const std::uint32_t columns = shaders::kLinearMatrixGrid * steps * matrix->n;
    // so many that there are enough subgroups, whatever size the driver gives them
    const std::uint32_t workgroup = kSubgroups * std::max(device.subgroup_size, device.max_subgroup_size);
    const std::uint32_t tiles = (rows + columns) * (shaders::kLinearMatrixDepth + 8) * 2;
    const std::uint32_t results = shaders::kLinearMatrixGrid * matrix->m * columns * 4;
    if (workgroup > device.max_workgroup_invocations || tiles + results > device.max_shared_memory_bytes)
        return std::nullopt;
    return Tiling{"linear_coopmat", workgroup, rows, columns, {matrix->m, matrix->n, matrix->k, steps}};
}

Tiling tiling_of(std::string_view variant, std::uint64_t rows, const Capabilities& device) {
    const std::uint64_t few_rows = std::min<std::uint64_t>(rows, shaders::kLinearMaxRows);
    // 8 invocations: the lanes of lavapipe, two times those of SwiftShader; so few that small layers still fill all cores.
    constexpr std::uint32_t kDirectWorkgroup = 8;
    if (variant == "direct")
        return {"linear_direct", kDirectWorkgroup, few_rows, kDirectWorkgroup * shaders::kLinearDirectColumns};
    if (variant == "depth") return {"linear_depth", shaders::kBroadcastLanes, few_rows, shaders::kLinearDepthColumns};
    if (variant == "broadcast")
        return {"linear_broadcast", shaders::kBroadcastLanes, shaders::kBroadcastRows,
                shaders::kBroadcastLanes * shaders::kBroadcastColumns};
    if (variant.starts_with("coopmat")) return *matrix_tiling(matrix_steps(variant), device);
    if (variant.starts_with("quads")) {
        const std::uint32_t lane_rows = quads_rows(variant);
        return {"linear_quads", shaders::kLinearTileWorkgroup, std::uint64_t{lane_rows} * shaders::kLinearQuadsRowLanes,
                shaders::kLinearTileColumns};
    }
    if (variant == "row_quads") {
        const std::uint64_t columns =
            std::min<std::uint64_t>(shaders::kQuantizedRowMaxSums / few_rows, shaders::kQuantizedRowMaxColumns);
        return {"linear_row_quads",
                shaders::kQuantizedRowWorkgroup,
                few_rows,
                columns,
                {0, static_cast<std::uint32_t>(columns)}};
    }
    if (variant == "row") return {"linear_row", shaders::kLinearRowWorkgroup, few_rows, shaders::kLinearRowColumns};
    return {"linear", shaders::kLinearTileWorkgroup, shaders::kLinearTileRows, shaders::kLinearTileColumns};
}

/// The rows of a workgroup or, of linear_quads, of an invocation.
std::uint32_t rows_constant(std::string_view variant, const Tiling& tiling) {
    return variant.starts_with("quads") ? quads_rows(variant) : static_cast<std::uint32_t>(tiling.rows);
}

}  // namespace

VariantNames variants(const graph::Linear& op, const KernelContext& context) {
    if (is_weight_only(context.graph.dtype(op.weight))) return linear_quantized_variants(op, context);
    const Shape& x = context.graph.shape(op.x);
    VariantNames names;
    const bool has_many_rows = x.row_count() > shaders::kLinearMaxRows;
    if (context.device.type == "cpu" && x.back() % 4 == 0) {
        if (has_many_rows && has_broadcast_lanes(context.device) && x.back() % shaders::kBroadcastDepth == 0)
            names.push_back("broadcast");
        names.push_back("direct");
        if (takes_depth(has_many_rows, x.back(), context.graph.dtype(op.x), context.device)) names.push_back("depth");
    }
    const bool quads = takes_quads(has_many_rows, x.back(), context.graph.dtype(op.x), context.device);
    if (has_many_rows) {
        if (quads) names.insert(names.end(), {"quads", "quads_large"});
    } else {
        if (quads) names.push_back("row_quads");
        names.push_back("row");
    }
    names.push_back("plain");
    if (has_many_rows && context.graph.dtype(op.x) == DType::f16 && x.back() % 8 == 0 && is_built("linear_coopmat_f16"))
        for (const std::string_view name : {"coopmat", "coopmat_small"})
            if (matrix_tiling(matrix_steps(name), context.device)) names.push_back(name);
    return names;
}

static_assert(sizeof(shaders::LinearPush) == 12);

Result<Dispatch> plan_dispatch(const graph::Linear& op, const KernelContext& context) {
    if (is_weight_only(context.graph.dtype(op.weight))) return plan_linear_quantized(op, context);
    const Shape& x = context.graph.shape(op.x);
    const std::uint64_t out_width = context.graph.shape(op.y).back();
    const DType dtype = context.graph.dtype(op.x);
    VKFORMER_TRY(const std::string_view variant, chosen_variant(op, context));
    const Tiling tiling = tiling_of(variant, x.row_count(), context.device);
    VKFORMER_TRY(
        const auto groups,
        folded_grid(ceil_div(x.row_count(), tiling.rows) * ceil_div(out_width, tiling.columns), context.device));
    Dispatch dispatch{
        .shader = variant == "direct" ? wide_variant_for(tiling.shader, dtype, context.device)
                                      : variant_for(tiling.shader, dtype, context.device),
        .bindings = {op.x, op.weight, or_else(op.bias, op.weight), or_else(op.residual, op.y), op.y},
        .constants = {tiling.workgroup, op.bias ? 1u : 0u, op.residual ? 1u : 0u,
                      static_cast<std::uint32_t>(op.activation), rows_constant(variant, tiling)},
        .groups = groups,
    };
    dispatch.constants.insert(dispatch.constants.end(), tiling.more_constants.begin(), tiling.more_constants.end());
    if (context.graph.dtype(op.y) != dtype) dispatch.shader += "_to_f32";
    dispatch.push.set(shaders::LinearPush{
        .rows = static_cast<std::uint32_t>(x.row_count()),
        .in_width = static_cast<std::uint32_t>(x.back()),
        .out_width = static_cast<std::uint32_t>(out_width),
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
