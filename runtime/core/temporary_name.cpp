// SPDX-License-Identifier: MIT
#include "core/temporary_name.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <random>

#include "core/platform/process.hpp"

namespace vkformer {
namespace {

std::uint64_t random_bits() {
    try {
        std::random_device device;
        return std::uint64_t{device()} << 32 | device();
    } catch (
        const std::exception&) {  // no such device, or no descriptor for it: what no other process has at this moment
        static std::atomic<std::uint64_t> counter = 0;
        const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
        return static_cast<std::uint64_t>(platform::process_id()) << 48 ^ static_cast<std::uint64_t>(now) ^ counter++;
    }
}

}  // namespace

std::filesystem::path temporary_name(const std::filesystem::path& path) {
    std::array<char, 24> ending{};
    const std::uint64_t bits = random_bits();
    std::snprintf(ending.data(), ending.size(), ".%08x%08x.tmp", static_cast<unsigned>(bits >> 32),
                  static_cast<unsigned>(bits));
    std::filesystem::path name = path;
    name += ending.data();
    return name;
}

}  // namespace vkformer
