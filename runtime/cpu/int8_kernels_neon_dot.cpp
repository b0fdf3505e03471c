// SPDX-License-Identifier: MIT
#include "cpu/int8_kernels_arm.hpp"

#if VKFORMER_COMPILES_ARM_EXTENSIONS

#include <arm_neon.h>

#include <cstdint>

// In place of compiler options for this file: they would reach the inline functions of the headers above, too.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("dotprod"))), apply_to = function)
// A product and a sum are two functions here, which clang fuses only when it is told to.
#pragma clang fp contract(fast)
#else
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+dotprod")
#endif
#define VKFORMER_HAS_NEON
#define VKFORMER_HAS_DOT_PRODUCTS

namespace vkformer::cpu {
namespace {
#include "cpu/int8_kernels.inl"
}  // namespace

const Int8Kernels* int8_kernels_neon_dot(DType dtype) noexcept { return int8_kernels_of(dtype); }

}  // namespace vkformer::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
