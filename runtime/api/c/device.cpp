// SPDX-License-Identifier: MIT
#include "api/c/handles.hpp"
#include "api/open_backend.hpp"
#include "core/paths.hpp"
#include "core/try.hpp"
#include "cpu/backend.hpp"

using namespace vkformer;

namespace {

using vulkan::Feature;
using vulkan::FeatureInfo;
using vulkan::FeatureSet;
using vulkan::Instance;

constexpr vkf_device_options kDefaultDeviceOptions = VKF_DEVICE_OPTIONS_INIT;
constexpr vkf_adopt_info kDefaultAdoption = VKF_ADOPT_INFO_INIT;

Result<Instance::PhysicalDevice> describe(PFN_vkGetInstanceProcAddr get, VkInstance instance, VkPhysicalDevice device) {
    if (!get || !instance || !device)
        return Error{ErrorCode::InvalidArgument,
                     "get_instance_proc_addr, instance and physical_device are all required"};
    VKFORMER_TRY(const auto adopted, Instance::adopt(get, instance, false));
    return adopted->describe(device);
}

std::vector<vkf_wish> wishes_of(const Instance::PhysicalDevice& device, const FeatureSet& enabled) {
    const FeatureSet& available = device.features;
    std::vector<vkf_wish> wishes;
    for (const FeatureInfo& info : vulkan::feature_table()) {
        if (info.feature == Feature::buffer_addresses) continue;  // an adopted device makes no use of it
        if (info.only_cpus && !device.capabilities.is_cpu()) continue;
        const auto flag = [&](const FeatureSet& set) { return set.has(info.feature) ? VK_TRUE : VK_FALSE; };
        const bool is_required = info.feature == Feature::timeline_semaphore;
        wishes.push_back({.name = info.name,
                          .extension = info.extension,
                          .is_required = is_required ? VK_TRUE : VK_FALSE,
                          .is_available = flag(available),
                          .is_enabled = flag(enabled),
                          .gain = info.gain});
    }
    return wishes;
}

vkf_result write_wishes(const std::vector<vkf_wish>& wishes, uint32_t* count, vkf_wish* target) {
    return c::write_array(std::span<const vkf_wish>(wishes), count, target);
}

void tell(const vkf_device_options& options, vkf_log_level level, const std::string& message) {
    if (options.log) options.log(options.log_user, level, message.c_str());
}

vulkan::MemoryCallbacks memory_callbacks(const vkf_memory_callbacks& given) {
    const auto allocate = [given](const vulkan::MemoryRequest& request, vulkan::MemoryRange& range) {
        const vkf_allocation_request asked = {.requirements = request.requirements,
                                              .memory_type = request.memory_type,
                                              .required_flags = request.required_flags,
                                              .must_be_mapped = request.is_mapped ? VK_TRUE : VK_FALSE,
                                              .label = request.label};
        vkf_allocation made{};
        const VkResult result = given.allocate(given.user, &asked, &made);
        range = {.memory = made.memory,
                 .offset = made.offset,
                 .mapped = static_cast<std::byte*>(made.mapped),
                 .handle = made.handle};
        return result;
    };
    const auto free = [given](const vulkan::MemoryRange& range) {
        const vkf_allocation made = {
            .memory = range.memory, .offset = range.offset, .mapped = range.mapped, .handle = range.handle};
        given.free(given.user, &made);
    };
    return {.allocate = allocate, .free = free};
}

Result<void> check_variants(const vkf_device_options& options) {
    switch (options.variants) {
    case VKF_VARIANTS_DEFAULT:
    case VKF_VARIANTS_PLAIN:
    case VKF_VARIANTS_MEASURED: return {};
    case VKF_VARIANTS_MAX_ENUM: break;
    }
    return Error{ErrorCode::InvalidArgument, "vkf_device_options::variants is " + std::to_string(options.variants)};
}

Result<std::map<std::string, std::string>> named_variants(const vkf_device_options& options) {
    if (!options.named_variants)
        return Error{ErrorCode::InvalidArgument,
                     "vkf_device_options::named_variants is null, but named_variant_count is not 0"};
    std::map<std::string, std::string> by_op;
    for (const vkf_variant& given : std::span(options.named_variants, options.named_variant_count)) {
        if (!given.op || !given.variant)
            return Error{ErrorCode::InvalidArgument, "vkf_variant: op and variant are both required"};
        if (!by_op.emplace(given.op, given.variant).second)
            return Error{ErrorCode::InvalidArgument, std::string(given.op) + " has two variants; name one"};
    }
    return by_op;
}

/// `can_submit`: variants can only be measured on a device with a queue.
Result<vulkan::BackendOptions> backend_options(const vkf_device_options& options, bool can_submit) {
    VKFORMER_CHECK(check_variants(options));
    vulkan::BackendOptions result{.cache_folder =
                                      options.cache_folder ? utf8_path(options.cache_folder) : std::filesystem::path()};
    result.pipeline_cache = options.pipeline_cache;
    result.memory_limit = options.memory_budget;
    result.offload.bytes = options.offload_bytes;
    if (options.log)
        result.offload.report = [options](const std::string& text) { tell(options, VKF_LOG_INFO, "offload: " + text); };
    result.exported.handle_types = options.external_handle_types;
    if (options.memory) {
        if (!options.memory->allocate || !options.memory->free)
            return Error{ErrorCode::InvalidArgument, "vkf_memory_callbacks: allocate and free are both required"};
        result.memory = memory_callbacks(*options.memory);
    }
    if (options.variants == VKF_VARIANTS_PLAIN) result.chooser = std::make_shared<vulkan::ReferenceVariants>();
    if (options.variants == VKF_VARIANTS_MEASURED) {
        if (!can_submit)
            return Error{ErrorCode::MissingFeature,
                         "VKF_VARIANTS_MEASURED runs trials and needs a queue; pass one, or take VKF_VARIANTS_DEFAULT"};
        tuning::LadderOptions ladder{.folder = result.cache_folder};
        ladder.progress = [options](const tuning::Progress& p) { tell(options, VKF_LOG_INFO, to_string(p)); };
        result.chooser = std::make_shared<tuning::Ladder>(std::move(ladder));
    }
    if (options.named_variant_count == 0) return result;
    VKFORMER_TRY(auto named, named_variants(options));
    VKFORMER_TRY(result.chooser, vulkan::NamedVariants::create(std::move(named), std::move(result.chooser)));
    return result;
}

/// What the application could still enable.
void tell_lost_paths(const vkf_device_options& options, const vulkan::Device& device) {
    for (const vkf_wish& wish : wishes_of(device.physical(), device.enabled()))
        if (wish.is_available && !wish.is_enabled)
            tell(options, VKF_LOG_INFO,
                 std::string(wish.name) + " is available and was not enabled; lost: " + wish.gain);
}

vkf_result hand_out(Result<std::unique_ptr<vulkan::VulkanBackend>> backend, const vkf_device_options& options,
                    vkf_device** device) {
    if (!backend) return c::fail(backend.error());
    tell_lost_paths(options, *(*backend)->device());
    *device = new vkf_device{std::make_shared<c::Device>(*std::move(backend))};
    return VKF_SUCCESS;
}

/// VKF_DEVICE_CPU. What an option asks of Vulkan is refused by name.
Result<std::shared_ptr<c::Device>> cpu_device(const vkf_device_options& options) {
    const std::pair<bool, const char*> for_vulkan[] = {{options.memory_budget != 0, "memory_budget"},
                                                       {options.memory != nullptr, "memory"},
                                                       {options.offload_bytes != 0, "offload_bytes"},
                                                       {options.pipeline_cache != VK_NULL_HANDLE, "pipeline_cache"},
                                                       {options.external_handle_types != 0, "external_handle_types"},
                                                       {options.named_variant_count != 0, "named_variants"}};
    for (const auto& [is_given, member] : for_vulkan)
        if (is_given)
            return Error{ErrorCode::InvalidArgument, std::string("vkf_device_options::") + member +
                                                         " is for Vulkan devices; leave it out with VKF_DEVICE_CPU"};
    VKFORMER_CHECK(check_variants(options));
    const bool plain = options.variants == VKF_VARIANTS_PLAIN;
    return std::make_shared<c::Device>(
        cpu::make_cpu_backend<float>(plain ? cpu::QuantizedProducts::floats : cpu::QuantizedProducts::int8));
}

/// A host without a Vulkan device hears of the other one.
Error with_cpu_device(Error error) {
    if (error.code == ErrorCode::NoVulkanLoader || error.code == ErrorCode::NoDevice)
        error.message += "; VKF_DEVICE_CPU computes without Vulkan";
    return error;
}

}  // namespace

vkf_result vkf_get_instance_extensions(uint32_t* count, const char** names) {
    static constexpr const char* kNames[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME};
    return c::write_array(std::span<const char* const>(kNames), count, names);
}

vkf_result vkf_get_device_requirements(PFN_vkGetInstanceProcAddr get_instance_proc_addr, VkInstance instance,
                                       VkPhysicalDevice physical_device, vkf_device_requirements* requirements) {
    return c::guarded([&] {
        const auto described = describe(get_instance_proc_addr, instance, physical_device);
        if (!described) return c::fail(described.error());
        if (!described->unusable.empty())
            c::fail({ErrorCode::MissingFeature,
                     "device \"" + described->capabilities.name + "\" cannot be used: " + described->unusable});
        const vulkan::Capabilities& capabilities = described->capabilities;
        vkf_device_requirements answer = VKF_DEVICE_REQUIREMENTS_INIT;
        answer.queue_flags = VK_QUEUE_COMPUTE_BIT;
        answer.is_usable = described->unusable.empty() ? VK_TRUE : VK_FALSE;
        answer.max_tensor_bytes = std::min(capabilities.max_storage_buffer_range, capabilities.max_allocation_bytes);
        return c::write_struct(requirements, answer, "vkf_device_requirements");
    });
}

vkf_result vkf_get_device_wishes(PFN_vkGetInstanceProcAddr get_instance_proc_addr, VkInstance instance,
                                 VkPhysicalDevice physical_device, uint32_t* count, vkf_wish* wishes) {
    return c::guarded([&] {
        const auto described = describe(get_instance_proc_addr, instance, physical_device);
        if (!described) return c::fail(described.error());
        return write_wishes(wishes_of(*described, {}), count, wishes);
    });
}

vkf_result vkf_patch_device_create_info(PFN_vkGetInstanceProcAddr get_instance_proc_addr, VkInstance instance,
                                        VkPhysicalDevice physical_device, VkDeviceCreateInfo* info,
                                        vkf_device_patch** patch) {
    if (!info || !patch) return c::invalid("info and patch are required");
    return c::guarded([&] {
        const auto described = describe(get_instance_proc_addr, instance, physical_device);
        if (!described) return c::fail(described.error());
        if (!described->unusable.empty())
            return c::fail({ErrorCode::MissingFeature,
                            "device \"" + described->capabilities.name + "\" cannot be used: " + described->unusable});
        auto made = std::make_unique<vkf_device_patch>();
        vulkan::FeatureSet wanted = described->features;
        wanted.set(Feature::buffer_addresses, false);  // an adopted device makes no use of it
        made->patch = std::make_unique<vulkan::DevicePatch>(wanted, std::span<const char* const>{});
        made->patch->apply(*info);
        *patch = made.release();
        return VKF_SUCCESS;
    });
}

void vkf_device_patch_destroy(vkf_device_patch* patch) { delete patch; }

vkf_result vkf_device_adopt(const vkf_adopt_info* info, const vkf_device_options* options, vkf_device** device) {
    if (!info || !device) return c::invalid("info and device are required");
    return c::guarded([&] {
        const auto given = c::read_struct(info, kDefaultAdoption, "vkf_adopt_info");
        if (!given) return c::fail(given.error());
        const auto chosen = c::read_struct(options, kDefaultDeviceOptions, "vkf_device_options");
        if (!chosen) return c::fail(chosen.error());
        auto backend = backend_options(*chosen, given->queue != VK_NULL_HANDLE);
        if (!backend) return c::fail(backend.error());
        vulkan::AdoptedDevice adopted{.get_instance_proc_addr = given->get_instance_proc_addr,
                                      .instance = given->instance,
                                      .physical_device = given->physical_device,
                                      .device = given->device,
                                      .api_version = given->api_version,
                                      .created_with = given->created_with,
                                      .debug_utils = given->has_debug_utils != VK_FALSE,
                                      .queue_family = given->queue_family,
                                      .queue = given->queue,
                                      .lock_queue = {},
                                      .unlock_queue = {}};
        const auto bind = [&](void (*function)(void*)) -> std::function<void()> {
            if (!function) return {};
            return [function, user = given->queue_user] { function(user); };
        };
        adopted.lock_queue = bind(given->lock_queue);
        adopted.unlock_queue = bind(given->unlock_queue);
        return hand_out(vulkan::VulkanBackend::adopt(adopted, *backend), *chosen, device);
    });
}

vkf_result vkf_device_create(const char* choice, const vkf_device_options* options, vkf_device** device) {
    if (!device) return c::invalid("device is required");
    return c::guarded([&] {
        const auto chosen = c::read_struct(options, kDefaultDeviceOptions, "vkf_device_options");
        if (!chosen) return c::fail(chosen.error());
        const std::string_view which = choice ? choice : "auto";
        if (which == VKF_DEVICE_CPU) {
            auto made = cpu_device(*chosen);
            if (!made) return c::fail(made.error());
            *device = new vkf_device{*std::move(made)};
            return VKF_SUCCESS;
        }
        auto options_of_backend = backend_options(*chosen, true);
        if (!options_of_backend) return c::fail(options_of_backend.error());
        auto backend = vulkan::VulkanBackend::create(which, *options_of_backend);
        if (!backend) return c::fail(with_cpu_device(backend.error()));
        return hand_out(std::move(backend), *chosen, device);
    });
}

void vkf_device_destroy(vkf_device* device) { delete device; }

const char* vkf_device_name(const vkf_device* device) { return device ? device->device->name().c_str() : ""; }

vkf_result vkf_device_vulkan(const vkf_device* device, vkf_vulkan_handles* handles) {
    if (!device) return c::invalid("device is required");
    return c::guarded([&] {
        const auto backend = device->device->need_vulkan("vkf_device_vulkan");
        if (!backend) return c::fail(backend.error());
        const vulkan::Device& d = *(*backend)->device();
        vkf_vulkan_handles answer = VKF_VULKAN_HANDLES_INIT;
        answer.get_instance_proc_addr = d.instance().vk().vkGetInstanceProcAddr;
        answer.instance = d.instance().handle();
        answer.physical_device = d.physical().handle;
        answer.device = d.handle();
        answer.queue_family = d.queue_family();
        return c::write_struct(handles, answer, "vkf_vulkan_handles");
    });
}

vkf_result vkf_device_report(const vkf_device* device, uint32_t* count, vkf_wish* wishes) {
    if (!device) return c::invalid("device is required");
    return c::guarded([&] {
        if (!device->device->vulkan()) return write_wishes({}, count, wishes);
        const vulkan::Device& d = *device->device->vulkan()->device();
        return write_wishes(wishes_of(d.physical(), d.enabled()), count, wishes);
    });
}

vkf_result vkf_device_memory(const vkf_device* device, vkf_memory_use* use) {
    if (!device) return c::invalid("device is required");
    return c::guarded([&] {
        vkf_memory_use answer = VKF_MEMORY_USE_INIT;
        if (const vulkan::VulkanBackend* const backend = device->device->vulkan()) {
            const vulkan::Allocator& allocator = backend->device()->allocator();
            answer.used = allocator.used();
            answer.peak = allocator.peak();
            answer.budget = allocator.budget().value_or(0);
        }
        return c::write_struct(use, answer, "vkf_memory_use");
    });
}

vkf_result vkf_device_trim(vkf_device* device, uint64_t* freed) {
    if (!device) return c::invalid("device is required");
    return c::guarded([&] {
        if (freed) *freed = 0;
        if (!device->device->vulkan()) return VKF_SUCCESS;
        const vulkan::Device& d = *device->device->vulkan()->device();
        const std::uint64_t before = d.allocator().used();
        d.transfer().trim();
        if (freed) *freed = before - d.allocator().used();
        return VKF_SUCCESS;
    });
}

vkf_result vkf_device_wait(vkf_device* device, uint64_t ticket, uint64_t timeout_ns) {
    if (!device) return c::invalid("device is required");
    return c::guarded([&] {
        vulkan::VulkanBackend* const backend = device->device->vulkan();
        const std::uint64_t last = backend ? backend->device()->last_submission() : device->device->last_ticket();
        if (ticket > last) return c::invalid("the ticket was never given: nothing of that number was submitted");
        if (!backend) return VKF_SUCCESS;
        vulkan::Device& d = *backend->device();
        const auto done = d.wait_for(ticket, timeout_ns);
        if (!done) return c::fail(done.error());
        return *done ? VKF_SUCCESS : timeout_ns == 0 ? VKF_NOT_READY : VKF_TIMEOUT;
    });
}
