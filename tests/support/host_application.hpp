// SPDX-License-Identifier: MIT
/// What a graphics application has before vkformer comes: its own instance, device, queue and command buffers. It uses vkformer's
/// function tables for brevity, and nothing else of vkformer's runtime.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "vkformer/vkformer.h"
#include "vulkan/features.hpp"
#include "vulkan/table.hpp"

namespace vkformer::tests {

struct HostOptions {
    std::uint32_t device_index = 0;
    bool patched = true;     ///< vkf_patch_device_create_info adds what vkformer would like; else nothing is enabled
    bool validation = true;  ///< where it is installed: with synchronisation and best-practices checks
    PFN_vkGetInstanceProcAddr get = nullptr;  ///< what is lent to vkformer; null: the loader's
    std::uint32_t queues = 1;
};

class HostApplication {
public:
    explicit HostApplication(const HostOptions& options);
    HostApplication(const HostApplication&) = delete;
    HostApplication& operator=(const HostApplication&) = delete;
    ~HostApplication();

    /// For vkf_device_adopt. With a queue, its lock is counted.
    vkf_adopt_info lend(bool with_queue);
    /// With a queue only where vkformer cannot do without: where the host does not see the device's memory.
    vkf_adopt_info lend_least() { return lend(!has_unified_memory()); }
    bool has_unified_memory() const { return is_cpu() || type() == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU; }
    bool is_cpu() const { return type() == VK_PHYSICAL_DEVICE_TYPE_CPU; }
    VkPhysicalDeviceType type() const;

    /// A host-visible buffer that commands can copy to and shaders can use.
    struct Buffer {
        VkBuffer handle = VK_NULL_HANDLE;
        VkDeviceMemory memory = VK_NULL_HANDLE;
        std::byte* mapped = nullptr;
    };
    Buffer make_buffer(VkDeviceSize bytes);

    VkCommandBuffer make_commands(VkCommandBufferLevel level = VK_COMMAND_BUFFER_LEVEL_PRIMARY);
    void begin(VkCommandBuffer commands, VkCommandBufferUsageFlags usage = 0);
    void end(VkCommandBuffer commands);
    void submit_and_wait(VkCommandBuffer commands);

    /// What validation said so far, but for what is accepted (see the definition).
    std::vector<std::string> messages() const;

    PFN_vkGetInstanceProcAddr get = nullptr;
    vulkan::InstanceTable ivk;
    vulkan::DeviceTable dvk;
    VkInstance instance = VK_NULL_HANDLE;
    VkPhysicalDevice physical = VK_NULL_HANDLE;
    VkDevice device = VK_NULL_HANDLE;
    VkQueue queue = VK_NULL_HANDLE;
    VkCommandPool pool = VK_NULL_HANDLE;
    std::mutex queue_mutex;
    int locks_taken = 0;

private:
    void create_instance(bool validation);
    void create_device(const HostOptions& options);
    static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                                     VkDebugUtilsMessageTypeFlagsEXT,
                                                     const VkDebugUtilsMessengerCallbackDataEXT* data, void* user);

    PFN_vkGetInstanceProcAddr lent_get_ = nullptr;
    VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
    mutable std::mutex mutex_;
    std::vector<std::string> messages_;
    VkDeviceCreateInfo device_info_{};  // what it points at of queues is not looked at again
    vkf_device_patch* patch_ = nullptr;
    std::vector<Buffer> buffers_;
};

}  // namespace vkformer::tests
