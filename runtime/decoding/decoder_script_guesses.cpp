// SPDX-License-Identifier: MIT
// Of a DecoderScript: tokens that somebody guesses, and the check that says how many of them are right.
#include <algorithm>
#include <utility>

#include "core/try.hpp"
#include "decoding/decoder_script.hpp"
#include "decoding/prompt_lookup.hpp"

namespace vkformer::decoding {

void DecoderScript::guess_by(const Guesser* guesser) noexcept {
    if (guesser != guesser_) guesses_ = GuessLedger(guesser != nullptr);
    guesser_ = guesser;
}

/// What is guessed to follow, for the model to check. Nothing where nobody has a guess, or where a wrong one would cost too much.
Result<std::optional<Job>> DecoderScript::next_check() {
    Row& row = rows_[0];
    if (options_.guesses == 0 || !guesses_.allows(options_.guesses) || row.sequence == kFree || extended_ || masks_ ||
        log_probs_)
        return std::optional<Job>();
    const std::uint32_t len = 1 + options_.guesses;
    const std::size_t start = row.context.size(), useful = useful_steps();
    if (useful < 2 || start + len > std::min(options_.context, model_->config().max_positions))
        return std::optional<Job>();
    // The token behind the last guess is one more.
    VKFORMER_CHECK(guess(row, std::min<std::size_t>(options_.guesses, useful - 1)));
    if (guess_.empty()) return std::optional<Job>();

    if (!check_) {
        auto made = std::make_unique<Check>();
        VKFORMER_TRY(made->graph, check_graph(*model_, options_, len));
        made->plan = plan(std::move(made->graph.graph));
        if (made->graph.rules.bias)
            made->constants.push_back(biases_of(options_.penalties, made->graph.rules, model_->config().vocab_size));
        check_ = std::move(made);
    }
    const Sequence& sequence = sequences_[row.sequence];
    std::vector<std::int32_t> tokens = {row.pending}, positions, random;
    tokens.insert(tokens.end(), guess_.begin(), guess_.end());
    tokens.resize(len, row.pending);
    for (std::size_t i = 0; i < len; ++i) {
        positions.push_back(static_cast<std::int32_t>(start + i));
        add_random(sequence, draws(sequence, start + i), random);
    }
    Job job = {.kind = Job::Kind::check, .part = check_.get()};
    job.writes.push_back({check_->graph.tokens, std::move(tokens)});
    job.writes.push_back({check_->graph.starts, {static_cast<std::int32_t>(start)}});
    job.writes.push_back({check_->graph.positions, std::move(positions)});
    if (check_->graph.random) job.writes.push_back({check_->graph.random, std::move(random)});
    if (check_->graph.adapters) job.writes.push_back({check_->graph.adapters, adapter_words()});
    if (check_->graph.slots) {
        job.writes.push_back({check_->graph.counts, {static_cast<std::int32_t>(1 + guess_.size())}});
        job.writes.push_back({check_->graph.slots, {row.slot, row.spare}});
    }
    return std::optional(std::move(job));
}

Result<void> DecoderScript::guess(const Row& row, std::size_t most) {
    std::vector<std::int32_t> text = row.context;
    text.push_back(row.pending);
    if (!guesser_) {
        guess_ = look_up(text, most);
        guess_seconds_ = 0;
        return {};
    }
    const Sequence& sequence = sequences_[row.sequence];
    Sequence so_far = {.prompt = std::move(text), .seed = sequence.seed, .adapters = row.adapters};
    so_far.answered = static_cast<std::uint32_t>(draws(sequence, row.context.size()));
    VKFORMER_TRY(Guess found, (*guesser_)(std::move(so_far), guesses_.best_count(most)));
    guess_ = std::move(found.tokens);
    // Whoever guesses may know more tokens than the model.
    const auto vocab = static_cast<std::int32_t>(model_->config().vocab_size);
    guess_.erase(std::ranges::find_if(guess_, [&](std::int32_t token) { return token < 0 || token >= vocab; }),
                 guess_.end());
    guess_seconds_ = found.seconds;
    timings_.decode_seconds += found.seconds + found.reading_seconds;
    // Without the whole text, which has to be read once, nothing can be guessed.
    if (std::exchange(has_guessed_, true)) guesses_.took_nothing(found.reading_seconds);
    if (guess_.empty()) guesses_.took_nothing(found.seconds);
    return {};
}

/// Of layers with states, those before the check go on, unless all that it has read was right.
void DecoderScript::take_back(Row& row, std::size_t start, std::size_t guesses, std::size_t taken) {
    if (taken == guesses + 1) {
        std::swap(row.slot, row.spare);
        row.seen = row.context.size();
        return;
    }
    row.cached.resize(start);
    row.handed_out = row.seen = start;
    if (row.sequence != kFree) taken_back_ = {guesses, taken};
}

/// What was chosen behind the last right guess is a token like any other; behind a wrong one nothing counts.
Result<void> DecoderScript::take_check(Records& records) {
    Row& row = rows_[0];
    VKFORMER_TRY(const auto chosen, records.get(0, 0));
    const std::vector<std::int32_t> guess = std::exchange(guess_, {});
    timings_.guessed_tokens += guess.size();
    const std::size_t start = row.context.size();
    std::size_t taken = 0;
    bool is_right = true;
    while (is_right && row.sequence != kFree) {
        is_right = taken < guess.size() && chosen[taken] == guess[taken];
        take_token(row, chosen[taken++]);
    }
    timings_.accepted_tokens += taken - 1;  // the last one is the check's own
    if (check_->graph.slots) take_back(row, start, guess.size(), taken);
    if (!taken_back_) guesses_.took_check(guess.size(), taken, guess_seconds_, check_seconds_);
    has_new_rows_ = true;  // the states of the step know nothing of this
    return {};
}

/// Hands out a row's tokens.

}  // namespace vkformer::decoding
