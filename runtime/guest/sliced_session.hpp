// SPDX-License-Identifier: MIT
/// One sequence whose work is handed out in slices of bounded device time, to be recorded into command buffers of others: for
/// applications that must keep their frame rate.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "decoding/script.hpp"
#include "vulkan/backend.hpp"
#include "vulkan/step_clock.hpp"

namespace vkformer::guest {

struct Slice {
    std::uint64_t ticket = 0;  ///< 0: there was nothing to record
    std::uint32_t dispatches = 0;
    std::uint32_t tokens = 0;  ///< that it completes; with beams 0
    double expected_us = 0;
    bool exceeds = false;  ///< one dispatch that is expected to take more than was allowed
};

enum class SlicedState : std::uint8_t { idle, prompt, generating, done };

/// Not thread-safe. Backend, model and store outlive it.
class SlicedSession {
public:
    static constexpr std::uint32_t kMostSlices = 64;                                ///< recorded and not retired
    using Progress = std::function<void(std::uint32_t done, std::uint32_t total)>;  ///< the last time, done is total

    /// Compiles everything, and on a device that can submit runs everything twice, each dispatch alone: drivers that compile at the
    /// first dispatch have done so, and the times are known. Nothing compiles afterwards. `weights` may be shared with other sessions;
    /// slices are numbered from `first_ticket` on. Errors: those of Script::parts, OutOfDeviceMemory (before anything is allocated,
    /// where a budget is known), and those of the device.
    static Result<std::unique_ptr<SlicedSession>> create(vulkan::VulkanBackend& backend,
                                                         std::unique_ptr<decoding::SequenceScript> script,
                                                         std::shared_ptr<vulkan::VulkanStore> weights,
                                                         std::uint64_t first_ticket = 1, const Progress& progress = {});
    /// What create would allocate. Allocates nothing.
    static Result<vulkan::MemoryNeeds> memory_needs(vulkan::VulkanBackend& backend, decoding::SequenceScript& script,
                                                    const vulkan::VulkanStore& weights);

    /// Starts a sequence. What the caches hold of its beginning is not computed again (decoders). Errors: InvalidArgument (no tokens,
    /// too many, unknown ones; slices that are not retired).
    Result<void> begin(decoding::Sequence sequence);
    /// Records what follows, up to `budget_us` of expected device time; 0: up to the next token. Nothing is allocated on the
    /// device, nothing waited for. A slice without a ticket where there is nothing to do, none where kMostSlices are outstanding.
    std::optional<Slice> record(VkCommandBuffer commands, double budget_us);
    /// The device is done with this slice and those before it. Errors: InvalidArgument, DeviceLost, Vulkan.
    Result<void> retire(std::uint64_t ticket);
    /// Ends the sequence; slices that are not retired were never submitted, or are done.
    void cancel();

    SlicedState state() const noexcept { return state_; }
    std::span<const std::int32_t> tokens() const noexcept;
    /// Tokens of the prompt that retired slices have read, those that were in the caches included.
    std::uint32_t computed_prompt() const noexcept;
    std::uint32_t outstanding() const noexcept { return static_cast<std::uint32_t>(slices_.size()); }
    std::uint64_t last_ticket() const noexcept { return last_ticket_; }
    double last_us() const noexcept { return last_us_; }
    double total_us() const noexcept { return total_us_; }
    /// The score of the answer of a beam search that is done, else 0.
    float score() const noexcept;

private:
    /// A slice that the device may be executing.
    struct Recorded {
        std::uint64_t ticket = 0;
        std::vector<vulkan::StepClock::Kind> steps;
        std::vector<decoding::Job> jobs;  // that it ends
        double expected_us = 0;
    };
    struct Reach;
    class Readback;

    SlicedSession(vulkan::VulkanBackend& backend, std::unique_ptr<decoding::SequenceScript> script,
                  std::uint64_t first_ticket)
        : backend_(&backend), script_(std::move(script)), last_ticket_(first_ticket - 1) {}
    Result<void> compile(std::span<decoding::Part* const> parts, std::shared_ptr<vulkan::VulkanStore> weights,
                         const std::function<void(std::uint32_t nodes)>& tell);
    const vulkan::VulkanProgram& program() const { return *programs_.at(job_->part).program; }
    const std::vector<vulkan::StepClock::Kind>& kinds() const { return programs_.at(job_->part).kinds; }
    Result<void> prepare_measuring();
    Result<void> warm_up(const std::function<void(std::uint32_t round, double share)>& tell);
    Result<std::size_t> run_alone(VkCommandBuffer commands);
    bool has_work();
    Reach reach(const Recorded& recorded, double budget_us) const;
    void open_slice(VkCommandBuffer commands) const;
    void close_slice(VkCommandBuffer commands, Recorded& recorded);
    void record_writes(VkCommandBuffer commands) const;
    void record_write(VkCommandBuffer commands, const decoding::Write& write) const;
    void record_readback(VkCommandBuffer commands) const;
    std::uint64_t record_words() const;
    Result<void> learn(const Recorded& recorded);
    Result<void> take(const Recorded& recorded);

    vulkan::VulkanBackend* backend_;
    std::unique_ptr<decoding::SequenceScript> script_;
    vulkan::StepClock clock_;
    struct Compiled {
        vulkan::VulkanProgram* program = nullptr;    // the part's
        std::vector<vulkan::StepClock::Kind> kinds;  // of its steps
    };
    std::map<const decoding::Part*, Compiled> programs_;
    vulkan::UniqueQueryPool queries_;  // two for each outstanding slice; absent without timestamps
    vulkan::Buffer readback_;          // the results of the steps, where the host sees them

    SlicedState state_ = SlicedState::idle;
    bool has_begun_ = false;            // what the script has is not the warm-up's
    std::optional<decoding::Job> job_;  // that is being recorded, or is next
    std::size_t step_in_job_ = 0;
    std::deque<Recorded> slices_;
    std::uint64_t last_ticket_ = 0;
    double last_us_ = 0, total_us_ = 0;
};

}  // namespace vkformer::guest
