// SPDX-License-Identifier: MIT
#include "cpu/kernels_avx2.hpp"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstdint>

// In place of compiler options for this file: they would reach the inline functions of the headers above, too.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512bf16"))), apply_to = function)
#pragma clang diagnostic ignored "-Wpsabi"
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512bf16")
#endif
#define VKFORMER_HAS_AVX2
#define VKFORMER_HAS_AVX512

namespace vkformer::cpu {
namespace {
#define VKFORMER_PAIRS
#include "cpu/bfloat_pairs.inl"
#include "cpu/float_panels.inl"
}  // namespace

const BfloatPairKernels& bfloat_pair_kernels_avx512() noexcept {
    static constexpr BfloatPairKernels kernels = {kFloatPanels, pair_neighbours, pair_rows};
    return kernels;
}

}  // namespace vkformer::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
