// SPDX-License-Identifier: MIT
/// Generation with an encoder–decoder model that reads: the encoder once, then steps of the decoder, greedy or with beams.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "decoding/choice.hpp"
#include "decoding/script.hpp"
#include "decoding/steps.hpp"

namespace vkformer::decoding {

/// One source sequence. The spans are read during the call only.
struct Source {
    std::span<const std::int32_t> tokens;
    std::span<const std::uint8_t> visible = {};  ///< empty: all; else one per token, 0: masked
    /// What the decoder begins with; −1: the generation's decoder_start. A language, say, as is `first` elsewhere.
    std::int32_t start = -1;
    /// The token behind it, generated whatever the model thinks of it (log p = 0), in place of the generation's rules.forced_first, which
    /// there has to be; −1: that one. Not before a prefix.
    std::int32_t first = -1;
    /// What the target begins with behind the start token, as Hugging Face's generate() takes it as `decoder_input_ids`: a search begins
    /// behind it and its score knows nothing of it, but positions, least lengths and the longest count it (there those of new tokens
    /// do not).
    std::span<const std::int32_t> prefix = {};
};

/// What a target begins with, and sources that are decoded together have alike.
struct TargetStart {
    std::size_t given = 0;   ///< tokens behind the start token that no step chooses: a prefix, or one that is forced
    std::size_t forced = 0;  ///< of these, those that count as generated: 0 or 1
    bool is_whole = false;   ///< that is all: the forced one is the end token, or there is room for one only
    friend auto operator<=>(const TargetStart&, const TargetStart&) = default;
};
TargetStart target_start(const Source& source, const models::GenerationConfig& generation, std::uint32_t max_steps);

/// Batches of sources of one length at most. As a SequenceScript its batch is 1.
class EncoderDecoderScript final : public SequenceScript {
public:
    /// Checked: see check_generation. layout.beams and layout.max_steps are the generation's.
    EncoderDecoderScript(const models::EncoderDecoder& model, const models::DecodeLayout& layout,
                         const models::GenerationConfig& generation)
        : model_(&model), layout_(layout), generation_(generation) {}

    /// As many sources as the batch has at most, with prefixes below max_steps and alike in target_start(): rows that none needs repeat
    /// the last one, so that they finish when it does. max_steps counts what is given.
    void begin(std::span<const Source> sources, std::uint32_t max_steps);
    /// One for each source.
    const std::vector<Answer>& answers() const noexcept { return answers_; }

    Result<std::optional<Job>> next(std::uint32_t most) override;
    std::vector<Read> reads(std::uint32_t step) const override { return choice_->reads(step); }
    Result<void> take(const Job& job, Records& records) override;

    Result<std::vector<Part*>> parts() override;
    std::uint32_t capacity() const noexcept override { return layout_.max_steps; }
    std::uint32_t longest_warm_up() const noexcept override { return 1; }
    Result<std::uint32_t> room_for(std::span<const std::int32_t> prompt) const override;
    void begin(Sequence sequence) override;
    void stop() override { is_running_ = false; }
    void forget() override { is_encoded_ = false; }
    std::uint32_t prompt_read() const noexcept override { return is_encoded_ ? source_len_ : 0; }
    std::span<const std::int32_t> tokens() const noexcept override;
    bool is_done() const noexcept override { return is_done_; }
    bool streams() const noexcept override { return choice_->streams(); }
    float score() const noexcept override { return answers_.empty() ? 0 : answers_[0].score.value_or(0); }

private:
    struct Encoder : Part {
        EncoderGraph graph;
    };
    struct Step : Part {
        StepGraph graph;
    };

    Result<void> make_parts();
    Job encoder_job() const;
    void write_source(std::vector<Write>& writes) const;
    /// What the decoder reads at a position of start token and what is given; of each row of the batch one.
    ChoiceStart given_at(std::size_t position) const;
    /// The token that a sequence is forced to begin with.
    std::int32_t forced(std::size_t sequence) const { return given_[layout_.batch + sequence]; }
    /// Ends the sequences, whose answers begin with what they were forced to where `begins` says so.
    void end(bool begins);

    const models::EncoderDecoder* model_;
    models::DecodeLayout layout_;
    models::GenerationConfig generation_;
    std::unique_ptr<Encoder> encoder_;
    std::unique_ptr<Step> step_;
    std::unique_ptr<Choice> choice_;  // of the step

    std::vector<std::int32_t> tokens_, lengths_;  // [batch, source_len], [batch]
    std::vector<std::int32_t> mask_;              // the bits of floats, like tokens_; empty without one
    std::uint32_t source_len_ = 0;                // of the first source
    TargetStart start_;
    std::vector<std::int32_t> given_;  // [1 + start_.given, batch], the start tokens first
    std::size_t handed_given_ = 0;     // tokens of start_.given
    bool is_running_ = false, is_done_ = false;
    bool hands_out_steps_ = false, is_encoded_ = false;  // the encoder was handed out, is done
    std::uint32_t handed_steps_ = 0, max_steps_ = 0;     // the one of a forced token included
    std::vector<Answer> answers_;
};

/// Errors: InvalidArgument (what the generation config asks does not fit the model, or a model that hears).
Result<void> check_generation(const models::EncoderDecoder& model, const models::GenerationConfig& generation);

/// Of Source::start and first. Errors: InvalidArgument (an unknown token, a first one before a prefix or where none is forced).
Result<void> check_start(const Source& source, const models::GenerationConfig& generation, std::uint64_t target_vocab);

/// Of Source::prefix. Errors: InvalidArgument (no room behind it, an unknown token), UnsupportedConfig (tokens that the model's files
/// forbid at the beginning).
Result<void> check_prefix(std::span<const std::int32_t> prefix, const models::GenerationConfig& generation,
                          std::uint64_t target_vocab);

}  // namespace vkformer::decoding
