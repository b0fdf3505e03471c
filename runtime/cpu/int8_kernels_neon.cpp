// SPDX-License-Identifier: MIT
#include "cpu/int8_kernels_arm.hpp"

#if defined(__aarch64__)

#include <arm_neon.h>

#include <cstdint>

#if defined(__clang__)
// A product and a sum are two functions here, which clang fuses only when it is told to.
#pragma clang fp contract(fast)
#endif
#define VKFORMER_HAS_NEON

namespace vkformer::cpu {
namespace {
#include "cpu/int8_kernels.inl"
}  // namespace

const Int8Kernels* int8_kernels_neon(DType dtype) noexcept { return int8_kernels_of(dtype); }

}  // namespace vkformer::cpu

#endif
