// SPDX-License-Identifier: MIT
/// The instance, own or adopted, and what its physical devices are.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "vulkan/capabilities.hpp"
#include "vulkan/features.hpp"
#include "vulkan/table.hpp"

namespace vkformer::vulkan {

inline constexpr std::uint32_t kApiVersion = VK_API_VERSION_1_2;  // the floor

/// A VkInstance: ours, or the application's.
class Instance {
public:
    struct PhysicalDevice {
        VkPhysicalDevice handle = VK_NULL_HANDLE;
        Capabilities capabilities;
        FeatureSet features;             ///< that it has
        bool has_memory_budget = false;  ///< VK_EXT_memory_budget
        std::uint32_t queue_family = 0;  ///< the first with compute
        std::string unusable;            ///< why vkformer cannot run on it; empty: it can
    };

    /// With `validation`, the Khronos validation layer with synchronisation validation is on; what it says is kept in
    /// validation_messages(). Errors: NoVulkanLoader, NoDevice (no driver), MissingFeature (validation layer not installed, a loader older
    /// than Vulkan 1.2), Vulkan.
    static Result<std::shared_ptr<Instance>> create(bool validation);
    /// The same with a loader that is open; `get` is its vkGetInstanceProcAddr.
    static Result<std::shared_ptr<Instance>> create(PFN_vkGetInstanceProcAddr get, bool validation);
    static Result<std::shared_ptr<Instance>> adopt(PFN_vkGetInstanceProcAddr get, VkInstance handle, bool debug_utils);
    ~Instance();
    Instance(const Instance&) = delete;
    Instance& operator=(const Instance&) = delete;

    /// In the loader's order. Errors: Vulkan.
    Result<std::vector<PhysicalDevice>> physical_devices() const;
    PhysicalDevice describe(VkPhysicalDevice handle) const;
    /// Valid bits of timestamps on a queue family. Errors: InvalidArgument (there is no such family, or it cannot compute).
    Result<std::uint32_t> timestamp_bits(VkPhysicalDevice device, std::uint32_t queue_family) const;

    const InstanceTable& vk() const noexcept { return vk_; }
    VkInstance handle() const noexcept { return handle_; }
    bool debug_utils() const noexcept { return debug_utils_; }
    /// Warnings and errors of the validation layer so far. Thread-safe.
    std::vector<std::string> validation_messages() const;

private:
    Instance(const InstanceTable& vk, VkInstance handle, bool owned) : vk_(vk), handle_(handle), owned_(owned) {}
    static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                     VkDebugUtilsMessageTypeFlagsEXT types,
                                                     const VkDebugUtilsMessengerCallbackDataEXT* data, void* user);

    InstanceTable vk_;
    VkInstance handle_;
    bool owned_;
    bool debug_utils_ = false;
    VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
    mutable std::mutex mutex_;
    std::vector<std::string> messages_;
};

}  // namespace vkformer::vulkan
