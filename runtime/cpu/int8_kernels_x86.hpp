// SPDX-License-Identifier: MIT
/// int8_kernels.inl compiled for x86-64 with AVX2, FMA and F16C, with AVX-VNNI too, and with AVX-512 F, BW, DQ, VL and VNNI.
#pragma once

#include "core/block_format.hpp"
#include "cpu/int8_kernels.hpp"

#if defined(__x86_64__)
namespace vkformer::cpu {
const Int8Kernels* int8_kernels_avx2(DType dtype) noexcept;
const Int8Kernels* int8_kernels_avx_vnni(DType dtype) noexcept;
const Int8Kernels* int8_kernels_avx512_vnni(DType dtype) noexcept;
}  // namespace vkformer::cpu
#endif
