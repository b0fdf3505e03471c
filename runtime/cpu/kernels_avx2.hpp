// SPDX-License-Identifier: MIT
/// float_kernels.inl, float_panels.inl and packed_dot.inl compiled for x86-64 with AVX2, FMA and F16C; float_panels.inl with AVX-512 F, too.
#pragma once

#include "cpu/float_kernels.hpp"
#include "cpu/float_product.hpp"
#include "cpu/packed_dot.hpp"

#if defined(__x86_64__)
namespace vkformer::cpu {
const PackedKernels* packed_kernels_avx2(DType dtype) noexcept;
const FloatKernels& float_kernels_avx2() noexcept;
const FloatPanelKernels& float_panel_kernels_avx2() noexcept;
const FloatPanelKernels& float_panel_kernels_avx512() noexcept;
}  // namespace vkformer::cpu
#endif
