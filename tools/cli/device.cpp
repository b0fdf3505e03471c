// SPDX-License-Identifier: MIT
#include "device.hpp"

#include <cstdio>

#include "core/try.hpp"
#include "cpu/backend.hpp"
#include "vulkan/backend.hpp"

namespace vkformer::cli {

Result<std::unique_ptr<graph::Backend>> open_backend(const DeviceOptions& options) {
    std::unique_ptr<graph::Backend> backend;
    std::string details;
    if (options.device == "cpu") {
        backend = cpu::make_cpu_backend<float>();
    } else {
        VKFORMER_TRY(auto vulkan, vulkan::VulkanBackend::create(options.device));
        details = " (" + vulkan->capabilities().type + ", " + vulkan->capabilities().driver + ")";
        backend = std::move(vulkan);
    }
    if (!options.quiet) std::fprintf(stderr, "vkformer: device: %s%s\n", backend->name().c_str(), details.c_str());
    return backend;
}

}  // namespace vkformer::cli
