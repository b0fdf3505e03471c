// SPDX-License-Identifier: MIT
#include "decoding/decoder_script.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "core/try.hpp"

namespace vkformer::decoding {

std::string_view to_string(FinishReason reason) noexcept {
    switch (reason) {
    case FinishReason::none: return "none";
    case FinishReason::stop: return "stop";
    case FinishReason::caller: return "caller";
    case FinishReason::length: return "length";
    case FinishReason::context: return "context";
    case FinishReason::failed: return "failed";
    }
    return "unknown";
}

Result<void> DecoderScript::set_sampling(const graph::SampleOptions& sample, const Penalties& penalties,
                                         std::uint32_t guesses) {
    const graph::SampleOptions& now = options_.sample;
    if (sample.temperature == now.temperature && sample.top_k == now.top_k && sample.top_p == now.top_p &&
        sample.min_p == now.min_p && penalties == options_.penalties && guesses == options_.guesses)
        return {};
    VKFORMER_CHECK(check_penalties(penalties, model_->config().vocab_size));
    DecoderSessionOptions wanted = options_;
    wanted.sample = sample;
    wanted.penalties = penalties;
    wanted.guesses = guesses;
    VKFORMER_CHECK(check_guesses(*model_, wanted));
    if (penalties.asks_sequences() != options_.penalties.asks_sequences()) {
        chunks_.clear();  // those that are there keep no sequences, or some that nobody asks for
        forget();
    }
    options_ = std::move(wanted);
    steps_.clear();
    check_.reset();
    guesses_ = GuessLedger(guesser_ != nullptr);  // what the other programs took says nothing of these
    return {};
}

// ---- sequences ------------------------------------------------------------------------------------------------------

void DecoderScript::begin(std::vector<Sequence> sequences, OnToken on_token, std::optional<std::uint32_t> log_probs) {
    stop();
    timings_ = {};
    sequences_ = std::move(sequences);
    results_.assign(sequences_.size(), {});
    masks_ = std::ranges::any_of(sequences_, [](const Sequence& s) { return static_cast<bool>(s.constraint); });
    const bool adapts =
        always_adapts_ || std::ranges::any_of(sequences_, [](const Sequence& s) { return !s.adapters.empty(); });
    if (adapts != options_.adapters) check_.reset();
    options_.adapters = adapts;
    on_token_ = std::move(on_token);
    log_probs_ = log_probs;
    next_sequence_ = 0;
    guesses_.begin();
    has_guessed_ = false;
    fill_rows();
}

void DecoderScript::begin(Sequence sequence) {
    std::vector<Sequence> one;
    one.push_back(std::move(sequence));
    begin(std::move(one), {});
}

void DecoderScript::stop() {
    next_sequence_ = sequences_.size();
    handed_steps_ = done_steps_ = 0;
    guess_.clear();
    taken_back_.reset();
    for (Row& row : rows_) row.sequence = kFree;
}

void DecoderScript::forget() {
    for (Row& row : rows_) row.cached.clear();
}

void DecoderScript::forget_behind(std::size_t count) noexcept {
    for (Row& row : rows_) row.cached.resize(std::min(row.cached.size(), count));
}

std::uint32_t DecoderScript::prompt_read() const noexcept {
    if (sequences_.empty()) return 0;
    return static_cast<std::uint32_t>(std::min(rows_[0].cached.size(), sequences_[0].prompt.size()));
}

std::span<const std::int32_t> DecoderScript::tokens() const noexcept {
    if (results_.empty()) return {};
    return results_[0].tokens;
}

bool DecoderScript::is_done() const noexcept { return !results_.empty() && results_[0].finish != FinishReason::none; }

std::optional<Error> DecoderScript::failure() const {
    if (results_.empty()) return {};
    return results_[0].failure;
}

Result<std::uint32_t> DecoderScript::room_for(std::span<const std::int32_t> prompt) const {
    VKFORMER_CHECK(check_tokens(prompt, model_->config().vocab_size));
    if (prompt.size() > options_.context)
        return Error{ErrorCode::InvalidArgument, "the prompt has " + std::to_string(prompt.size()) +
                                                     " tokens, the context holds " + std::to_string(options_.context)};
    return options_.context - static_cast<std::uint32_t>(prompt.size()) + 1;
}

/// Gives free rows to sequences that wait: their caches have to be filled with all but the last token of the prompts.
void DecoderScript::fill_rows() {
    for (Row& row : rows_) {
        if (row.sequence != kFree) continue;
        while (next_sequence_ < sequences_.size()) {
            row.constraint = SequenceConstraint(sequences_[next_sequence_].constraint);
            SequenceResult& result = results_[next_sequence_];
            result.failure = row.constraint.failure();
            if (!result.failure && !row.constraint.is_whole()) break;
            result.finish = result.failure ? FinishReason::failed : FinishReason::stop;
            ++next_sequence_;
        }
        if (next_sequence_ == sequences_.size()) continue;
        row.sequence = next_sequence_++;
        const auto& prompt = sequences_[row.sequence].prompt;
        if (row.adapters != sequences_[row.sequence].adapters) {
            row.cached.clear();
            row.adapters = sequences_[row.sequence].adapters;
        }
        const bool is_long = prompt.size() > model_->config().max_positions;
        if (is_long != extended_) forget();  // then there is but one row
        extended_ = is_long;
        read_again(row, {prompt.begin(), prompt.end() - 1});
        row.pending = prompt.back();
        results_[row.sequence].reused = static_cast<std::uint32_t>(row.cached.size());
        has_new_rows_ = true;
    }
}

/// What the caches have of it already stays; a state has all that it has seen, or what the other one has goes on, or it begins anew.
void DecoderScript::read_again(Row& row, std::vector<std::int32_t> context) {
    row.context = std::move(context);
    auto kept = static_cast<std::size_t>(std::ranges::mismatch(row.cached, row.context).in1 - row.cached.begin());
    if (model_->config().keeps_states()) {
        if (row.checkpoint > kept) row.checkpoint = 0;
        if (kept != row.seen) {
            if (row.checkpoint > 0) std::swap(row.slot, row.other);
            kept = std::exchange(row.checkpoint, 0);
        }
    }
    row.cached.resize(kept);
    row.handed_out = row.seen = kept;
    row.is_at_end = false;
}

bool DecoderScript::has_unread() const noexcept {
    return std::ranges::any_of(
        rows_, [](const Row& row) { return row.sequence != kFree && row.handed_out < row.context.size(); });
}

/// Where the next step is the first of a sequence beyond max_positions, all keys and values are computed anew, as they are in a long
/// sequence. The states of the step are as they were.
void DecoderScript::cross_limit() {
    Row& row = rows_[0];
    if (extended_ || row.sequence == kFree || row.cached.size() < model_->config().max_positions) return;
    extended_ = true;
    std::vector<std::int32_t> context = std::move(row.cached);
    row.cached.clear();
    read_again(row, std::move(context));
}

/// No row may run past its context, and no step be handed out that every row's limit makes useless.
std::size_t DecoderScript::useful_steps() const noexcept {
    std::size_t useful = 0;
    for (const Row& row : rows_) {
        if (row.sequence == kFree) continue;
        const std::uint32_t most = extended_ ? options_.context : model_->config().max_positions;
        std::size_t left = std::min(options_.context, most) - row.context.size();
        const std::uint32_t limit = sequences_[row.sequence].max_tokens;
        if (limit > 0) left = std::min<std::size_t>(left, limit - results_[row.sequence].tokens.size());
        useful = std::max(useful, left);
    }
    const std::size_t ahead = handed_steps_ - done_steps_;
    return useful - std::min(useful, ahead);
}

// ---- jobs -----------------------------------------------------------------------------------------------------------

DecoderScript::StepKind DecoderScript::step_kind() const noexcept {
    std::optional<std::uint32_t> likeliest;
    if (log_probs_) likeliest = likeliest_for(*log_probs_, model_->config().vocab_size);
    return {extended_, masks_, options_.adapters, likeliest};
}

/// Of all rows.
std::vector<std::int32_t> DecoderScript::adapter_words() const {
    if (!options_.adapters) return {};
    std::vector<std::span<const float>> scales;
    for (const Row& row : rows_) scales.emplace_back(row.adapters);
    return model_->adapter_words(scales);
}

Result<DecoderScript::Step*> DecoderScript::step() {
    std::unique_ptr<Step>& known = steps_[step_kind()];
    if (known) return known.get();
    auto made = std::make_unique<Step>();
    DecoderSessionOptions options = options_;
    options.masks = masks_;
    options.log_probs = std::get<3>(step_kind());
    VKFORMER_TRY(made->graph, step_graph(*model_, options, extended_));
    made->plan = plan(std::move(made->graph.graph));
    made->constants.push_back({made->graph.states.finished, std::vector<std::int32_t>(rows_.size(), 0)});
    if (made->graph.rules.bias)
        made->constants.push_back(biases_of(options_.penalties, made->graph.rules, model_->config().vocab_size));
    known = std::move(made);
    return known.get();
}

Result<std::vector<Part*>> DecoderScript::parts() {
    VKFORMER_TRY(std::vector<Part*> parts, chunks_.parts(options_, false, fusions()));
    VKFORMER_TRY(Step* const last, step());
    parts.push_back(last);
    return parts;
}

/// Of a prompt that would take long to read again, the last tokens are read by themselves, into the other state: a conversation that goes on
/// differs from what was generated, or from how a prompt ends, but seldom from what came before that.
bool DecoderScript::reaches_checkpoint(const Row& row) const noexcept {
    constexpr std::size_t kWorthKeeping = 64;
    return has_checkpoints(*model_, options_) && !extended_ && row.context.size() >= kWorthKeeping;
}

Result<Job> DecoderScript::next_chunk() {
    constexpr std::size_t kLast = DecoderSessionOptions::kSmallestChunk;
    std::vector<std::size_t> begun;
    std::vector<std::span<const std::int32_t>> rests(rows_.size());
    std::vector<std::int32_t> slots;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
        Row& row = rows_[r];
        const bool reads = row.sequence != kFree && row.handed_out < row.context.size();
        begun.push_back(reads ? row.handed_out : row.cached.size());
        slots.push_back(row.slot);
        if (reads) rests[r] = std::span(row.context).subspan(row.handed_out);
        if (reads && reaches_checkpoint(row) && !row.is_at_end) {
            row.is_at_end = rests[r].size() <= kLast;
            if (!row.is_at_end) {
                rests[r] = rests[r].first(rests[r].size() - kLast);
            } else if (row.handed_out > 0) {
                row.checkpoint = row.handed_out;
                std::swap(row.slot, row.other);
            }
        }
        slots.push_back(row.slot);
    }
    VKFORMER_TRY(Job job, chunks_.job(options_, extended_, begun, rests, fusions(), std::move(slots), adapter_words()));
    for (std::size_t r = 0; r < rows_.size(); ++r) {
        Row& row = rows_[r];
        const auto count = static_cast<std::size_t>(job.counts[r]);
        if (count > 0) row.seen = row.handed_out += count;
    }
    return job;
}

Result<std::optional<Job>> DecoderScript::next(std::uint32_t most) {
    if (handed_steps_ == done_steps_) {  // else rows may still end
        fill_rows();
        cross_limit();
    }
    if (has_unread()) {
        VKFORMER_TRY(Job job, next_chunk());
        return std::optional(std::move(job));
    }
    if (handed_steps_ == done_steps_) {
        VKFORMER_TRY(std::optional<Job> check, next_check());
        if (check) return check;
        if (options_.guesses > 0 && (guesses_.is_step_due() || guesses_.allows(options_.guesses)))
            most = std::min(most, guesses_.steps_between());
    }
    const std::size_t useful = useful_steps();
    const bool waits = masks_ && handed_steps_ != done_steps_;  // what may follow depends on what was chosen
    if (useful == 0 || waits) return std::optional<Job>();
    VKFORMER_TRY(Step* const made, step());
    Job job = {.part = made};
    if (has_new_rows_) {
        first_positions_.clear();
        for (const Row& row : rows_)
            first_positions_.push_back(row.sequence == kFree ? row.cached.size() : row.context.size());
        write_states(*made, job.writes);
        handed_steps_ = done_steps_ = 0;
        has_new_rows_ = false;
    }
    if (masks_) job.writes.push_back({made->graph.rules.allowed, allowed_tokens()});
    made->graph.log_probs.begin_job(job.writes);
    job.runs = static_cast<std::uint32_t>(std::min<std::size_t>(useful, masks_ ? 1 : most));
    if (made->graph.log_probs.recorded) job.runs = std::min(job.runs, kRecordedSteps);
    job.first_step = handed_steps_;
    handed_steps_ += job.runs;
    for (Row& row : rows_) row.seen += job.runs;
    return std::optional(std::move(job));
}

Result<Part*> DecoderScript::meanwhile(const Job& job) {
    if (job.kind != Job::Kind::prompt) {
        for (const Row& row : rows_)
            if (row.sequence != kFree) row.constraint.look_ahead();
        return nullptr;
    }
    VKFORMER_TRY(Step* const made, step());
    return made;
}

/// Every row's token and position, and what the rules ask for: of all rows, as they are now.
void DecoderScript::write_states(const Step& step, std::vector<Write>& writes) const {
    static const Sequence kNone = {.prompt = {0}};
    std::vector<std::int32_t> tokens, starts, begins, countdown, random, slots;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
        const Row& row = rows_[r];
        const bool is_free = row.sequence == kFree;
        const Sequence& sequence = is_free ? kNone : sequences_[row.sequence];
        tokens.push_back(row.pending);
        slots.insert(slots.end(), 2, row.slot);
        starts.push_back(static_cast<std::int32_t>(first_positions_[r]));
        begins.push_back(static_cast<std::int32_t>(sequence.prompt.size() - sequence.answered));
        countdown.push_back(is_free ? 1 : to_last(sequence, row));
        add_random(sequence, is_free ? 0 : draws(sequence, first_positions_[r]), random);
    }
    const DecoderStepGraph& graph = step.graph;
    writes.push_back({graph.states.tokens, std::move(tokens)});
    writes.push_back({graph.states.starts, std::move(starts)});
    if (graph.slots) writes.push_back({graph.slots, std::move(slots)});
    if (graph.adapters) writes.push_back({graph.adapters, adapter_words()});
    if (graph.rules.counts) writes.push_back({graph.rules.counts, counts()});
    if (graph.rules.begins) writes.push_back({graph.rules.begins, std::move(begins)});
    if (graph.rules.countdown) writes.push_back({graph.rules.countdown, std::move(countdown)});
    if (graph.random) writes.push_back({graph.random, std::move(random)});
}

/// Tokens of the answer before the one that is chosen behind that position.
std::size_t DecoderScript::draws(const Sequence& sequence, std::size_t position) const noexcept {
    return position + 1 - (sequence.prompt.size() - sequence.answered);
}

/// Minus the steps before the row's last one.
void DecoderScript::add_random(const Sequence& sequence, std::size_t draws, std::vector<std::int32_t>& random) {
    random.insert(random.end(), {static_cast<std::int32_t>(sequence.seed & 0xFFFFFFFFu),
                                 static_cast<std::int32_t>(sequence.seed >> 32), static_cast<std::int32_t>(draws)});
}

std::int32_t DecoderScript::to_last(const Sequence& sequence, const Row& row) const noexcept {
    const std::size_t done = row.context.size() + 1 - sequence.prompt.size();
    const std::size_t room = options_.context - sequence.prompt.size() + 1;
    const std::size_t all = sequence.max_tokens > 0 ? std::min<std::size_t>(sequence.max_tokens, room) : room;
    return static_cast<std::int32_t>(done) - static_cast<std::int32_t>(all) + 1;
}

/// How often each row has generated each token, and which its prompt has.
std::vector<std::int32_t> DecoderScript::counts() const {
    const std::size_t vocab = model_->config().vocab_size;
    std::vector<std::int32_t> counts(rows_.size() * vocab, 0);
    for (std::size_t r = 0; r < rows_.size(); ++r) {
        const Row& row = rows_[r];
        if (row.sequence == kFree) continue;
        const Sequence& sequence = sequences_[row.sequence];
        count_prompt(sequence, std::span(counts).subspan(r * vocab, vocab));
        for (const std::int32_t token : results_[row.sequence].tokens)
            ++counts[r * vocab + static_cast<std::size_t>(token)];
    }
    return counts;
}

std::vector<std::int32_t> DecoderScript::allowed_tokens() const {
    std::vector<const SequenceConstraint*> constraints;
    for (const Row& row : rows_) constraints.push_back(row.sequence == kFree ? nullptr : &row.constraint);
    return decoding::allowed_tokens(constraints, rows_.size(), model_->config().vocab_size);
}

// ---- what came of them ----------------------------------------------------------------------------------------------

std::vector<Read> DecoderScript::reads(std::uint32_t step) const {
    if (!guess_.empty()) return {{check_->graph.chosen, 0, 1 + options_.guesses}};
    const DecoderStepGraph& graph = steps_.at(step_kind())->graph;
    std::vector<Read> reads;
    std::vector<std::size_t> positions;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
        positions.push_back(first_positions_[r] + step);
        reads.push_back({graph.states.history, positions[r] * rows_.size() + r, 1});
    }
    graph.log_probs.add_reads(positions, reads);
    return reads;
}

void DecoderScript::took(const Job& job, double seconds, double run_seconds) {
    if (job.kind == Job::Kind::prompt && taken_back_) {
        timings_.decode_seconds += run_seconds;
        check_seconds_ += run_seconds;
        return;
    }
    if (job.kind == Job::Kind::prompt) {
        timings_.prompt_seconds += seconds;
        chunks_.took(job, options_.chunk_seconds, run_seconds);
        return;
    }
    timings_.decode_seconds += run_seconds;
    timings_.decode_steps += job.runs;
    if (job.kind == Job::Kind::check)
        check_seconds_ = run_seconds;
    else
        guesses_.took_steps(job.runs, run_seconds);
}

Result<void> DecoderScript::take(const Job& job, Records& records) {
    if (job.kind == Job::Kind::prompt) {
        take_chunk(job);
        return {};
    }
    if (job.kind == Job::Kind::check) return take_check(records);
    done_steps_ += job.runs;
    for (std::size_t r = 0; r < rows_.size(); ++r) VKFORMER_CHECK(take_row(r, job, records));
    return {};
}

void DecoderScript::take_chunk(const Job& job) {
    if (!taken_back_) ++timings_.prompt_chunks;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
        Row& row = rows_[r];
        const auto count = static_cast<std::size_t>(job.counts[r]);
        if (row.sequence == kFree || count == 0) continue;
        const auto from = row.context.begin() + static_cast<std::ptrdiff_t>(row.cached.size());
        row.cached.insert(row.cached.end(), from, from + static_cast<std::ptrdiff_t>(count));
        if (!taken_back_) timings_.prompt_tokens += count;
    }
    if (!taken_back_ || has_unread()) return;
    guesses_.took_check(taken_back_->first, taken_back_->second, guess_seconds_, check_seconds_);
    taken_back_.reset();
}

Result<void> DecoderScript::take_row(std::size_t r, const Job& job, Records& records) {
    Row& row = rows_[r];
    for (std::uint32_t i = 0; i < job.runs && row.sequence != kFree; ++i) {
        VKFORMER_TRY(const auto chosen, records.get(job.first_step + i, r));
        const std::int32_t token = chosen[0];  // what else is read may take the place of `chosen`
        if (log_probs_ && token != kNoChoice) {
            const std::size_t rows = rows_.size();
            const LogProbPlace place = {.step = job.first_step + i, .in_job = i, .first = rows, .row = r, .rows = rows};
            VKFORMER_TRY(StepLogProbs found,
                         read_log_probs(steps_.at(step_kind())->graph.log_probs, records, place, token, *log_probs_));
            results_[row.sequence].log_probs.push_back(std::move(found));
        }
        take_token(row, token);
    }
    return {};
}

/// Hands out a token that was chosen behind the pending one, and frees the row where its sequence ends.
void DecoderScript::take_token(Row& row, std::int32_t token) {
    const Sequence& sequence = sequences_[row.sequence];
    SequenceResult& result = results_[row.sequence];
    const bool is_end = std::ranges::find(sequence.stop_tokens, token) != sequence.stop_tokens.end();
    const bool fits = token != kNoChoice && row.constraint.add(token, is_end);
    result.failure = token == kNoChoice ? no_choice() : row.constraint.failure();
    if (!fits) {
        result.finish = FinishReason::failed;
        row.sequence = kFree;
        return;
    }
    row.cached.push_back(row.pending);
    row.context.push_back(row.pending);
    row.handed_out = row.context.size();
    row.pending = token;
    result.tokens.push_back(token);
    const bool goes_on = !on_token_ || on_token_(row.sequence, token);
    if (is_end)
        result.finish = FinishReason::stop;
    else if (!goes_on)
        result.finish = FinishReason::caller;
    else if (result.failure)
        result.finish = FinishReason::failed;
    else if (row.constraint.is_whole())
        result.finish = FinishReason::stop;
    else if (sequence.max_tokens > 0 && result.tokens.size() == sequence.max_tokens)
        result.finish = FinishReason::length;
    else if (row.cached.size() == options_.context)
        result.finish = FinishReason::context;
    if (result.finish != FinishReason::none) row.sequence = kFree;
}

}  // namespace vkformer::decoding
