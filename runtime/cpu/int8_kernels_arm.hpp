// SPDX-License-Identifier: MIT
/// int8_kernels.inl compiled for aarch64 with the NEON that every processor has, with dot products (FEAT_DotProd), and with these and products of
/// matrices of bytes (FEAT_I8MM).
#pragma once

#include "core/block_format.hpp"
#include "cpu/int8_kernels.hpp"

// clang before 16 has the intrinsics of the latter two only where its command line has the features.
#if defined(__aarch64__) && (!defined(__clang__) || __clang_major__ >= 16)
#define VKFORMER_COMPILES_ARM_EXTENSIONS 1
#else
#define VKFORMER_COMPILES_ARM_EXTENSIONS 0
#endif

#if defined(__aarch64__)
namespace vkformer::cpu {
const Int8Kernels* int8_kernels_neon(DType dtype) noexcept;
const Int8Kernels* int8_kernels_neon_dot(DType dtype) noexcept;
const Int8Kernels* int8_kernels_neon_i8mm(DType dtype) noexcept;
}  // namespace vkformer::cpu
#endif
