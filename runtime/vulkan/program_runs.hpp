// SPDX-License-Identifier: MIT
/// How a program reaches the queue: in submissions that are short, for systems reset a device that seems to hang (Windows after two
/// seconds) and others want to draw meanwhile.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "vulkan/device.hpp"
#include "vulkan/memory.hpp"
#include "vulkan/run_clock.hpp"
#include "vulkan/run_parts.hpp"
#include "vulkan/timestamp_queries.hpp"

namespace vkformer::vulkan {

class VulkanProgram;

/// The submissions of one program. What a run takes is measured, not guessed: where a dispatch was never measured and a program may be
/// long, its first run is waited for, part by part, and then known; later runs are command buffers that were recorded then, most
/// often one. Dispatches that alone take longer than twice the aim are cut (VulkanProgram::make_cuttable). A run that turns out to take
/// twice what was expected, or half of it, is measured again. Devices that are CPUs are watched by nobody: there a run is one submission.
class ProgramRuns {
public:
    /// The program must outlive it. Errors: Vulkan.
    static Result<std::unique_ptr<ProgramRuns>> create(VulkanProgram& program, std::shared_ptr<RunClock> clock);

    /// `times` runs, the first of which waits for points.waits; points.signals are signalled by the last. `submitted` becomes the timeline
    /// value of each submission, whatever fails later. A first run that waits for semaphores cannot be waited for in turn, since who
    /// signals them may be the caller: it is cut by estimates, between dispatches. Errors: as Device::submit, and of compiling.
    Result<void> submit(std::uint32_t times, const SemaphorePoints& points, std::uint64_t& submitted);
    /// To be called when all that was submitted is done: looks at what it took. Errors: Vulkan.
    Result<void> note_done();

    /// A run's submissions; empty: not planned yet.
    std::span<const RunPart> parts() const noexcept { return parts_; }

private:
    ProgramRuns(VulkanProgram& program, std::shared_ptr<RunClock> clock)
        : program_(program), clock_(std::move(clock)), limits_(clock_->limits()) {}

    bool is_watched() const;
    RunClock::Time time(std::uint32_t dispatch) const;
    DispatchCost cost(std::uint32_t dispatch) const;
    bool is_known_to_be_short() const;
    Result<void> cut_if_long(std::uint32_t dispatch);
    Result<void> plan(bool is_measured);
    Result<VkCommandBuffer> record(const RunPart& part, std::uint32_t first_query, bool of_each,
                                   VkCommandBufferUsageFlags usage);
    Result<void> run_measured(std::span<const SemaphorePoint> signals, std::uint64_t& submitted);
    Result<void> run_alone(const RunPart& part, std::span<const SemaphorePoint> signals, std::uint64_t& submitted);
    Result<void> probe(std::uint32_t dispatch, std::uint64_t& submitted);
    Result<void> learn(const RunPart& part, std::uint32_t first_query);
    void note(std::uint32_t dispatch, std::uint64_t groups, double us);

    VulkanProgram& program_;
    std::shared_ptr<RunClock> clock_;
    RunLimits limits_;
    UniqueCommandPool pool_;
    TimestampQueries queries_;           // of the parts; empty where the queue has none, or nobody watches
    std::vector<std::uint64_t> grains_;  // by dispatch, of those that are cuttable
    std::vector<RunPart> parts_;
    std::vector<VkCommandBuffer> commands_;     // of the parts
    std::vector<std::uint32_t> first_queries_;  // likewise
    bool is_measured_ = true;  // else the parts are cut by estimates, and have a timestamp behind each dispatch
};

}  // namespace vkformer::vulkan
