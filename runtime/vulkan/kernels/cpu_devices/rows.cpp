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

constexpr RowFamilies kRmsNorm{modules::rms_norm_row, modules::rms_norm_row_vec4, &modules::cpu_rms_norm_row_wide};
constexpr RowFamilies kLayerNorm{modules::layer_norm_row, modules::layer_norm_row_vec4,
                                 &modules::cpu_layer_norm_row_wide};
constexpr RowFamilies kMaskedSoftmax{modules::masked_softmax_row, modules::masked_softmax_row_vec4};
constexpr RowFamilies kLogSoftmax{modules::log_softmax_row, modules::log_softmax_row_vec4};

template <class Op, graph::Value Op::*kRow, PlanRows<Op> kPlan, const RowFamilies& kFamilies>
Result<DispatchPlan> plan_row(const Op& op, const KernelContext& context) {
    const std::uint64_t width = row_width<Op, kRow>(op, context);
    const Module module = module_for(kFamilies, width, context.graph.dtype(op.*kRow), context.device);
    VKFORMER_TRY(Dispatch dispatch, kPlan(op, form_for(width), module, context));
    return DispatchPlan(std::move(dispatch));
}

/// What invocations keep, all of it and not.
template <class Op>
constexpr Edge kCpuRowEdges[] = {rows_of<Op>(1, 1),
                                 rows_of<Op>(3, 4 * kRowWorkgroup - 4),
                                 rows_of<Op>(2, 4 * kRowWorkgroup),
                                 rows_of<Op>(2, 4 * kRowWorkgroup + 1),
                                 rows_of<Op>(2, 4 * kRowWorkgroup * shaders::kMostKept),
                                 rows_of<Op>(2, 4 * kRowWorkgroup * shaders::kMostKept + 4)};

template <class Op, graph::Value Op::*kRow, PlanRows<Op> kPlan, const RowFamilies& kFamilies>
constexpr Kernel<Op> kCpuRow[] = {
    {.traits = {.name = "cpu_row", .edges = kCpuRowEdges<Op>, .takes = taken_rows<Op>(), .device = DeviceClass::cpu},
     .plan = plan_row<Op, kRow, kPlan, kFamilies>}};

}  // namespace

Result<Dispatch> dispatch_rms_norm(const RmsNormRows& rows, DType dtype, const Capabilities& device) {
    const std::uint64_t width = rows.shape.back();
    return vulkan::dispatch_rms_norm(rows, form_for(width), module_for(kRmsNorm, width, dtype, device), device);
}

std::span<const Kernel<graph::RmsNorm>> kernels(const graph::RmsNorm&) {
    return kCpuRow<graph::RmsNorm, &graph::RmsNorm::x, plan_rms_norm_rows, kRmsNorm>;
}

std::span<const Kernel<graph::LayerNorm>> kernels(const graph::LayerNorm&) {
    return kCpuRow<graph::LayerNorm, &graph::LayerNorm::x, plan_layer_norm_rows, kLayerNorm>;
}

std::span<const Kernel<graph::MaskedSoftmax>> kernels(const graph::MaskedSoftmax&) {
    return kCpuRow<graph::MaskedSoftmax, &graph::MaskedSoftmax::scores, plan_masked_softmax_rows, kMaskedSoftmax>;
}

std::span<const Kernel<graph::LogSoftmax>> kernels(const graph::LogSoftmax&) {
    return kCpuRow<graph::LogSoftmax, &graph::LogSoftmax::x, plan_log_softmax_rows, kLogSoftmax>;
}

}  // namespace vkformer::vulkan::cpu_devices
