// SPDX-License-Identifier: MIT
#include "core/temporary_name.hpp"

#include <array>
#include <cstdint>
#include <cstdio>

#include "core/random_bits.hpp"

namespace vkformer {
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
