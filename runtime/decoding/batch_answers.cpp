// SPDX-License-Identifier: MIT
/// What a BatchScript makes of what its steps have chosen.
#include <algorithm>
#include <utility>

#include "core/lack_of_memory.hpp"
#include "core/try.hpp"
#include "decoding/batch_script.hpp"
#include "decoding/run_script.hpp"

namespace vkformer::decoding {

Result<void> BatchScript::take_step(const Job& job, Records& records) {
    const Clock::time_point begin = Clock::now();
    counts_.steps += job.runs;
    std::vector<BatchGuesses::Checked> checked;
    for (std::size_t r = 0; r < placed_.size(); ++r) {
        if (placed_[r].ahead > 0) continue;
        Running& running = *placed_[r].sequence;
        const std::size_t before = running.tokens.size(), guesses = running.guess.size();
        VKFORMER_CHECK(take_row(r, job, records));
        const std::size_t tokens = running.tokens.size() - before;
        counts_.guessed_tokens += guesses;
        if (guesses > 0 && tokens > 0) counts_.accepted_tokens += tokens - 1;  // the last one is the check's own
        checked.push_back({&running.guesses, guesses, tokens});
    }
    if (job.kind == Job::Kind::check) written_ = nullptr;  // the states are those of guesses
    measure(job, seconds_since(begin), checked);
    return {};
}

/// Hands out a sequence's tokens, until it ends or a guess was wrong: what was chosen behind that one means nothing.
Result<void> BatchScript::take_row(std::size_t row, const Job& job, Records& records) {
    Running& running = *placed_[row].sequence;
    LogProbPlace place = {
        .step = job.first_step, .in_job = 0, .first = placed_.size(), .row = row, .rows = placed_.size()};
    if (job.kind == Job::Kind::step) {
        for (; place.in_job < job.runs && running.finish == FinishReason::none; ++place.step, ++place.in_job)
            VKFORMER_CHECK(take_token(place, records));
    } else {
        bool is_right = true;
        for (std::size_t i = 0; is_right && running.finish == FinishReason::none; ++i, ++place.row) {
            VKFORMER_CHECK(take_token(place, records));
            is_right = i < running.guess.size() && running.tokens.back() == running.guess[i];
        }
        running.guess.clear();
        pages_.drop_behind(running.pages, running.cached + 1);  // what only wrong guesses needed
    }
    leave_full_pages(running);
    return {};
}

/// Hands out the token that a row has chosen.
Result<void> BatchScript::take_token(const LogProbPlace& place, Records& records) {
    Running& running = *placed_[place.row].sequence;
    const Sequence& asked = running.asked.sequence;
    VKFORMER_TRY(const auto chosen, records.get(place.step, place.row));
    const std::int32_t token = chosen[0];
    const bool is_end = std::ranges::find(asked.stop_tokens, token) != asked.stop_tokens.end();
    running.has_no_choice = token == kNoChoice;
    if (running.has_no_choice || !running.constraint.add(token, is_end)) {
        running.finish = FinishReason::failed;
        return {};
    }
    running.tokens.push_back(token);
    ++running.cached;
    ++counts_.tokens;
    std::optional<StepLogProbs> log_probs;
    if (running.asked.log_probs) {
        VKFORMER_TRY(log_probs,
                     read_log_probs(written_->graph.log_probs, records, place, token, *running.asked.log_probs));
    }
    const bool goes_on = on_token_(running.id, token, log_probs ? &*log_probs : nullptr);
    if (is_end)
        running.finish = FinishReason::stop;
    else if (!goes_on)
        running.finish = FinishReason::caller;
    else if (running.constraint.failure())
        running.finish = FinishReason::failed;
    else if (running.constraint.is_whole())
        running.finish = FinishReason::stop;
    else if (asked.max_tokens > 0 && running.generated() == asked.max_tokens)
        running.finish = FinishReason::length;
    else if (running.cached == options_.context)
        running.finish = FinishReason::context;
    return {};
}

/// Programs but the job's; how many.
std::size_t BatchScript::drop_others(const Job& job) {
    const auto is_other = [&](const auto& known) { return known.second.get() != job.part; };
    return std::erase_if(steps_, is_other) + std::erase_if(chunks_, is_other) +
           scores_.remove_if([&](const Scores& one) { return &one != job.part; });
}

bool BatchScript::pass_over(const Job& job, const Error& error) {
    const bool is_memory = is_lack_of_memory(error.code);
    if (!is_memory || job_seconds_) return false;  // once it was run, some of it may have been taken
    const auto is_failed = [&](const auto& known) { return known.second.get() == job.part; };
    const auto drop_checks = [&] {  // programs of more rows, which give their memory back
        return std::erase_if(steps_, [&](const auto& known) {
            return known.first.rows > std::max(most_checked_rows_, options_.rows) && !is_failed(known);
        });
    };
    if (job.kind == Job::Kind::check) {
        most_checked_rows_ = std::ranges::find_if(steps_, is_failed)->first.rows / 2;
        drop_checks();
    } else {
        // What programs of guesses hold may be what it lacks. Run in part, one run can be repeated: its keys go to the same places.
        // Counts of tokens might be counted again.
        const auto step = std::ranges::find_if(steps_, is_failed);
        const bool adds_up = model_->config().keeps_states() || (step != steps_.end() && step->first.counts);
        if (job.part->program && (job.runs > 1 || adds_up)) return false;
        // Then all that other jobs would need.
        const std::uint32_t checked_rows = std::exchange(most_checked_rows_, 0);
        if (drop_checks() == 0) {
            most_checked_rows_ = checked_rows;
            if (drop_others(job) == 0) return false;
        }
    }
    std::erase_if(steps_, is_failed);  // made in part, at best
    std::erase_if(chunks_, is_failed);
    scores_.remove_if([&](const Scores& one) { return &one == job.part; });
    written_ = nullptr;
    for (const Placed& placed : placed_) {
        placed.sequence->guess.clear();
        pages_.drop_behind(placed.sequence->pages, placed.sequence->cached + 1);
    }
    return true;
}

void BatchScript::took(const Job&, double seconds, double) { job_seconds_ = seconds; }

/// What the job took in all, so that nothing that guesses cost goes unseen.
void BatchScript::measure(const Job& job, double take_seconds, std::span<const BatchGuesses::Checked> checked) {
    Step& step = *static_cast<Step*>(job.part);
    const bool had_run = std::exchange(step.has_run, true);
    const bool was_check = std::exchange(was_check_, job.kind == Job::Kind::check);
    if (!job_seconds_ || options_.guesses == 0) return;
    const double seconds = plan_seconds_ + *job_seconds_ + take_seconds;
    if (job.kind == Job::Kind::check) {
        kind_guesses_->took_check(step_rows_, step.rows, had_run ? std::optional(seconds) : std::nullopt, checked);
        return;
    }
    // Of guesses that were not worth a check, too, and of states that are written anew behind a check.
    const double rewritten = was_check && had_run ? kind_guesses_->longer_than_steps(step.rows, job.runs, seconds) : 0;
    for (const auto& one : checked) {
        one.record->all += seconds;
        one.record->lost += std::max(guess_seconds_, rewritten);
    }
    if (!was_written_) kind_guesses_->took_steps(step.rows, job.runs, seconds - guess_seconds_);
}

}  // namespace vkformer::decoding
