// SPDX-License-Identifier: MIT
/// One sequence whose work is handed out in slices: what an application sees of it, whoever computes them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "decoding/script.hpp"

namespace vkformer::guest {

struct Slice {
    std::uint64_t ticket = 0;  ///< 0: there was nothing to do
    std::uint32_t dispatches = 0;
    std::uint32_t tokens = 0;  ///< that it completes; with beams 0
    double expected_us = 0;
    bool exceeds = false;  ///< what cannot be divided is expected to take more than was allowed
};

enum class SessionState : std::uint8_t { idle, prompt, generating, done };

/// `done` of `total` nodes are compiled or run; the last time, done is total.
using Progress = std::function<void(std::uint32_t done, std::uint32_t total)>;

/// Not thread-safe. Backend, model and store outlive it.
class Session {
public:
    virtual ~Session() = default;
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    /// Starts a sequence. What the caches hold of its beginning is not computed again (decoders). Errors: InvalidArgument (no tokens,
    /// too many, unknown ones; slices that are not retired).
    Result<void> begin(decoding::Sequence sequence);
    /// This slice and those before it are done. Errors: InvalidArgument (it was never handed out), DeviceLost, Vulkan.
    Result<void> retire(std::uint64_t ticket);
    /// Ends the sequence; slices that are not retired were never submitted, or are done.
    void cancel();

    SessionState state() const noexcept { return state_; }
    std::span<const std::int32_t> tokens() const noexcept;
    /// Tokens of the prompt that retired slices have read, those that were in the caches included.
    std::uint32_t computed_prompt() const noexcept;
    /// Slices that are not retired.
    virtual std::uint32_t outstanding() const noexcept = 0;
    std::uint64_t last_ticket() const noexcept { return last_ticket_; }
    /// What the last slice that was retired took, and all of the sequence; 0 where nobody knows.
    double last_us() const noexcept { return last_us_; }
    double total_us() const noexcept { return total_us_; }
    /// The score of the answer of a beam search that is done, else 0.
    float score() const noexcept;

protected:
    Session(std::unique_ptr<decoding::SequenceScript> script, std::uint64_t first_ticket)
        : script_(std::move(script)), last_ticket_(first_ticket - 1) {}

    decoding::SequenceScript& script() const noexcept { return *script_; }
    bool is_running() const noexcept { return state_ == SessionState::prompt || state_ == SessionState::generating; }
    std::uint64_t take_ticket() noexcept { return ++last_ticket_; }
    /// The script has taken the job.
    void note_taken(const decoding::Job& job) noexcept;
    void note_time(double us) noexcept;
    /// Nothing of the sequences so far is to be seen.
    void forget_all();

private:
    virtual Result<void> retire_slices(std::uint64_t ticket) = 0;
    /// Nothing that was handed out comes back.
    virtual void drop_slices() = 0;

    std::unique_ptr<decoding::SequenceScript> script_;
    SessionState state_ = SessionState::idle;
    bool has_begun_ = false;
    std::uint64_t last_ticket_ = 0;
    double last_us_ = 0, total_us_ = 0;
};

}  // namespace vkformer::guest
