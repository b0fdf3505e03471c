// SPDX-License-Identifier: MIT
#include "cpu/kernels_neon.hpp"

#if defined(__aarch64__)

#include <arm_neon.h>

#include <cstdint>

#include "core/block_format.hpp"

#if defined(__clang__)
// A product and a sum are two functions here, which clang fuses only when it is told to.
#pragma clang fp contract(fast)
#endif
#define VKFORMER_HAS_NEON

namespace vkformer::cpu {
namespace {
#include "cpu/float_kernels.inl"
#include "cpu/float_panels.inl"
#include "cpu/packed_dot.inl"
}  // namespace

const PackedKernels* packed_kernels_neon(DType dtype) noexcept { return packed_kernels_of(dtype); }

const FloatKernels& float_kernels_neon() noexcept { return kFloats; }
const FloatPanelKernels& float_panel_kernels_neon() noexcept { return kFloatPanels; }

}  // namespace vkformer::cpu

#endif
