// SPDX-License-Identifier: MIT
/// Vulkan's functions as tables that are filled through vkGetInstanceProcAddr: nothing links against the loader, and an
/// application that adopts its device into vkformer passes its own vkGetInstanceProcAddr.
#pragma once

#include <vulkan/vulkan.h>

#include <string_view>
#include <utility>

#include "vkformer/result.hpp"

namespace vkformer::vulkan {

#define VKFORMER_INSTANCE_FUNCTIONS(X)             \
    X(vkDestroyInstance)                           \
    X(vkEnumeratePhysicalDevices)                  \
    X(vkGetPhysicalDeviceProperties2)              \
    X(vkGetPhysicalDeviceExternalBufferProperties) \
    X(vkGetPhysicalDeviceFeatures2)                \
    X(vkGetPhysicalDeviceMemoryProperties)         \
    X(vkGetPhysicalDeviceMemoryProperties2)        \
    X(vkGetPhysicalDeviceQueueFamilyProperties)    \
    X(vkEnumerateDeviceExtensionProperties)        \
    X(vkCreateDevice)                              \
    X(vkGetDeviceProcAddr)

/// VK_EXT_debug_utils: null where the extension is not enabled. vkGetInstanceProcAddr gives those of device extensions, too.
#define VKFORMER_OPTIONAL_INSTANCE_FUNCTIONS(X) \
    X(vkCreateDebugUtilsMessengerEXT)           \
    X(vkDestroyDebugUtilsMessengerEXT)          \
    X(vkSetDebugUtilsObjectNameEXT)             \
    X(vkCmdBeginDebugUtilsLabelEXT)             \
    X(vkCmdEndDebugUtilsLabelEXT)

#define VKFORMER_DEVICE_FUNCTIONS(X) \
    X(vkDestroyDevice)               \
    X(vkDeviceWaitIdle)              \
    X(vkGetDeviceQueue)              \
    X(vkQueueSubmit)                 \
    X(vkAllocateMemory)              \
    X(vkFreeMemory)                  \
    X(vkMapMemory)                   \
    X(vkCreateBuffer)                \
    X(vkDestroyBuffer)               \
    X(vkGetBufferMemoryRequirements) \
    X(vkBindBufferMemory)            \
    X(vkCreateShaderModule)          \
    X(vkDestroyShaderModule)         \
    X(vkCreatePipelineCache)         \
    X(vkDestroyPipelineCache)        \
    X(vkGetPipelineCacheData)        \
    X(vkCreateComputePipelines)      \
    X(vkDestroyPipeline)             \
    X(vkCreatePipelineLayout)        \
    X(vkDestroyPipelineLayout)       \
    X(vkCreateDescriptorSetLayout)   \
    X(vkDestroyDescriptorSetLayout)  \
    X(vkCreateDescriptorPool)        \
    X(vkDestroyDescriptorPool)       \
    X(vkAllocateDescriptorSets)      \
    X(vkUpdateDescriptorSets)        \
    X(vkCreateCommandPool)           \
    X(vkDestroyCommandPool)          \
    X(vkResetCommandPool)            \
    X(vkAllocateCommandBuffers)      \
    X(vkBeginCommandBuffer)          \
    X(vkEndCommandBuffer)            \
    X(vkCmdPipelineBarrier)          \
    X(vkCmdBindPipeline)             \
    X(vkCmdBindDescriptorSets)       \
    X(vkCmdPushConstants)            \
    X(vkCmdDispatch)                 \
    X(vkCmdCopyBuffer)               \
    X(vkCmdFillBuffer)               \
    X(vkCmdUpdateBuffer)             \
    X(vkCreateQueryPool)             \
    X(vkDestroyQueryPool)            \
    X(vkCmdResetQueryPool)           \
    X(vkCmdWriteTimestamp)           \
    X(vkGetQueryPoolResults)         \
    X(vkCreateSampler)               \
    X(vkDestroySampler)              \
    X(vkCreateSemaphore)             \
    X(vkDestroySemaphore)

/// Timeline semaphores and addresses of buffers, which drivers may have only where their features are enabled; VK_EXT_external_memory_host
/// and VK_KHR_pipeline_executable_properties: null where the extension is not enabled.
#define VKFORMER_OPTIONAL_DEVICE_FUNCTIONS(X) \
    X(vkWaitSemaphores)                       \
    X(vkGetBufferDeviceAddress)               \
    X(vkGetMemoryHostPointerPropertiesEXT)    \
    X(vkGetPipelineExecutablePropertiesKHR)   \
    X(vkGetPipelineExecutableStatisticsKHR)   \
    X(vkGetPipelineExecutableInternalRepresentationsKHR)

#define VKFORMER_MEMBER(name) PFN_##name name = nullptr;

struct InstanceTable {
    PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr = nullptr;
    VKFORMER_INSTANCE_FUNCTIONS(VKFORMER_MEMBER)
    VKFORMER_OPTIONAL_INSTANCE_FUNCTIONS(VKFORMER_MEMBER)
};

struct DeviceTable {
    VKFORMER_DEVICE_FUNCTIONS(VKFORMER_MEMBER)
    VKFORMER_OPTIONAL_DEVICE_FUNCTIONS(VKFORMER_MEMBER)
};

#undef VKFORMER_MEMBER

/// vkGetInstanceProcAddr of the installed loader, which is opened once and stays open. Errors: NoVulkanLoader.
Result<PFN_vkGetInstanceProcAddr> open_loader();

/// Errors: Vulkan (a function of Vulkan 1.2 is missing).
Result<InstanceTable> load_instance_table(PFN_vkGetInstanceProcAddr get, VkInstance instance);
Result<DeviceTable> load_device_table(const InstanceTable& instance_table, VkDevice device);

/// What the message of a DeviceLost ends with: what to do.
inline constexpr std::string_view kAfterLoss = "; destroy all that was made with it and make it anew";

/// "VK_ERROR_DEVICE_LOST"
const char* to_string(VkResult result) noexcept;

/// The Error for a failing call: "vkAllocateMemory failed: VK_ERROR_OUT_OF_DEVICE_MEMORY (while …)". Of functions that may lose the device:
/// Device::error_of().
Error vulkan_error(VkResult result, std::string_view call, std::string_view doing);
/// The same with what to do where it is the driver that fails: memory that is missing is no fault of it.
Error with_advice(Error error, const char* advice, Hint hint);

/// Owns one Vulkan object. The function table is the device's own, so that an adopted VkDevice works like one we created.
template <class Handle, auto Destroy>
class Unique {
public:
    Unique() = default;
    Unique(const DeviceTable& vk, VkDevice device, Handle handle) noexcept
        : vk_(&vk), device_(device), handle_(handle) {}
    Unique(Unique&& other) noexcept
        : vk_(other.vk_), device_(other.device_), handle_(std::exchange(other.handle_, Handle{})) {}
    Unique& operator=(Unique&& other) noexcept {
        std::swap(vk_, other.vk_);
        std::swap(device_, other.device_);
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Unique() {
        if (handle_) (vk_->*Destroy)(device_, handle_, nullptr);
    }
    Handle get() const noexcept { return handle_; }

private:
    const DeviceTable* vk_ = nullptr;
    VkDevice device_ = VK_NULL_HANDLE;
    Handle handle_ = VK_NULL_HANDLE;
};

using UniqueDeviceMemory = Unique<VkDeviceMemory, &DeviceTable::vkFreeMemory>;
using UniqueBuffer = Unique<VkBuffer, &DeviceTable::vkDestroyBuffer>;
using UniqueShaderModule = Unique<VkShaderModule, &DeviceTable::vkDestroyShaderModule>;
using UniquePipelineCache = Unique<VkPipelineCache, &DeviceTable::vkDestroyPipelineCache>;
using UniquePipeline = Unique<VkPipeline, &DeviceTable::vkDestroyPipeline>;
using UniquePipelineLayout = Unique<VkPipelineLayout, &DeviceTable::vkDestroyPipelineLayout>;
using UniqueDescriptorSetLayout = Unique<VkDescriptorSetLayout, &DeviceTable::vkDestroyDescriptorSetLayout>;
using UniqueDescriptorPool = Unique<VkDescriptorPool, &DeviceTable::vkDestroyDescriptorPool>;
using UniqueCommandPool = Unique<VkCommandPool, &DeviceTable::vkDestroyCommandPool>;
using UniqueQueryPool = Unique<VkQueryPool, &DeviceTable::vkDestroyQueryPool>;
using UniqueSampler = Unique<VkSampler, &DeviceTable::vkDestroySampler>;
using UniqueSemaphore = Unique<VkSemaphore, &DeviceTable::vkDestroySemaphore>;

}  // namespace vkformer::vulkan
