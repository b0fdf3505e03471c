// SPDX-License-Identifier: MIT
#include "vulkan/kernels/rms_norm.hpp"

#include "core/try.hpp"
#include "rms_norm/contract.h"
#include "vulkan/kernels/cpu_devices/rms_norm.hpp"

namespace vkformer::vulkan {

static_assert(sizeof(shaders::RmsNormPush) == 20);

Result<Dispatch> dispatch_rms_norm(const RmsNormRows& rows, const RowForm& form, Module module,
                                   const Capabilities& device) {
    VKFORMER_TRY(const auto groups, folded_grid(rows.shape.row_count(), device));
    const auto or_operand = [](graph::Value value, Operand otherwise) { return value ? Operand(value) : otherwise; };
    Dispatch dispatch{.module = module, .groups = groups};
    dispatch.bind(shaders::kRmsNormX, rows.x)
        .bind(shaders::kRmsNormResidual, or_operand(rows.residual, rows.x))
        .bind(shaders::kRmsNormGain, or_operand(rows.gain, rows.x))
        .bind(shaders::kRmsNormSum, or_operand(rows.sum, rows.y))
        .bind(shaders::kRmsNormY, rows.y)
        .set(shaders::kWorkgroupConstant, form.workgroup)
        .set(shaders::kRmsNormHasResidual, !!rows.residual)
        .set(shaders::kRmsNormHasGain, !!rows.gain)
        .set(shaders::kRmsNormHasSum, !!rows.sum);
    if (form.loads == RowForm::Loads::vec4) dispatch.set(shaders::kRmsNormKept, form.kept);
    dispatch.push.set(shaders::RmsNormPush{
        .rows = static_cast<std::uint32_t>(rows.shape.row_count()),
        .width = static_cast<std::uint32_t>(rows.shape.back()),
        .eps = rows.eps,
        .gain_offset = rows.gain_offset,
        .gain_rows = rows.gain_rows,
    });
    return dispatch;
}

Result<Dispatch> untried_rms_norm(const RmsNormRows& rows, DType dtype, const Capabilities& device) {
    if (device.is_cpu()) return cpu_devices::dispatch_rms_norm(rows, dtype, device);
    const std::uint64_t width = rows.shape.back();
    const Storage storage = storage_for(dtype, device);
    if (!is_vec4(width)) return dispatch_rms_norm(rows, row_form(width), {&modules::rms_norm_row, storage}, device);
    return dispatch_rms_norm(rows, for_device(row_vec4_form(width), device), {&modules::rms_norm_row_vec4, storage},
                             device);
}

Result<Dispatch> plan_rms_norm_rows(const graph::RmsNorm& op, const RowForm& form, Module module,
                                    const KernelContext& context) {
    const auto gain_rows =
        op.gain ? static_cast<std::uint32_t>(context.graph.shape(op.gain).row_count()) : std::uint32_t{1};
    return dispatch_rms_norm({.x = op.x,
                              .y = op.y,
                              .shape = context.graph.shape(op.x),
                              .eps = op.eps,
                              .gain_offset = op.gain_offset,
                              .gain_rows = gain_rows,
                              .residual = op.residual,
                              .gain = op.gain,
                              .sum = op.sum},
                             form, module, context.device);
}

std::span<const Kernel<graph::RmsNorm>> kernels(const graph::RmsNorm&) {
    return kRowKernels<graph::RmsNorm, &graph::RmsNorm::x, plan_rms_norm_rows, modules::rms_norm_row,
                       modules::rms_norm_row_vec4, modules::rms_norm_row_subgroup>;
}

}  // namespace vkformer::vulkan
