// SPDX-License-Identifier: MIT
#include "vulkan/device.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/try.hpp"
#include "vulkan/cooperative_matrix.hpp"

namespace vkformer::vulkan {
namespace {

constexpr std::uint32_t kApiVersion = VK_API_VERSION_1_2;  // the floor
constexpr std::uint32_t kBestApiVersion =
    VK_API_VERSION_1_3;  // what is asked for where the loader knows it: SPIR-V 1.6
constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";

/// The device extensions whose features are used where they are there. All but the cooperative matrices became part of Vulkan
/// 1.3, but a device still lists them.
constexpr const char* kIntegerDotExtension = "VK_KHR_shader_integer_dot_product";
constexpr const char* kSubgroupSizeExtension = "VK_EXT_subgroup_size_control";
constexpr const char* kCooperativeMatrixExtension = "VK_KHR_cooperative_matrix";
constexpr const char* kCooperativeMatrix2Extension = "VK_NV_cooperative_matrix2";

/// Features of 1.1 and 1.2 with the chain between them, and those of extensions once they are added. Not movable: the structs
/// point at each other.
struct FeatureChain {
    VkPhysicalDeviceShaderIntegerDotProductFeatures integer_dot{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
    VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_size{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
    CooperativeMatrixFeatures cooperative_matrix{};
    CooperativeMatrix2Features cooperative_matrix2{};
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executables{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR};
    VkPhysicalDeviceVulkan12Features v12{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceVulkan11Features v11{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, .pNext = &v12};
    VkPhysicalDeviceFeatures2 base{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &v11};

    FeatureChain() = default;
    /// Puts the struct of an extension into the chain.
    void add(auto& features) {
        features.pNext = base.pNext;
        base.pNext = &features;
    }
    FeatureChain(const FeatureChain&) = delete;
    FeatureChain& operator=(const FeatureChain&) = delete;
};

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

CooperativeMatrix2 parts_of(const CooperativeMatrix2Features& f) {
    return {.workgroup_scope = f.cooperativeMatrixWorkgroupScope == VK_TRUE,
            .flexible_dimensions = f.cooperativeMatrixFlexibleDimensions == VK_TRUE,
            .reductions = f.cooperativeMatrixReductions == VK_TRUE,
            .conversions = f.cooperativeMatrixConversions == VK_TRUE,
            .per_element_operations = f.cooperativeMatrixPerElementOperations == VK_TRUE,
            .tensor_addressing = f.cooperativeMatrixTensorAddressing == VK_TRUE,
            .block_loads = f.cooperativeMatrixBlockLoads == VK_TRUE};
}

void set_parts(CooperativeMatrix2Features& f, const CooperativeMatrix2& parts) {
    f.cooperativeMatrixWorkgroupScope = parts.workgroup_scope;
    f.cooperativeMatrixFlexibleDimensions = parts.flexible_dimensions;
    f.cooperativeMatrixReductions = parts.reductions;
    f.cooperativeMatrixConversions = parts.conversions;
    f.cooperativeMatrixPerElementOperations = parts.per_element_operations;
    f.cooperativeMatrixTensorAddressing = parts.tensor_addressing;
    f.cooperativeMatrixBlockLoads = parts.block_loads;
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
        return Error{ErrorCode::NoDevice,
                     "no Vulkan driver is installed; install one (Debian: mesa-vulkan-drivers) or choose the CPU "
                     "backend (--device cpu)",
                     r};
    else if (r != VK_SUCCESS)
        return vulkan_error(r, "vkCreateInstance", "opening Vulkan");
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
    c.max_allocation_bytes = v11.maxMemoryAllocationSize;

    std::uint32_t count = 0;
    vk_.vkEnumerateDeviceExtensionProperties(handle, nullptr, &count, nullptr);
    std::vector<VkExtensionProperties> extensions(count);
    vk_.vkEnumerateDeviceExtensionProperties(handle, nullptr, &count, extensions.data());
    const auto has = [&](const char* name) {
        return std::ranges::any_of(extensions, [&](const auto& e) { return std::strcmp(e.extensionName, name) == 0; });
    };
    FeatureChain features;
    if (has(kIntegerDotExtension)) features.add(features.integer_dot);
    if (has(kSubgroupSizeExtension)) features.add(features.subgroup_size);
    if (has(kCooperativeMatrixExtension)) features.add(features.cooperative_matrix);
    if (has(kCooperativeMatrix2Extension)) features.add(features.cooperative_matrix2);
    vk_.vkGetPhysicalDeviceFeatures2(handle, &features.base);
    c.storage16 = features.v11.storageBuffer16BitAccess;
    c.storage8 = features.v12.storageBuffer8BitAccess;
    c.float16 = features.v12.shaderFloat16;
    c.int8 = features.v12.shaderInt8;
    c.memory_model = features.v12.vulkanMemoryModel && features.v12.vulkanMemoryModelDeviceScope;
    if (!features.v12.timelineSemaphore) device.unusable = "it lacks timelineSemaphore";
    c.integer_dot = features.integer_dot.shaderIntegerDotProduct;
    c.subgroup_size_control = features.subgroup_size.subgroupSizeControl && features.subgroup_size.computeFullSubgroups;
    if (c.subgroup_size_control) {
        VkPhysicalDeviceSubgroupSizeControlProperties sizes{
            .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
        VkPhysicalDeviceProperties2 more{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &sizes};
        vk_.vkGetPhysicalDeviceProperties2(handle, &more);
        c.subgroup_size_control = sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT;
        c.min_subgroup_size = sizes.minSubgroupSize;
        c.max_subgroup_size = sizes.maxSubgroupSize;
    }
    if (features.cooperative_matrix.cooperativeMatrix && c.memory_model)
        c.cooperative_matrices = cooperative_matrices_of(vk_, handle_, handle);
    c.cooperative_matrix = !c.cooperative_matrices.empty();
    c.cooperative_matrix2 =
        c.cooperative_matrix && properties.apiVersion >= VK_API_VERSION_1_3 && has(kCooperativeMatrix2Extension);
    c.cooperative_matrix2_parts = parts_of(features.cooperative_matrix2);
    c.pipeline_statistics = has(VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);

    VkPhysicalDeviceMemoryProperties memory{};
    vk_.vkGetPhysicalDeviceMemoryProperties(handle, &memory);
    c.unified_memory = has_unified_memory(properties.deviceType, memory);

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

Result<std::vector<Instance::PhysicalDevice>> Instance::physical_devices() const {
    std::uint32_t count = 0;
    if (const VkResult r = vk_.vkEnumeratePhysicalDevices(handle_, &count, nullptr); r != VK_SUCCESS)
        return vulkan_error(r, "vkEnumeratePhysicalDevices", "listing the devices");
    std::vector<VkPhysicalDevice> handles(count);
    if (const VkResult r = vk_.vkEnumeratePhysicalDevices(handle_, &count, handles.data()); r < 0)
        return vulkan_error(r, "vkEnumeratePhysicalDevices", "listing the devices");
    handles.resize(count);
    std::vector<PhysicalDevice> devices;
    for (const VkPhysicalDevice handle : handles) devices.push_back(describe(handle));
    return devices;
}

Result<std::shared_ptr<Device>> Device::create(std::shared_ptr<Instance> instance,
                                               const Instance::PhysicalDevice& physical, const DeviceOptions& options) {
    if (!physical.unusable.empty())
        return Error{ErrorCode::MissingFeature, "Vulkan device \"" + physical.capabilities.name +
                                                    "\" cannot be used: " + physical.unusable +
                                                    "; choose another one (see: vkformer info)"};
    const Capabilities& c = physical.capabilities;
    const bool captures = options.capture != PipelineCapture::nothing;
    if (captures && !c.pipeline_statistics)
        return Error{ErrorCode::MissingFeature,
                     "Vulkan device \"" + c.name +
                         "\" gives no statistics of its pipelines: it lacks VK_KHR_pipeline_executable_properties"};
    FeatureChain features;
    features.v11.storageBuffer16BitAccess = c.storage16;
    features.v12.storageBuffer8BitAccess = c.storage8;
    features.v12.shaderFloat16 = c.float16;
    features.v12.shaderInt8 = c.int8;
    features.v12.vulkanMemoryModel = features.v12.vulkanMemoryModelDeviceScope = c.memory_model;
    features.v12.timelineSemaphore = VK_TRUE;
    std::vector<const char*> extensions;
    const auto enable = [&](bool wanted, const char* extension, auto& added) {
        if (!wanted) return;
        extensions.push_back(extension);
        features.add(added);
    };
    features.integer_dot.shaderIntegerDotProduct = VK_TRUE;
    enable(c.integer_dot, kIntegerDotExtension, features.integer_dot);
    features.subgroup_size.subgroupSizeControl = features.subgroup_size.computeFullSubgroups = VK_TRUE;
    enable(c.subgroup_size_control, kSubgroupSizeExtension, features.subgroup_size);
    features.cooperative_matrix.cooperativeMatrix = VK_TRUE;
    enable(c.cooperative_matrix, kCooperativeMatrixExtension, features.cooperative_matrix);
    set_parts(features.cooperative_matrix2, c.cooperative_matrix2_parts);
    enable(c.cooperative_matrix2, kCooperativeMatrix2Extension, features.cooperative_matrix2);
    features.executables.pipelineExecutableInfo = VK_TRUE;
    enable(captures, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME, features.executables);
    const float priority = 1.0f;
    const VkDeviceQueueCreateInfo queue_info{.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                             .pNext = nullptr,
                                             .flags = 0,
                                             .queueFamilyIndex = physical.queue_family,
                                             .queueCount = 1,
                                             .pQueuePriorities = &priority};
    const VkDeviceCreateInfo info{.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                  .pNext = &features.base,
                                  .flags = 0,
                                  .queueCreateInfoCount = 1,
                                  .pQueueCreateInfos = &queue_info,
                                  .enabledLayerCount = 0,
                                  .ppEnabledLayerNames = nullptr,
                                  .enabledExtensionCount = static_cast<std::uint32_t>(extensions.size()),
                                  .ppEnabledExtensionNames = extensions.data(),
                                  .pEnabledFeatures = nullptr};
    VkDevice handle = VK_NULL_HANDLE;
    if (const VkResult r = instance->vk().vkCreateDevice(physical.handle, &info, nullptr, &handle); r != VK_SUCCESS)
        return vulkan_error(r, "vkCreateDevice", "opening device \"" + c.name + "\"");
    const InstanceTable instance_table = instance->vk();
    auto device = std::shared_ptr<Device>(new Device(std::move(instance), handle, true, physical.queue_family));
    VKFORMER_TRY(device->vk_, load_device_table(instance_table, handle));
    VkQueue queue = VK_NULL_HANDLE;
    device->vk_.vkGetDeviceQueue(handle, physical.queue_family, 0, &queue);
    device->capture_ = options.capture;
    VKFORMER_CHECK(device->prepare(queue, physical));
    device->capabilities_.pipeline_statistics = captures;
    return device;
}

Result<std::shared_ptr<Device>> Device::adopt(const AdoptedDevice& adopted) {
    if (!adopted.get_instance_proc_addr || !adopted.instance || !adopted.physical_device || !adopted.device)
        return Error{ErrorCode::InvalidArgument,
                     "AdoptedDevice: get_instance_proc_addr, instance, physical_device and "
                     "device are all required"};
    if (adopted.queue && !adopted.timeline_semaphore)
        return Error{ErrorCode::MissingFeature,
                     "AdoptedDevice: submitting to the queue needs the timelineSemaphore "
                     "feature; enable it and say so, or pass no queue and only record"};
    VKFORMER_TRY(auto instance, Instance::adopt(adopted.get_instance_proc_addr, adopted.instance, adopted.debug_utils));
    Instance::PhysicalDevice physical = instance->describe(adopted.physical_device);
    if (physical.capabilities.api_version < kApiVersion) return Error{ErrorCode::MissingFeature, physical.unusable};
    Capabilities& c = physical.capabilities;
    c.storage16 = c.storage16 && adopted.storage16;
    c.storage8 = c.storage8 && adopted.storage8;
    c.float16 = c.float16 && adopted.float16;
    // nothing said
    c.int8 = c.memory_model = c.integer_dot = c.subgroup_size_control = false;
    c.cooperative_matrix = c.cooperative_matrix2 = c.pipeline_statistics = false;
    c.cooperative_matrices.clear();
    const InstanceTable instance_table = instance->vk();
    auto device = std::shared_ptr<Device>(new Device(std::move(instance), adopted.device, false, adopted.queue_family));
    VKFORMER_TRY(device->vk_, load_device_table(instance_table, adopted.device));
    VKFORMER_CHECK(device->prepare(adopted.queue, physical));
    return device;
}

Result<void> Device::prepare(VkQueue queue, const Instance::PhysicalDevice& physical) {
    queue_ = queue;
    capabilities_ = physical.capabilities;
    instance_->vk().vkGetPhysicalDeviceMemoryProperties(physical.handle, &memory_);
    if (!queue) return {};
    const VkSemaphoreTypeCreateInfo type{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                         .pNext = nullptr,
                                         .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
                                         .initialValue = 0};
    const VkSemaphoreCreateInfo info{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type, .flags = 0};
    VkSemaphore semaphore = VK_NULL_HANDLE;
    if (const VkResult r = vk_.vkCreateSemaphore(handle_, &info, nullptr, &semaphore); r != VK_SUCCESS)
        return vulkan_error(r, "vkCreateSemaphore", "opening the device");
    timeline_ = UniqueSemaphore(vk_, handle_, semaphore);
    set_name(VK_OBJECT_TYPE_SEMAPHORE, semaphore, "vkformer timeline");
    return {};
}

Device::~Device() {
    if (!vk_.vkDestroyDevice) return;
    if (timeline_.get()) (void)wait(last_value_);  // a lost device still lets its objects be destroyed
    timeline_ = UniqueSemaphore();
    if (owned_) vk_.vkDestroyDevice(handle_, nullptr);
}

Result<std::uint64_t> Device::submit(std::span<const VkCommandBuffer> commands) {
    if (!queue_)
        return Error{ErrorCode::MissingFeature,
                     "the adopted device came without a queue, so vkformer can only record; pass a queue to submit"};
    const std::lock_guard lock(queue_mutex_);
    const std::uint64_t value = last_value_ + 1;
    const VkSemaphore semaphore = timeline_.get();
    const VkTimelineSemaphoreSubmitInfo timeline{.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                                 .pNext = nullptr,
                                                 .waitSemaphoreValueCount = 0,
                                                 .pWaitSemaphoreValues = nullptr,
                                                 .signalSemaphoreValueCount = 1,
                                                 .pSignalSemaphoreValues = &value};
    const VkSubmitInfo info{.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                            .pNext = &timeline,
                            .waitSemaphoreCount = 0,
                            .pWaitSemaphores = nullptr,
                            .pWaitDstStageMask = nullptr,
                            .commandBufferCount = static_cast<std::uint32_t>(commands.size()),
                            .pCommandBuffers = commands.data(),
                            .signalSemaphoreCount = 1,
                            .pSignalSemaphores = &semaphore};
    if (const VkResult r = vk_.vkQueueSubmit(queue_, 1, &info, VK_NULL_HANDLE); r != VK_SUCCESS)
        return vulkan_error(r, "vkQueueSubmit", "starting work on \"" + capabilities_.name + "\"");
    last_value_ = value;
    return value;
}

Result<void> Device::wait(std::uint64_t value) {
    if (value == 0) return {};
    const VkSemaphore semaphore = timeline_.get();
    const VkSemaphoreWaitInfo info{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                   .pNext = nullptr,
                                   .flags = 0,
                                   .semaphoreCount = 1,
                                   .pSemaphores = &semaphore,
                                   .pValues = &value};
    if (const VkResult r = vk_.vkWaitSemaphores(handle_, &info, UINT64_MAX); r != VK_SUCCESS)
        return vulkan_error(r, "vkWaitSemaphores", "waiting for \"" + capabilities_.name + "\"");
    return {};
}

void Device::set_name(VkObjectType type, std::uint64_t object, const std::string& name) const {
    if (!instance_->debug_utils()) return;
    const VkDebugUtilsObjectNameInfoEXT info{.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
                                             .pNext = nullptr,
                                             .objectType = type,
                                             .objectHandle = object,
                                             .pObjectName = name.c_str()};
    (void)instance_->vk().vkSetDebugUtilsObjectNameEXT(handle_, &info);  // a name that cannot be set hurts nobody
}

void Device::begin_label(VkCommandBuffer commands, const std::string& label) const {
    if (!instance_->debug_utils()) return;
    const VkDebugUtilsLabelEXT info{
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_LABEL_EXT, .pNext = nullptr, .pLabelName = label.c_str(), .color = {}};
    instance_->vk().vkCmdBeginDebugUtilsLabelEXT(commands, &info);
}

void Device::end_label(VkCommandBuffer commands) const {
    if (instance_->debug_utils()) instance_->vk().vkCmdEndDebugUtilsLabelEXT(commands);
}

}  // namespace vkformer::vulkan
