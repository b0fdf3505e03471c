// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "decoding/decoder_options.hpp"
#include "graph/program.hpp"
#include "tuning/ladder.hpp"
#include "tuning/workload.hpp"
#include "vulkan/backend.hpp"

namespace vkformer::api {

struct OpenedBackend {
    std::unique_ptr<graph::Backend> backend;
    std::string description;  ///< for people: name, type and driver

    /// For another thread. Errors: those of Backend::make_twin.
    Result<OpenedBackend> twin() const;
};

struct OpenOptions {
    /// "cpu": the CPU backend in float; anything else as vulkan::choose_device says.
    std::string device = "auto";
    bool plain = false;                             ///< the plain variant of every op; nothing is measured
    std::map<std::string, std::string> variants{};  ///< op → variant, before what was measured
    std::function<void(const tuning::Progress&)> progress{};
    std::function<bool()> should_stop{};  ///< graph::Backend::set_should_stop
    bool profile = false;                 ///< vulkan::BackendOptions::profile
    Offload offload{};                    ///< vulkan::BackendOptions::offload
    bool lasts = false;                   ///< what it loads will run thousands of times: cpu::PackedPlace
};

/// Of one that several parts of a model share.
Result<std::shared_ptr<OpenedBackend>> twin_of(const std::shared_ptr<OpenedBackend>& shared);

/// Tells `report` what is tried, and what is offloaded where nobody else is told; empty: nobody.
void report_to(const std::function<void(const std::string&)>& report, OpenOptions& options);

/// Makes what will be run.
using MakeWorkloads = std::function<Result<std::vector<tuning::Workload>>()>;

/// What "auto" takes where `vulkan::choose_device` has found a Vulkan device for it.
enum class AutoChoice {
    vulkan,     ///< that device
    cpu,        ///< the CPU backend, which was measured faster
    unmeasured  ///< the faster of the two, once they are measured
};
/// A GPU is taken as it is; a Vulkan device that is a CPU runs on the same cores as the CPU backend, and `times` of what will be run
/// decide. They are asked for in this case alone; none: not measured yet. Errors: those of `times`.
using AutoTimes = std::function<Result<std::optional<tuning::BackendTimes>>()>;
Result<AutoChoice> choose_auto(const vulkan::Capabilities& device, const AutoTimes& times);

/// A backend that a thread of its own opens, which takes some tenths of a second where many drivers are installed: the caller reads a
/// model meanwhile. To destroy it waits for that thread.
class OpeningBackend {
public:
    explicit OpeningBackend(OpenOptions options);

    /// To be called once. With `workloads`, "auto" takes what choose_auto says after measuring them; without, with plain or named
    /// variants, the Vulkan device. Verdicts on variants are kept beside the pipeline cache.
    /// Errors: NoVulkanLoader, NoDevice, MissingFeature, Vulkan; InvalidArgument (an unknown op or variant); those of `workloads`.
    Result<OpenedBackend> get(const MakeWorkloads& workloads = {});

private:
    struct Found {
        std::shared_ptr<vulkan::VariantChooser> chooser;
        std::unique_ptr<vulkan::VulkanBackend> backend;
    };
    static Result<Found> find(const OpenOptions& options);
    Result<OpenedBackend> choose(const MakeWorkloads& workloads);

    OpenOptions options_;
    std::future<Result<Found>> found_;  // not for the CPU backend
};

/// The same where there is nothing to do meanwhile.
inline Result<OpenedBackend> open_backend(const OpenOptions& options, const MakeWorkloads& workloads = {}) {
    return OpeningBackend(options).get(workloads);
}

/// How prompts are read there: a submit takes no longer than 0.1 s on GPUs, which are reset after some two seconds and draw a desktop
/// meanwhile, and any time on devices that are CPUs.
void choose_chunks(const graph::Backend& backend, decoding::DecoderSessionOptions& options) noexcept;

/// What `options` say about variants, for a backend that is opened in another way. Errors: InvalidArgument.
Result<std::shared_ptr<vulkan::VariantChooser>> make_chooser(const OpenOptions& options);

}  // namespace vkformer::api
