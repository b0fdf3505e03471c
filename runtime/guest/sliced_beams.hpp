// SPDX-License-Identifier: MIT
/// The beams of a sliced session: what goes into the states of its search before the first step, and what comes out of each.
#pragma once

#include <span>
#include <vector>

#include "decoding/beam_states.hpp"
#include "guest/sliced_parts.hpp"

namespace vkformer::guest {

class SlicedBeams {
public:
    /// `ends`: tokens that end a sequence; the first is graph::BeamOptions::eos.
    SlicedBeams(std::uint32_t beams, std::uint32_t most_steps, std::span<const std::int32_t> ends);

    /// The first step reads `token` at position `start` in all rows.
    void begin(const Part& step, const graph::BeamStates& states, std::int32_t token, std::int32_t start,
               std::uint32_t max_steps, std::vector<SlicedSession::Job::Update>& updates) const;
    std::vector<vulkan::Slice> results(const Part& step, const graph::BeamStates& states, std::uint32_t index) const;
    std::uint32_t result_words() const noexcept;
    /// The same for all beams.
    std::vector<std::int32_t> rows(std::int32_t value) const {
        return std::vector<std::int32_t>(layout_.rows(), value);
    }
    Result<SlicedSession::Outcome> outcome(std::uint32_t index, std::span<const std::int32_t> records) const;

private:
    std::uint32_t beams() const noexcept { return static_cast<std::uint32_t>(layout_.beams); }

    decoding::BeamLayout layout_;
    std::vector<std::int32_t> further_ends_;
};

}  // namespace vkformer::guest
