// SPDX-License-Identifier: MIT
#include "cpu/int8_kernels.hpp"

#include "core/platform/processor.hpp"
#include "cpu/int8_kernels_arm.hpp"
#include "cpu/int8_kernels_x86.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace vkformer::cpu {
namespace {

using KernelsOf = const Int8Kernels* (*)(DType) noexcept;

#if defined(__x86_64__)

bool has_avx512_vnni() noexcept {
    return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

/// Not every compiler has a name for it.
bool has_avx_vnni() noexcept {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & 1u << 4) != 0;
}

std::vector<KernelsOf> find_kernels() {
    std::vector<KernelsOf> found;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return found;
    if (has_avx512_vnni()) found.push_back(int8_kernels_avx512_vnni);
    if (has_avx_vnni()) found.push_back(int8_kernels_avx_vnni);
    found.push_back(int8_kernels_avx2);
    return found;
}
#elif defined(__aarch64__)
std::vector<KernelsOf> find_kernels() {
    std::vector<KernelsOf> found;
#if VKFORMER_COMPILES_ARM_EXTENSIONS
    if (platform::has_arm_int8_matrices()) found.push_back(int8_kernels_neon_i8mm);
    if (platform::has_arm_dot_products()) found.push_back(int8_kernels_neon_dot);
#endif
    found.push_back(int8_kernels_neon);
    return found;
}
#else
std::vector<KernelsOf> find_kernels() { return {}; }
#endif

/// The best first.
const std::vector<KernelsOf>& available() {
    static const std::vector<KernelsOf> result = find_kernels();
    return result;
}

}  // namespace

const Int8Kernels* int8_kernels(DType dtype) noexcept {
    return available().empty() ? nullptr : available().front()(dtype);
}

std::vector<const Int8Kernels*> every_int8_kernels(DType dtype) {
    std::vector<const Int8Kernels*> result;
    for (const KernelsOf kernels : available())
        if (const Int8Kernels* const found = kernels(dtype)) result.push_back(found);
    return result;
}

}  // namespace vkformer::cpu
