// SPDX-License-Identifier: MIT
#include "vulkan/kernels/linear/linear.hpp"
#include "vulkan/kernels/linear/matrices.hpp"

namespace vkformer::vulkan {
namespace {

using Results = MatrixForm::Results;
using Size = MatrixForm::Size;

template <Results kResults, Size kSize>
bool fits_form(const graph::Linear& op, const KernelContext& context) {
    return fits_matrix({kResults, kSize}, op, context);
}
template <Results kResults, Size kSize>
Result<DispatchPlan> plan_form(const graph::Linear& op, Operand x, const KernelContext& context) {
    return plan_matrix({kResults, kSize}, op, x, context);
}

template <Results kResults, Size kSize>
constexpr Kernel<graph::Linear> matrix_kernel(std::string_view name) {
    using enum ShaderRequirement;
    return {
        .traits = {.name = name,
                   .rounding = Rounding::half_products,
                   .needs = needs(storage16, float16, coopmat) | (kResults == Results::registers ? needs(coopmat2) : 0),
                   .is_emulated_on_cpus = true},
        .fits = fits_form<kResults, kSize>,
        .plan = plan_linear<plan_form<kResults, kSize>>};
}

}  // namespace

/// Weights in a format of their own have the algorithms' names, too: a kernel plans the shader that unpacks them.
std::span<const Kernel<graph::Linear>> kernels(const graph::Linear&) {
    using enum ShaderRequirement;
    static constexpr Kernel<graph::Linear> kKernels[] = {
        {.traits = {.name = "tile_vec4", .cpu_limit = 512},
         .fits = fits_tile_vec4,
         .plan = plan_linear<plan_tile_vec4>},
        {.traits = {.name = "tile_vec4_large", .cpu_limit = 512},
         .fits = fits_tile_vec4,
         .plan = plan_linear<plan_tile_vec4_large>},
        {.traits = {.name = "row_vec4", .cpu_limit = 512},
         .fits = fits_row_vec4,
         .plan = plan_linear<plan_row_vec4, row_sums_take_norm>},
        {.traits = {.name = "row"}, .fits = fits_row, .plan = plan_linear<plan_row, row_takes_norm>},
        {.traits = {.name = "tile", .is_reference = true}, .plan = plan_linear<plan_tile>},
        {.traits = {.name = "row_int8", .rounding = Rounding::int8, .needs = needs(int_dot)},
         .fits = fits_row_int8,
         .plan = plan_linear<plan_row_int8, row_sums_take_norm>},
        {.traits = {.name = "tile_int8", .rounding = Rounding::int8, .needs = needs(int_dot)},
         .fits = fits_tile_int8,
         .plan = plan_linear<plan_tile_int8>},
        matrix_kernel<Results::shared_memory, Size::normal>("matrix"),
        matrix_kernel<Results::shared_memory, Size::small>("matrix_small"),
        matrix_kernel<Results::shared_memory, Size::large>("matrix_large"),
        matrix_kernel<Results::registers, Size::normal>("matrix2"),
        matrix_kernel<Results::registers, Size::small>("matrix2_small"),
        matrix_kernel<Results::registers, Size::large>("matrix2_large"),
        {.traits = {.name = "tile_half",
                    .rounding = Rounding::half_sums,
                    .needs = needs(storage16, float16),
                    .is_emulated_on_cpus = true},
         .fits = fits_tile_half,
         .plan = plan_linear<plan_tile_half>},
        {.traits = {.name = "split", .cpu_limit = 512}, .fits = fits_split, .plan = plan_linear<plan_split>},
        {.traits = {.name = "matrix_split",
                    .rounding = Rounding::half_products,
                    .needs = needs(storage16, float16, coopmat),
                    .is_emulated_on_cpus = true},
         .fits = fits_matrix_split,
         .plan = plan_linear<plan_matrix_split>},
    };
    return kKernels;
}

}  // namespace vkformer::vulkan
