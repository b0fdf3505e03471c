// SPDX-License-Identifier: MIT
/// How the steps of a batch of sequences that begin together choose: the states to begin with, what to look at afterwards.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "decoding/beam_states.hpp"
#include "decoding/script.hpp"

namespace vkformer::decoding {

struct Answer {
    std::vector<std::int32_t> tokens;  ///< what was chosen, the end token included
    std::optional<float> score;        ///< of a beam search: Σ log p / length^length_penalty
    std::vector<Answer> further;  ///< of a beam search: the next best, as many as it has finished, in falling score
};

struct ChoiceStart {
    std::span<const std::int32_t> tokens;  ///< one for each sequence, which all its rows read
    std::int32_t position = 0;             ///< at which they read it
    std::uint32_t max_steps = 0;           ///< of a sequence, those before included
    std::uint32_t counted = 0;  ///< steps before, whose tokens count in a hypothesis's length and were not chosen
};

class Choice {
public:
    virtual ~Choice() = default;
    /// Writes the states before the first step.
    virtual void begin(const ChoiceStart& start, std::vector<Write>& writes) = 0;
    virtual std::vector<Read> reads(std::uint32_t step) const = 0;
    /// Adds what steps `first` up to but not including `last` have chosen to the answers, one for each sequence that counts; `first` is
    /// ChoiceStart::counted or above. Gives whether nothing will be added any more; the last of `max_steps` is such a step.
    virtual Result<bool> take(std::uint32_t first, std::uint32_t last, std::uint32_t max_steps, Records& records,
                              std::span<Answer> answers) const = 0;
    virtual bool streams() const noexcept = 0;
};

/// The likeliest token, always.
class GreedyChoice final : public Choice {
public:
    GreedyChoice(const graph::GreedyStates& states, std::uint32_t rows, std::int32_t eos)
        : states_(states), rows_(rows), eos_(eos) {}
    void begin(const ChoiceStart& start, std::vector<Write>& writes) override;
    std::vector<Read> reads(std::uint32_t step) const override;
    Result<bool> take(std::uint32_t first, std::uint32_t last, std::uint32_t max_steps, Records& records,
                      std::span<Answer> answers) const override;
    bool streams() const noexcept override { return true; }

private:
    graph::GreedyStates states_;
    std::uint32_t rows_;
    std::int32_t eos_;
    std::uint32_t start_ = 0;  // the position that step 0 reads
};

/// The likeliest answer of a search, which is known at its end.
class BeamChoice final : public Choice {
public:
    /// `further_ends`: tokens that end a hypothesis besides graph::BeamOptions::eos.
    BeamChoice(const graph::BeamStates& states, const BeamLayout& layout, std::span<const std::int32_t> further_ends)
        : states_(states), layout_(layout), further_ends_(further_ends.begin(), further_ends.end()) {}
    void begin(const ChoiceStart& start, std::vector<Write>& writes) override;
    std::vector<Read> reads(std::uint32_t step) const override;
    Result<bool> take(std::uint32_t first, std::uint32_t last, std::uint32_t max_steps, Records& records,
                      std::span<Answer> answers) const override;
    bool streams() const noexcept override { return false; }

private:
    graph::BeamStates states_;
    BeamLayout layout_;
    std::vector<std::int32_t> further_ends_;
    std::uint32_t counted_ = 0;
};

}  // namespace vkformer::decoding
