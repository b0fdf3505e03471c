// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>

namespace vkformer::cpu {

// Philox4x32-10 (Salmon et al. 2011): four words of randomness as a function of a counter and a key.
inline std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t first = std::uint64_t{0xD2511F53u} * counter[0];
        const std::uint64_t second = std::uint64_t{0xCD9E8D57u} * counter[2];
        counter = {static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(second),
                   static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(first)};
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    return counter;
}

// −log(1 − v) for v = (word + 1/2) / 2^32: exponentially distributed where word is uniform.
template <std::floating_point T>
T exponential_number(std::uint32_t word) {
    return static_cast<T>(-std::log1p(-(static_cast<double>(word) + 0.5) * 0x1p-32));
}

}  // namespace vkformer::cpu
