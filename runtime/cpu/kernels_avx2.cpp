// SPDX-License-Identifier: MIT
#include "cpu/kernels_avx2.hpp"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstdint>

#include "core/block_format.hpp"

// In place of compiler options for this file: they would reach the inline functions of the headers above, too.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#pragma clang diagnostic ignored "-Wpsabi"
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
#define VKFORMER_HAS_AVX2

namespace vkformer::cpu {
namespace {
#include "cpu/float_kernels.inl"
#include "cpu/float_panels.inl"
#include "cpu/packed_dot.inl"
}  // namespace

const PackedKernels* packed_kernels_avx2(DType dtype) noexcept { return packed_kernels_of(dtype); }

const FloatKernels& float_kernels_avx2() noexcept { return kFloats; }
const FloatPanelKernels& float_panel_kernels_avx2() noexcept { return kFloatPanels; }

}  // namespace vkformer::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
