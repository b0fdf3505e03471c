// SPDX-License-Identifier: MIT
/// What VulkanBackend::adopt() takes: the host's device through an interposer.
#pragma once

#include "support/host_application.hpp"
#include "support/interposer.hpp"
#include "vulkan/adopted_device.hpp"

namespace vkformer::tests {

inline vulkan::AdoptedDevice lent(HostApplication& host, const Interposer& interposer) {
    return {.get_instance_proc_addr = interposer.get(),
            .instance = host.instance,
            .physical_device = host.physical,
            .device = host.device,
            .created_with = host.lend(true).created_with,
            .queue = host.queue};
}

}  // namespace vkformer::tests
