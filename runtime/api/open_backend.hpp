// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/program.hpp"
#include "tuning/ladder.hpp"
#include "tuning/workload.hpp"

namespace vkformer::api {

struct OpenedBackend {
    std::unique_ptr<graph::Backend> backend;
    std::string description;  ///< for people: name, type and driver
};

struct OpenOptions {
    /// "cpu": the CPU backend in float; anything else as vulkan::choose_device says.
    std::string device = "auto";
    bool plain = false;                             ///< the plain variant of every op; nothing is measured
    std::map<std::string, std::string> variants{};  ///< op → variant, before what was measured
    std::function<void(const tuning::Progress&)> progress{};
    /// What will be run. With it, "auto" where there is no real GPU takes whichever of the CPU backend and the CPU-type Vulkan
    /// device was measured faster for it; without it, the Vulkan device.
    std::function<Result<std::vector<tuning::Workload>>()> workload{};
    bool profile = false;  ///< vulkan::BackendOptions::profile
};

/// Verdicts on variants are kept beside the pipeline cache. Errors: NoVulkanLoader, NoDevice, MissingFeature, Vulkan;
/// InvalidArgument (an unknown op or variant).
Result<OpenedBackend> open_backend(const OpenOptions& options);

/// How long a submit may take: GPUs are reset after some two seconds, and draw a desktop meanwhile; 0, any time, for backends that
/// are CPUs.
double submit_seconds(const graph::Backend& backend) noexcept;

/// What `options` say about variants, for a backend that is opened in another way. Errors: InvalidArgument.
Result<std::shared_ptr<vulkan::VariantChooser>> make_chooser(const OpenOptions& options);

}  // namespace vkformer::api
