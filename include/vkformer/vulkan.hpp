// SPDX-License-Identifier: MIT
/// What an application that owns a VkDevice tells vkformer about it.
#pragma once

#include <vulkan/vulkan.h>

#include <cstdint>

namespace vkformer {

/// A device that the application created. Nothing of it is ever destroyed by vkformer, and it must outlive everything that
/// was made from it. A VkDevice cannot be asked what was enabled on it, so the application states it; what is stated but
/// not enabled is undefined behaviour in Vulkan.
struct AdoptedDevice {
    PFN_vkGetInstanceProcAddr get_instance_proc_addr = nullptr;  ///< required
    VkInstance instance = VK_NULL_HANDLE;                        ///< required; created for Vulkan 1.2 or later
    VkPhysicalDevice physical_device = VK_NULL_HANDLE;           ///< required
    VkDevice device = VK_NULL_HANDLE;                            ///< required
    std::uint32_t queue_family = 0;  ///< where recorded work will be submitted; must support compute

    /// The queue that vkformer may submit to (uploads without unified memory, Program::submit). Null: vkformer only records.
    /// The application makes sure that nobody else uses the queue at the same time. Needs timelineSemaphore.
    VkQueue queue = VK_NULL_HANDLE;

    // What was enabled at device creation.
    bool timeline_semaphore = false;  ///< VkPhysicalDeviceVulkan12Features::timelineSemaphore
    bool storage16 = false;           ///< VkPhysicalDeviceVulkan11Features::storageBuffer16BitAccess
    bool storage8 = false;            ///< VkPhysicalDeviceVulkan12Features::storageBuffer8BitAccess
    bool float16 = false;             ///< VkPhysicalDeviceVulkan12Features::shaderFloat16
    bool debug_utils = false;         ///< VK_EXT_debug_utils on the instance: objects get names, nodes get labels
};

}  // namespace vkformer
