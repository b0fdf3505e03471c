// SPDX-License-Identifier: MIT
/// Continuous batching (Yu et al. 2022, "Orca"): sequences join and leave a running batch at every step. Prompts are read in chunks between
/// steps; keys and values lie in pages, which sequences with a common beginning share; of layers that see a window of a sequence it has no
/// more than that takes. Where layers keep a state of each sequence, it has one of BatchOptions::rows slots while it runs, and shares
/// nothing.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "decoding/batch_guesses.hpp"
#include "decoding/batch_pages.hpp"
#include "decoding/batch_steps.hpp"
#include "decoding/decoder_script.hpp"
#include "decoding/script.hpp"
#include "decoding/sequence_constraint.hpp"

namespace vkformer::decoding {

/// A sequence and its own rules; stop_tokens and seed as of Sequence, `answered` is 0.
struct BatchSequence {
    Sequence sequence;
    graph::SampleOptions sample = {.temperature = 0};
    float repetition = 1, presence = 0, frequency = 0;  ///< as of Penalties
    std::map<std::int32_t, float> bias{};               ///< likewise
    std::uint32_t min_tokens = 0;                       ///< generated before one of BatchOptions::ends
    std::optional<std::uint32_t> log_probs{};           ///< told, with so many of the likeliest tokens
    /// Likewise of the prompt's tokens but the first, whose keys and values are then all computed anew.
    std::optional<std::uint32_t> prompt_log_probs{};
    bool is_prompt_alone = false;  ///< the sequence, which has no constraint, ends once these are told
};

/// What a script has done since it was made.
struct BatchCounts {
    std::uint64_t prompt_tokens = 0, reused_tokens = 0, tokens = 0, steps = 0, preempted = 0;
    std::uint64_t guessed_tokens = 0, accepted_tokens = 0;  ///< in all, and the right ones
};

/// Every job is taken before the next is asked for: run_script's way, not a guest's. Callbacks call nothing of the script. Where pages run out, the sequence that came last gives
/// its pages back, waits before all others, and is read again later.
/// With BatchOptions::guesses a step may check what look_up guesses: a sequence then has a row of its own for each guess, which reads it
/// where it would be if those before it were right, by the rules and draws of that place. Wrong ones lie in the sequence's own pages, where
/// the tokens that come in their place are written before they are read. Nothing is guessed of a sequence with a constraint, in a model that
/// keeps states, while prompts are read (which wait for each step), or before took() has told what steps take.
class BatchScript final : public Script {
public:
    using Id = std::uint64_t;
    /// Told every token, with its log-probabilities where the sequence asks for them; false ends the sequence there.
    using OnToken = std::function<bool(Id, std::int32_t, StepLogProbs* log_probs)>;
    /// Told once, before any of its tokens, where the sequence asks for its prompt's log-probabilities.
    using OnPrompt = std::function<void(Id, std::vector<StepLogProbs>)>;
    /// Told once, when the sequence has ended.
    using OnEnd = std::function<void(Id, SequenceResult)>;

    /// `options` as checked_batch_options gives them.
    BatchScript(const models::Decoder& model, const BatchOptions& options, OnToken on_token, OnEnd on_end,
                OnPrompt on_prompt);

    /// Behind those that wait. Requires what check() has passed, and an id that no other sequence has.
    void add(Id id, BatchSequence sequence);
    /// Ends it, with FinishReason::caller; one that is not there is passed over.
    void cancel(Id id);
    /// Errors: InvalidArgument (no tokens, more than the context holds, unknown ones, a bias of an unknown token or one that is no
    /// number, more log-probabilities than are told, a constraint of a prompt alone).
    Result<void> check(const BatchSequence& sequence) const;

    bool is_idle() const noexcept { return running_.empty() && waiting_.empty(); }
    std::size_t running() const noexcept { return running_.size(); }
    std::size_t waiting() const noexcept { return waiting_.size(); }
    std::size_t kinds_of_pages() const noexcept { return pages_.kinds(); }
    /// Of each of page_kinds().
    const PagePool& pages(std::size_t kind = 0) const noexcept { return pages_.pool(kind); }
    const BatchCounts& counts() const noexcept { return counts_; }

    Result<std::optional<Job>> next(std::uint32_t most) override;
    Result<Part*> meanwhile(const Job& job) override;
    std::vector<Read> reads(std::uint32_t step) const override;
    Result<void> take(const Job& job, Records& records) override;
    /// In place of take(), where the job was not run for that error. True: of too little memory for guesses, or beside their programs; they
    /// are then checked in fewer rows or not at all from now on, and nothing else has changed.
    bool pass_over(const Job& job, const Error& error);
    void took(const Job& job, double seconds, double run_seconds) override;

private:
    struct Running {
        Id id = 0;
        BatchSequence asked;
        std::vector<std::int32_t> tokens;  // prompt and answer
        std::size_t cached = 0;            // of them, whose keys and values are in the pages, or were
        SequencePages pages{};
        std::uint32_t slot = 0;  // of the states, where the model keeps some
        std::optional<std::uint32_t> reused{};  // what it found when it first came in, not what it had itself
        FinishReason finish = FinishReason::none;
        SequenceConstraint constraint{};
        std::vector<StepLogProbs> prompt_log_probs{};  // until they are told
        bool has_told_prompt = false;
        bool has_no_choice = false;         // a step's logits had a NaN
        std::vector<std::int32_t> guess{};  // what the step at hand checks behind the last token
        GuessRecord guesses{};

        bool has_adapters() const noexcept { return !asked.sequence.adapters.empty(); }
        bool needs_scores() const noexcept { return asked.prompt_log_probs && !has_told_prompt; }
        std::size_t generated() const noexcept { return tokens.size() - asked.sequence.prompt.size(); }
        /// Tokens that the next step, which reads the last, has to find in the caches.
        std::size_t unread() const noexcept { return tokens.size() - 1 - cached; }
        bool is_read() const noexcept { return unread() == 0; }
    };
    struct Chunk : Part {
        BatchChunkGraph graph;
    };
    struct Scores : Part {
        BatchChunkKind kind;
        std::uint32_t likeliest = 0;
        BatchScoreGraph graph;
    };
    struct Step : Part {
        std::uint32_t rows = 1;
        BatchStepGraph graph;
        bool has_run = false;
        std::uint64_t bytes = 0, last_use = 0;  // its own bytes; of the uses of steps, by number
    };
    struct Placed {  // what a job computes of a sequence
        Running* sequence;
        std::size_t tokens;     // of a chunk
        std::size_t ahead = 0;  // of a step: guesses before the row's token, which is one, too, unless this is 0
    };

    void admit();
    bool find_pages(Running& sequence);
    void find_chunk_pages();
    void release(Running& sequence);
    void preempt_last();
    void leave_full_pages(Running& sequence);
    void finish_ended();

    bool has_unread() const noexcept;
    Result<Job> chunk_job();
    static BatchChunkKind chunk_kind(std::span<Running* const> unread, std::uint32_t most);
    Result<Job> score_job(std::vector<Running*> unread);
    BatchStepKind step_kind() const;
    bool guess(const BatchStepKind& kind);
    void place_step();
    Result<std::optional<Job>> step_job(std::uint32_t most);
    std::size_t steps_left(const Running& sequence) const noexcept;
    Result<Chunk*> chunk(const BatchChunkKind& kind);
    Result<Scores*> scores(const BatchChunkKind& kind, std::uint32_t likeliest);
    Result<Step*> step(const BatchStepKind& kind);
    void make_room(std::uint64_t bytes);
    std::size_t drop_others(const Job& job);
    void write_step(const Step& step, const BatchStepKind& kind, std::vector<Write>& writes) const;
    std::vector<std::int32_t> table(std::size_t kind, std::uint32_t rows) const;
    std::vector<std::int32_t> slots(std::uint32_t rows) const;
    std::vector<std::int32_t> adapter_words(std::uint32_t rows) const;
    std::vector<std::int32_t> page_key(const Running& sequence, std::size_t page) const;
    void place_chunk(std::span<Running* const> sequences, const BatchChunkGraph& graph, const BatchChunkKind& kind,
                     Job& job);
    std::uint32_t free_slot() const;
    std::vector<std::int32_t> allowed_tokens(std::uint32_t rows) const;
    Result<void> take_scores(std::size_t row, Records& records);
    void tell_prompt(Running& sequence);
    static void end_before_answer(Running& sequence);
    Result<void> take_step(const Job& job, Records& records);
    Result<void> take_row(std::size_t row, const Job& job, Records& records);
    Result<void> take_token(const LogProbPlace& place, Records& records);
    void measure(const Job& job, double take_seconds, std::span<const BatchGuesses::Checked> checked);

    const models::Decoder* model_;
    BatchOptions options_;
    OnToken on_token_;
    OnEnd on_end_;
    OnPrompt on_prompt_;
    BatchPages pages_;
    std::deque<Running> waiting_;
    std::deque<std::unique_ptr<Running>> running_;  // in the order of their coming
    std::map<BatchChunkKind, std::unique_ptr<Chunk>> chunks_;
    static constexpr std::size_t kKeptScores = 4;  // each has logits of its own
    std::list<Scores> scores_;                     // the last used first
    std::map<BatchStepKind, std::unique_ptr<Step>> steps_;
    std::uint64_t step_uses_ = 0;
    BatchCounts counts_;

    // The job at hand, or the last one:
    std::vector<Placed> placed_;
    bool was_chunk_ = false;
    const Scores* scored_ = nullptr;  // its part, where it tells of a prompt
    // What the device's states of a step are of; no step where something else has to be written:
    const Step* written_ = nullptr;
    std::vector<Id> written_ids_;
    std::array<std::vector<std::int32_t>, kPageKinds> written_tables_;
    std::vector<std::int32_t> written_slots_;
    std::vector<std::size_t> first_positions_;
    std::uint32_t handed_steps_ = 0;  // since then
    // What is known of guesses, by kinds of steps with no rows, and of what the job at hand takes:
    std::uint32_t most_checked_rows_ = BatchOptions::kMostRows;
    std::map<BatchStepKind, BatchGuesses> guesses_;
    BatchGuesses* kind_guesses_ = nullptr;  // of its kind
    std::uint32_t step_rows_ = 0;           // of the step in whose place it checks
    bool was_written_ = false;              // its states are not those that steps before have left
    bool was_check_ = false;                // the job before it
    double guess_seconds_ = 0, plan_seconds_ = 0;
    std::optional<double> job_seconds_;
};

/// The options with a context and pages that hold. Errors: InvalidArgument (rows that are not 1 to 64, a context beyond the model's or its
/// original one, fewer pages than one sequence has at most, a cache format that the heads do not fit), UnsupportedConfig
/// (rules that look back at a sequence).
Result<BatchOptions> checked_batch_options(const models::Decoder& model, const BatchOptions& options);

}  // namespace vkformer::decoding
