// SPDX-License-Identifier: MIT
#include "core/temporary_name.hpp"

#include <array>
#include <cstdio>
#include <random>

namespace vkformer {

std::filesystem::path temporary_name(const std::filesystem::path& path) {
    std::random_device device;
    std::array<char, 24> ending{};
    std::snprintf(ending.data(), ending.size(), ".%08x%08x.tmp", unsigned{device()}, unsigned{device()});
    std::filesystem::path name = path;
    name += ending.data();
    return name;
}

}  // namespace vkformer
