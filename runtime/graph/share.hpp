// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

namespace vkformer::graph {

/// What is wrong with a top_p or min_p, which are shares of a probability; empty: nothing.
inline std::string wrong_share(std::string_view name, float share) {
    if (0 <= share && share <= 1) return {};
    return std::string(name) + " is " + std::to_string(share) + ", expected 0 to 1";
}

}  // namespace vkformer::graph
