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

const ShaderFamily& family_for(MatrixForm::Results results, const Product& product) {
    if (results == MatrixForm::Results::registers)
        return product.has_own_format ? modules::linear_quantized_matrix2 : modules::linear_matrix2;
    return product.has_own_format ? modules::linear_quantized_matrix : modules::linear_matrix;
}

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
Result<DispatchPlan> plan_parts(MatrixForm form, const graph::Linear& op, Operand x, std::uint32_t splits,
                                const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    const LinearMatrices matrices = *linear_matrices(form, context.device);
    const Module module = module_for(family_for(form.results, product), op, context);
    const bool is_halved = has_halved_rows(product);
    VKFORMER_TRY(Dispatch dispatch,
                 dispatch_linear(op, is_halved ? Operand::scratch() : x, module, matrices.tile, context, splits));
    dispatch.set(shaders::kWorkgroupConstant, matrices.workgroup)
        .set(shaders::kLinearM, matrices.m)
        .set(shaders::kLinearN, matrices.n)
        .set(shaders::kLinearK, matrices.k)
        .set(shaders::kLinearSteps, matrices.steps)
        .set(shaders::kLinearRowGrid, matrices.row_grid);
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

/// The tiles of a product whose depth is cut, and into how many parts; 0: it is not.
struct MatrixParts {
    MatrixForm form;
    std::uint32_t splits;
};

/// Normal tiles, which multiply twice as much of what they load, where the rows fill more than half of one.
MatrixParts parts_of_matrices(const graph::Linear& op, const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    constexpr std::uint64_t kLeastDepth = 256;
    MatrixParts parts{{MatrixForm::Results::shared_memory, MatrixForm::Size::normal}, 0};
    if (!takes_matrices(product)) return parts;
    auto matrices = linear_matrices(parts.form, context.device);
    if (!matrices || product.rows <= matrices->tile.rows / 2) {
        parts.form.size = MatrixForm::Size::small;
        matrices = linear_matrices(parts.form, context.device);
    }
    if (matrices) parts.splits = parts_of_depth(op, matrices->tile, kLeastDepth, context);
    return parts;
}

}  // namespace

std::optional<LinearMatrices> linear_matrices(MatrixForm form, const Capabilities& device) {
    const bool in_registers = form.results == MatrixForm::Results::registers;
    const bool is_large = form.size == MatrixForm::Size::large;
    // Matrices per subgroup along the rows and as many along the columns. lavapipe, with its small matrices, would compile 4 × 4 of them
    // for many seconds and be no faster.
    const std::uint32_t steps = form.size == MatrixForm::Size::small || (device.is_cpu() && is_large) ? 2 : 4;
    const bool has_per_element = device.cooperative_matrix2 && device.cooperative_matrix2_parts.per_element_operations;
    const ShaderFamily& family = in_registers ? modules::linear_matrix2 : modules::linear_matrix;
    if (!family.find(Storage::f16) || (in_registers && !has_per_element)) return std::nullopt;
    const auto matrix = half_matrix(device, shaders::kLinearMatrixDepth, 8);
    if (!matrix || (device.is_cpu() && steps > 2)) return std::nullopt;
    const std::uint32_t row_grid = is_large ? 4 : 2;
    const std::uint32_t rows = row_grid * steps * matrix->m;
    const std::uint32_t columns = shaders::kLinearMatrixColumnGrid * steps * matrix->n;
    // so many that there are enough subgroups, whatever size the driver gives them
    const std::uint32_t workgroup =
        row_grid * shaders::kLinearMatrixColumnGrid * std::max(device.subgroup_size, device.max_subgroup_size);
    const std::uint32_t tiles = (rows + columns) * (shaders::kLinearMatrixDepth + 8) * 2;
    const std::uint32_t results = in_registers ? 0 : row_grid * matrix->m * columns * 4;  // where the tiles were
    if (workgroup > device.max_workgroup_invocations || std::max(tiles, results) > device.max_shared_memory_bytes)
        return std::nullopt;
    return LinearMatrices{.workgroup = workgroup,
                          .tile = {rows, columns},
                          .m = matrix->m,
                          .n = matrix->n,
                          .k = matrix->k,
                          .steps = steps,
                          .row_grid = row_grid};
}

/// With float32 activations only what 8 bits of them would be good enough for; weights of 16 bits promise the accuracy of float32 there.
bool takes_matrices(const Product& product) {
    if (product.has_few_rows()) return false;
    if (product.has_own_format) return product.dtype == DType::f16 || is_quantized(product.weight);
    return product.dtype == DType::f16 && product.in_width % 8 == 0;
}

bool fits_matrix(MatrixForm form, const graph::Linear& op, const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    const auto matrices = linear_matrices(form, context.device);
    if (!matrices || !takes_matrices(product)) return false;
    if (op.prologue && has_halved_rows(product)) return false;  // the normed x would lie where its halves do
    // Half of a large tile of few rows would be empty.
    return form.size != MatrixForm::Size::large || product.rows > matrices->tile.rows / 2;
}

Result<DispatchPlan> plan_matrix(MatrixForm form, const graph::Linear& op, Operand x, const KernelContext& context) {
    return whole(plan_parts(form, op, x, 1, context), op);
}

bool fits_matrix_split(const graph::Linear& op, const KernelContext& context) {
    return parts_of_matrices(op, context).splits > 0;
}

Result<DispatchPlan> plan_matrix_split(const graph::Linear& op, Operand x, const KernelContext& context) {
    const MatrixParts parts = parts_of_matrices(op, context);
    return combine_parts(plan_parts(parts.form, op, x, parts.splits, context), parts.splits, op, context);
}

}  // namespace vkformer::vulkan
