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

#include "decoding/beam_session.hpp"
#include "graph/builders.hpp"
#include "models/decoder.hpp"
#include "models/encoder_decoder.hpp"
#include "models/generation_config.hpp"
#include "vulkan/backend.hpp"
#include "vulkan/step_clock.hpp"

namespace vkformer::guest {

/// What a sliced session runs: programs in a given order, between which it writes to small buffers.
struct SlicedModel {
    const models::Decoder* decoder = nullptr;  ///< one of the two
    const models::EncoderDecoder* encoder_decoder = nullptr;
    models::GenerationConfig generation{};   ///< of the encoder–decoder, but for its beams
    std::vector<std::int32_t> end_tokens{};  ///< end a sequence; the token itself is delivered too
};

struct SlicedOptions {
    std::uint32_t context =
        0;  ///< tokens of a sequence at most; 0: the model's, at most 4096. Of the answer for an encoder–decoder
    std::uint32_t source_capacity = 64;  ///< an encoder–decoder: tokens of the source at most
    std::uint32_t chunk = 64;            ///< tokens of a prompt that are computed together
    std::uint64_t first_ticket = 1;      ///< of the slices' numbers
    DType dtype = DType::f32;
    models::WeightFormat weights = models::WeightFormat::as_filed;
    models::CacheFormat cache = models::CacheFormat::as_computed;  ///< a decoder-only model's
    graph::SampleOptions sample = {.temperature = 0};
    std::uint64_t seed = 0;
    decoding::BeamRules beams = {.beams = 1};  ///< 1: none, greedy or drawn. Else the answer comes whole, at the end
};

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
    /// first dispatch have done so, and the times are known. Nothing compiles afterwards. `weights` may be shared with other sessions. Errors: InvalidArgument,
    /// UnsupportedConfig, OutOfDeviceMemory (before anything is allocated, where a budget is known), and those of the device.
    static Result<std::unique_ptr<SlicedSession>> create(vulkan::VulkanBackend& backend, const SlicedModel& model,
                                                         std::shared_ptr<vulkan::VulkanStore> weights,
                                                         const SlicedOptions& options, const Progress& progress = {});
    /// What create would allocate. Allocates nothing.
    static Result<vulkan::MemoryNeeds> memory_needs(vulkan::VulkanBackend& backend, const SlicedModel& model,
                                                    const vulkan::VulkanStore& weights, const SlicedOptions& options);
    ~SlicedSession();

    /// Starts a sequence. What the caches hold of its beginning is not computed again (decoders). `draws`: how many tokens of it
    /// were drawn before, by a session that this one goes on for. Errors: InvalidArgument (no tokens, too many, unknown ones;
    /// slices that are not retired).
    Result<void> begin(std::span<const std::int32_t> tokens, std::uint32_t max_tokens, std::uint32_t draws = 0);
    /// Records what follows, up to `budget_us` of expected device time; 0: up to the next token. Nothing is allocated on the
    /// device, nothing waited for. A slice without a ticket where there is nothing to do, none where kMostSlices are outstanding.
    std::optional<Slice> record(VkCommandBuffer commands, double budget_us);
    /// The device is done with this slice and those before it. Errors: InvalidArgument, DeviceLost, Vulkan.
    Result<void> retire(std::uint64_t ticket);
    /// Ends the sequence; slices that are not retired were never submitted, or are done.
    void cancel();

    SlicedState state() const noexcept { return state_; }
    std::span<const std::int32_t> prompt() const noexcept { return prompt_; }
    std::span<const std::int32_t> tokens() const noexcept { return tokens_; }
    /// Tokens of the prompt that retired slices have read, those that were in the caches included.
    std::uint32_t computed_prompt() const noexcept { return computed_prompt_; }
    std::uint32_t outstanding() const noexcept { return static_cast<std::uint32_t>(slices_.size()); }
    std::uint64_t last_ticket() const noexcept { return last_ticket_; }
    double last_us() const noexcept { return last_us_; }
    double total_us() const noexcept { return total_us_; }
    /// Of the answer of a beam search that is done, else 0.
    float score() const noexcept { return score_; }
    std::uint32_t context() const noexcept;

    struct Job;
    struct Outcome;
    class Script;

private:
    /// A slice that the device may be executing.
    struct Recorded {
        std::uint64_t ticket = 0;
        std::vector<vulkan::StepClock::Kind> steps;
        std::vector<std::uint32_t> results;  // numbers of the steps that it ends
        std::uint32_t computed_prompt = 0;
        double expected_us = 0;
    };
    struct Reach;

    SlicedSession(vulkan::VulkanBackend& backend, const SlicedModel& model, const SlicedOptions& options);
    Result<void> prepare_measuring();
    Result<void> warm_up(const std::function<void(std::uint32_t round, double share)>& tell);
    Result<std::size_t> run_alone(VkCommandBuffer commands);
    bool has_work() const noexcept;
    Reach reach(const Recorded& recorded, double budget_us) const;
    void open_slice(VkCommandBuffer commands) const;
    void close_slice(VkCommandBuffer commands, Recorded& recorded);
    void record_updates(VkCommandBuffer commands) const;
    void record_readback(VkCommandBuffer commands, std::uint32_t index) const;
    Result<void> learn(const Recorded& recorded);
    void take(const Outcome& outcome);
    Result<void> take_results(const Recorded& recorded);

    vulkan::VulkanBackend* backend_;
    SlicedModel model_;
    SlicedOptions options_;
    std::unique_ptr<Script> script_;
    vulkan::StepClock clock_;
    std::map<const vulkan::VulkanProgram*, std::vector<vulkan::StepClock::Kind>> kinds_;  // of each program's steps
    vulkan::UniqueQueryPool queries_;  // two for each outstanding slice; absent without timestamps
    vulkan::Buffer readback_;          // the results of the steps, where the host sees them

    SlicedState state_ = SlicedState::idle;
    std::vector<std::int32_t> prompt_, tokens_;
    std::uint32_t limit_ = 0;           // tokens of this sequence at most
    std::uint32_t recorded_steps_ = 0;  // that recorded work completes
    std::uint32_t computed_prompt_ = 0;
    std::unique_ptr<Job> job_;  // that is being recorded
    std::size_t step_in_job_ = 0;
    std::deque<Recorded> slices_;
    std::uint64_t last_ticket_ = 0;
    double last_us_ = 0, total_us_ = 0;
    float score_ = 0;
};

}  // namespace vkformer::guest
