// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace vkformer {

/// How many pieces of `size` cover `count`.
constexpr std::uint64_t ceil_div(std::uint64_t count, std::uint64_t size) noexcept { return (count + size - 1) / size; }
constexpr std::uint64_t round_up(std::uint64_t size, std::uint64_t multiple) noexcept {
    return ceil_div(size, multiple) * multiple;
}

}  // namespace vkformer
