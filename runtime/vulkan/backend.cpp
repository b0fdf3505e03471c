// SPDX-License-Identifier: MIT
#include "vulkan/backend.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>

#include "core/try.hpp"

namespace vkformer::vulkan {
namespace {

std::vector<DeviceInfo> describe(const std::vector<Instance::PhysicalDevice>& physical) {
    std::vector<DeviceInfo> devices;
    for (const auto& device : physical)
        devices.push_back({static_cast<std::uint32_t>(devices.size()), device.capabilities, device.unusable});
    return devices;
}

std::string lower(std::string_view text) {
    std::string result(text);
    std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return result;
}

std::string list_of(const std::vector<DeviceInfo>& devices) {
    std::string text;
    for (const DeviceInfo& device : devices)
        text += (text.empty() ? "" : ", ") + std::to_string(device.index) + " = \"" + device.capabilities.name + "\"";
    return text.empty() ? "none" : text;
}

int rank_of(const DeviceInfo& device) {
    const std::string& type = device.capabilities.type;
    return type == "discrete" ? 0 : type == "integrated" ? 1 : type == "virtual" ? 2 : type == "cpu" ? 4 : 3;
}

/// Whether "auto" takes `a` rather than `b`, which the loader lists before it. Of devices that are CPUs the one with the larger subgroups,
/// since these are the lanes of the processor that its driver works with.
bool is_better(const DeviceInfo& a, const DeviceInfo& b) {
    if (rank_of(a) != rank_of(b)) return rank_of(a) < rank_of(b);
    return a.capabilities.is_cpu() && a.capabilities.subgroup_size > b.capabilities.subgroup_size;
}

DeviceOptions device_options(const BackendOptions& options) {
    return {.capture = options.capture,
            .memory_limit = options.memory_limit,
            .memory = options.memory,
            .exported = options.exported,
            .offload = options.offload};
}

}  // namespace

Result<std::vector<DeviceInfo>> list_devices() {
    VKFORMER_TRY(const auto instance, Instance::create(false));
    VKFORMER_TRY(const auto physical, instance->physical_devices());
    return describe(physical);
}

Result<std::uint32_t> choose_device(const std::vector<DeviceInfo>& devices, std::string_view choice) {
    const auto none = [&](const std::string& what) {
        return Error{.code = ErrorCode::NoDevice,
                     .message = what + "; Vulkan devices here: " + list_of(devices),
                     .hint = devices.empty() ? Hint::cpu_backend : Hint::other_device};
    };
    if (devices.empty())
        return none(
            "no Vulkan device was found; install a driver (Debian: mesa-vulkan-drivers) or choose the CPU backend");
    if (choice == "auto") {
        const DeviceInfo* best = nullptr;
        for (const DeviceInfo& device : devices)
            if (device.unusable.empty() && (!best || is_better(device, *best))) best = &device;
        if (!best) return none("no Vulkan device here can be used (" + devices.front().unusable + ")");
        return best->index;
    }
    std::uint32_t index = 0;
    const auto [end, failure] = std::from_chars(choice.data(), choice.data() + choice.size(), index);
    if (failure == std::errc{} && end == choice.data() + choice.size() && choice.size() < 10) {
        if (index < devices.size()) return index;
        return none("there is no Vulkan device " + std::string(choice));
    }
    std::string wanted = lower(choice);
    std::vector<const DeviceInfo*> matches;
    std::string digits = wanted;
    std::erase(digits, '-');
    for (const DeviceInfo& device : devices)
        if (device.capabilities.uuid == digits ||
            (!wanted.empty() && lower(device.capabilities.name).find(wanted) != std::string::npos))
            matches.push_back(&device);
    if (matches.empty()) return none("no Vulkan device is called \"" + std::string(choice) + "\"");
    if (matches.size() > 1) return none("several Vulkan devices are called \"" + std::string(choice) + "\"");
    return matches.front()->index;
}

Result<std::unique_ptr<VulkanBackend>> VulkanBackend::create(std::string_view choice, const BackendOptions& options) {
    VKFORMER_TRY(auto instance, Instance::create(options.validation));
    VKFORMER_TRY(auto physical, instance->physical_devices());
    VKFORMER_TRY(const std::uint32_t index, choose_device(describe(physical), choice));
    Capabilities& capabilities = physical[index].capabilities;
    if (options.force_staging) capabilities.unified_memory = false;
    if (options.most_bytes > 0)
        for (std::uint64_t* const limit : {&capabilities.max_storage_buffer_range, &capabilities.max_allocation_bytes})
            *limit = std::min(*limit, options.most_bytes);
    VKFORMER_TRY(auto device, Device::create(std::move(instance), physical[index], device_options(options)));
    return on(std::move(device), options);
}

Result<std::unique_ptr<VulkanBackend>> VulkanBackend::adopt(const AdoptedDevice& adopted,
                                                            const BackendOptions& options) {
    VKFORMER_TRY(auto device, Device::adopt(adopted, device_options(options)));
    return on(std::move(device), options);
}

Result<std::unique_ptr<VulkanBackend>> VulkanBackend::on(std::shared_ptr<Device> device,
                                                         const BackendOptions& options) {
    VKFORMER_TRY(auto pipelines,
                 Pipelines::create(device, {.cache_folder = options.cache_folder, .cache = options.pipeline_cache}));
    return std::unique_ptr<VulkanBackend>(new VulkanBackend(std::move(device), std::move(pipelines), options));
}

DeviceMemory VulkanBackend::memory() const {
    DeviceMemory memory = Backend::memory();
    const Allocator& allocator = device_->allocator();
    const std::uint64_t placed = stored(graph::Stored::weights) + memory.caches;
    const std::uint64_t used = allocator.used();  // once: other threads allocate
    memory.other = used - std::min(used, placed);
    if (const auto budget = allocator.budget()) memory.budget = *budget + stored(graph::Stored::weights_in_place);
    return memory;
}

Result<PipelineReport> VulkanBackend::report_pipeline(const Dispatch& dispatch) {
    VKFORMER_TRY(const auto pipeline, pipelines_->get(dispatch));
    PipelineReport report{.compile_ms = pipeline.compile_ms, .executables = {}};
    if (device_->capture() != PipelineCapture::nothing) {
        VKFORMER_TRY(report.executables, pipeline_executables(*device_, pipeline.handle));
    }
    return report;
}

Result<ProgramOptions> VulkanBackend::default_options(const graph::Plan& plan) {
    ProgramOptions options{.timestamps = options_.profile ? Timestamps::nodes : Timestamps::none,
                           .check_memory = options_.check_memory};
    if (options_.chooser) {
        VKFORMER_TRY(options.variants, options_.chooser->choose(*this, plan));
    }
    return options;
}

Result<std::unique_ptr<VulkanProgram>> VulkanBackend::compile_program(graph::Plan plan,
                                                                      std::shared_ptr<graph::TensorStore> weights,
                                                                      std::shared_ptr<graph::TensorStore> states) {
    VKFORMER_TRY(const ProgramOptions options, default_options(plan));
    return compile_program(std::move(plan), std::move(weights), std::move(states), options);
}

Result<std::unique_ptr<VulkanProgram>> VulkanBackend::compile_program(graph::Plan plan,
                                                                      std::shared_ptr<graph::TensorStore> weights,
                                                                      std::shared_ptr<graph::TensorStore> states,
                                                                      const ProgramOptions& options) {
    auto weight_store = cast_to<VulkanStore>(std::move(weights));
    auto state_store = cast_to<VulkanStore>(std::move(states));
    if (!weight_store || !state_store)
        return Error{ErrorCode::InvalidArgument, "compile: the stores must come from this backend's make_store()"};
    return VulkanProgram::create(device_, pipelines_, clock_, std::move(plan), std::move(weight_store),
                                 std::move(state_store), options);
}

void VulkanBackend::prepare_pipelines(const graph::Plan& plan, const KernelList& kernels) {
    std::vector<Dispatch> all;
    for (const KernelTraits* kernel : kernels) {
        auto planned = plan_dispatches(plan.graph.nodes().front().op, {plan.graph, capabilities()}, *kernel);
        if (planned) std::ranges::move(planned->dispatches, std::back_inserter(all));
    }
    pipelines_->prepare(all);
}

Result<std::unique_ptr<graph::Program>> VulkanBackend::compile(graph::Plan plan,
                                                               std::shared_ptr<graph::TensorStore> weights,
                                                               std::shared_ptr<graph::TensorStore> states) {
    VKFORMER_TRY(auto program, compile_program(std::move(plan), std::move(weights), std::move(states)));
    return std::unique_ptr<graph::Program>(std::move(program));
}

}  // namespace vkformer::vulkan
