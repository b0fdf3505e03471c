// SPDX-License-Identifier: MIT
#include "core/random_bits.hpp"

#include <atomic>
#include <chrono>
#include <exception>
#include <random>

#include "core/platform/process.hpp"

namespace vkformer {

std::uint64_t random_bits() {
    try {
        std::random_device device;
        return std::uint64_t{device()} << 32 | device();
    } catch (const std::exception&) {
        static std::atomic<std::uint64_t> counter = 0;
        const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
        return static_cast<std::uint64_t>(platform::process_id()) << 48 ^ static_cast<std::uint64_t>(now) ^ counter++;
    }
}

}  // namespace vkformer
