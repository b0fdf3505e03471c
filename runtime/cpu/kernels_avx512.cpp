// SPDX-License-Identifier: MIT
#include "cpu/kernels_avx2.hpp"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstdint>

// In place of compiler options for this file: they would reach the inline functions of the headers above, too.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f"))), apply_to = function)
#pragma clang diagnostic ignored "-Wpsabi"
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f")
#endif
#define VKFORMER_HAS_AVX2
#define VKFORMER_HAS_AVX512

namespace vkformer::cpu {
namespace {
#include "cpu/float_kernels.inl"
#include "cpu/float_panels.inl"
}  // namespace

const FloatKernels& float_kernels_avx512() noexcept {
    static const FloatKernels kernels = [] {
        FloatKernels some = float_kernels_avx2();
        some.activate = activate;
        some.max_of = max_of;
        some.exponentiate = exponentiate;
        some.exponentiate_to_bfloats = exponentiate_to_bfloats;
        some.round_to_bfloats = round_to_bfloats;
        return some;
    }();
    return kernels;
}
const FloatPanelKernels& float_panel_kernels_avx512() noexcept { return kFloatPanels; }

}  // namespace vkformer::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
