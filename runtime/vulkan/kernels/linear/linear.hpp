// SPDX-License-Identifier: MIT
/// What the kernels of linear have in common.
#pragma once

#include "linear/contract.h"
#include "vulkan/kernels/kernels.hpp"
#include "vulkan/vendors.hpp"

namespace vkformer::vulkan {

/// KernelTraits::takes of kernels for any rows, of those that take no batch of products, and of those that norm few rows themselves.
inline constexpr std::uint32_t kAnyRowsTake[] = {
    graph::bits_of(graph::Extra::activation, graph::Extra::residual, graph::Extra::batch),
    graph::bits_of(graph::Extra::activation, graph::Extra::gate)};
inline constexpr std::uint32_t kOneProductTakes[] = {graph::bits_of(graph::Extra::activation, graph::Extra::residual),
                                                     kAnyRowsTake[1]};
inline constexpr std::uint32_t kNormedRowsTake[] = {
    kAnyRowsTake[0], kAnyRowsTake[1],
    graph::bits_of(graph::Extra::activation, graph::Extra::gate, graph::Extra::rms_norm)};

/// The shapes that kernels are chosen by.
struct Product {
    std::uint64_t batch;                      ///< products
    std::uint64_t rows, in_width, out_width;  ///< of each
    DType dtype, weight;                      ///< of x, and of the weight
    bool has_own_format;                      ///< the weight is not stored as x is: it is unpacked in registers
    bool has_few_rows() const { return rows <= shaders::kLinearMaxRows; }
};

Product product_of(const graph::Linear& op, const graph::Graph& graph);

/// Intel: 128 registers per invocation, half as many as others have, and no offsets in the instructions that read shared memory.
inline bool has_few_registers(const Capabilities& device) { return device.vendor_id == vendors::kIntel; }

inline bool has_fewest_registers(const Capabilities& device) { return vendors::has_fewest_registers(device.vendor_id); }

/// Qualcomm: half as many registers per invocation where a workgroup has more than 64 of them.
inline bool prefers_small_workgroups(const Capabilities& device) { return device.vendor_id == vendors::kQualcomm; }

/// Of linear/slices.glsl.
inline bool has_whole_slices(const Product& product) { return product.in_width % shaders::kLinearTileDepth == 0; }

/// Of linear/tile_vec4.comp: unrolled, each read of shared memory keeps its address in a register where the instruction takes no offset.
inline std::uint32_t unrolled_quads(const Capabilities& device) {
    return has_few_registers(device) || has_fewest_registers(device) ? 1 : shaders::kLinearTileDepth / 4;
}

/// Of the same: whether a slice waits in registers while the one before it is multiplied.
inline std::uint32_t fetches_ahead(const Capabilities& device) { return has_fewest_registers(device) ? 0 : 1; }

/// What a workgroup computes of y.
struct LinearTile {
    std::uint64_t rows, columns;
};

/// Whether the shaders with loads of four elements (of 16 bytes, for few rows) take x and weight.
bool takes_vec4(const Product& product, const Capabilities& device);

/// `family` as x is stored, with float results where y has them.
Module module_for(const ShaderFamily& family, const graph::Linear& op, const KernelContext& context);

/// The dispatch with what all algorithms have: operands, epilogue, push constants, and `splits` workgroups for each tile. `x` stands for
/// op.x: behind a norm it is scratch memory.
Result<Dispatch> dispatch_linear(const graph::Linear& op, Operand x, Module module, LinearTile tile,
                                 const KernelContext& context, std::uint64_t splits = 1);

/// A kernel's plan for x, which is normed where op says so and the kernel takes norms.
using PlanProduct = Result<DispatchPlan> (*)(const graph::Linear& op, Operand x, const KernelContext& context);
using TakesNorm = bool (*)(const graph::Linear& op, const KernelContext& context);
constexpr bool takes_no_norm(const graph::Linear&, const KernelContext&) { return false; }

/// The RMS norm of x into scratch memory, then the product of that.
Result<DispatchPlan> plan_behind_norm(const graph::Linear& op, PlanProduct plan, const KernelContext& context);

template <PlanProduct kPlan, TakesNorm kTakesNorm = takes_no_norm>
Result<DispatchPlan> plan_linear(const graph::Linear& op, const KernelContext& context) {
    if (op.prologue && !kTakesNorm(op, context)) return plan_behind_norm(op, kPlan, context);
    return kPlan(op, op.x, context);
}

// The algorithms.
bool fits_tile_vec4(const graph::Linear& op, const KernelContext& context);
Result<DispatchPlan> plan_tile_vec4(const graph::Linear& op, Operand x, const KernelContext& context);
Result<DispatchPlan> plan_tile_vec4_large(const graph::Linear& op, Operand x, const KernelContext& context);
Result<DispatchPlan> plan_tile(const graph::Linear& op, Operand x, const KernelContext& context);
bool fits_tile_int8(const graph::Linear& op, const KernelContext& context);
Result<DispatchPlan> plan_tile_int8(const graph::Linear& op, Operand x, const KernelContext& context);
bool fits_tile_half(const graph::Linear& op, const KernelContext& context);
Result<DispatchPlan> plan_tile_half(const graph::Linear& op, Operand x, const KernelContext& context);

bool fits_row_vec4(const graph::Linear& op, const KernelContext& context);
Result<DispatchPlan> plan_row_vec4(const graph::Linear& op, Operand x, const KernelContext& context);
bool fits_row(const graph::Linear& op, const KernelContext& context);
Result<DispatchPlan> plan_row(const graph::Linear& op, Operand x, const KernelContext& context);
bool fits_row_int8(const graph::Linear& op, const KernelContext& context);
Result<DispatchPlan> plan_row_int8(const graph::Linear& op, Operand x, const KernelContext& context);
/// Whether the partial sums of those of few rows leave room for the squares in shared memory.
bool row_takes_norm(const graph::Linear& op, const KernelContext& context);
bool row_sums_take_norm(const graph::Linear& op, const KernelContext& context);

bool fits_split(const graph::Linear& op, const KernelContext& context);
Result<DispatchPlan> plan_split(const graph::Linear& op, Operand x, const KernelContext& context);

}  // namespace vkformer::vulkan
