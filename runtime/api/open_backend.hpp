// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "graph/program.hpp"

namespace vkformer::api {

struct OpenedBackend {
    std::unique_ptr<graph::Backend> backend;
    std::string description;  ///< for people: name, type and driver
};

/// "cpu": the CPU backend in float; anything else as vulkan::choose_device says. Errors: NoVulkanLoader, NoDevice,
/// MissingFeature, Vulkan.
Result<OpenedBackend> open_backend(std::string_view choice);

}  // namespace vkformer::api
