// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "vulkan/capabilities.hpp"

namespace vkformer::bench {

/// A name and what it says, in an order that a reader expects.
using Card = std::vector<std::pair<std::string, std::string>>;

/// What a device and its driver are, and the limits that shaders meet.
Card device_card(const vulkan::Capabilities& device);
/// For the CPU backend.
Card cpu_card(const std::string& backend);

}  // namespace vkformer::bench
