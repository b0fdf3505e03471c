// SPDX-License-Identifier: MIT
#include "cpu/packed_dot.hpp"

#include <cstdint>

#include "core/block_format.hpp"
#include "cpu/kernels_avx2.hpp"
#include "cpu/kernels_neon.hpp"

namespace vkformer::cpu {
namespace {

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors that the target splits; they cross no border of this file
#include "cpu/float_kernels.inl"
#include "cpu/float_panels.inl"
#include "cpu/packed_dot.inl"

namespace pairs {
#define VKFORMER_PAIRS
#include "cpu/bfloat_pairs.inl"
#include "cpu/float_panels.inl"
constexpr BfloatPairKernels kKernels = {kFloatPanels, pair_neighbours, pair_rows};
}  // namespace pairs

#if defined(__x86_64__)
/// Every processor with AVX2 has F16C, for which not every compiler has a name.
bool is_wide() noexcept {
    static const bool result = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return result;
}
#endif

}  // namespace

const PackedKernels* plain_packed_kernels(DType dtype) noexcept { return packed_kernels_of(dtype); }

const PackedKernels* packed_kernels(DType dtype) noexcept {
#if defined(__x86_64__)
    if (is_wide()) return packed_kernels_avx2(dtype);
#elif defined(__aarch64__)
    return packed_kernels_neon(dtype);
#endif
    return plain_packed_kernels(dtype);
}

const FloatPanelKernels& plain_float_panel_kernels() noexcept { return kFloatPanels; }

const FloatPanelKernels& float_panel_kernels() noexcept {
#if defined(__x86_64__)
    if (is_wide() && __builtin_cpu_supports("avx512f")) return float_panel_kernels_avx512();
    if (is_wide()) return float_panel_kernels_avx2();
#elif defined(__aarch64__)
    return float_panel_kernels_neon();
#endif
    return kFloatPanels;
}

const FloatKernels& plain_float_kernels() noexcept { return kFloats; }

const FloatKernels& float_kernels() noexcept {
#if defined(__x86_64__)
    if (is_wide() && __builtin_cpu_supports("avx512f")) return float_kernels_avx512();
    if (is_wide()) return float_kernels_avx2();
#elif defined(__aarch64__)
    return float_kernels_neon();
#endif
    return kFloats;
}

const BfloatPairKernels& plain_bfloat_pair_kernels() noexcept { return pairs::kKernels; }

const BfloatPairKernels* bfloat_pair_kernels() noexcept {
#if defined(__x86_64__)
    static const bool has_them = is_wide() && __builtin_cpu_supports("avx512bw") &&
                                 __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bf16");
    if (has_them) return &bfloat_pair_kernels_avx512();
#endif
    return nullptr;
}

}  // namespace vkformer::cpu
