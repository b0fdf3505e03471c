// SPDX-License-Identifier: MIT
#include "vulkan/kernels/linear/matrices.hpp"

#include <algorithm>

#include "core/try.hpp"
#include "linear/halve_rows.h"
#include "vulkan/kernels/half_matrix.hpp"
#include "vulkan/kernels/linear/split.hpp"
#include "vulkan/kernels/weight_format.hpp"

namespace vkformer::vulkan {
namespace {

/// Float32 x becomes halves, in a dispatch before, where the weight has a format of its own.
bool has_halved_rows(const Product& product) { return product.dtype != DType::f16; }

/// The size of float32 x as halves, and of the scales of its rows behind them.
std::uint64_t halves_bytes(const Shape& x) { return x.element_count() * 2 + x.row_count() * sizeof(float); }

/// x as halves in the scratch memory, and the scales of the rows behind them.
Result<Dispatch> halve_rows(const graph::Linear& op, Operand x, const KernelContext& context) {
    const Shape& shape = context.graph.shape(op.x);
    VKFORMER_TRY(const auto groups, folded_grid(shape.row_count(), context.device));
    Dispatch dispatch{.module = {&modules::linear_halve_rows}, .groups = groups};
    dispatch.bind(shaders::kHalveRowsX, x)
        .bind(shaders::kHalveRowsHalves, Operand::scratch())
        .bind(shaders::kHalveRowsScales, Operand::scratch())
        .set(shaders::kWorkgroupConstant, shaders::kHalveRowsWorkgroup);
    dispatch.push.set(shaders::HalveRowsPush{.rows = static_cast<std::uint32_t>(shape.row_count()),
                                             .width = static_cast<std::uint32_t>(shape.back())});
    return dispatch;
}

/// The sums of `splits` parts, as the plans of linear/split.hpp leave them.
Result<DispatchPlan> plan_parts(MatrixTile tile, const graph::Linear& op, Operand x, std::uint32_t splits,
                                const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    const LinearMatrices matrices = *linear_matrices(tile, product.has_own_format, context.device);
    const Module module =
        module_for(product.has_own_format ? modules::linear_quantized_matrix : modules::linear_matrix, op, context);
    const bool is_halved = has_halved_rows(product);
    VKFORMER_TRY(Dispatch dispatch,
                 dispatch_linear(op, is_halved ? Operand::scratch() : x, module, matrices.tile, context, splits));
    dispatch.set(shaders::kWorkgroupConstant, matrices.workgroup)
        .set(shaders::kLinearM, matrices.m)
        .set(shaders::kLinearN, matrices.n)
        .set(shaders::kLinearK, matrices.k)
        .set(shaders::kLinearRowSteps, matrices.row_steps)
        .set(shaders::kLinearColumnSteps, matrices.column_steps)
        .set(shaders::kLinearRowGrid, matrices.row_grid)
        .set(shaders::kLinearColumnGrid, matrices.column_grid)
        .set(shaders::kLinearSliceDepth, matrices.depth)
        .set(shaders::kLinearAhead, matrices.is_ahead ? 1 : 0);
    if (product.has_own_format) dispatch.set(shaders::kLinearWeightFormat, weight_format(product.weight));
    if (!is_halved) return DispatchPlan(std::move(dispatch));
    const std::uint64_t bytes = halves_bytes(context.graph.shape(op.x));
    dispatch.bind(shaders::kLinearRowScales, Operand::scratch());
    auto push = dispatch.push.get<shaders::LinearPush>();
    push.partial_before = static_cast<std::uint32_t>(bytes / sizeof(float));
    dispatch.push.set(push);
    VKFORMER_TRY(Dispatch halves, halve_rows(op, x, context));
    DispatchPlan plan(std::move(halves));
    plan.dispatches.push_back(std::move(dispatch));
    plan.scratch_bytes = bytes;
    return plan;
}

constexpr std::uint32_t kLeastSliceDepth = 32;

/// What a workgroup owns: the members of LinearMatrices.
struct Cut {
    std::uint32_t row_steps, column_steps, row_grid, column_grid, depth;
    bool is_ahead;
};

/// NVIDIA: operands of matrices take few registers, so that those of a step ahead fit in beside the sums. On RDNA 3 they are there twice, and
/// its compiler spills; Intel's does so anyway. Devices that are CPUs load them ahead too, for the tests, in all tiles but the small one.
bool has_registers_ahead(const Capabilities& device) { return device.vendor_id == vendors::kNvidia || device.is_cpu(); }

/// Deep slices are whole lines of memory, and twice as much is on its way; there is no room for them beside the largest tile.
std::optional<Cut> cut_of(MatrixTile tile, bool is_unpacked, const Capabilities& device) {
    using enum MatrixTile;
    constexpr std::uint32_t kDepth = 2 * kLeastSliceDepth;
    const bool is_ahead = has_registers_ahead(device), is_cpu = device.is_cpu();
    // lavapipe, with its small matrices, would compile 4 x 4 of them for many seconds and be no faster.
    const std::uint32_t steps = is_cpu ? 2 : 4;
    switch (tile) {
    case flat:
        // It waits for weights: a step ahead of their unpacking takes registers that more workgroups would have.
        if (!is_ahead) return Cut{2, 2, 1, 4, kLeastSliceDepth, false};
        return is_unpacked ? Cut{2, 2, 1, 4, kDepth, false} : Cut{2, 2, 1, 4, 2 * kDepth, true};
    case small: return is_ahead && !is_cpu ? Cut{2, 2, 2, 2, kDepth, true} : Cut{2, 2, 2, 2, kLeastSliceDepth, false};
    case large: return Cut{steps, steps, 4, 2, kLeastSliceDepth, is_ahead};
    case normal:
        if (is_cpu) return std::nullopt;
        return Cut{4, 4, 2, 2, kLeastSliceDepth, false};
    case dense:
    case wide: break;
    }
    if (!is_ahead) return std::nullopt;
    return Cut{steps, tile == wide ? 3u : 2u, 2, 4, kDepth, true};
}

/// The tiles of a product whose depth is cut, and into how many parts; 0: it is not.
struct MatrixParts {
    MatrixTile tile;
    std::uint32_t splits;
};

/// Large tiles multiply more of what they load, where the rows fill more than half of one; few rows are one tile of as few.
MatrixParts parts_of_matrices(const graph::Linear& op, const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    constexpr std::uint64_t kLeastDepth = 256;
    MatrixParts parts{has_registers_ahead(context.device) ? MatrixTile::dense : MatrixTile::normal, 0};
    if (!takes_matrices(product)) return parts;
    auto matrices = linear_matrices(parts.tile, product.has_own_format, context.device);
    for (const MatrixTile smaller : {MatrixTile::small, MatrixTile::flat}) {
        if (matrices && product.rows > matrices->tile.rows / 2) break;
        if (const auto found = linear_matrices(smaller, product.has_own_format, context.device)) {
            parts.tile = smaller;
            matrices = found;
        }
    }
    if (matrices) parts.splits = parts_of_depth(op, matrices->tile, kLeastDepth, context);
    return parts;
}

}  // namespace

std::optional<LinearMatrices> linear_matrices(MatrixTile tile, bool is_unpacked, const Capabilities& device) {
    if (!modules::linear_matrix.find(Storage::f16)) return std::nullopt;
    const auto matrix = half_matrix(device, kLeastSliceDepth, 8);
    const std::optional<Cut> cut = cut_of(tile, is_unpacked, device);
    if (!matrix || !cut || cut->depth % (cut->is_ahead ? 2 * matrix->k : matrix->k) != 0) return std::nullopt;
    const std::uint32_t rows = cut->row_grid * cut->row_steps * matrix->m;
    const std::uint32_t columns = cut->column_grid * cut->column_steps * matrix->n;
    // so many that there are enough subgroups, whatever size the driver gives them
    const std::uint32_t workgroup =
        cut->row_grid * cut->column_grid * std::max(device.subgroup_size, device.max_subgroup_size);
    const std::uint32_t slices = (rows + columns) * (cut->depth + 8) * 2;
    const std::uint32_t results = cut->row_grid * matrix->m * columns * 4;  // where the slices were
    if (workgroup > device.max_workgroup_invocations || std::max(slices, results) > device.max_shared_memory_bytes)
        return std::nullopt;
    return LinearMatrices{.workgroup = workgroup,
                          .tile = {rows, columns},
                          .m = matrix->m,
                          .n = matrix->n,
                          .k = matrix->k,
                          .row_steps = cut->row_steps,
                          .column_steps = cut->column_steps,
                          .row_grid = cut->row_grid,
                          .column_grid = cut->column_grid,
                          .depth = cut->depth,
                          .is_ahead = cut->is_ahead};
}

/// With float32 activations only what 8 bits of them would be good enough for; weights of 16 bits promise the accuracy of float32 there.
bool takes_matrices(const Product& product) {
    if (product.has_few_rows()) return false;
    if (product.has_own_format) return product.dtype == DType::f16 || is_quantized(product.weight);
    return product.dtype == DType::f16 && product.in_width % 8 == 0;
}

bool fits_matrix(MatrixTile tile, const graph::Linear& op, const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    const auto matrices = linear_matrices(tile, product.has_own_format, context.device);
    if (!matrices || !takes_matrices(product)) return false;
    if (op.prologue && has_halved_rows(product)) return false;  // the normed x would lie where its halves do
    if (tile == MatrixTile::flat) return product.rows <= matrices->tile.rows;
    // Half of the tile would be empty. Normal tiles are there for all, lest a product has none.
    const bool takes_any_rows = tile == MatrixTile::small || tile == MatrixTile::normal;
    return takes_any_rows || product.rows > matrices->tile.rows / 2;
}

Result<DispatchPlan> plan_matrix(MatrixTile tile, const graph::Linear& op, Operand x, const KernelContext& context) {
    return whole(plan_parts(tile, op, x, 1, context), op);
}

bool fits_matrix_split(const graph::Linear& op, const KernelContext& context) {
    return parts_of_matrices(op, context).splits > 0;
}

Result<DispatchPlan> plan_matrix_split(const graph::Linear& op, Operand x, const KernelContext& context) {
    const MatrixParts parts = parts_of_matrices(op, context);
    return combine_parts(plan_parts(parts.tile, op, x, parts.splits, context), parts.splits, op, context);
}

}  // namespace vkformer::vulkan
