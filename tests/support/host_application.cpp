// SPDX-License-Identifier: MIT
#include "support/host_application.hpp"

#include <algorithm>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

/// Best-practices messages that are accepted, by their identifiers, and why.
constexpr const char* kAccepted[] = {
    // Vulkan drivers on the CPU have no small heaps; blocks of models are as large as the models are.
    "BestPractices-vkAllocateMemory-small-allocation",
    "BestPractices-vkBindBufferMemory-small-dedicated-allocation",
    "BestPractices-vkBindMemory-small-dedicated-allocation",
    "BestPractices-vkBindImageMemory-small-dedicated-allocation",
    // The layer counts each allocation of the process; the tests' models are small and many.
    "BestPractices-vkAllocateMemory-too-many-objects",
    // A session's slices are recorded one by one into buffers of their own; a pool for each would cost more than it saves.
    "BestPractices-vkCreateCommandPool-command-buffer-reset",
    // A program is queued several times, and each run sees what the one before left.
    "BestPractices-vkBeginCommandBuffer-simultaneous-use",
    // What a host application of a test does itself.
    "BestPractices-vkCreateDevice-physical-device-features-not-retrieved",
    "BestPractices-vkCreateInstance-specialuse-extension-debugging",
    "BestPractices-vkCreateDevice-deprecated-extension",
    // All pipelines have one layout, with room for the push constants of the largest; each sets what its shader reads.
    "BestPractices-PushConstants",
    // glslang writes the workgroup's size so in modules of SPIR-V 1.6, too.
    "BestPractices-SpirvDeprecated_WorkgroupSize",
};

bool is_accepted(const std::string& message) {
    return std::ranges::any_of(kAccepted, [&](const char* id) { return message.find(id) != message.npos; });
}

void lock_queue(void* user) {
    auto& host = *static_cast<HostApplication*>(user);
    host.queue_mutex.lock();
    ++host.locks_taken;
}
void unlock_queue(void* user) { static_cast<HostApplication*>(user)->queue_mutex.unlock(); }

}  // namespace

HostApplication::HostApplication(const HostOptions& options) {
    get = must(vulkan::open_loader());
    lent_get_ = options.get ? options.get : get;
    create_instance(options.validation && validation_available());
    std::uint32_t count = 0;
    ivk.vkEnumeratePhysicalDevices(instance, &count, nullptr);
    std::vector<VkPhysicalDevice> devices(count);
    ivk.vkEnumeratePhysicalDevices(instance, &count, devices.data());
    physical = devices.at(options.device_index);
    create_device(options);
    const VkCommandPoolCreateInfo pool_info{.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                            .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT};
    REQUIRE(dvk.vkCreateCommandPool(device, &pool_info, nullptr, &pool) == VK_SUCCESS);
}

HostApplication::~HostApplication() {
    dvk.vkDeviceWaitIdle(device);
    for (const Buffer& buffer : buffers_) {
        dvk.vkDestroyBuffer(device, buffer.handle, nullptr);
        dvk.vkFreeMemory(device, buffer.memory, nullptr);
    }
    dvk.vkDestroyCommandPool(device, pool, nullptr);
    dvk.vkDestroyDevice(device, nullptr);
    if (messenger_) ivk.vkDestroyDebugUtilsMessengerEXT(instance, messenger_, nullptr);
    ivk.vkDestroyInstance(instance, nullptr);
    vkf_device_patch_destroy(patch_);
}

void HostApplication::create_instance(bool validation) {
    const char* const layer = "VK_LAYER_KHRONOS_validation";
    const char* const extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME};
    const VkValidationFeatureEnableEXT enabled[] = {VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT,
                                                    VK_VALIDATION_FEATURE_ENABLE_BEST_PRACTICES_EXT};
    const VkValidationFeaturesEXT features{.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
                                           .enabledValidationFeatureCount = 2,
                                           .pEnabledValidationFeatures = enabled};
    const VkApplicationInfo application{
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .pApplicationName = "host", .apiVersion = VKF_MIN_VULKAN_VERSION};
    const VkInstanceCreateInfo info{.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                    .pNext = validation ? &features : nullptr,
                                    .pApplicationInfo = &application,
                                    .enabledLayerCount = validation ? 1u : 0u,
                                    .ppEnabledLayerNames = &layer,
                                    .enabledExtensionCount = validation ? 2u : 0u,
                                    .ppEnabledExtensionNames = extensions};
    const auto create = reinterpret_cast<PFN_vkCreateInstance>(get(nullptr, "vkCreateInstance"));
    REQUIRE(create(&info, nullptr, &instance) == VK_SUCCESS);
    ivk = must(vulkan::load_instance_table(get, instance));
    if (!validation) return;
    const VkDebugUtilsMessengerCreateInfoEXT messenger{
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity =
            VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
        .pfnUserCallback = on_message,
        .pUserData = this};
    REQUIRE(ivk.vkCreateDebugUtilsMessengerEXT(instance, &messenger, nullptr, &messenger_) == VK_SUCCESS);
}

void HostApplication::create_device(const HostOptions& options) {
    const std::vector<float> priorities(options.queues, 1.0f);
    const VkDeviceQueueCreateInfo queue_info{.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                             .queueCount = options.queues,
                                             .pQueuePriorities = priorities.data()};
    device_info_ = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue_info};
    if (options.patched) {
        CAPTURE(vkf_error_message());
        REQUIRE(vkf_patch_device_create_info(get, instance, physical, &device_info_, &patch_) == VKF_SUCCESS);
    }
    REQUIRE(ivk.vkCreateDevice(physical, &device_info_, nullptr, &device) == VK_SUCCESS);
    dvk = must(vulkan::load_device_table(ivk, device));
    dvk.vkGetDeviceQueue(device, 0, 0, &queue);
}

VkBool32 HostApplication::on_message(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                                     const VkDebugUtilsMessengerCallbackDataEXT* data, void* user) {
    auto& host = *static_cast<HostApplication*>(user);
    const std::lock_guard lock(host.mutex_);
    host.messages_.push_back(std::string(data->pMessageIdName ? data->pMessageIdName : "") + ": " + data->pMessage);
    return VK_FALSE;
}

std::vector<std::string> HostApplication::messages() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> result = messages_;
    std::erase_if(result, is_accepted);
    return result;
}

VkPhysicalDeviceType HostApplication::type() const {
    VkPhysicalDeviceProperties2 properties{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    ivk.vkGetPhysicalDeviceProperties2(physical, &properties);
    return properties.properties.deviceType;
}

vkf_adopt_info HostApplication::lend(bool with_queue) {
    vkf_adopt_info info = VKF_ADOPT_INFO_INIT;
    info.get_instance_proc_addr = lent_get_;
    info.instance = instance;
    info.physical_device = physical;
    info.device = device;
    info.created_with = &device_info_;
    info.has_debug_utils = messenger_ ? VK_TRUE : VK_FALSE;
    if (with_queue) {
        info.queue = queue;
        info.lock_queue = lock_queue;
        info.unlock_queue = unlock_queue;
        info.queue_user = this;
    }
    return info;
}

HostApplication::Buffer HostApplication::make_buffer(VkDeviceSize bytes) {
    Buffer buffer;
    const VkBufferCreateInfo info{.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                  .size = bytes,
                                  .usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                                           VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
    REQUIRE(dvk.vkCreateBuffer(device, &info, nullptr, &buffer.handle) == VK_SUCCESS);
    VkMemoryRequirements requirements{};
    dvk.vkGetBufferMemoryRequirements(device, buffer.handle, &requirements);
    VkPhysicalDeviceMemoryProperties properties{};
    ivk.vkGetPhysicalDeviceMemoryProperties(physical, &properties);
    constexpr VkMemoryPropertyFlags kHost = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    std::uint32_t type = 0;
    while (!((requirements.memoryTypeBits >> type) & 1u) ||
           (properties.memoryTypes[type].propertyFlags & kHost) != kHost)
        ++type;
    const VkMemoryAllocateInfo allocate{
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = requirements.size, .memoryTypeIndex = type};
    REQUIRE(dvk.vkAllocateMemory(device, &allocate, nullptr, &buffer.memory) == VK_SUCCESS);
    REQUIRE(dvk.vkBindBufferMemory(device, buffer.handle, buffer.memory, 0) == VK_SUCCESS);
    void* address = nullptr;
    REQUIRE(dvk.vkMapMemory(device, buffer.memory, 0, VK_WHOLE_SIZE, 0, &address) == VK_SUCCESS);
    buffer.mapped = static_cast<std::byte*>(address);
    buffers_.push_back(buffer);
    return buffer;
}

VkCommandBuffer HostApplication::make_commands(VkCommandBufferLevel level) {
    VkCommandBuffer commands = VK_NULL_HANDLE;
    const VkCommandBufferAllocateInfo allocate{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                               .commandPool = pool,
                                               .level = level,
                                               .commandBufferCount = 1};
    REQUIRE(dvk.vkAllocateCommandBuffers(device, &allocate, &commands) == VK_SUCCESS);
    return commands;
}

void HostApplication::begin(VkCommandBuffer commands, VkCommandBufferUsageFlags usage) {
    const VkCommandBufferInheritanceInfo inheritance{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO};
    const VkCommandBufferBeginInfo info{
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .flags = usage, .pInheritanceInfo = &inheritance};
    REQUIRE(dvk.vkBeginCommandBuffer(commands, &info) == VK_SUCCESS);
}

void HostApplication::end(VkCommandBuffer commands) { REQUIRE(dvk.vkEndCommandBuffer(commands) == VK_SUCCESS); }

void HostApplication::submit_and_wait(VkCommandBuffer commands) {
    const VkSubmitInfo info{
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands};
    const std::lock_guard lock(queue_mutex);
    REQUIRE(dvk.vkQueueSubmit(queue, 1, &info, VK_NULL_HANDLE) == VK_SUCCESS);
    REQUIRE(dvk.vkDeviceWaitIdle(device) == VK_SUCCESS);
}

}  // namespace vkformer::tests
