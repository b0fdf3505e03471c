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
#include "guest/session.hpp"
#include "vulkan/backend.hpp"
#include "vulkan/dispatch_clock.hpp"
#include "vulkan/timestamp_queries.hpp"

namespace vkformer::guest {

class SlicedSession final : public Session {
public:
    static constexpr std::uint32_t kMostSlices = 64;  ///< recorded and not retired

    /// Compiles everything, and on a device that can submit runs everything twice, each dispatch alone: drivers that compile at the first
    /// dispatch have done so, and the times are known. Where dispatches are long, a third round runs them in parts. Nothing compiles
    /// afterwards. `weights` may be shared with other sessions;
    /// slices are numbered from `first_ticket` on. Errors: those of Script::parts, OutOfDeviceMemory (before anything is allocated,
    /// where a budget is known), and those of the device.
    static Result<std::unique_ptr<SlicedSession>> create(vulkan::VulkanBackend& backend,
                                                         std::unique_ptr<decoding::SequenceScript> script,
                                                         std::shared_ptr<vulkan::VulkanStore> weights,
                                                         std::uint64_t first_ticket = 1, const Progress& progress = {});
    /// What create would allocate. Allocates nothing.
    static Result<graph::MemoryNeeds> memory_needs(vulkan::VulkanBackend& backend, decoding::SequenceScript& script,
                                                   const vulkan::VulkanStore& weights);

    /// Records what follows, up to `budget_us` of expected device time; 0: up to the next token. Nothing is allocated on the
    /// device, nothing waited for. A slice without a ticket where there is nothing to do, none where kMostSlices are outstanding.
    std::optional<Slice> record(VkCommandBuffer commands, double budget_us);
    std::uint32_t outstanding() const noexcept override { return static_cast<std::uint32_t>(slices_.size()); }

private:
    /// A slice that the device may be executing.
    struct Recorded {
        std::uint64_t ticket = 0;
        std::vector<vulkan::DispatchClock::Share> dispatches;
        std::vector<decoding::Job> jobs;  // that it ends
        double expected_us = 0;
    };
    struct Compiled {
        vulkan::VulkanProgram* program = nullptr;        // the part's
        std::vector<vulkan::DispatchClock::Kind> kinds;  // of its dispatches
        std::vector<bool> is_cut;                        // likewise: its grid may end within a slice
    };
    class Readback;

    SlicedSession(vulkan::VulkanBackend& backend, std::unique_ptr<decoding::SequenceScript> script,
                  std::uint64_t first_ticket)
        : Session(std::move(script), first_ticket), backend_(&backend) {}
    Result<void> retire_slices(std::uint64_t ticket) override;
    void drop_slices() override;
    Result<void> compile(std::span<decoding::Part* const> parts, std::shared_ptr<vulkan::VulkanStore> weights,
                         const std::function<void(std::uint32_t nodes)>& tell);
    const vulkan::VulkanProgram& program() const { return *compiled().program; }
    const Compiled& compiled() const { return programs_.at(job_->part); }
    void cut_what_may_be_long();
    bool cut_what_is_long();
    Result<void> warm_up(const std::function<void(std::uint32_t round, double share)>& tell);
    Result<double> run_alone(VkCommandBuffer commands);
    bool has_work();
    vulkan::RunPart next_part(const Recorded& recorded, double budget_us) const;
    void open_slice(VkCommandBuffer commands) const;
    void close_slice(VkCommandBuffer commands, Recorded& recorded);
    void record_writes(VkCommandBuffer commands) const;
    void record_write(VkCommandBuffer commands, const decoding::Write& write) const;
    void record_readback(VkCommandBuffer commands) const;
    std::uint64_t record_words() const;
    Result<void> learn(const Recorded& recorded);
    Result<void> take(const Recorded& recorded);

    vulkan::VulkanBackend* backend_;
    vulkan::DispatchClock clock_;
    std::map<const decoding::Part*, Compiled> programs_;
    vulkan::TimestampQueries queries_;  // two for each outstanding slice; empty without timestamps
    vulkan::Buffer readback_;           // the results of the steps, where the host sees them

    std::optional<decoding::Job> job_;                  // that is being recorded, or is next
    vulkan::RunPlace place_;                            // in its program
    bool warms_up_ = false, has_told_failure_ = false;  // the sequence at hand is nobody's; its failure was returned
    std::deque<Recorded> slices_;
};

}  // namespace vkformer::guest
