// SPDX-License-Identifier: MIT
#pragma once

#include "graph/graph.hpp"
#include "lib/state_place.h"

namespace vkformer::vulkan {

/// kPlaceHas… bits of an op that has graph::StatePlace's operands.
constexpr std::uint32_t place_bits(const auto& op) noexcept {
    return (op.starts ? shaders::kPlaceHasStarts : 0u) | (op.counts ? shaders::kPlaceHasCounts : 0u) |
           (op.slots ? shaders::kPlaceHasSlots : 0u);
}

}  // namespace vkformer::vulkan
