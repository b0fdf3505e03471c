// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "api/open_backend.hpp"
#include "cli.hpp"
#include "graph/program.hpp"
#include "models/open_model.hpp"

namespace vkformer::cli {

/// What `options` say, with progress shown on standard error. Errors: InvalidArgument.
Result<api::OpenOptions> open_options(const DeviceOptions& options);

/// The backend that `options.device` names; says on standard error which one it is, unless quiet. `workloads` as for
/// api::OpeningBackend. Errors: NoDevice, NoVulkanLoader, MissingFeature, InvalidArgument.
Result<std::unique_ptr<graph::Backend>> open_backend(const DeviceOptions& options,
                                                     const api::MakeWorkloads& workloads = {});

/// A model whose load() heeds what its files have that nobody knows, the first time. Errors: those of models::open_model.
Result<models::OpenedModel> open_model(const DeviceOptions& options, const std::filesystem::path& path);

}  // namespace vkformer::cli
