// SPDX-License-Identifier: MIT
#include "vulkan/kernels/linear/split.hpp"

#include <algorithm>

#include "core/try.hpp"
#include "vulkan/kernels/linear/matrices.hpp"

namespace vkformer::vulkan {
namespace {

/// What the parts of a product are, where cooperative matrices do not take it.
std::uint32_t splits_of(const graph::Linear& op, const Product& product, const KernelContext& context) {
    if (product.has_few_rows()) {
        constexpr std::uint64_t kLeastDepth = 512;
        return parts_of_depth(op, row_sums_tile(op, product, context.device),
                              std::max(kLeastDepth, shaders::kLinearSumsWorkgroup * row_sums_step(product)), context);
    }
    return parts_of_depth(op, tile_vec4(vec4_lane_rows(context.device)), 256, context);
}

}  // namespace

std::uint32_t parts_of_depth(const graph::Linear& op, LinearTile tile, std::uint64_t least_depth,
                             const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    const std::uint64_t out_width = context.piece.whole_rows ? context.piece.whole_rows : product.out_width;
    const bool is_cpu = context.device.is_cpu();
    constexpr std::uint64_t kWidestOnCpu = 32, kLeastDepthOnCpu = 64;
    if (context.graph.shape(op.weight).rank() == 3 || op.prologue || (is_cpu && out_width > kWidestOnCpu)) return 0;
    if (product.dtype == DType::f16 && !context.device.storage16) return 0;  // as linear/combine.comp
    // A large GPU has some 100 cores, each of which takes two workgroups of tiles, four of rows. A part is long enough that its sums,
    // which are written and read once more, are few beside what it reads.
    const std::uint64_t enough = product.has_few_rows() ? 512 : 256;
    constexpr std::uint64_t kMostSplits = 16;
    const std::uint64_t groups = ceil_div(product.rows, tile.rows) * ceil_div(out_width, tile.columns);
    const std::uint64_t splits =
        std::min({enough / groups, product.in_width / (is_cpu ? kLeastDepthOnCpu : least_depth), kMostSplits});
    return splits < 2 ? 0 : static_cast<std::uint32_t>(splits);
}

Result<DispatchPlan> whole(Result<DispatchPlan> plan, const graph::Linear& op) {
    if (plan) plan->dispatches.back().bind(shaders::kLinearPartial, op.y).set(shaders::kLinearSplits, 1);
    return plan;
}

Result<DispatchPlan> combine_parts(Result<DispatchPlan> partial, std::uint32_t splits, const graph::Linear& op,
                                   const KernelContext& context) {
    VKFORMER_TRY(DispatchPlan plan, std::move(partial));
    const Product product = product_of(op, context.graph);
    VKFORMER_TRY(const auto groups,
                 folded_grid(ceil_div(context.graph.shape(op.y).element_count(), shaders::kLinearCombineWorkgroup),
                             context.device));
    Dispatch& parts = plan.dispatches.back();
    parts.bind(shaders::kLinearPartial, Operand::scratch()).set(shaders::kLinearSplits, splits);
    plan.scratch_bytes += splits * product.rows * product.out_width * sizeof(float);
    // Its epilogue, operands and push constants are those of the product.
    Dispatch combine{.module = module_for(modules::linear_combine, op, context), .groups = groups, .push = parts.push};
    for (const Dispatch::Binding& binding : parts.bindings)
        if (binding.id == shaders::kLinearBias || binding.id == shaders::kLinearResidual ||
            binding.id == shaders::kLinearY || binding.id == shaders::kLinearPartial)
            combine.bindings.push_back(binding);
    for (const Dispatch::Constant& constant : parts.constants)
        if (constant.id == shaders::kLinearOperands || constant.id == shaders::kLinearEnd ||
            constant.id == shaders::kLinearActivation || constant.id == shaders::kLinearSplits)
            combine.constants.push_back(constant);
    combine.set(shaders::kWorkgroupConstant, shaders::kLinearCombineWorkgroup);
    plan.dispatches.push_back(std::move(combine));
    return plan;
}

/// Where cooperative matrices take the product its parts are theirs: plan_matrix_split.
bool fits_split(const graph::Linear& op, const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    if (!product.has_own_format && !takes_vec4(product, context.device)) return false;
    return !fits_matrix_split(op, context) && splits_of(op, product, context) > 0;
}

Result<DispatchPlan> plan_split(const graph::Linear& op, Operand x, const KernelContext& context) {
    const Product product = product_of(op, context.graph);
    const std::uint32_t splits = splits_of(op, product, context);
    const auto parts = [&]() -> Result<DispatchPlan> {
        const bool own = product.has_own_format;
        if (product.has_few_rows())
            return plan_parts_of_row_sums(op, x, own ? modules::linear_quantized_row : modules::linear_row_vec4,
                                          row_sums_tile(op, product, context.device), splits, context);
        return plan_parts_of_tile_vec4(op, x, vec4_lane_rows(context.device), splits, context);
    };
    return combine_parts(parts(), splits, op, context);
}

}  // namespace vkformer::vulkan
