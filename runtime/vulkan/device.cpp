// SPDX-License-Identifier: MIT
#include "vulkan/device.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "core/lack_of_memory.hpp"
#include "core/try.hpp"
#include "vulkan/cooperative_matrix.hpp"
#include "vulkan/memory.hpp"

namespace vkformer::vulkan {
namespace {

constexpr std::uint32_t kApiVersion = VK_API_VERSION_1_2;  // the floor
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

CooperativeMatrix2 parts_of(const FeatureSet& features) {
    return {.reductions = features.has(Feature::matrix2_reductions),
            .conversions = features.has(Feature::matrix2_conversions),
            .per_element_operations = features.has(Feature::matrix2_per_element_operations)};
}

bool has_any(const CooperativeMatrix2& parts) {
    return parts.reductions || parts.conversions || parts.per_element_operations;
}

/// Vulkan's subgroups have a power of two of invocations, at most 128.
bool is_subgroup_size(std::uint32_t size) { return std::has_single_bit(size) && size <= 128; }

/// Nothing that counts on subgroups runs where a driver gives their size as what it cannot be.
void distrust_subgroups(Capabilities& c, FeatureSet& features) {
    c.subgroup_arithmetic = c.subgroup_shuffle = false;
    features.set(Feature::subgroup_size_control, false);
    features.set(Feature::cooperative_matrix, false);
}

/// What to do where it is the driver that fails: memory that is missing is no fault of it.
Error with_advice(Error error, const char* advice, Hint hint) {
    if (is_lack_of_memory(error.code)) return error;
    error.message += advice;
    error.hint = hint;
    return error;
}

/// What the capabilities say of features, where these are the ones that are there. Needs the fields that features do not decide.
void set_features(Capabilities& c, const FeatureSet& features) {
    c.storage16 = features.has(Feature::storage16);
    c.float16 = features.has(Feature::float16);
    c.memory_model = features.has(Feature::memory_model) && features.has(Feature::memory_model_device_scope);
    c.int64 = features.has(Feature::int64);
    c.integer_dot = features.has(Feature::integer_dot);
    c.buffer_addresses = features.has(Feature::buffer_addresses);
    c.subgroup_size_control = c.max_subgroup_size > 0 && features.has(Feature::subgroup_size_control) &&
                              features.has(Feature::full_subgroups);
    if (!c.subgroup_size_control) c.min_subgroup_size = c.max_subgroup_size = 0;
    if (!features.has(Feature::cooperative_matrix) || !c.memory_model) c.cooperative_matrices.clear();
    c.cooperative_matrix = !c.cooperative_matrices.empty();
    c.cooperative_matrix2_parts = parts_of(features);
    c.cooperative_matrix2 = c.cooperative_matrix && c.api_version >= VK_API_VERSION_1_3 &&
                            features.has(Feature::maintenance4) && has_any(c.cooperative_matrix2_parts);
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

namespace {

/// Whether memory of buffers can be handed out as what was asked for.
Result<void> check_export(const InstanceTable& vk, const Instance::PhysicalDevice& physical,
                          const DeviceOptions& options) {
    if (!options.exported.handle_types) return {};
    if (options.memory.allocate)
        return Error{ErrorCode::InvalidArgument,
                     "memory that an application allocates itself is exported by it: leave out the handle types"};
    const Error none{ErrorCode::MissingFeature, "Vulkan device \"" + physical.capabilities.name +
                                                    "\" does not export memory as handle types " +
                                                    std::to_string(options.exported.handle_types) +
                                                    "; opaque file descriptors (1) and dma-bufs (512) may be possible"};
    VkExternalMemoryHandleTypeFlags rest = options.exported.handle_types;
    for (const auto type :
         {VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT, VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT}) {
        if (!(rest & type)) continue;
        rest &= ~static_cast<VkExternalMemoryHandleTypeFlags>(type);
        const VkPhysicalDeviceExternalBufferInfo info{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO,
                                                      .pNext = nullptr,
                                                      .flags = 0,
                                                      .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT,
                                                      .handleType = type};
        VkExternalBufferProperties found{
            .sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES, .pNext = nullptr, .externalMemoryProperties = {}};
        vk.vkGetPhysicalDeviceExternalBufferProperties(physical.handle, &info, &found);
        if (!(found.externalMemoryProperties.externalMemoryFeatures & VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT))
            return none;
    }
    if (rest) return none;
    return {};
}

}  // namespace

Result<std::shared_ptr<Device>> Device::create(std::shared_ptr<Instance> instance,
                                               const Instance::PhysicalDevice& physical, const DeviceOptions& options) {
    if (!physical.unusable.empty())
        return Error{.code = ErrorCode::MissingFeature,
                     .message = "Vulkan device \"" + physical.capabilities.name +
                                "\" cannot be used: " + physical.unusable + "; choose another one",
                     .hint = Hint::other_device};
    VKFORMER_CHECK(check_export(instance->vk(), physical, options));
    const Capabilities& c = physical.capabilities;
    const bool captures = options.capture != PipelineCapture::nothing;
    if (captures && !c.pipeline_statistics)
        return Error{ErrorCode::MissingFeature,
                     "Vulkan device \"" + c.name +
                         "\" gives no statistics of its pipelines: it lacks VK_KHR_pipeline_executable_properties"};
    const VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executables{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
        .pNext = nullptr,
        .pipelineExecutableInfo = VK_TRUE};
    std::vector<const char*> extensions;
    if (captures) extensions.push_back(VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
    if (options.exported.handle_types) extensions.push_back(VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME);
    if (options.exported.handle_types & VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT)
        extensions.push_back(VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME);
    if (c.host_memory_alignment > 0) extensions.push_back(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
    DevicePatch patch(physical.features, extensions);
    const float priority = 1.0f;
    const VkDeviceQueueCreateInfo queue_info{.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                             .pNext = nullptr,
                                             .flags = 0,
                                             .queueFamilyIndex = physical.queue_family,
                                             .queueCount = 1,
                                             .pQueuePriorities = &priority};
    VkDeviceCreateInfo info{.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                            .pNext = captures ? &executables : nullptr,
                            .queueCreateInfoCount = 1,
                            .pQueueCreateInfos = &queue_info};
    patch.apply(info);
    VkDevice handle = VK_NULL_HANDLE;
    if (const VkResult r = instance->vk().vkCreateDevice(physical.handle, &info, nullptr, &handle); r != VK_SUCCESS)
        return with_advice(vulkan_error(r, "vkCreateDevice", "opening device \"" + c.name + "\""),
                           "; update its driver or choose another device", Hint::other_device);
    const InstanceTable instance_table = instance->vk();
    auto device = std::shared_ptr<Device>(new Device(std::move(instance), handle, true, physical.queue_family));
    // First of all what the destructor calls, so that a device whose table is not complete goes, too.
    device->vk_.vkDestroyDevice =
        reinterpret_cast<PFN_vkDestroyDevice>(instance_table.vkGetDeviceProcAddr(handle, "vkDestroyDevice"));
    VKFORMER_TRY(device->vk_, load_device_table(instance_table, handle));
    VkQueue queue = VK_NULL_HANDLE;
    device->vk_.vkGetDeviceQueue(handle, physical.queue_family, 0, &queue);
    device->capture_ = options.capture;
    device->enabled_ = physical.features;
    VKFORMER_CHECK(device->prepare(queue, physical, options));
    device->capabilities_.pipeline_statistics = captures;
    return device;
}

Result<std::shared_ptr<Device>> Device::adopt(const AdoptedDevice& adopted, const DeviceOptions& options) {
    if (!adopted.get_instance_proc_addr || !adopted.instance || !adopted.physical_device || !adopted.device)
        return Error{
            ErrorCode::InvalidArgument,
            "adopting a device: get_instance_proc_addr, instance, physical_device and device are all required"};
    if (static_cast<bool>(adopted.lock_queue) != static_cast<bool>(adopted.unlock_queue))
        return Error{ErrorCode::InvalidArgument,
                     "adopting a device: lock_queue and unlock_queue come together or not at all"};
    VKFORMER_TRY(auto instance, Instance::adopt(adopted.get_instance_proc_addr, adopted.instance, adopted.debug_utils));
    Instance::PhysicalDevice physical = instance->describe(adopted.physical_device);
    if (physical.capabilities.api_version < kApiVersion) return Error{ErrorCode::MissingFeature, physical.unusable};
    Capabilities& c = physical.capabilities;
    c.api_version = std::min(c.api_version, std::max(adopted.api_version, kApiVersion));
    FeatureSet enabled;
    if (adopted.created_with) enabled = enabled_features(*adopted.created_with, c.api_version) & physical.features;
    // The application's buffers, and memory of its allocator, may have none.
    enabled.set(Feature::buffer_addresses, false);
    c.host_memory_alignment = 0;
    set_features(c, enabled);
    c.pipeline_statistics = false;
    if (adopted.queue && !enabled.has(Feature::timeline_semaphore))
        return Error{
            ErrorCode::MissingFeature,
            "adopting a device: submitting to its queue needs the timelineSemaphore feature; enable it (and say so: "
            "created_with), or pass no queue and only record"};
    VKFORMER_TRY(c.timestamp_valid_bits, instance->timestamp_bits(adopted.physical_device, adopted.queue_family));
    const InstanceTable instance_table = instance->vk();
    VKFORMER_CHECK(check_export(instance_table, physical, options));
    if (options.exported.handle_types && !instance_table.vkGetDeviceProcAddr(adopted.device, "vkGetMemoryFdKHR"))
        return Error{ErrorCode::MissingFeature,
                     "exporting memory needs VK_KHR_external_memory_fd, and the device was made without it"};
    auto device = std::shared_ptr<Device>(new Device(std::move(instance), adopted.device, false, adopted.queue_family));
    VKFORMER_TRY(device->vk_, load_device_table(instance_table, adopted.device));
    device->lock_queue_ = adopted.lock_queue;
    device->unlock_queue_ = adopted.unlock_queue;
    device->enabled_ = enabled;
    VKFORMER_CHECK(device->prepare(adopted.queue, physical, options));
    return device;
}

Result<void> Device::prepare(VkQueue queue, const Instance::PhysicalDevice& physical, const DeviceOptions& options) {
    queue_ = queue;
    physical_ = physical;
    capabilities_ = physical.capabilities;
    if (options.memory.allocate || !vk_.vkGetBufferDeviceAddress)
        capabilities_.buffer_addresses = false;  // an application's memory is not known to have any
    if (options.memory.allocate || options.exported.handle_types) capabilities_.host_memory_alignment = 0;
    instance_->vk().vkGetPhysicalDeviceMemoryProperties(physical.handle, &memory_);
    offload_ = options.offload;
    if (offload_.bytes > 0 && offload_.bytes != Offload::kRest && !has_host_memory(*this))
        return Error{ErrorCode::MissingFeature, "device \"" + capabilities_.name +
                                                    "\" has no memory but its own, so that weights cannot stay in the "
                                                    "host's: offload nothing"};
    allocator_ = std::make_unique<Allocator>(*this, options.memory_limit, options.memory, options.exported);
    transfer_ = std::make_unique<Transfer>(*this);
    if (!queue) return {};
    if (!vk_.vkWaitSemaphores)
        return Error{ErrorCode::MissingFeature,
                     "the Vulkan device lacks vkWaitSemaphores: enable timelineSemaphore, or lend no queue"};
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

Device::Device(std::shared_ptr<Instance> instance, VkDevice handle, bool owned, std::uint32_t queue_family)
    : instance_(std::move(instance)), handle_(handle), owned_(owned), queue_family_(queue_family) {}

Device::~Device() {
    if (!vk_.vkDestroyDevice) return;
    if (timeline_.get()) drain(last_value_);
    transfer_.reset();
    timeline_ = UniqueSemaphore();
    if (owned_) vk_.vkDestroyDevice(handle_, nullptr);
}

Result<std::uint64_t> Device::submit(std::span<const VkCommandBuffer> commands, const SemaphorePoints& points) {
    if (!queue_)
        return Error{ErrorCode::MissingFeature,
                     "the adopted device came without a queue, so vkformer can only record; pass a queue to submit"};
    std::vector<VkSemaphore> waits, signals;
    std::vector<std::uint64_t> wait_values, signal_values;
    for (const SemaphorePoint& p : points.waits) waits.push_back(p.semaphore), wait_values.push_back(p.value);
    for (const SemaphorePoint& p : points.signals) signals.push_back(p.semaphore), signal_values.push_back(p.value);
    const std::vector<VkPipelineStageFlags> stages(
        waits.size(), VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT);
    signals.push_back(timeline_.get());

    const std::lock_guard lock(queue_mutex_);
    VKFORMER_CHECK(check_not_lost());
    const std::uint64_t value = last_value_ + 1;
    signal_values.push_back(value);
    const VkTimelineSemaphoreSubmitInfo timeline{
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .pNext = nullptr,
        .waitSemaphoreValueCount = static_cast<std::uint32_t>(wait_values.size()),
        .pWaitSemaphoreValues = wait_values.data(),
        .signalSemaphoreValueCount = static_cast<std::uint32_t>(signal_values.size()),
        .pSignalSemaphoreValues = signal_values.data()};
    const VkSubmitInfo info{.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                            .pNext = &timeline,
                            .waitSemaphoreCount = static_cast<std::uint32_t>(waits.size()),
                            .pWaitSemaphores = waits.data(),
                            .pWaitDstStageMask = stages.data(),
                            .commandBufferCount = static_cast<std::uint32_t>(commands.size()),
                            .pCommandBuffers = commands.data(),
                            .signalSemaphoreCount = static_cast<std::uint32_t>(signals.size()),
                            .pSignalSemaphores = signals.data()};
    if (lock_queue_) lock_queue_();
    const VkResult r = vk_.vkQueueSubmit(queue_, 1, &info, VK_NULL_HANDLE);
    if (unlock_queue_) unlock_queue_();
    if (r != VK_SUCCESS) return error_of(r, "vkQueueSubmit", "starting work on \"" + capabilities_.name + "\"");
    last_value_ = value;
    return value;
}

Result<bool> Device::wait_for(std::uint64_t value, std::uint64_t timeout_ns) {
    if (value == 0) return true;
    VKFORMER_CHECK(check_not_lost());
    const VkSemaphore semaphore = timeline_.get();
    const VkSemaphoreWaitInfo info{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                   .pNext = nullptr,
                                   .flags = 0,
                                   .semaphoreCount = 1,
                                   .pSemaphores = &semaphore,
                                   .pValues = &value};
    const VkResult r = vk_.vkWaitSemaphores(handle_, &info, timeout_ns);
    if (r == VK_TIMEOUT) return false;
    if (r != VK_SUCCESS) return error_of(r, "vkWaitSemaphores", "waiting for \"" + capabilities_.name + "\"");
    return true;
}

Result<void> Device::wait(std::uint64_t value) {
    VKFORMER_TRY(const bool is_done, wait_for(value, UINT64_MAX));
    (void)is_done;  // without a time-out it is
    return {};
}

void Device::drain(std::uint64_t value) noexcept {
    constexpr int kAttempts = 3;
    for (int i = 0; i < kAttempts; ++i)
        if (wait(value)) return;
}

Error Device::error_of(VkResult result, std::string_view call, std::string_view doing) const {
    Error error = vulkan_error(result, call, doing);
    if (result == VK_ERROR_DEVICE_LOST) {
        is_lost_ = true;
        error.message += kAfterLoss;
    }
    return error;
}

Result<void> Device::check_not_lost() const {
    if (!is_lost_) return {};
    return Error{
        ErrorCode::DeviceLost,
        "device \"" + capabilities_.name + "\" was lost before and does nothing more" + std::string(kAfterLoss),
        VK_ERROR_DEVICE_LOST};
}

std::uint64_t Device::last_submission() const {
    const std::lock_guard lock(queue_mutex_);
    return last_value_;
}

std::optional<std::uint64_t> Device::free_bytes() const {
    if (!physical_.has_memory_budget) return std::nullopt;
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 properties{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                                 .pNext = &budget};
    instance_->vk().vkGetPhysicalDeviceMemoryProperties2(physical_.handle, &properties);
    std::uint64_t most = 0;
    for (std::uint32_t heap = 0; heap < properties.memoryProperties.memoryHeapCount; ++heap)
        if (properties.memoryProperties.memoryHeaps[heap].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)
            most = std::max(most, budget.heapBudget[heap] - std::min(budget.heapBudget[heap], budget.heapUsage[heap]));
    return most;
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
