// SPDX-License-Identifier: MIT
#include "decoding/beam_session.hpp"

#include <algorithm>
#include <string>

#include "core/try.hpp"

namespace vkformer::decoding {

BeamSession::BeamSession(graph::Backend& backend, const models::Decoder& model, const DecoderSessionOptions& options,
                         const BeamRules& rules, std::shared_ptr<graph::TensorStore> weights)
    : backend_(&backend),
      model_(&model),
      stores_(backend, std::move(weights)),
      script_(std::make_unique<BeamScript>(model, options, rules, std::vector<std::int32_t>(), chunk_lens(options))) {}

Result<BeamSession> BeamSession::create(graph::Backend& backend, const models::Decoder& model,
                                        const DecoderSessionOptions& options, const BeamRules& rules,
                                        std::shared_ptr<graph::TensorStore> weights) {
    VKFORMER_CHECK(model.check_beams());
    VKFORMER_CHECK(check_beams(rules, options));
    VKFORMER_TRY(const DecoderSessionOptions chosen, checked_options(model, options));
    if (chosen.context > model.config().max_positions)
        return Error{ErrorCode::InvalidArgument,
                     "a context of " + std::to_string(chosen.context) + " tokens is beyond the model's original " +
                         std::to_string(model.config().max_positions) + ", where there is no beam search"};
    return BeamSession(backend, model, chosen, rules, std::move(weights));
}

Result<std::vector<BeamResult>> BeamSession::run(std::span<const Request> requests) {
    VKFORMER_CHECK(check_prompts(requests, options(), *model_));
    for (const Request& request : requests) VKFORMER_CHECK(check_ends(rules(), request.stop_tokens.size()));
    script_->reset_timings();
    std::vector<BeamResult> results;
    for (const Request& request : requests) {
        script_->set_ends(request.stop_tokens);
        script_->begin(request);
        StepQueue queue(StepQueue::Growth::by_time, *backend_);
        VKFORMER_CHECK(run_script(*script_, *backend_, stores_, queue));
        const Answer& answer = script_->answer();
        BeamResult& result = results.emplace_back();
        result.best = {.tokens = answer.tokens, .score = script_->score()};
        result.reused = script_->reused();
        const auto& tokens = answer.tokens;
        const bool is_end = std::ranges::count(request.stop_tokens, tokens.back()) > 0;
        result.finish = is_end                                ? FinishReason::stop
                        : tokens.size() == request.max_tokens ? FinishReason::length
                                                              : FinishReason::context;
    }
    return results;
}

}  // namespace vkformer::decoding
