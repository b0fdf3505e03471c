// SPDX-License-Identifier: MIT
#include "core/platform/processor.hpp"

namespace vkformer::platform {

// vkformer is built for Windows on x86-64 alone.
bool has_arm_dot_products() noexcept { return false; }
bool has_arm_int8_matrices() noexcept { return false; }

}  // namespace vkformer::platform
