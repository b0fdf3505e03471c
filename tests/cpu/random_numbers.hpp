// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vkformer::tests {

/// From −1 to 1, the same ones for a seed.
inline std::vector<float> random_numbers(std::size_t count, std::uint32_t seed) {
    std::vector<float> numbers(count);
    for (float& number : numbers) {
        seed = seed * 1664525u + 1013904223u;
        number = static_cast<float>(seed >> 8) * 0x1p-23f - 1;
    }
    return numbers;
}

}  // namespace vkformer::tests
