// SPDX-License-Identifier: MIT
#include "decoding/score_session.hpp"

#include <string>
#include <utility>

#include "core/try.hpp"

namespace vkformer::decoding {
namespace {

Error of_text(std::size_t index, Error error) {
    error.message = "text " + std::to_string(index + 1) + ": " + error.message;
    return error;
}

}  // namespace

ScoreSession::ScoreSession(graph::Backend& backend, const models::Decoder& model, const BatchOptions& options,
                           std::shared_ptr<graph::TensorStore> weights)
    : backend_(&backend),
      options_(options),
      stores_(backend, std::move(weights)),
      script_(
          model, options, [](BatchScript::Id, std::int32_t, StepLogProbs*) { return false; },
          [this](BatchScript::Id id, const SequenceResult& result) { ended(id, result); },
          [this](BatchScript::Id id, std::vector<StepLogProbs> text) { found_[id] = std::move(text); }) {}

Result<std::unique_ptr<ScoreSession>> ScoreSession::create(graph::Backend& backend, const models::Decoder& model,
                                                           const BatchOptions& options,
                                                           std::shared_ptr<graph::TensorStore> weights) {
    VKFORMER_TRY(const BatchOptions chosen, checked_batch_options(model, options));
    if (!weights) weights = backend.make_store();
    return std::unique_ptr<ScoreSession>(new ScoreSession(backend, model, chosen, std::move(weights)));
}

void ScoreSession::ended(BatchScript::Id id, const SequenceResult& result) {
    if (result.failure && !failure_) failure_ = of_text(text_of_[id], *result.failure);
    ++ended_;
    if (progress_ && result.finish == FinishReason::length) progress_(ended_, found_.size());
}

Result<std::vector<std::vector<StepLogProbs>>> ScoreSession::run(std::vector<ScoredSequence> sequences,
                                                                 std::uint32_t likeliest, const Progress& progress) {
    std::vector<BatchSequence> asked;
    text_of_.clear();
    for (ScoredSequence& one : sequences) {
        asked.push_back({.sequence = {.prompt = std::move(one.tokens), .adapters = std::move(one.adapters)},
                         .prompt_log_probs = likeliest,
                         .is_prompt_alone = true});
        text_of_.push_back(one.text);
        if (auto fits = script_.check(asked.back()); !fits) return of_text(one.text, std::move(fits).error());
    }
    found_.assign(asked.size(), {});
    failure_.reset();
    ended_ = 0;
    progress_ = progress;
    for (std::size_t i = 0; i < asked.size(); ++i) script_.add(i, std::move(asked[i]));
    StepQueue queue(StepQueue::Growth::by_time);
    const Result<void> ran = run_script(script_, *backend_, stores_, queue);
    progress_ = {};
    for (std::size_t i = 0; !script_.is_idle(); ++i) script_.cancel(i);  // where the run was cut off
    if (!ran) return ran.error();
    if (failure_) return *failure_;
    return std::exchange(found_, {});
}

}  // namespace vkformer::decoding
