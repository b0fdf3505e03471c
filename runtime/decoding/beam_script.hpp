// SPDX-License-Identifier: MIT
/// Beam search with a decoder-only model: the prompt is computed once and given to all beams, then all of them step together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "decoding/beam_steps.hpp"
#include "decoding/choice.hpp"
#include "decoding/prompt_chunks.hpp"
#include "decoding/script.hpp"

namespace vkformer::decoding {

class BeamScript final : public SequenceScript {
public:
    /// `options` as checked_options gives them; `ends`: the tokens that end a hypothesis, whatever the stop tokens of a sequence are;
    /// `chunk_lens`: the lengths of prompts' parts, rising.
    BeamScript(const models::Decoder& model, const DecoderSessionOptions& options, const BeamRules& rules,
               std::vector<std::int32_t> ends, std::vector<std::uint32_t> chunk_lens)
        : model_(&model),
          options_(options),
          always_adapts_(options.adapters),
          rules_(rules),
          ends_(std::move(ends)),
          chunks_(model, std::move(chunk_lens), rules.beams) {}

    /// For the next sequence.
    void set_ends(std::vector<std::int32_t> ends);
    const DecoderTimings& timings() const noexcept { return timings_; }
    const DecoderSessionOptions& options() const noexcept { return options_; }
    const BeamRules& rules() const noexcept { return rules_; }
    /// Tokens of the prompt that the caches held already.
    std::uint32_t reused() const noexcept { return reused_; }
    /// Requires a sequence that is done.
    const Answer& answer() const noexcept { return answer_; }
    void reset_timings() noexcept { timings_ = {}; }
    /// Errors: InvalidArgument (a bias of an unknown token).
    Result<void> set_penalties(const Penalties& penalties);

    Result<std::optional<Job>> next(std::uint32_t most) override;
    std::vector<Read> reads(std::uint32_t step) const override { return step_->choice->reads(step); }
    Result<void> take(const Job& job, Records& records) override;
    void took(const Job& job, double seconds, double run_seconds) override;

    Result<std::vector<Part*>> parts() override;
    std::uint32_t capacity() const noexcept override { return options_.context; }
    std::uint32_t longest_warm_up() const noexcept override {
        return std::min(1 + chunks_.sum_of_lens(), options_.context);
    }
    Result<std::uint32_t> room_for(std::span<const std::int32_t> prompt) const override;
    void begin(Sequence sequence) override;
    void stop() override { is_running_ = false; }
    void forget() override { cached_.clear(); }
    std::uint32_t prompt_read() const noexcept override;
    std::span<const std::int32_t> tokens() const noexcept override { return answer_.tokens; }
    bool is_done() const noexcept override { return is_done_; }
    bool streams() const noexcept override { return false; }
    float score() const noexcept override { return answer_.score.value_or(0); }

private:
    struct Spread : Part {
        SpreadGraph graph;
    };
    struct Step : Part {
        BeamStepGraph graph;
        std::optional<BeamChoice> choice;
    };

    std::span<const std::int32_t> context() const noexcept {
        return std::span(sequence_.prompt).first(sequence_.prompt.size() - 1);
    }
    std::vector<std::int32_t> rows(std::size_t value) const {
        return std::vector(rules_.beams, static_cast<std::int32_t>(value));
    }
    std::vector<std::int32_t> adapter_words(std::size_t count) const {
        return model_->adapter_words(std::vector<std::span<const float>>(count, sequence_.adapters));
    }
    Result<Spread*> spread();
    Result<Step*> step();
    Result<Job> next_chunk();
    void begin_search(Step& step, std::vector<Write>& writes) const;

    const models::Decoder* model_;
    DecoderSessionOptions options_;
    bool always_adapts_;  // else `options_` say whether a sequence at hand asks for adapters
    BeamRules rules_;
    std::vector<std::int32_t> ends_;
    PromptChunks chunks_;
    std::unique_ptr<Spread> spread_;
    std::unique_ptr<Step> step_;

    Sequence sequence_;
    std::vector<std::int32_t> cached_;    // tokens whose keys and values the first row has, from position 0
    std::vector<float> cached_adapters_;  // with which scales of them these were read
    bool is_spread_ = false;              // the other rows have them too
    bool is_running_ = false, is_done_ = false;
    bool hands_out_spread_ = false;  // is_spread_, once all jobs are done
    std::size_t handed_out_ = 0;     // tokens of the context that are in the caches then
    std::uint32_t handed_steps_ = 0, max_steps_ = 0, reused_ = 0;
    Answer answer_;
    DecoderTimings timings_;
};

}  // namespace vkformer::decoding
