// SPDX-License-Identifier: MIT
#include "vulkan/kernels/expert_linear.hpp"

#include <algorithm>

#include "core/try.hpp"
#include "cpu_devices/linear/contract.h"
#include "vulkan/kernels/cpu_devices/kernels.hpp"
#include "vulkan/kernels/cpu_devices/lanes.hpp"

namespace vkformer::vulkan::cpu_devices {
namespace {

constexpr std::uint32_t kExpertColumns = shaders::kCpuLinearWorkgroup * shaders::kCpuLinearLaneColumns;

/// The lanes lie along the columns of y.
bool fits_columns(const graph::ExpertLinear& op, const KernelContext& context) {
    const Product product = product_of(op, context).product;
    return product.has_own_format || product.in_width % 4 == 0;
}

Result<DispatchPlan> plan_columns(const graph::ExpertLinear& op, const KernelContext& context) {
    const ExpertProduct p = product_of(op, context);
    const Module module =
        p.product.has_own_format
            ? wide_or_words(modules::cpu_expert_linear_quantized_columns_wide,
                            modules::cpu_expert_linear_quantized_columns, p.product.dtype, context.device)
            : wide_or_words(modules::cpu_expert_linear_columns_wide, modules::cpu_expert_linear_columns,
                            p.product.dtype, context.device);
    const std::uint64_t rows = std::min<std::uint64_t>(p.product.rows, shaders::kLinearMaxRows);
    VKFORMER_TRY(DispatchPlan plan, plan_sorted(op, p, module, {rows, kExpertColumns}, context));
    plan.dispatches.back()
        .set(shaders::kWorkgroupConstant, shaders::kCpuLinearWorkgroup)
        .set(shaders::kLinearRows, rows);
    return plan;
}

/// Rows x k x experts x in x out.
constexpr Edge kExpertColumnsEdges[] = {{1, 2, 3, 4, kExpertColumns - 1},
                                        {shaders::kLinearMaxRows - 1, 1, 1, 16, kExpertColumns},
                                        {shaders::kLinearMaxRows + 1, 2, 2, 12, kExpertColumns + 1}};

}  // namespace

std::span<const Kernel<graph::ExpertLinear>> kernels(const graph::ExpertLinear&) {
    static constexpr Kernel<graph::ExpertLinear> kKernels[] = {
        {.traits = {.name = "cpu_columns", .edges = kExpertColumnsEdges, .device = DeviceClass::cpu},
         .fits = fits_columns,
         .plan = plan_columns}};
    return kKernels;
}

}  // namespace vkformer::vulkan::cpu_devices
