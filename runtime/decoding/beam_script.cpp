// SPDX-License-Identifier: MIT
#include "decoding/beam_script.hpp"

#include <string>

#include "core/try.hpp"

namespace vkformer::decoding {

Result<void> BeamScript::set_penalties(const Penalties& penalties) {
    if (penalties == options_.penalties) return {};
    VKFORMER_CHECK(check_penalties(penalties, model_->config().vocab_size));
    if (penalties.asks_sequences() != options_.penalties.asks_sequences()) {
        chunks_.clear();  // those that are there keep no sequences, or some that nobody asks for
        spread_.reset();
        forget();
    }
    options_.penalties = penalties;
    step_.reset();
    return {};
}

void BeamScript::set_ends(std::vector<std::int32_t> ends) {
    if (ends != ends_) step_.reset();
    ends_ = std::move(ends);
}

Result<std::uint32_t> BeamScript::room_for(std::span<const std::int32_t> prompt) const {
    VKFORMER_CHECK(check_tokens(prompt, model_->config().vocab_size));
    if (prompt.size() <= options_.context) return options_.context - static_cast<std::uint32_t>(prompt.size()) + 1;
    return Error{ErrorCode::InvalidArgument, "the prompt has " + std::to_string(prompt.size()) +
                                                 " tokens, the context holds " + std::to_string(options_.context)};
}

void BeamScript::begin(Sequence sequence) {
    sequence_ = std::move(sequence);
    const auto room = static_cast<std::uint32_t>(options_.context - sequence_.prompt.size() + 1);
    max_steps_ = sequence_.max_tokens > 0 ? std::min(sequence_.max_tokens, room) : room;
    if (const bool adapts = always_adapts_ || !sequence_.adapters.empty(); adapts != options_.adapters) {
        options_.adapters = adapts;
        step_.reset();
    }
    if (cached_adapters_ != sequence_.adapters) {
        forget();
        cached_adapters_ = sequence_.adapters;
    }
    const std::size_t known =
        static_cast<std::size_t>(std::ranges::mismatch(context(), cached_).in1 - context().begin());
    cached_.resize(known);
    reused_ = static_cast<std::uint32_t>(known);
    handed_out_ = known;
    hands_out_spread_ = is_spread_ || context().empty();
    handed_steps_ = 0;
    answer_ = {};
    is_running_ = true;
    is_done_ = false;
}

std::uint32_t BeamScript::prompt_read() const noexcept {
    return static_cast<std::uint32_t>(std::min(cached_.size(), sequence_.prompt.size()));
}

Result<BeamScript::Spread*> BeamScript::spread() {
    if (spread_) return spread_.get();
    auto made = std::make_unique<Spread>();
    VKFORMER_TRY(made->graph, spread_graph(*model_, options_, rules_));
    made->plan = plan(std::move(made->graph.graph));
    spread_ = std::move(made);
    return spread_.get();
}

Result<BeamScript::Step*> BeamScript::step() {
    if (step_) return step_.get();
    auto made = std::make_unique<Step>();
    const auto further_ends = std::span(ends_).subspan(ends_.empty() ? 0 : 1);
    VKFORMER_TRY(made->graph, beam_step_graph(*model_, options_, rules_, ends_.empty() ? -1 : ends_.front(),
                                              static_cast<std::uint32_t>(further_ends.size())));
    made->plan = plan(std::move(made->graph.graph));
    const BeamLayout layout = {.beams = rules_.beams, .history = options_.context, .further_ends = further_ends.size()};
    made->choice.emplace(made->graph.states, layout, further_ends);
    const std::uint32_t vocab = model_->config().vocab_size;
    if (made->graph.rules.bias) made->constants.push_back(biases_of(options_.penalties, made->graph.rules, vocab));
    if (made->graph.vocab_lengths) made->constants.push_back({made->graph.vocab_lengths, rows(vocab)});
    step_ = std::move(made);
    return step_.get();
}

Result<std::vector<Part*>> BeamScript::parts() {
    VKFORMER_TRY(std::vector<Part*> parts, chunks_.parts(options_, false, fusions()));
    VKFORMER_TRY(Spread* const middle, spread());
    VKFORMER_TRY(Step* const last, step());
    parts.push_back(middle);
    parts.push_back(last);
    return parts;
}

Result<Job> BeamScript::next_chunk() {
    const std::size_t begun[] = {handed_out_};
    const std::span<const std::int32_t> rest[] = {context().subspan(handed_out_)};
    VKFORMER_TRY(Job job, chunks_.job(options_, false, begun, rest, fusions(), {}, adapter_words(1)));
    handed_out_ = std::min(handed_out_ + job.len, context().size());
    is_spread_ = hands_out_spread_ = false;  // even where the job never runs to its end
    return job;
}

Result<std::optional<Job>> BeamScript::next(std::uint32_t most) {
    if (!is_running_) return std::optional<Job>();
    if (handed_out_ < context().size()) {
        VKFORMER_TRY(Job job, next_chunk());
        return std::optional(std::move(job));
    }
    if (!hands_out_spread_) {  // all of it, for the chunk that ends it may have filled up the second row's beginning
        VKFORMER_TRY(Spread* const made, spread());
        Job job = {.kind = Job::Kind::spread, .part = made};
        job.writes.push_back({made->graph.parents, rows(0)});
        job.writes.push_back({made->graph.lengths, rows(context().size())});
        hands_out_spread_ = true;
        return std::optional(std::move(job));
    }
    if (handed_steps_ == max_steps_) return std::optional<Job>();
    VKFORMER_TRY(Step* const made, step());
    Job job = {.part = made, .runs = std::min(most, max_steps_ - handed_steps_), .first_step = handed_steps_};
    if (handed_steps_ == 0) begin_search(*made, job.writes);
    handed_steps_ += job.runs;
    return std::optional(std::move(job));
}

/// All rows read the prompt's last token; the first step draws from the first row only.
void BeamScript::begin_search(Step& step, std::vector<Write>& writes) const {
    const RuleTensors& rules = step.graph.rules;
    const std::size_t last = context().size();
    step.choice->begin({.tokens = std::span(sequence_.prompt).last(1),
                        .position = static_cast<std::int32_t>(last),
                        .max_steps = max_steps_},
                       writes);
    writes.push_back({step.graph.shared, rows(last)});
    if (step.graph.adapters) writes.push_back({step.graph.adapters, adapter_words(rules_.beams)});
    if (rules.begins) writes.push_back({rules.begins, rows(sequence_.prompt.size() - sequence_.answered)});
    if (rules.countdown)
        writes.push_back({rules.countdown, std::vector(rules_.beams, 1 - static_cast<std::int32_t>(max_steps_))});
    if (!rules.counts) return;
    const std::size_t vocab = model_->config().vocab_size;
    std::vector<std::int32_t> counts(rules_.beams * vocab, 0);
    for (std::size_t row = 0; row < rules_.beams; ++row)
        count_prompt(sequence_, std::span(counts).subspan(row * vocab, vocab));
    writes.push_back({rules.counts, std::move(counts)});
}

void BeamScript::took(const Job& job, double seconds, double run_seconds) {
    if (job.kind == Job::Kind::step) {
        timings_.decode_seconds += run_seconds;
        timings_.decode_steps += job.runs;
        return;
    }
    timings_.prompt_seconds += seconds;
    if (job.kind == Job::Kind::prompt) chunks_.took(job, options_.chunk_seconds, run_seconds);
}

Result<void> BeamScript::take(const Job& job, Records& records) {
    if (job.kind == Job::Kind::prompt) {
        const auto rest = context().subspan(cached_.size());
        const auto read = rest.first(std::min<std::size_t>(rest.size(), job.len));
        cached_.insert(cached_.end(), read.begin(), read.end());
        ++timings_.prompt_chunks;
        timings_.prompt_tokens += read.size();
        return {};
    }
    is_spread_ = true;
    if (job.kind == Job::Kind::spread || !is_running_) return {};
    cached_ = sequence_.prompt;  // the first step has appended its last token to every row
    const std::uint32_t last = job.first_step + job.runs;
    const auto is_over = step_->choice->take(job.first_step, last, max_steps_, records, {&answer_, 1});
    if (is_over && !*is_over) return {};
    is_running_ = false;
    is_done_ = true;
    return is_over ? Result<void>() : Result<void>(is_over.error());
}

}  // namespace vkformer::decoding
