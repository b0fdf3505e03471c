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
/// long, its first run is waited for, part by part, and then known; later runs are command buffers that are recorded by that, most often
/// one. Dispatches that alone take longer than twice the aim are cut (VulkanProgram::is_cuttable). Where a submission turns out to take
/// twice what was expected and twice the aim, or all of them half of it, the next run is measured again. Devices that are CPUs are watched
/// by nobody: there a run is one submission.
class ProgramRuns {
public:
    /// The program must outlive it. Errors: Vulkan.
    static Result<std::unique_ptr<ProgramRuns>> create(VulkanProgram& program, std::shared_ptr<RunClock> clock);

    /// `times` runs, the first of which waits for points.waits; points.signals are signalled by the last. `submitted` becomes the timeline
    /// value of each submission, whatever fails later. On an adopted device, and where there are semaphores to wait for, the first run is
    /// not waited for, since who signals what it waits for may be the caller: it is cut by estimates, and has a timestamp behind each
    /// dispatch. Errors: as Device::submit, and of recording and compiling.
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
    bool needs_no_measuring() const;
    void cut_if_long(std::uint32_t dispatch);
    Result<void> plan(bool is_measured);
    Result<void> begin_anew(std::uint32_t queries);
    Result<void> reuse_buffers();
    Result<VkCommandBuffer> next_buffer();
    Result<VkCommandBuffer> record(const RunPart& part, std::uint32_t first_query, bool of_each,
                                   VkCommandBufferUsageFlags usage);
    Result<void> run_measured(std::span<const SemaphorePoint> signals, std::uint64_t& submitted);
    Result<void> run_alone(const RunPart& part, std::span<const SemaphorePoint> signals, std::uint64_t& submitted);
    Result<void> probe(std::uint32_t dispatch, std::uint64_t& submitted);
    Result<void> learn(const RunPart& part, std::uint32_t first_query);
    void note(std::uint32_t dispatch, std::uint64_t first, std::uint64_t end, double us);

    VulkanProgram& program_;
    std::shared_ptr<RunClock> clock_;
    RunLimits limits_;
    UniqueCommandPool pool_;
    std::vector<VkCommandBuffer> buffers_;  // all of the pool; the first are those of the parts
    std::size_t used_buffers_ = 0;          // since it was reset
    TimestampQueries queries_;              // of the parts; empty where the queue has none, or nobody watches
    std::vector<bool> is_cut_;              // by dispatch
    double cut_us_ = 0;                     // of the parts of one that ran so far
    std::vector<RunPart> parts_;
    double run_us_ = 0;                         // of all of them: expected, and then what the last run took
    std::vector<std::uint32_t> first_queries_;  // of the parts
    bool has_run_ = false;                      // the parts, since they were recorded
    bool is_stale_ = false;                     // the times that are known turned out wrong
    bool is_measured_ = true;  // else the parts are cut by estimates, and have a timestamp behind each dispatch
};

}  // namespace vkformer::vulkan
