// SPDX-License-Identifier: MIT
/// float_kernels.inl, float_panels.inl and packed_dot.inl compiled for the NEON that every aarch64 processor has.
#pragma once

#include "cpu/float_kernels.hpp"
#include "cpu/float_product.hpp"
#include "cpu/packed_dot.hpp"

#if defined(__aarch64__)
namespace vkformer::cpu {
const PackedKernels* packed_kernels_neon(DType dtype) noexcept;
const FloatKernels& float_kernels_neon() noexcept;
const FloatPanelKernels& float_panel_kernels_neon() noexcept;
}  // namespace vkformer::cpu
#endif
