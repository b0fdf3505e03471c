// SPDX-License-Identifier: MIT
/// Generation with a decoder-only model without beams: prompts in chunks, then one step, choice of the token included, again and again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "decoding/guess_ledger.hpp"
#include "decoding/prompt_chunks.hpp"
#include "decoding/script.hpp"
#include "decoding/sequence_constraint.hpp"

namespace vkformer::decoding {

enum class FinishReason : std::uint8_t {
    none,     ///< still running
    stop,     ///< a token of Sequence::stop_tokens
    caller,   ///< the callback said so
    length,   ///< Sequence::max_tokens
    context,  ///< the session's context is full
    failed,   ///< SequenceResult::failure: its constraint let no token follow, or the model gave no numbers
};
/// "stop", …
std::string_view to_string(FinishReason reason) noexcept;

struct SequenceResult {
    std::vector<std::int32_t> tokens;  ///< generated ones
    FinishReason finish = FinishReason::none;
    std::uint32_t reused = 0;  ///< tokens of the prompt that the row's caches held already
    std::optional<Error> failure{};
    std::vector<StepLogProbs> log_probs{};  ///< of each of `tokens`, where they were asked for
};

/// What is likely to follow a text.
struct Guess {
    std::vector<std::int32_t> tokens;
    double seconds = 0;          ///< that it took to find them
    double reading_seconds = 0;  ///< that it took to read more of the text than follows from one guess to the next; no part of `seconds`
};
/// Finds up to `most` tokens, none or some, for a model to check. Of `so_far` these count: `prompt`, the whole text, with `answered` of it
/// chosen; `seed`; the `adapters` of the model that checks. What they draw by is what the check draws by.
using Guesser = std::function<Result<Guess>(Sequence so_far, std::size_t most)>;

/// Several rows at a time, each with a sequence of its own: the next one takes the row of the first that ends. As a SequenceScript it
/// has one row.
class DecoderScript final : public SequenceScript {
public:
    /// `options` as checked_options gives them; `chunk_lens`: the lengths of prompts' parts, rising.
    DecoderScript(const models::Decoder& model, const DecoderSessionOptions& options,
                  std::vector<std::uint32_t> chunk_lens)
        : model_(&model),
          options_(options),
          always_adapts_(options.adapters),
          chunks_(model, std::move(chunk_lens)),
          rows_(options.rows),
          first_positions_(options.rows, 0) {}

    /// Called with every token, in order within a sequence; false ends the sequence there.
    using OnToken = std::function<bool(std::size_t sequence, std::int32_t token)>;
    /// `log_probs`: every token's are wanted, with so many of the likeliest tokens, at most kMostLikeliest. Then each job has to be taken before
    /// the next is asked for, which is run_script's way.
    void begin(std::vector<Sequence> sequences, OnToken on_token, std::optional<std::uint32_t> log_probs = {});
    const std::vector<SequenceResult>& results() const noexcept { return results_; }
    const DecoderTimings& timings() const noexcept { return timings_; }
    const DecoderSessionOptions& options() const noexcept { return options_; }
    /// `guesses` as of DecoderSessionOptions: nothing is guessed unless took() tells what steps take. Errors: InvalidArgument (a bias of an
    /// unknown token), those of check_guesses.
    Result<void> set_sampling(const graph::SampleOptions& sample, const Penalties& penalties,
                              std::uint32_t guesses = 0);
    /// Whose guesses are checked; none: those of look_up. The guesser outlives its use here.
    void guess_by(const Guesser* guesser) noexcept;

    Result<std::optional<Job>> next(std::uint32_t most) override;
    Result<Part*> meanwhile(const Job& job) override;
    std::vector<Read> reads(std::uint32_t step) const override;
    Result<void> take(const Job& job, Records& records) override;
    void took(const Job& job, double seconds, double run_seconds) override;

    Result<std::vector<Part*>> parts() override;
    std::uint32_t capacity() const noexcept override { return options_.context; }
    std::uint32_t longest_warm_up() const noexcept override {
        return std::min(1 + chunks_.sum_of_lens(), options_.context);
    }
    Result<std::uint32_t> room_for(std::span<const std::int32_t> prompt) const override;
    void begin(Sequence sequence) override;
    void stop() override;
    void forget() override;
    /// Of what the caches hold, all but so many tokens at its beginning. Of a model that keeps no states, between two sequences.
    void forget_behind(std::size_t count) noexcept;
    std::uint32_t prompt_read() const noexcept override;
    std::span<const std::int32_t> tokens() const noexcept override;
    bool is_done() const noexcept override;
    std::optional<Error> failure() const override;
    bool streams() const noexcept override { return true; }

private:
    struct Step : Part {
        DecoderStepGraph graph;
    };
    struct Check : Part {
        CheckGraph graph;
    };
    struct Row {
        std::vector<std::int32_t> cached;   // tokens whose keys and values are in the caches, from position 0
        std::vector<std::int32_t> context;  // what the caches must have before the next step; begins with `cached`
        std::size_t sequence = kFree;
        std::size_t handed_out = 0;     // tokens of the context that are in the caches once all jobs are done
        std::size_t seen = 0;           // tokens that the states have taken in by then, those that nobody asked for too
        std::int32_t slot = 0, other = 1, spare = 2;  // of these states, of the checkpoint's and of those after guesses
        std::size_t checkpoint = 0;     // tokens of `cached` that those of the other slot have taken in; 0: none
        bool is_at_end = false;         // what was handed out last is of the context's end, behind the checkpoint
        std::int32_t pending = 0;       // the token that the next step reads
        std::vector<float> adapters{};  // with which scales of them `cached` was read
        SequenceConstraint constraint{};
    };
    static constexpr std::size_t kFree = ~std::size_t{0};

    void fill_rows();
    void read_again(Row& row, std::vector<std::int32_t> context);
    bool has_unread() const noexcept;
    void cross_limit();
    std::size_t useful_steps() const noexcept;
    Result<Step*> step();
    Result<Job> next_chunk();
    bool reaches_checkpoint(const Row& row) const noexcept;
    Result<std::optional<Job>> next_check();
    Result<void> guess(const Row& row, std::size_t most);
    void write_states(const Step& step, std::vector<Write>& writes) const;
    /// What graph::sample draws a row's token by.
    static void add_random(const Sequence& sequence, std::size_t draws, std::vector<std::int32_t>& random);
    std::size_t draws(const Sequence& sequence, std::size_t position) const noexcept;
    std::int32_t to_last(const Sequence& sequence, const Row& row) const noexcept;
    std::vector<std::int32_t> counts() const;
    std::vector<std::int32_t> allowed_tokens() const;
    using StepKind = std::tuple<bool, bool, bool, std::optional<std::uint32_t>>;
    StepKind step_kind() const noexcept;
    std::vector<std::int32_t> adapter_words() const;
    void take_chunk(const Job& job);
    void take_back(Row& row, std::size_t start, std::size_t guesses, std::size_t taken);
    Result<void> take_check(Records& records);
    Result<void> take_row(std::size_t row, const Job& job, Records& records);
    void take_token(Row& row, std::int32_t token);

    const models::Decoder* model_;
    DecoderSessionOptions options_;
    bool always_adapts_;  // else `options_` say whether a sequence at hand asks for adapters
    PromptChunks chunks_;
    /// Extended or not, with constraints or not, with adapters or not, with log-probabilities of so many tokens.
    std::map<StepKind, std::unique_ptr<Step>> steps_;
    std::unique_ptr<Check> check_;
    std::vector<std::int32_t> guess_;  // what the check that was handed out checks; empty: there is none
    const Guesser* guesser_ = nullptr;
    GuessLedger guesses_;
    double guess_seconds_ = 0, check_seconds_ = 0;  // what the last check took
    bool has_guessed_ = false;                      // of this sequence
    /// Guesses of the last check and tokens that came of it, where states have to take the tokens in anew.
    std::optional<std::pair<std::size_t, std::size_t>> taken_back_;
    bool extended_ = false;                         // the caches have the positions of sequences beyond max_positions
    std::vector<Row> rows_;

    std::vector<Sequence> sequences_;
    bool masks_ = false;                        // one of them has a constraint
    std::optional<std::uint32_t> log_probs_{};  // that were asked for
    std::vector<SequenceResult> results_;
    OnToken on_token_;
    std::size_t next_sequence_ = 0;
    bool has_new_rows_ = false;                        // the device's states are not those of the rows
    std::vector<std::size_t> first_positions_;         // of each row, in step 0
    std::uint32_t handed_steps_ = 0, done_steps_ = 0;  // since the states were written
    DecoderTimings timings_;
};

}  // namespace vkformer::decoding
