// SPDX-License-Identifier: MIT
/// The part of linear whose weight is unpacked (graph/weight_dtype.hpp): bf16, f16 or a block format. Called by linear.cpp.
#pragma once

#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

/// "broadcast", "vectors" and "direct" on CPU-type devices, "row" for few rows, "plain"; and with activations rounded to 8 bits, where the
/// device has integer dot products, "row_int8" and "int8", to float16 the matrix_variants (validation/bounds.cpp knows them by their names);
/// and for few results "split" or, of float16 matrices, "coopmat_split".
/// Requires is_unpacked(dtype of op.weight, of op.x).
VariantNames linear_quantized_variants(const graph::Linear& op, const KernelContext& context);
Result<Dispatch> plan_linear_quantized(const graph::Linear& op, const KernelContext& context);

/// Has the workgroups of a dispatch that takes tiles stage their rows (shaders: lib/staged.glsl), in so much of kScratch.
void stage_rows(Dispatch& dispatch, const graph::Linear& op, const graph::Graph& graph);

/// The shaders' constant kLinearEnd.
std::uint32_t end_of(const graph::Linear& op);

/// The shaders' constant kLinearOperands.
std::uint32_t operands_of(const graph::Linear& op);

/// What stands at the shaders' binding kLinearResidual, which is kLinearGain too.
graph::Value residual_or_gain(const graph::Linear& op);

/// The addresses of x, weight and gain, for the variants whose shaders read them so (VECTORS); else nothing.
std::vector<Dispatch::Addressed> addresses_for(std::string_view variant, const graph::Linear& op);

/// Makes a dispatch of a workgroup for each tile one whose workgroups take tiles.
void take_tiles(Dispatch& dispatch);

/// Columns of a workgroup of the row shaders that have ROWS · COLUMNS partial sums; with a gate, whole pairs.
std::uint64_t columns_of_row_workgroup(std::uint64_t rows, bool gated);

/// Rows of a workgroup of linear_broadcast.comp and, with words of 32 bits, linear_quantized_broadcast.comp.
std::uint32_t broadcast_rows(std::uint64_t rows);

}  // namespace vkformer::vulkan
