// SPDX-License-Identifier: MIT
/// What a sliced session runs, one program after the other.
#pragma once

#include <span>
#include <vector>

#include "guest/sliced_session.hpp"

namespace vkformer::guest {

/// One run of a program.
struct SlicedSession::Job {
    /// Written before it, by a command.
    struct Update {
        vulkan::Slice slice;
        std::vector<std::int32_t> values;
    };
    const vulkan::VulkanProgram* program = nullptr;
    std::vector<Update> updates{};
    std::optional<std::uint32_t> result{};  ///< the number of the step whose results it leaves
    std::uint32_t tokens = 0;               ///< that it chooses for good
    std::uint32_t computed_prompt = 0;      ///< tokens of the prompt that are read when it is done
};

/// What a step says when it is done.
struct SlicedSession::Outcome {
    std::vector<std::int32_t> tokens{};
    bool is_done = false;  ///< by the rules of a search; a session without beams decides itself
    float score = 0;       ///< of a search
};

/// The order of the runs of a sequence.
class SlicedSession::Script {
public:
    virtual ~Script() = default;

    virtual std::vector<const graph::Plan*> plans() const = 0;
    using NodesDone = std::function<void(std::uint32_t nodes)>;  ///< how many have become part of a program
    /// Makes the programs of the plans, which are spent.
    virtual Result<void> compile(vulkan::VulkanBackend& backend, std::shared_ptr<vulkan::VulkanStore> weights,
                                 std::shared_ptr<vulkan::VulkanStore> states, const NodesDone& nodes_done) = 0;
    virtual std::vector<const vulkan::VulkanProgram*> programs() const = 0;

    /// Steps at most; the number of each is below that.
    virtual std::uint32_t capacity() const noexcept = 0;
    /// What the step of that number leaves for the host, together so many words.
    virtual std::vector<vulkan::Slice> results(std::uint32_t index) const = 0;
    virtual std::uint32_t result_words() const noexcept = 0;
    /// `records`: the results of the steps, result_words each; those up to `index` of this sequence are there. Errors: InvalidArgument
    /// (a search that found nothing).
    virtual Result<Outcome> outcome(std::uint32_t index, std::span<const std::int32_t> records) const = 0;
    /// Whether its caches hold the answer's keys and values besides the prompt's.
    virtual bool caches_answer() const noexcept = 0;
    /// Tokens of a sequence that takes every program.
    virtual std::uint32_t longest_warm_up() const noexcept = 0;
    /// Tokens that may follow this many, or be answered to them; an error where they are too many or unknown.
    virtual Result<std::uint32_t> room_for(std::span<const std::int32_t> tokens) const = 0;

    /// A new sequence of at most `max_tokens` new ones. `known` are tokens whose keys and values the caches hold, from the beginning; gives how many of them serve again.
    virtual std::uint32_t begin(std::span<const std::int32_t> tokens, std::span<const std::int32_t> known,
                                std::uint32_t max_tokens, std::uint64_t seed, std::uint32_t draws) = 0;
    /// Of an endless row: the session knows when to stop.
    virtual Job next() = 0;
};

/// Errors: InvalidArgument, and those of the models.
Result<std::unique_ptr<SlicedSession::Script>> make_script(const SlicedModel& model, const SlicedOptions& options);

}  // namespace vkformer::guest
