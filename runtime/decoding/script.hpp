// SPDX-License-Identifier: MIT
/// Generation as an order of jobs: what is written, which program runs, what it leaves for the host. A script says the order and keeps
/// what is known of its sequences; who runs the jobs, and whether the host waits for one before the next is handed out, is
/// another's: run_script here, guest::SlicedSession where an application gives the time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "graph/program.hpp"

namespace vkformer::constraints {
class ConstrainedText;
}

namespace vkformer::decoding {

/// The whole of an input or a state; floats as their bits.
struct Write {
    graph::Value tensor;
    std::vector<std::int32_t> words;
};

/// Some words of a state or an output.
struct Read {
    graph::Value tensor;
    std::uint64_t first = 0, count = 0;
};

/// A plan that becomes a program: whoever runs the jobs compiles it.
struct Part {
    graph::Plan plan;  ///< spent once there is the program
    std::unique_ptr<graph::Program> program;
    std::vector<Write> constants;  ///< written before the first run
};

struct Job {
    enum class Kind : std::uint8_t {
        prompt,  ///< reads some of a prompt or source
        spread,  ///< gives what was read to all beams
        step,    ///< chooses tokens
        check,   ///< chooses the token behind each of some guessed ones
    };
    Kind kind = Kind::step;
    Part* part = nullptr;
    std::vector<Write> writes{};         ///< before the first run
    std::uint32_t runs = 1;              ///< one after the other
    std::uint32_t first_step = 0;        ///< the number of the first run among the steps since something was written
    std::uint32_t len = 0;               ///< tokens of each row that a job of a prompt takes
    std::vector<std::int32_t> counts{};  ///< those of each row that are its own, of a job of PromptChunks
};

/// What steps have left.
class Records {
public:
    virtual ~Records() = default;
    /// What the read of that place in Script::reads found after the step. Where several steps ran in one job,
    /// only histories are those of each: of other states there is what the last step left. Errors: those of the backend.
    virtual Result<std::span<const std::int32_t>> get(std::uint32_t step, std::size_t read) = 0;
};

class Script {
public:
    virtual ~Script() = default;

    /// Which nodes the backend runs that parts are compiled on; told before the first job or part is asked for. The rules outlive the script.
    void plan_for(const graph::FusionRules& fusions) noexcept { fusions_ = &fusions; }

    /// What follows, of at most `most` runs (one at least); nothing where all is done, or where what was handed out has to be taken first.
    /// Errors: those of making graphs.
    virtual Result<std::optional<Job>> next(std::uint32_t most) = 0;
    /// A part that will be needed while the job runs, so that it can be compiled meanwhile; nullptr: none.
    virtual Result<Part*> meanwhile(const Job&) { return nullptr; }
    /// What a step leaves for the host: always as many words, where they are of one sequence.
    virtual std::vector<Read> reads(std::uint32_t step) const = 0;
    /// The job is done; jobs are taken in the order in which they were handed out. Errors: InvalidArgument (a search that found nothing),
    /// those of `records`.
    virtual Result<void> take(const Job& job, Records& records) = 0;
    /// How long the job took, with all that went before its runs and without; told before it is taken, by those who know.
    virtual void took(const Job&, double seconds, double run_seconds) { (void)seconds, (void)run_seconds; }

protected:
    graph::Plan plan(graph::Graph graph) const { return graph::make_plan(std::move(graph), {.fusions = fusions_}); }
    const graph::FusionRules& fusions() const noexcept { return *fusions_; }

private:
    const graph::FusionRules* fusions_ = &graph::stepwise_fusions();
};

/// A sequence that a script generates alone.
struct Sequence {
    std::vector<std::int32_t> prompt;       ///< or the source
    std::uint32_t max_tokens = 0;           ///< 0: as many as there is room for
    std::vector<std::int32_t> stop_tokens;  ///< end the sequence; the token itself is part of the answer
    std::uint64_t seed = 0;                 ///< of the draws, with a temperature above 0
    std::uint32_t answered =
        0;  ///< tokens at the prompt's end that another session has chosen: the answer begins before them
    /// At its beginning, of this sequence alone. While there is one among the sequences of a batch, that runs step by step. Not with beams.
    std::shared_ptr<constraints::ConstrainedText> constraint{};
    /// A scale of each of the model's adapters; empty: none counts.
    std::vector<float> adapters{};
};

/// A script of one sequence at a time, whose parts are all known before.
class SequenceScript : public Script {
public:
    /// Everything that it may run. Errors: those of making graphs.
    virtual Result<std::vector<Part*>> parts() = 0;
    /// Steps of a sequence at most.
    virtual std::uint32_t capacity() const noexcept = 0;
    /// Tokens of a sequence that takes every part.
    virtual std::uint32_t longest_warm_up() const noexcept = 0;
    /// Tokens that may follow. Errors: InvalidArgument (no tokens, too many, unknown ones).
    virtual Result<std::uint32_t> room_for(std::span<const std::int32_t> prompt) const = 0;
    /// In place of the one before, whose jobs are all taken or will never be. What the caches hold of the prompt is not computed again.
    virtual void begin(Sequence sequence) = 0;
    /// Ends the sequence.
    virtual void stop() = 0;
    /// The caches hold nothing any more.
    virtual void forget() = 0;

    /// Tokens of the prompt that have been read, those that were in the caches included.
    virtual std::uint32_t prompt_read() const noexcept = 0;
    virtual std::span<const std::int32_t> tokens() const noexcept = 0;
    virtual bool is_done() const noexcept = 0;
    /// What ended the sequence where that is an error.
    virtual std::optional<Error> failure() const { return {}; }
    /// Whether each step chooses a token for good.
    virtual bool streams() const noexcept = 0;
    /// The score of a beam search's answer, else 0.
    virtual float score() const noexcept { return 0; }
};

/// The token of a step whose logits have a NaN.
inline constexpr std::int32_t kNoChoice = -1;
/// What that ends a sequence with.
Error no_choice();

/// Errors: InvalidArgument, where the model, which `name` may say more of, has no such token.
Result<void> check_token(std::string_view name, std::int32_t token, std::uint64_t vocab);
/// The same for what is read, which has at least one token.
Result<void> check_tokens(std::span<const std::int32_t> tokens, std::uint64_t vocab);

}  // namespace vkformer::decoding
