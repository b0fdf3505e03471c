// SPDX-License-Identifier: MIT
/// What the ops that reduce rows have in common: norms and softmax. A workgroup has a row. Their kernels are
///   row            all widths, an element at a time
///   row_vec4       widths that are multiples of 4: four elements at a time, and what fits is kept in registers
///   row_subgroup   row_vec4, reduced with subgroup operations
/// and one in cpu_devices/rows.cpp.
#pragma once

#include <type_traits>

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

/// A row of at most so many elements is short: a subgroup or two of invocations have it.
inline constexpr std::uint32_t kShortRow = 64, kShortVec4Row = 4 * kShortRow;
inline constexpr std::uint32_t kLongRowWorkgroup = 128;
/// Vectors that an invocation keeps at most, that is 32 registers: more would cost occupancy.
inline constexpr std::uint32_t kMostRowVectors = 8;

RowForm row_form(std::uint64_t width) noexcept;
/// Requires is_vec4(width).
RowForm row_vec4_form(std::uint64_t width) noexcept;
/// The form with no more vectors than the device's compiler keeps in registers.
RowForm for_device(RowForm form, const Capabilities& device) noexcept;
/// `most`: vectors that an invocation may keep.
std::uint32_t kept_vectors(std::uint64_t width, std::uint32_t workgroup, std::uint64_t most) noexcept;

/// Edge of an op with so many rows.
template <class Op>
constexpr Edge rows_of(std::uint32_t rows, std::uint32_t width) {
    if constexpr (std::is_same_v<Op, graph::MaskedSoftmax>)
        return {1, rows, width};  // heads, queries, keys
    else
        return {rows, width};
}

template <class Op>
inline constexpr Edge kSingleRowEdges[] = {rows_of<Op>(1, 1),
                                           rows_of<Op>(501, 3),
                                           rows_of<Op>(7, kShortRow - 1),
                                           rows_of<Op>(2, kShortRow),
                                           rows_of<Op>(3, kShortRow + 1),
                                           rows_of<Op>(3, kLongRowWorkgroup - 1),
                                           rows_of<Op>(5, kLongRowWorkgroup + 1),
                                           rows_of<Op>(2, 8 * kLongRowWorkgroup + 1)};

/// KernelTraits::takes of a norm; of a softmax, which has no residual, it says nothing.
inline constexpr std::uint32_t kNormTakes[] = {graph::bits_of(graph::Extra::residual)};
template <class Op>
constexpr std::span<const std::uint32_t> taken_rows() {
    if constexpr (requires(Op op) { op.residual; })
        return kNormTakes;
    else
        return {};
}

/// All that invocations have is kept, some of it, or as much as may be and no more.
template <class Op>
inline constexpr Edge kVec4RowEdges[] = {rows_of<Op>(3, 4),
                                         rows_of<Op>(2, kShortVec4Row - 4),
                                         rows_of<Op>(3, kShortVec4Row),
                                         rows_of<Op>(2, kShortVec4Row + 4),
                                         rows_of<Op>(3, 8 * kLongRowWorkgroup),
                                         rows_of<Op>(2, 4 * kMostRowVectors * kLongRowWorkgroup),
                                         rows_of<Op>(2, 4 * kMostRowVectors * kLongRowWorkgroup + 4),
                                         rows_of<Op>(2, 30012)};

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
    auto dispatch =
        kPlan(op, for_device(kForm(row_width<Op, kRow>(op, context)), context.device), {&kFamily, storage}, context);
    if (!dispatch) return dispatch.error();
    return DispatchPlan(*std::move(dispatch));
}

/// The three kernels. kSingle, kVec4 and kSubgroup are the families of their modules.
template <class Op, graph::Value Op::*kRow, PlanRows<Op> kPlan, const ShaderFamily& kSingle, const ShaderFamily& kVec4,
          const ShaderFamily& kSubgroup>
inline constexpr Kernel<Op> kRowKernels[] = {
    {.traits = {.name = "row_vec4", .edges = kVec4RowEdges<Op>, .takes = taken_rows<Op>()},
     .fits = fits_vec4<Op, kRow>,
     .plan = plan_rows<Op, kRow, kPlan, kVec4, row_vec4_form>},
    {.traits = {.name = "row_subgroup",
                .edges = kVec4RowEdges<Op>,
                .takes = taken_rows<Op>(),
                .needs = needs(ShaderRequirement::subgroup)},
     .fits = fits_vec4<Op, kRow>,
     .plan = plan_rows<Op, kRow, kPlan, kSubgroup, row_vec4_form>},
    {.traits = {.name = "row", .edges = kSingleRowEdges<Op>, .takes = taken_rows<Op>(), .is_reference = true},
     .plan = plan_rows<Op, kRow, kPlan, kSingle, row_form>},
};

}  // namespace vkformer::vulkan
