// SPDX-License-Identifier: MIT
#pragma once

#include <cassert>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>

namespace vkformer::cpu {

// cap · tanh(x / cap): x, bounded smoothly by ±cap. Gemma Team 2024 (arXiv 2408.00118), section 2.
template <std::floating_point T>
T soft_capped(T x, T cap) {
    return cap * std::tanh(x / cap);
}

}  // namespace vkformer::cpu
