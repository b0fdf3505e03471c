// SPDX-License-Identifier: MIT
#include "api/open_backend.hpp"

#include "core/tasks.hpp"
#include "core/try.hpp"
#include "cpu/backend.hpp"

namespace vkformer::api {
namespace {

/// Of a user who waits for an answer; what is not tried by then is tried the next time.
constexpr double kTrialSeconds = 1;

std::unique_ptr<graph::Backend> cpu_backend(const OpenOptions& options) {
    return cpu::make_cpu_backend<float>(options.plain ? cpu::QuantizedProducts::floats : cpu::QuantizedProducts::int8);
}

OpenedBackend open_cpu(const OpenOptions& options) {
    auto backend = cpu_backend(options);
    std::string name = backend->name();
    return {std::move(backend), std::move(name)};
}

/// Whether "auto" is to take the CPU backend in place of this Vulkan device.
Result<bool> cpu_is_faster(vulkan::VulkanBackend& device, tuning::Ladder& ladder, const OpenOptions& options,
                           const MakeWorkloads& workloads) {
    if (options.device != "auto" || device.capabilities().type != "cpu" || !workloads) return false;
    VKFORMER_TRY(const auto made, workloads());
    const auto cpu = cpu_backend(options);
    return tuning::is_faster(*cpu, device, made, ladder.file(device.capabilities()));
}

}  // namespace

Result<std::shared_ptr<vulkan::VariantChooser>> make_chooser(const OpenOptions& options) {
    std::shared_ptr<vulkan::VariantChooser> chooser;
    if (options.plain)
        chooser = std::make_shared<vulkan::PlainVariants>();
    else
        chooser = std::make_shared<tuning::Ladder>(tuning::LadderOptions{
            .folder = vulkan::default_cache_folder(), .progress = options.progress, .max_seconds = kTrialSeconds});
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
    VKFORMER_TRY(found.backend,
                 vulkan::VulkanBackend::create(options.device, {.profile = options.profile, .chooser = found.chooser}));
    return found;
}

Result<OpenedBackend> OpeningBackend::get(const MakeWorkloads& workloads) {
    if (!found_.valid()) return open_cpu(options_);
    VKFORMER_TRY(Found found, found_.get());
    if (auto* const ladder = dynamic_cast<tuning::Ladder*>(found.chooser.get())) {
        VKFORMER_TRY(const bool take_cpu, cpu_is_faster(*found.backend, *ladder, options_, workloads));
        if (take_cpu) return open_cpu(options_);
    }
    const vulkan::Capabilities& c = found.backend->capabilities();
    std::string description = c.name + " (" + c.type + ", " + c.driver + ")";
    return OpenedBackend{std::move(found.backend), std::move(description)};
}

double submit_seconds(const graph::Backend& backend) noexcept {
    constexpr double kOnGpus = 0.1;
    const auto* const device = dynamic_cast<const vulkan::VulkanBackend*>(&backend);
    return device && device->capabilities().type != "cpu" ? kOnGpus : 0;
}

}  // namespace vkformer::api
