// SPDX-License-Identifier: MIT
#include "vulkan/instance.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "core/try.hpp"
#include "vulkan/cooperative_matrix.hpp"

namespace vkformer::vulkan {
namespace {

constexpr std::uint32_t kBestApiVersion =
    VK_API_VERSION_1_3;  // what is asked for where the loader knows it: SPIR-V 1.6
constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";

const char* type_name(VkPhysicalDeviceType type) noexcept {
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return "discrete";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return "integrated";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return "virtual";
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return "cpu";
    default: return "other";
    }
}

std::string hexadecimal(std::span<const std::uint8_t> bytes) {
    std::string text;
    for (const std::uint8_t byte : bytes) {
        char digits[3];
        std::snprintf(digits, sizeof(digits), "%02x", byte);
        text += digits;
    }
    return text;
}

/// Memory that the host can map and that is as near to the device as any: then nothing needs staging.
bool has_unified_memory(VkPhysicalDeviceType type, const VkPhysicalDeviceMemoryProperties& memory) {
    if (type != VK_PHYSICAL_DEVICE_TYPE_CPU && type != VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU) return false;
    constexpr VkMemoryPropertyFlags kWanted = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT |
                                              VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                              VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    return std::any_of(memory.memoryTypes, memory.memoryTypes + memory.memoryTypeCount,
                       [](const VkMemoryType& t) { return (t.propertyFlags & kWanted) == kWanted; });
}

/// Vulkan's subgroups have a power of two of invocations, at most 128.
bool is_subgroup_size(std::uint32_t size) { return std::has_single_bit(size) && size <= 128; }

/// Nothing that counts on subgroups runs where a driver gives their size as what it cannot be.
void distrust_subgroups(Capabilities& c, FeatureSet& features) {
    c.subgroup_arithmetic = c.subgroup_shuffle = false;
    features.set(Feature::subgroup_size_control, false);
    features.set(Feature::cooperative_matrix, false);
}

/// Empty where the driver lists none, or no function to list them.
std::vector<CooperativeMatrix> cooperative_matrices_of(const InstanceTable& vk, VkInstance instance,
                                                       VkPhysicalDevice device) {
    const auto list = reinterpret_cast<GetCooperativeMatrixProperties>(
        vk.vkGetInstanceProcAddr(instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
    std::uint32_t count = 0;
    if (!list || list(device, &count, nullptr) != VK_SUCCESS) return {};
    std::vector<CooperativeMatrixProperties> properties(count);
    if (list(device, &count, properties.data()) < 0) return {};
    properties.resize(count);
    std::vector<CooperativeMatrix> matrices;
    for (const CooperativeMatrixProperties& p : properties)
        if (p.scope == kScopeSubgroup && !p.saturatingAccumulation)
            matrices.push_back({p.MSize, p.NSize, p.KSize, p.AType, p.BType, p.CType, p.ResultType});
    return matrices;
}

bool has_instance_extension(PFN_vkGetInstanceProcAddr get, const char* layer, const char* name) {
    const auto enumerate = reinterpret_cast<PFN_vkEnumerateInstanceExtensionProperties>(
        get(nullptr, "vkEnumerateInstanceExtensionProperties"));
    std::uint32_t count = 0;
    if (!enumerate || enumerate(layer, &count, nullptr) != VK_SUCCESS) return false;
    std::vector<VkExtensionProperties> extensions(count);
    if (enumerate(layer, &count, extensions.data()) < 0) return false;
    return std::ranges::any_of(extensions, [&](const auto& e) { return std::strcmp(e.extensionName, name) == 0; });
}

bool has_layer(PFN_vkGetInstanceProcAddr get, const char* name) {
    const auto enumerate =
        reinterpret_cast<PFN_vkEnumerateInstanceLayerProperties>(get(nullptr, "vkEnumerateInstanceLayerProperties"));
    std::uint32_t count = 0;
    if (!enumerate || enumerate(&count, nullptr) != VK_SUCCESS) return false;
    std::vector<VkLayerProperties> layers(count);
    if (enumerate(&count, layers.data()) < 0) return false;
    return std::ranges::any_of(layers, [&](const auto& l) { return std::strcmp(l.layerName, name) == 0; });
}

}  // namespace

Result<std::shared_ptr<Instance>> Instance::create(bool validation) {
    VKFORMER_TRY(const auto get, open_loader());
    return create(get, validation);
}

Result<std::shared_ptr<Instance>> Instance::create(PFN_vkGetInstanceProcAddr get, bool validation) {
    if (validation && !has_layer(get, kValidationLayer))
        return Error{ErrorCode::MissingFeature,
                     "the Vulkan validation layer is not installed (Debian: "
                     "vulkan-validationlayers)"};
    const auto version = reinterpret_cast<PFN_vkEnumerateInstanceVersion>(get(nullptr, "vkEnumerateInstanceVersion"));
    std::uint32_t supported = VK_API_VERSION_1_0;
    if (version) version(&supported);
    if (supported < kApiVersion)
        return Error{ErrorCode::MissingFeature, "the Vulkan loader is older than Vulkan 1.2; update it"};

    const bool debug_utils =
        has_instance_extension(get, nullptr, VK_EXT_DEBUG_UTILS_EXTENSION_NAME) ||
        (validation && has_instance_extension(get, kValidationLayer, VK_EXT_DEBUG_UTILS_EXTENSION_NAME));
    std::vector<const char*> extensions;
    if (debug_utils) extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    if (validation) extensions.push_back(VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);

    const VkValidationFeatureEnableEXT enabled[] = {VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
    const VkValidationFeaturesEXT validation_features{.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
                                                      .pNext = nullptr,
                                                      .enabledValidationFeatureCount = 1,
                                                      .pEnabledValidationFeatures = enabled,
                                                      .disabledValidationFeatureCount = 0,
                                                      .pDisabledValidationFeatures = nullptr};
    const VkApplicationInfo application{.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                        .pNext = nullptr,
                                        .pApplicationName = "vkformer",
                                        .applicationVersion = 0,
                                        .pEngineName = "vkformer",
                                        .engineVersion = 0,
                                        .apiVersion = std::min(supported, kBestApiVersion)};
    const VkInstanceCreateInfo info{.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                    .pNext = validation ? &validation_features : nullptr,
                                    .flags = 0,
                                    .pApplicationInfo = &application,
                                    .enabledLayerCount = validation ? 1u : 0u,
                                    .ppEnabledLayerNames = &kValidationLayer,
                                    .enabledExtensionCount = static_cast<std::uint32_t>(extensions.size()),
                                    .ppEnabledExtensionNames = extensions.data()};
    const auto create_instance = reinterpret_cast<PFN_vkCreateInstance>(get(nullptr, "vkCreateInstance"));
    VkInstance handle = VK_NULL_HANDLE;
    if (const VkResult r = create_instance(&info, nullptr, &handle); r == VK_ERROR_INCOMPATIBLE_DRIVER)
        return Error{.code = ErrorCode::NoDevice,
                     .message =
                         "no Vulkan driver is installed; install one (Debian: mesa-vulkan-drivers) or choose "
                         "the CPU backend",
                     .vk = r,
                     .hint = Hint::cpu_backend};
    else if (r != VK_SUCCESS)
        return with_advice(vulkan_error(r, "vkCreateInstance", "opening Vulkan"),
                           "; update the Vulkan driver or choose the CPU backend", Hint::cpu_backend);
    VKFORMER_TRY(const InstanceTable table, load_instance_table(get, handle));
    auto instance = std::shared_ptr<Instance>(new Instance(table, handle, true));
    instance->debug_utils_ = debug_utils && table.vkSetDebugUtilsObjectNameEXT;

    if (validation && table.vkCreateDebugUtilsMessengerEXT) {
        const VkDebugUtilsMessengerCreateInfoEXT messenger{
            .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
            .pNext = nullptr,
            .flags = 0,
            .messageSeverity =
                VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
            .messageType =
                VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
            .pfnUserCallback = on_message,
            .pUserData = instance.get()};
        if (const VkResult r = table.vkCreateDebugUtilsMessengerEXT(handle, &messenger, nullptr, &instance->messenger_);
            r != VK_SUCCESS)
            return vulkan_error(r, "vkCreateDebugUtilsMessengerEXT", "turning validation on");
    }
    return instance;
}

Result<std::shared_ptr<Instance>> Instance::adopt(PFN_vkGetInstanceProcAddr get, VkInstance handle, bool debug_utils) {
    VKFORMER_TRY(const InstanceTable table, load_instance_table(get, handle));
    auto instance = std::shared_ptr<Instance>(new Instance(table, handle, false));
    instance->debug_utils_ = debug_utils && table.vkSetDebugUtilsObjectNameEXT;
    return instance;
}

Instance::~Instance() {
    if (messenger_) vk_.vkDestroyDebugUtilsMessengerEXT(handle_, messenger_, nullptr);
    if (owned_) vk_.vkDestroyInstance(handle_, nullptr);
}

VkBool32 Instance::on_message(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                              const VkDebugUtilsMessengerCallbackDataEXT* data, void* user) {
    auto* const instance = static_cast<Instance*>(user);
    const std::lock_guard lock(instance->mutex_);
    instance->messages_.emplace_back(data->pMessage);
    return VK_FALSE;
}

std::vector<std::string> Instance::validation_messages() const {
    const std::lock_guard lock(mutex_);
    return messages_;
}

Instance::PhysicalDevice Instance::describe(VkPhysicalDevice handle) const {
    PhysicalDevice device{.handle = handle, .capabilities = {}, .unusable = {}};
    Capabilities& c = device.capabilities;

    VkPhysicalDeviceVulkan12Properties v12{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES};
    VkPhysicalDeviceVulkan11Properties v11{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES,
                                           .pNext = &v12};
    VkPhysicalDeviceProperties2 base{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &v11};
    vk_.vkGetPhysicalDeviceProperties2(handle, &base);
    const VkPhysicalDeviceProperties& properties = base.properties;
    const VkPhysicalDeviceLimits& limits = properties.limits;
    c.name = properties.deviceName;
    c.type = type_name(properties.deviceType);
    c.vendor_id = properties.vendorID;
    c.device_id = properties.deviceID;
    c.driver_version = properties.driverVersion;
    std::copy_n(properties.pipelineCacheUUID, VK_UUID_SIZE, c.pipeline_cache_uuid.begin());
    c.api_version = properties.apiVersion;
    c.max_workgroup_invocations = limits.maxComputeWorkGroupInvocations;
    c.max_shared_memory_bytes = limits.maxComputeSharedMemorySize;
    std::copy_n(limits.maxComputeWorkGroupCount, 3, c.max_workgroup_count.begin());
    c.max_storage_buffer_range = limits.maxStorageBufferRange;
    c.max_storage_buffers = std::min(limits.maxPerStageDescriptorStorageBuffers, limits.maxDescriptorSetStorageBuffers);
    c.storage_buffer_alignment = limits.minStorageBufferOffsetAlignment;
    c.timestamp_period_ns = limits.timestampPeriod;
    if (properties.apiVersion < kApiVersion) {
        device.unusable = "it supports Vulkan " + std::to_string(VK_API_VERSION_MAJOR(properties.apiVersion)) + "." +
                          std::to_string(VK_API_VERSION_MINOR(properties.apiVersion)) + ", and vkformer needs 1.2";
        return device;
    }
    c.driver = v12.driverName;
    if (v12.driverInfo[0]) c.driver += std::string(c.driver.empty() ? "" : " ") + v12.driverInfo;
    c.uuid = hexadecimal(v11.deviceUUID);
    c.subgroup_size = v11.subgroupSize;
    c.subgroup_arithmetic = (v11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
                            (v11.subgroupSupportedOperations & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT);
    c.subgroup_shuffle = (v11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
                         (v11.subgroupSupportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT);
    c.max_allocation_bytes = v11.maxMemoryAllocationSize;

    const auto extensions = device_extensions(vk_, handle);
    const auto has = [&](const char* name) { return std::ranges::count(extensions, name) > 0; };
    device.features = supported_features(vk_, handle, extensions);
    for (const FeatureInfo& info : feature_table())
        if (info.only_cpus && properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU)
            device.features.set(info.feature, false);
    if (properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU && has(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME)) {
        VkPhysicalDeviceExternalMemoryHostPropertiesEXT host{
            .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
        VkPhysicalDeviceProperties2 more{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &host};
        vk_.vkGetPhysicalDeviceProperties2(handle, &more);
        c.host_memory_alignment = host.minImportedHostPointerAlignment;
    }
    if (!device.features.has(Feature::timeline_semaphore)) device.unusable = "it lacks timelineSemaphore";
    if (!is_subgroup_size(c.subgroup_size)) distrust_subgroups(c, device.features);
    if (device.features.has(Feature::subgroup_size_control)) {
        VkPhysicalDeviceSubgroupSizeControlProperties sizes{
            .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
        VkPhysicalDeviceProperties2 more{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &sizes};
        vk_.vkGetPhysicalDeviceProperties2(handle, &more);
        const bool is_possible = is_subgroup_size(sizes.minSubgroupSize) && is_subgroup_size(sizes.maxSubgroupSize) &&
                                 sizes.minSubgroupSize <= c.subgroup_size && c.subgroup_size <= sizes.maxSubgroupSize;
        if (!is_possible) distrust_subgroups(c, device.features);
        if (is_possible && (sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT)) {
            c.min_subgroup_size = sizes.minSubgroupSize;
            c.max_subgroup_size = sizes.maxSubgroupSize;
        }
    }
    if (device.features.has(Feature::cooperative_matrix))
        c.cooperative_matrices = cooperative_matrices_of(vk_, handle_, handle);
    set_features(c, device.features);
    c.pipeline_statistics = has(VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
    device.has_memory_budget = has(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);

    VkPhysicalDeviceMemoryProperties memory{};
    vk_.vkGetPhysicalDeviceMemoryProperties(handle, &memory);
    c.unified_memory = has_unified_memory(properties.deviceType, memory);

    std::uint32_t count = 0;
    vk_.vkGetPhysicalDeviceQueueFamilyProperties(handle, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    vk_.vkGetPhysicalDeviceQueueFamilyProperties(handle, &count, families.data());
    const auto family = std::ranges::find_if(
        families, [](const auto& f) { return f.queueCount > 0 && (f.queueFlags & VK_QUEUE_COMPUTE_BIT); });
    if (family == families.end()) {
        device.unusable = "it has no compute queue";
        return device;
    }
    device.queue_family = static_cast<std::uint32_t>(family - families.begin());
    c.timestamp_valid_bits = family->timestampValidBits;
    return device;
}

Result<std::uint32_t> Instance::timestamp_bits(VkPhysicalDevice device, std::uint32_t queue_family) const {
    std::uint32_t count = 0;
    vk_.vkGetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    vk_.vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families.data());
    if (queue_family >= count || !(families[queue_family].queueFlags & VK_QUEUE_COMPUTE_BIT))
        return Error{ErrorCode::InvalidArgument, "queue family " + std::to_string(queue_family) +
                                                     (queue_family >= count ? " does not exist" : " cannot compute")};
    return families[queue_family].timestampValidBits;
}

Result<std::vector<Instance::PhysicalDevice>> Instance::physical_devices() const {
    std::uint32_t count = 0;
    VkResult r = vk_.vkEnumeratePhysicalDevices(handle_, &count, nullptr);
    std::vector<VkPhysicalDevice> handles(count);
    if (r == VK_SUCCESS) r = vk_.vkEnumeratePhysicalDevices(handle_, &count, handles.data());
    if (r < 0)
        return with_advice(vulkan_error(r, "vkEnumeratePhysicalDevices", "listing the devices"),
                           "; update the Vulkan driver or choose the CPU backend", Hint::cpu_backend);
    handles.resize(count);
    std::vector<PhysicalDevice> devices;
    for (const VkPhysicalDevice handle : handles) devices.push_back(describe(handle));
    return devices;
}

}  // namespace vkformer::vulkan
