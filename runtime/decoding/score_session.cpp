// SPDX-License-Identifier: MIT
#include "decoding/score_session.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/try.hpp"
#include "decoding/invalid.hpp"

namespace vkformer::decoding {

ScoreSession::ScoreSession(graph::Backend& backend, const models::Decoder& model, const BatchOptions& options,
                           std::shared_ptr<graph::TensorStore> weights)
    : backend_(&backend),
      options_(options),
      stores_(backend, std::move(weights)),
      script_(
          model, options, [](BatchScript::Id, std::int32_t, StepLogProbs*) { return false; },
          [this](BatchScript::Id id, const SequenceResult& result) { ended(id, result); },
          [this](BatchScript::Id id, std::vector<StepLogProbs> text) { told(id, std::move(text)); }) {}

Result<std::unique_ptr<ScoreSession>> ScoreSession::create(graph::Backend& backend, const models::Decoder& model,
                                                           const BatchOptions& options,
                                                           std::shared_ptr<graph::TensorStore> weights) {
    VKFORMER_TRY(const BatchOptions chosen, checked_batch_options(model, options));
    return std::unique_ptr<ScoreSession>(new ScoreSession(backend, model, chosen, std::move(weights)));
}

void ScoreSession::told(BatchScript::Id id, std::vector<StepLogProbs> text) {
    const auto unwanted = static_cast<std::ptrdiff_t>(std::min(asked_[id].first - 1, text.size()));
    found_[id].assign(std::make_move_iterator(text.begin() + unwanted), std::make_move_iterator(text.end()));
}

void ScoreSession::ended(BatchScript::Id id, const SequenceResult& result) {
    if (result.failure && !failure_) failure_ = numbered("text", asked_[id].text, *result.failure);
    ++ended_;
    if (progress_ && result.finish == FinishReason::length) progress_(ended_, found_.size());
}

namespace {

BatchSequence scored(ScoredSequence sequence, std::uint32_t likeliest) {
    return {.sequence = {.prompt = std::move(sequence.tokens), .adapters = std::move(sequence.adapters)},
            .prompt_log_probs = likeliest,
            .is_prompt_alone = true};
}

}  // namespace

/// The next ones come in when there is room for them.
Result<void> ScoreSession::run_all(std::size_t count, const std::function<ScoredSequence(std::size_t)>& sequence,
                                   std::uint32_t likeliest) {
    while (true) {
        VKFORMER_CHECK(backend_->check_wanted());
        if (failure_) return *failure_;
        while (asked_.size() < count && script_.running() + script_.waiting() < options_.rows) {
            const std::size_t id = asked_.size();
            ScoredSequence next = sequence(id);
            asked_.push_back({.text = next.text, .first = next.first});
            script_.add(id, scored(std::move(next), likeliest));
        }
        VKFORMER_TRY(const std::optional<Job> job, script_.next(1));
        if (!job) return {};
        VKFORMER_CHECK(run_job(script_, *job, *backend_, stores_));
    }
}

Result<std::vector<std::vector<StepLogProbs>>> ScoreSession::run(
    std::size_t count, const std::function<ScoredSequence(std::size_t)>& sequence, std::uint32_t likeliest,
    const Progress& progress) {
    for (std::size_t i = 0; i < count; ++i) {
        ScoredSequence one = sequence(i);
        const std::size_t text = one.text;
        if (auto fits = script_.check(scored(std::move(one), likeliest)); !fits)
            return numbered("text", text, std::move(fits).error());
    }
    asked_.clear();
    found_.assign(count, {});
    failure_.reset();
    ended_ = 0;
    progress_ = progress;
    script_.plan_for(backend_->fusions());
    const Result<void> ran = run_all(count, sequence, likeliest);
    progress_ = {};
    for (std::size_t id = 0; id < asked_.size() && !script_.is_idle(); ++id)
        script_.cancel(id);  // where it was cut off
    if (!ran) return ran.error();
    return std::exchange(found_, {});
}

}  // namespace vkformer::decoding
