// SPDX-License-Identifier: MIT
#include <algorithm>

#include "core/try.hpp"
#include "interface/linear.h"
#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {
namespace {

/// How a variant cuts y: its shader, its workgroup, and the rows and columns that a workgroup computes.
struct Tiling {
    std::string_view shader;
    std::uint32_t workgroup;
    std::uint64_t rows, columns;
};

Tiling tiling_of(std::string_view variant, std::uint64_t rows) {
    const std::uint64_t few_rows = std::min<std::uint64_t>(rows, shaders::kLinearMaxRows);
    // 8 invocations: the lanes of lavapipe, two times those of SwiftShader; so few that small layers still fill all cores.
    constexpr std::uint32_t kDirectWorkgroup = 8;
    if (variant == "direct")
        return {"linear_direct", kDirectWorkgroup, few_rows, kDirectWorkgroup * shaders::kLinearDirectColumns};
    if (variant == "tall")
        return {"linear_tall", kDirectWorkgroup, kDirectWorkgroup * shaders::kLinearTallRows,
                shaders::kLinearTallColumns};
    if (variant == "row") return {"linear_row", shaders::kLinearRowWorkgroup, few_rows, shaders::kLinearRowColumns};
    return {"linear", shaders::kLinearTileWorkgroup, shaders::kLinearTileRows, shaders::kLinearTileColumns};
}

}  // namespace

VariantNames variants(const graph::Linear& op, const KernelContext& context) {
    const Shape& x = context.graph.shape(op.x);
    VariantNames names;
    if (context.device.type == "cpu" && x.back() % 4 == 0) {
        const bool is_tall = x.row_count() > shaders::kLinearMaxRows;
        if (is_tall) names.push_back("tall");
        names.push_back("direct");
    }
    if (x.row_count() <= shaders::kLinearMaxRows) names.push_back("row");
    names.push_back("plain");
    return names;
}

static_assert(sizeof(shaders::LinearPush) == 12);

Result<Dispatch> plan_dispatch(const graph::Linear& op, const KernelContext& context) {
    const Shape& x = context.graph.shape(op.x);
    const std::uint64_t out_width = context.graph.shape(op.y).back();
    const DType dtype = context.graph.dtype(op.x);
    VKFORMER_TRY(const std::string_view variant, chosen_variant(op, context));
    const Tiling tiling = tiling_of(variant, x.row_count());
    VKFORMER_TRY(
        const auto groups,
        folded_grid(ceil_div(x.row_count(), tiling.rows) * ceil_div(out_width, tiling.columns), context.device));
    Dispatch dispatch{
        .shader = variant_for(tiling.shader, dtype, context.device),
        .bindings = {op.x, op.weight, or_else(op.bias, op.weight), or_else(op.residual, op.y), op.y},
        .constants = {tiling.workgroup, op.bias ? 1u : 0u, op.residual ? 1u : 0u,
                      static_cast<std::uint32_t>(op.activation), static_cast<std::uint32_t>(tiling.rows)},
        .groups = groups,
    };
    if (context.graph.dtype(op.y) != dtype) dispatch.shader += "_to_f32";
    dispatch.push.set(shaders::LinearPush{
        .rows = static_cast<std::uint32_t>(x.row_count()),
        .in_width = static_cast<std::uint32_t>(x.back()),
        .out_width = static_cast<std::uint32_t>(out_width),
    });
    return dispatch;
}

}  // namespace vkformer::vulkan
