// SPDX-License-Identifier: MIT
#include "api/open_backend.hpp"

#include "core/platform/system.hpp"
#include "core/tasks.hpp"
#include "core/try.hpp"
#include "cpu/backend.hpp"
#include "vkformer/devices.hpp"

namespace vkformer {

Result<std::vector<DeviceDescription>> find_devices() {
    VKFORMER_TRY(const auto found, vulkan::list_devices());
    std::vector<DeviceDescription> devices;
    for (const vulkan::DeviceInfo& info : found) {
        const vulkan::Capabilities& c = info.capabilities;
        const std::uint32_t version = c.api_version;
        devices.push_back({.index = info.index,
                           .name = c.name,
                           .type = c.type,
                           .driver = c.driver,
                           .uuid = c.uuid,
                           .vulkan = std::to_string(VK_API_VERSION_MAJOR(version)) + "." +
                                     std::to_string(VK_API_VERSION_MINOR(version)) + "." +
                                     std::to_string(VK_API_VERSION_PATCH(version)),
                           .unusable = info.unusable});
    }
    return devices;
}

}  // namespace vkformer

namespace vkformer::api {
namespace {

/// What trials may take while a user waits for an answer; what is not tried by then is tried the next time. Drivers of GPUs compile a
/// pipeline for tenths of a second. Devices that are CPUs need no share for later plans: the first kernels that fit are good there.
constexpr tuning::TrialTime kTrialTime{.seconds = 1}, kGpuTrialTime{.seconds = 4, .plan_share = 0.6};

std::unique_ptr<graph::Backend> cpu_backend(const OpenOptions& options) {
    return cpu::make_cpu_backend<float>(options.plain ? cpu::QuantizedProducts::floats : cpu::QuantizedProducts::int8,
                                        options.lasts ? cpu::PackedPlace::where_fastest : cpu::PackedPlace::file);
}

OpenedBackend open_cpu(const OpenOptions& options) {
    auto backend = cpu_backend(options);
    std::string name = backend->name();
    return {std::move(backend), std::move(name)};
}

/// What "auto" takes, by the times of the workloads, which are measured if they are not known.
Result<AutoChoice> measure_and_choose(vulkan::VulkanBackend& device, tuning::Ladder& ladder, const OpenOptions& options,
                                      const MakeWorkloads& workloads) {
    return choose_auto(device.capabilities(), [&]() -> Result<std::optional<tuning::BackendTimes>> {
        VKFORMER_TRY(const auto made, workloads());
        const auto cpu = cpu_backend(options);
        VKFORMER_TRY(const auto times, tuning::times_of(*cpu, device, made, ladder.file(device.capabilities())));
        return std::optional(times);
    });
}

}  // namespace

Result<OpenedBackend> OpenedBackend::twin() const {
    VKFORMER_TRY(auto made, backend->make_twin());
    return OpenedBackend{.backend = std::move(made), .description = description};
}

Result<std::shared_ptr<OpenedBackend>> twin_of(const std::shared_ptr<OpenedBackend>& shared) {
    VKFORMER_TRY(auto made, shared->twin());
    return std::make_shared<OpenedBackend>(std::move(made));
}

Result<AutoChoice> choose_auto(const vulkan::Capabilities& device, const AutoTimes& times) {
    if (device.type != "cpu") return AutoChoice::vulkan;
    VKFORMER_TRY(const auto known, times());
    if (!known) return AutoChoice::unmeasured;
    return known->cpu_is_faster() ? AutoChoice::cpu : AutoChoice::vulkan;
}

void report_to(const std::function<void(const std::string&)>& report, OpenOptions& options) {
    if (!report) return;
    options.progress = [report](const tuning::Progress& p) { report(to_string(p)); };
    if (!options.offload.report) options.offload.report = report;
}

Result<std::shared_ptr<vulkan::VariantChooser>> make_chooser(const OpenOptions& options) {
    std::shared_ptr<vulkan::VariantChooser> chooser;
    if (options.plain)
        chooser = std::make_shared<vulkan::ReferenceVariants>();
    else
        chooser = std::make_shared<tuning::Ladder>(tuning::LadderOptions{.folder = platform::cache_folder(),
                                                                         .progress = options.progress,
                                                                         .time = kTrialTime,
                                                                         .gpu_time = kGpuTrialTime});
    if (options.variants.empty()) return chooser;
    VKFORMER_TRY(auto named, vulkan::NamedVariants::create(options.variants, std::move(chooser)));
    return std::shared_ptr<vulkan::VariantChooser>(std::move(named));
}

OpeningBackend::OpeningBackend(OpenOptions options) : options_(std::move(options)) {
    if (options_.device != "cpu") found_ = std::async(kOwnThread, [o = options_] { return find(o); });
}

Result<OpeningBackend::Found> OpeningBackend::find(const OpenOptions& options) {
    Found found;
    VKFORMER_TRY(found.chooser, make_chooser(options));
    VKFORMER_TRY(found.backend, vulkan::VulkanBackend::create(options.device, {.profile = options.profile,
                                                                               .offload = options.offload,
                                                                               .chooser = found.chooser}));
    return found;
}

Result<OpenedBackend> OpeningBackend::get(const MakeWorkloads& workloads) {
    VKFORMER_TRY(OpenedBackend opened, choose(workloads));
    opened.backend->set_should_stop(options_.should_stop);
    return opened;
}

Result<OpenedBackend> OpeningBackend::choose(const MakeWorkloads& workloads) {
    if (!found_.valid()) return open_cpu(options_);
    VKFORMER_TRY(Found found, found_.get());
    auto* const ladder = cast_to<tuning::Ladder>(found.chooser.get());
    if (options_.device == "auto" && workloads && ladder) {
        VKFORMER_TRY(const AutoChoice choice, measure_and_choose(*found.backend, *ladder, options_, workloads));
        if (choice == AutoChoice::cpu) return open_cpu(options_);
    }
    const vulkan::Capabilities& c = found.backend->capabilities();
    std::string description = c.name + " (" + c.type + ", " + c.driver + ")";
    return OpenedBackend{std::move(found.backend), std::move(description)};
}

void choose_chunks(const graph::Backend& backend, decoding::DecoderSessionOptions& options) noexcept {
    constexpr double kSecondsOnGpus = 0.1;
    const auto* const device = cast_to<const vulkan::VulkanBackend>(&backend);
    if (!device || device->capabilities().is_cpu()) return;
    options.chunk_seconds = kSecondsOnGpus;
    options.run_tokens = decoding::DecoderSessionOptions::kRunTokensOnGpus;
}

}  // namespace vkformer::api
