// SPDX-License-Identifier: MIT
#include "vulkan/device.hpp"

#include <algorithm>

#include "core/lack_of_memory.hpp"
#include "core/try.hpp"
#include "vulkan/memory.hpp"

namespace vkformer::vulkan {
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
