// SPDX-License-Identifier: MIT
/// float_kernels.inl, float_panels.inl and packed_dot.inl compiled for x86-64 with AVX2, FMA and F16C; the first two with AVX-512 F, too, and
/// float_panels.inl for pairs with AVX-512 BF16.
#pragma once

#include "cpu/bfloat_pairs.hpp"
#include "cpu/float_kernels.hpp"
#include "cpu/float_product.hpp"
#include "cpu/packed_dot.hpp"

#if defined(__x86_64__)
namespace vkformer::cpu {
const PackedKernels* packed_kernels_avx2(DType dtype) noexcept;
const FloatKernels& float_kernels_avx2() noexcept;
const FloatPanelKernels& float_panel_kernels_avx2() noexcept;
const FloatKernels& float_kernels_avx512() noexcept;
const FloatPanelKernels& float_panel_kernels_avx512() noexcept;
const BfloatPairKernels& bfloat_pair_kernels_avx512() noexcept;
}  // namespace vkformer::cpu
#endif
