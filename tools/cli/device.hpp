// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/open_backend.hpp"
#include "cli.hpp"
#include "graph/program.hpp"

namespace vkformer::cli {

/// What `options` say, with progress shown on standard error. Errors: InvalidArgument.
Result<api::OpenOptions> open_options(const DeviceOptions& options);

/// The backend that `options.device` names; says on standard error which one it is, unless quiet. `workloads` as for
/// api::OpeningBackend. Errors: NoDevice, NoVulkanLoader, MissingFeature, InvalidArgument.
Result<std::unique_ptr<graph::Backend>> open_backend(const DeviceOptions& options,
                                                     const api::MakeWorkloads& workloads = {});

}  // namespace vkformer::cli
