// SPDX-License-Identifier: MIT
/// The ladder of variants, climbed by proof: each variant of an op is checked against the CPU and timed before it is used.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "core/type_tag.hpp"
#include "tuning/verdicts.hpp"
#include "vulkan/variants.hpp"

namespace vkformer::tuning {

/// Said before each trial, and at the end with an empty `trial`.
struct Progress {
    std::string device;
    std::string trial;                ///< "linear x=f32[64,512] … direct"
    std::size_t done = 0, total = 0;  ///< cases of the plan at hand
};

/// "trying the shaders of llvmpipe (…), 3 of 12: linear … direct"; empty at the end.
std::string to_string(const Progress& progress);

/// What the trials of a process may take.
struct TrialTime {
    double seconds = 0;  ///< 0: all is tried
    /// What a plan may take of what is left: a prompt comes first, and the steps behind it are what there are many of.
    double plan_share = 1;
};

struct LadderOptions {
    std::filesystem::path folder;  ///< where verdicts are kept; empty: in memory only
    std::function<void(const Progress&)> progress{};
    bool thorough = false;  ///< exact shapes and more runs, whatever is known already: `vkformer tune`
    /// No case is begun that would not be done by then if it took as long as the longest one of its plan so far, all but the first one that
    /// was begun are given up after it, and what is not tried takes likely_variant(), or else the first of vulkan::fitting_kernels(); the
    /// next Ladder with the same folder goes on from there. The cases with the most work come first, one of each op before the others.
    TrialTime time{};
    std::optional<TrialTime> gpu_time{};  ///< that of devices that are no CPUs; none: as `time`
};

/// Those variants of a node that are tried when a device is first used, the first one among them. A device that is a CPU has no
/// units for cooperative matrices or float16 arithmetic; its driver compiles them for seconds and is no faster. `vkformer tune` tries them all.
vulkan::KernelList worth_trying(const vulkan::KernelList& kernels, const vulkan::Capabilities& device);

/// In which order a case's kernels are tried when a device is first used: those of `last_resort` only where none of `first` is right.
struct TrialOrder {
    vulkan::KernelList first, last_resort;
};
/// Devices that are CPUs make loops of barriers and compile them for long: the reference comes last there where a kernel is written for
/// them. Where a GPU has units for matrices that take the operands, what multiplies neither matrices nor integers comes last: it was not
/// the fastest on any that was measured, and drivers compile its unrolled loops for seconds. So do tiles for many rows where there are few.
TrialOrder trial_order(const vulkan::KernelList& kernels, const vulkan::Capabilities& device);

/// Compares one of a trial's results with what it should be. The trial keeps the error that takes most of its bound, and is at fault where
/// one exceeds it (or where a single element does, by far).
void judge(Trial& trial, std::span<const double> found, std::span<const double> expected, double bound);

/// Times all trials again and again, in turns and each round the other way round, so that a moment in which the machine does something else
/// meets all of them or but one round of one.
Result<void> repeat_in_rounds(std::vector<Trial>& trials, int rounds,
                              const std::function<Result<void>(Trial&)>& repeat);

/// Of the variants that are right the one with the shortest time; of those that are as fast, within 3 %, the one with the tightest bound.
/// Empty: there is none.
std::string best_of(const std::vector<Trial>& trials);

/// A trial runs the node with random operands: outputs poisoned, guard bands checked, every result compared with double precision under
/// validation::error_bound; of a product on a GPU, of which the CPU would take seconds, with fewer columns where they run the same
/// pipelines, and what is timed is then only seen to be written whole. The variant that the nearest case took comes first, and of those
/// that are right best_of() is taken. A variant that is wrong or that the driver refuses is never used; so is one that ends the process
/// twice, or three times where all were compiled at a time. One that there was no memory for is tried again by the next Ladder.
/// Without a queue nothing can be tried, and what was found for the nearest case is taken, or the first variant. choose() is thread-safe:
/// one thread at a time tries, as trials would spoil each other's times, and one that waited takes what was found meanwhile; a plan that
/// all is known about waits for nobody.
class Ladder : public vulkan::VariantChooser {
public:
    explicit Ladder(LadderOptions options) : options_(std::move(options)) {}
    const void* type() const noexcept override { return &kTypeTag<Ladder>; }

    /// Errors: DeviceLost, Vulkan (an op whose variants are all wrong: the device cannot be used), out of memory.
    Result<vulkan::ChosenVariants> choose(vulkan::VulkanBackend& backend, const graph::Plan& plan) override;

    /// The verdicts on a device, and where they are kept. To be used while no thread chooses.
    VerdictFile& file(const vulkan::Capabilities& device);

    /// By case, what this Ladder has found and keeps for itself: some variants were not tried, as the time was over or there was no memory.
    std::map<std::string, Verdict> given_up(const vulkan::Capabilities& device);

protected:
    /// Sees each trial before it counts; for tests.
    virtual void inspect(Trial&) {}
    /// A clock, in seconds; tests have their own.
    virtual double now() const;

private:
    /// A case that nothing is known about yet.
    struct OpenCase {
        const graph::Node* node;
        vulkan::KernelList kernels;
        double work = 0;  // of all the plan's nodes that it stands for
        bool is_first_of_op = false;
    };
    Result<void> try_open_cases(vulkan::VulkanBackend& backend, const graph::Plan& plan);
    /// By key, the most work first, but an op's first before any op's second.
    std::vector<std::pair<std::string, OpenCase>> open_cases(const graph::Plan& plan,
                                                             const vulkan::Capabilities& device);
    /// `end`: the time after which no more is tried, unless it is the first case of all.
    Result<void> climb(vulkan::VulkanBackend& backend, const graph::Graph& graph, const std::string& key,
                       const OpenCase& open_case, Progress progress, double end);

    LadderOptions options_;
    std::mutex trials_mutex_;                   // held while variants are tried; taken before the other one
    double seconds_ = 0;                        // spent on trials so far
    std::set<std::string> warmed_up_;           // UUIDs of devices whose first case was begun
    std::mutex mutex_;                          // of what follows; never held while anything runs
    std::map<std::string, VerdictFile> files_;  // by device UUID
    /// By device UUID and key: what was tried before the time was over, or while there was no memory for all of it.
    std::map<std::string, std::map<std::string, Verdict>> given_up_;
    std::set<std::string> tuned_;  // device UUID and key of what this Ladder has tried itself
};

}  // namespace vkformer::tuning
