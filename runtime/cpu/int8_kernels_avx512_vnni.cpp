// SPDX-License-Identifier: MIT
#include "cpu/int8_kernels_x86.hpp"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstdint>

// In place of compiler options for this file: they would reach the inline functions of the headers above, too.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"))), \
                             apply_to = function)
#pragma clang diagnostic ignored "-Wpsabi"
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#endif
#define VKFORMER_HAS_AVX2
#define VKFORMER_HAS_AVX512_VNNI

namespace vkformer::cpu {
namespace {
#include "cpu/int8_kernels.inl"
}  // namespace

const Int8Kernels* int8_kernels_avx512_vnni(DType dtype) noexcept { return int8_kernels_of(dtype); }

}  // namespace vkformer::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
