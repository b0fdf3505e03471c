// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli.hpp"
#include "graph/program.hpp"

namespace vkformer::cli {

/// The backend that `options.device` names; says on standard error which one it is, unless quiet. Errors: NoDevice,
/// NoVulkanLoader, MissingFeature.
Result<std::unique_ptr<graph::Backend>> open_backend(const DeviceOptions& options);

}  // namespace vkformer::cli
