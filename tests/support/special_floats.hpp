// SPDX-License-Identifier: MIT
#pragma once

#include <limits>

namespace vkformer::tests {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace vkformer::tests
