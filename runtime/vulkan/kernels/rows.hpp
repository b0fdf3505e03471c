// SPDX-License-Identifier: MIT
/// What the ops that reduce rows have in common: norms and softmax. Their variants are
///   plain      one shader for all widths, an element at a time
///   direct     Vulkan devices that are CPUs: workgroups of as many invocations as such a device has lanes
///   quads      widths that are multiples of 4: four elements at a time, and what fits is kept in registers
///   subgroup   quads, reduced with subgroup operations
#pragma once

#include "vulkan/kernels/kernels.hpp"

namespace vkformer::vulkan {

VariantNames row_variants(std::uint64_t width, const Capabilities& device);

/// How a variant shares out a row.
struct RowTiling {
    std::string_view suffix;  ///< of the shader's name: "", "_quads", "_subgroup"
    std::uint32_t workgroup;  ///< invocations, one workgroup per row
    std::uint32_t kept;       ///< quads that an invocation keeps (shaders/lib/quads.glsl)
};
RowTiling row_tiling(std::string_view variant, std::uint64_t width);

/// The shader of a norm, which is stored as its operands are: `direct` moves words of 64 bits where the device has them.
std::string norm_shader(std::string_view op, std::string_view variant, const Shape& shape, DType dtype,
                        const Capabilities& device);

}  // namespace vkformer::vulkan
