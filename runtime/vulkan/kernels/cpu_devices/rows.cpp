// SPDX-License-Identifier: MIT
/// Ops that reduce rows: a workgroup has as many invocations as such a device has lanes, and a row.
#include "core/try.hpp"
#include "vulkan/kernels/cpu_devices/kernels.hpp"
#include "vulkan/kernels/cpu_devices/lanes.hpp"
#include "vulkan/kernels/cpu_devices/rms_norm.hpp"
#include "vulkan/kernels/layer_norm.hpp"
#include "vulkan/kernels/log_softmax.hpp"
#include "vulkan/kernels/masked_softmax.hpp"

namespace vkformer::vulkan::cpu_devices {
namespace {

constexpr std::uint32_t kRowWorkgroup = 8;  // the lanes of lavapipe; SwiftShader has 4

RowForm form_for(std::uint64_t width) {
    if (!is_vec4(width)) return {.workgroup = kRowWorkgroup};
    return {.loads = RowForm::Loads::vec4,
            .workgroup = kRowWorkgroup,
            .kept = kept_vectors(width, kRowWorkgroup, shaders::kMostKept)};
}

/// The shaders of an op: one element, four, and four as words of 64 bits (absent: there is none).
struct RowFamilies {
    const ShaderFamily &single, &vec4;
    const ShaderFamily* wide = nullptr;
};

Module module_for(const RowFamilies& families, std::uint64_t width, DType dtype, const Capabilities& device) {
    const Storage storage = storage_for(dtype, device);
    if (!is_vec4(width)) return {&families.single, storage};
    if (families.wide && has_wide_loads(device)) return {families.wide, storage};
    return {&families.vec4, storage};
}

template <class Op>
Result<DispatchPlan> plan_row(const Op& op, graph::Value row, PlanRows<Op> plan, const RowFamilies& families,
                              const KernelContext& context) {
    const std::uint64_t width = context.graph.shape(row).back();
    VKFORMER_TRY(
        Dispatch dispatch,
        plan(op, form_for(width), module_for(families, width, context.graph.dtype(row), context.device), context));
    return DispatchPlan(std::move(dispatch));
}

const RowFamilies kRmsNorm{modules::rms_norm_row, modules::rms_norm_row_vec4, &modules::cpu_rms_norm_row_wide};
const RowFamilies kLayerNorm{modules::layer_norm_row, modules::layer_norm_row_vec4, &modules::cpu_layer_norm_row_wide};
const RowFamilies kMaskedSoftmax{modules::masked_softmax_row, modules::masked_softmax_row_vec4};
const RowFamilies kLogSoftmax{modules::log_softmax_row, modules::log_softmax_row_vec4};

constexpr KernelTraits kTraits{.name = "cpu_row", .device = DeviceClass::cpu};

}  // namespace

Result<Dispatch> dispatch_rms_norm(const RmsNormRows& rows, DType dtype, const Capabilities& device) {
    const std::uint64_t width = rows.shape.back();
    return vulkan::dispatch_rms_norm(rows, form_for(width), module_for(kRmsNorm, width, dtype, device), device);
}

std::span<const Kernel<graph::RmsNorm>> kernels(const graph::RmsNorm&) {
    static constexpr Kernel<graph::RmsNorm> kKernels[] = {
        {.traits = kTraits, .plan = [](const graph::RmsNorm& op, const KernelContext& context) {
             return plan_row<graph::RmsNorm>(op, op.x, plan_rms_norm_rows, kRmsNorm, context);
         }}};
    return kKernels;
}

std::span<const Kernel<graph::LayerNorm>> kernels(const graph::LayerNorm&) {
    static constexpr Kernel<graph::LayerNorm> kKernels[] = {
        {.traits = kTraits, .plan = [](const graph::LayerNorm& op, const KernelContext& context) {
             return plan_row<graph::LayerNorm>(op, op.x, plan_layer_norm_rows, kLayerNorm, context);
         }}};
    return kKernels;
}

std::span<const Kernel<graph::MaskedSoftmax>> kernels(const graph::MaskedSoftmax&) {
    static constexpr Kernel<graph::MaskedSoftmax> kKernels[] = {
        {.traits = kTraits, .plan = [](const graph::MaskedSoftmax& op, const KernelContext& context) {
             return plan_row<graph::MaskedSoftmax>(op, op.scores, plan_masked_softmax_rows, kMaskedSoftmax, context);
         }}};
    return kKernels;
}

std::span<const Kernel<graph::LogSoftmax>> kernels(const graph::LogSoftmax&) {
    static constexpr Kernel<graph::LogSoftmax> kKernels[] = {
        {.traits = kTraits, .plan = [](const graph::LogSoftmax& op, const KernelContext& context) {
             return plan_row<graph::LogSoftmax>(op, op.x, plan_log_softmax_rows, kLogSoftmax, context);
         }}};
    return kKernels;
}

}  // namespace vkformer::vulkan::cpu_devices
