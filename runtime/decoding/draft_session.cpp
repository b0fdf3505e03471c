// SPDX-License-Identifier: MIT
#include "decoding/draft_session.hpp"

#include <algorithm>
#include <utility>

#include "core/try.hpp"
#include "decoding/invalid.hpp"

namespace vkformer::decoding {
namespace {

/// Between two guesses mostly one token has to be read that was guessed last and chosen, too.
std::vector<std::uint32_t> draft_chunk_lens(const DecoderSessionOptions& options) {
    std::vector<std::uint32_t> lens = chunk_lens(options);
    lens.insert(lens.begin(), 1);
    return lens;
}

DecoderSessionOptions draft_options(const models::Decoder& model, DecoderSessionOptions options) {
    options.context = std::min(options.context, model.config().max_positions);
    options.penalties = {};
    options.guesses = 0;
    options.adapters = options.masks = options.hands_over = false;
    options.log_probs = {};
    return options;
}

}  // namespace

DraftSession::DraftSession(graph::Backend& backend, const models::Decoder& model, const DecoderSessionOptions& options,
                           SessionStores stores)
    : backend_(&backend),
      model_(&model),
      stores_(std::move(stores)),
      script_(model, options, draft_chunk_lens(options)),
      queue_(StepQueue::Growth::doubling, backend),
      guesser_([this](Sequence so_far, std::size_t most) { return guess(std::move(so_far), most); }) {}

Result<std::unique_ptr<DraftSession>> DraftSession::create(graph::Backend& backend, const models::Decoder& model,
                                                           const DecoderSessionOptions& options,
                                                           std::shared_ptr<graph::TensorStore> weights) {
    return create(backend, model, options, SessionStores(backend, std::move(weights)));
}

Result<std::unique_ptr<DraftSession>> DraftSession::create(graph::Backend& backend, const models::Decoder& model,
                                                           const DecoderSessionOptions& options, SessionStores shared) {
    if (model.config().keeps_states())
        return invalid(
            "a draft model takes wrong guesses back, and layers of this one keep a state of the sequence, which "
            "cannot: name another draft model");
    VKFORMER_TRY(const DecoderSessionOptions chosen, checked_options(model, draft_options(model, options)));
    std::unique_ptr<DraftSession> made(new DraftSession(backend, model, chosen, std::move(shared)));
    VKFORMER_CHECK(made->prepare());
    return made;
}

Result<void> DraftSession::set_sample(const graph::SampleOptions& sample) {
    VKFORMER_CHECK(script_.set_sampling(sample, {}));
    return prepare();
}

/// So that no guess takes the time that a program's making does, or finds that the device has no memory for it.
Result<void> DraftSession::prepare() {
    script_.plan_for(backend_->fusions());
    VKFORMER_TRY(const std::vector<Part*> parts, script_.parts());
    for (Part* const part : parts) VKFORMER_CHECK(compile(*part, *backend_, stores_));
    return {};
}

/// The position of a token is that of the one before it, whose hidden state it is seen with: the first token has none.
void DraftSession::hand_over(Sequence& so_far) {
    std::vector<std::int32_t>& text = so_far.prompt;
    if (text.front() != first_token_ || so_far.adapters != adapters_) script_.forget();  // other hidden states
    first_token_ = text.front();
    adapters_ = so_far.adapters;
    text.erase(text.begin());
}

Result<Guess> DraftSession::guess(Sequence so_far, std::size_t most) {
    const Clock::time_point begin = Clock::now();
    const bool is_handed = bool{model_->weights().handover};
    if (is_handed) hand_over(so_far);
    so_far.adapters.clear();
    const std::size_t len = so_far.prompt.size();
    const auto vocab = static_cast<std::int32_t>(model_->config().vocab_size);
    const bool is_known = std::ranges::all_of(so_far.prompt, [&](std::int32_t token) { return token < vocab; });
    Guess found;
    if (len == 0 || len > script_.options().context || !is_known) return found;
    so_far.max_tokens = static_cast<std::uint32_t>(most);
    script_.begin(std::move(so_far));
    VKFORMER_CHECK(run_script(script_, *backend_, stores_, queue_));
    if (is_handed) script_.forget_behind(len);  // what is behind has seen hidden states of guesses
    const double seconds = seconds_since(begin);
    found.tokens = script_.results()[0].tokens;
    // What was not read with the guesses before: the whole text, mostly.
    constexpr std::uint64_t kUsual = DecoderSessionOptions::kSmallestChunk;
    if (script_.timings().prompt_tokens > kUsual) found.reading_seconds = script_.timings().prompt_seconds;
    found.seconds = seconds - found.reading_seconds;
    return found;
}

}  // namespace vkformer::decoding
