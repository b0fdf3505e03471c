// SPDX-License-Identifier: MIT
#include "api/open_backend.hpp"

#include "core/try.hpp"
#include "cpu/backend.hpp"
#include "vulkan/backend.hpp"

namespace vkformer::api {

Result<OpenedBackend> open_backend(std::string_view choice) {
    if (choice == "cpu") {
        auto backend = cpu::make_cpu_backend<float>();
        std::string name = backend->name();
        return OpenedBackend{std::move(backend), std::move(name)};
    }
    VKFORMER_TRY(auto backend, vulkan::VulkanBackend::create(choice));
    const vulkan::Capabilities& c = backend->capabilities();
    std::string description = c.name + " (" + c.type + ", " + c.driver + ")";
    return OpenedBackend{std::move(backend), std::move(description)};
}

}  // namespace vkformer::api
