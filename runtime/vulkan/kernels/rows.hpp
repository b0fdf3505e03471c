// SPDX-License-Identifier: MIT
/// What the ops that reduce rows have in common: norms and softmax. A workgroup has a row. Their kernels are
///   row            all widths, an element at a time
///   row_vec4       widths that are multiples of 4: four elements at a time, and what fits is kept in registers
///   row_subgroup   row_vec4, reduced with subgroup operations
/// and one in cpu_devices/rows.cpp.
#pragma once

#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

/// How a row is shared out among the invocations of a workgroup.
struct RowForm {
    enum class Loads : std::uint8_t { single, vec4 };
    Loads loads = Loads::single;
    std::uint32_t workgroup = 0;  ///< invocations
    std::uint32_t kept = 0;       ///< vectors of four that an invocation keeps in registers (shaders/lib/quads.glsl)
};

constexpr bool is_vec4(std::uint64_t width) noexcept { return width % 4 == 0; }

RowForm row_form(std::uint64_t width) noexcept;
/// Requires is_vec4(width).
RowForm row_vec4_form(std::uint64_t width) noexcept;
/// `most`: vectors that an invocation may keep.
std::uint32_t kept_vectors(std::uint64_t width, std::uint32_t workgroup, std::uint64_t most) noexcept;

/// The dispatch of an op whose rows are shared out in that form, by that module.
template <class Op>
using PlanRows = Result<Dispatch> (*)(const Op& op, const RowForm& form, Module module, const KernelContext& context);

template <class Op, graph::Value Op::*kRow>
std::uint64_t row_width(const Op& op, const KernelContext& context) {
    return context.graph.shape(op.*kRow).back();
}

template <class Op, graph::Value Op::*kRow>
bool fits_vec4(const Op& op, const KernelContext& context) {
    return is_vec4(row_width<Op, kRow>(op, context));
}

/// Plans kFamily, whose tensors are stored as kRow is.
template <class Op, graph::Value Op::*kRow, PlanRows<Op> kPlan, const ShaderFamily& kFamily,
          RowForm (*kForm)(std::uint64_t)>
Result<DispatchPlan> plan_rows(const Op& op, const KernelContext& context) {
    const Storage storage = storage_for(context.graph.dtype(op.*kRow), context.device);
    auto dispatch = kPlan(op, kForm(row_width<Op, kRow>(op, context)), {&kFamily, storage}, context);
    if (!dispatch) return dispatch.error();
    return DispatchPlan(*std::move(dispatch));
}

/// The three kernels. kSingle, kVec4 and kSubgroup are the families of their modules.
template <class Op, graph::Value Op::*kRow, PlanRows<Op> kPlan, const ShaderFamily& kSingle, const ShaderFamily& kVec4,
          const ShaderFamily& kSubgroup>
inline constexpr Kernel<Op> kRowKernels[] = {
    {.traits = {.name = "row_vec4"},
     .fits = fits_vec4<Op, kRow>,
     .plan = plan_rows<Op, kRow, kPlan, kVec4, row_vec4_form>},
    {.traits = {.name = "row_subgroup", .needs = needs(ShaderRequirement::subgroup)},
     .fits = fits_vec4<Op, kRow>,
     .plan = plan_rows<Op, kRow, kPlan, kSubgroup, row_vec4_form>},
    {.traits = {.name = "row", .is_reference = true}, .plan = plan_rows<Op, kRow, kPlan, kSingle, row_form>},
};

}  // namespace vkformer::vulkan
