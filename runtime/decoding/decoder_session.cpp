// SPDX-License-Identifier: MIT
#include "decoding/decoder_session.hpp"

#include <string>

#include "core/try.hpp"

namespace vkformer::decoding {

Result<void> check_prompts(std::span<const Request> requests, const DecoderSessionOptions& options,
                           const models::Decoder& model) {
    const auto invalid = [](std::string message) { return Error{ErrorCode::InvalidArgument, std::move(message)}; };
    for (std::size_t i = 0; i < requests.size(); ++i) {
        const std::string name = "prompt " + std::to_string(i + 1);
        const auto& prompt = requests[i].prompt;
        if (prompt.empty()) return invalid(name + " has no tokens");
        if (prompt.size() > options.context)
            return invalid(name + " has " + std::to_string(prompt.size()) + " tokens, the context holds " +
                           std::to_string(options.context));
        const std::uint32_t vocab = model.config().vocab_size;
        for (const std::int32_t token : prompt)
            if (token < 0 || static_cast<std::uint32_t>(token) >= vocab)
                return invalid(name + " has token " + std::to_string(token) + ", the model knows 0 to " +
                               std::to_string(vocab - 1) + "; is the tokenizer the model's?");
        if (!requests[i].adapters.empty()) VKFORMER_CHECK(model.check_adapters(requests[i].adapters));
    }
    return {};
}

Result<DecoderSession> DecoderSession::create(graph::Backend& backend, const models::Decoder& model,
                                              const DecoderSessionOptions& options,
                                              std::shared_ptr<graph::TensorStore> weights) {
    VKFORMER_TRY(const DecoderSessionOptions chosen, checked_options(model, options));
    return DecoderSession(backend, model, chosen, std::move(weights));
}

Result<std::vector<SequenceResult>> DecoderSession::run(std::span<const Request> requests, const OnToken& on_token,
                                                        std::optional<std::uint32_t> log_probs) {
    VKFORMER_CHECK(check_prompts(requests, options(), *model_));
    VKFORMER_CHECK(check_log_probs(log_probs));
    script_->begin({requests.begin(), requests.end()}, on_token, log_probs);
    StepQueue queue(StepQueue::Growth::by_time, *backend_);
    VKFORMER_CHECK(run_script(*script_, *backend_, stores_, queue));
    return script_->results();
}

Result<void> DecoderSession::set_sampling(const graph::SampleOptions& sample, const Penalties& penalties,
                                          std::uint32_t guesses, bool drafts) {
    VKFORMER_CHECK(script_->set_sampling(sample, penalties, guesses));
    if (drafts) VKFORMER_CHECK(draft_->set_sample(sample));
    script_->guess_by(drafts ? &draft_->guesser() : nullptr);
    return {};
}

void DecoderSession::clear() noexcept {
    script_->forget();
    if (draft_) draft_->clear();
}

}  // namespace vkformer::decoding
