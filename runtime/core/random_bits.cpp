// SPDX-License-Identifier: MIT
#include "core/random_bits.hpp"

#include <atomic>
#include <chrono>
#include <exception>
#include <random>

#include "core/platform/process.hpp"

namespace vkformer {
namespace {

/// Another number for each, of which every bit depends on all (the finaliser of MurmurHash3).
std::uint64_t mixed(std::uint64_t bits) {
    bits = (bits ^ bits >> 33) * 0xFF51AFD7ED558CCDu;
    bits = (bits ^ bits >> 33) * 0xC4CEB9FE1A85EC53u;
    return bits ^ bits >> 33;
}

}  // namespace

std::uint64_t random_bits() {
    try {
        std::random_device device;
        return std::uint64_t{device()} << 32 | device();
    } catch (const std::exception&) {
        static std::atomic<std::uint64_t> counter = 0;
        const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
        const auto process = static_cast<std::uint64_t>(platform::process_id());
        return mixed(now ^ mixed(process ^ mixed(counter++)));
    }
}

}  // namespace vkformer
