// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

namespace vkformer::tests {

/// The sounds of tests/goldens/make_ctc.py: 16-bit samples, now louder, now softer.
inline std::vector<float> noise_of(std::size_t count, std::uint32_t seed) {
    std::vector<float> samples(count);
    for (std::size_t i = 0; i < count; ++i) {
        seed = 1664525 * seed + 1013904223;
        const auto sample = static_cast<std::int32_t>(seed >> 16) - 32768;
        samples[i] = static_cast<float>(sample >> (i / 300 % 4 * 2)) / 32768;
    }
    return samples;
}

}  // namespace vkformer::tests
