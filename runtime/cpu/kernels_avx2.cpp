// SPDX-License-Identifier: MIT
#include "cpu/kernels_avx2.hpp"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstdint>

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

const PackedKernels* packed_kernels_avx2(DType dtype) noexcept {
    switch (dtype) {
    case DType::f16: return &kF16;
    case DType::bf16: return &kBf16;
    case DType::q8_0: return &kQ8_0;
    case DType::q4_0: return &kQ4_0;
    case DType::q4_k: return &kQ4_K;
    case DType::q5_k: return &kQ5_K;
    case DType::q6_k: return &kQ6_K;
    default: return nullptr;
    }
}

const FloatKernels& float_kernels_avx2() noexcept { return kFloats; }
const FloatPanelKernels& float_panel_kernels_avx2() noexcept { return kFloatPanels; }

}  // namespace vkformer::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
