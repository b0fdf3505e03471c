// SPDX-License-Identifier: MIT
#include "core/platform/processor.hpp"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

namespace vkformer::platform {
bool has_arm_dot_products() noexcept { return (::getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }
bool has_arm_int8_matrices() noexcept { return (::getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0; }
}  // namespace vkformer::platform
#else
namespace vkformer::platform {
bool has_arm_dot_products() noexcept { return false; }
bool has_arm_int8_matrices() noexcept { return false; }
}  // namespace vkformer::platform
#endif
