// SPDX-License-Identifier: MIT
/// What an application that owns a VkDevice tells about it.
#pragma once

#include <vulkan/vulkan.h>

#include <cstdint>
#include <functional>

namespace vkformer::vulkan {

/// A device that the application created. Nothing of it is ever destroyed here, and it outlives everything that is made from it.
struct AdoptedDevice {
    PFN_vkGetInstanceProcAddr get_instance_proc_addr = nullptr;  ///< required
    VkInstance instance = VK_NULL_HANDLE;                        ///< required; created for Vulkan 1.2 or later
    VkPhysicalDevice physical_device = VK_NULL_HANDLE;           ///< required
    VkDevice device = VK_NULL_HANDLE;                            ///< required
    std::uint32_t api_version = VK_API_VERSION_1_2;              ///< VkApplicationInfo::apiVersion

    /// What vkCreateDevice was given, since a VkDevice cannot be asked what is enabled. Read by Device::adopt and not kept. Null:
    /// nothing is enabled. What is stated but not true is undefined behaviour in Vulkan.
    const VkDeviceCreateInfo* created_with = nullptr;
    bool debug_utils = false;  ///< VK_EXT_debug_utils is enabled on the instance: objects get names, nodes get labels

    std::uint32_t queue_family = 0;  ///< where recorded work will be submitted; must support compute
    VkQueue queue = VK_NULL_HANDLE;  ///< may be submitted to; null: work is only recorded. Needs timelineSemaphore
    std::function<void()> lock_queue, unlock_queue;  ///< around each use of `queue`; empty: the application sees to it
};

}  // namespace vkformer::vulkan
