// SPDX-License-Identifier: MIT
/// Generation with a decoder-only model, on a backend that is waited for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "decoding/decoder_options.hpp"
#include "decoding/decoder_script.hpp"
#include "decoding/draft_session.hpp"
#include "decoding/run_script.hpp"
#include "graph/program.hpp"
#include "models/decoder.hpp"

namespace vkformer::decoding {

/// One sequence to continue.
using Request = Sequence;

/// Errors: InvalidArgument (an empty prompt, one longer than the context, a token that the model does not know; says which prompt).
Result<void> check_prompts(std::span<const Request> requests, const DecoderSessionOptions& options,
                           const models::Decoder& model);

/// Not thread-safe. The backend and the model outlive the session.
class DecoderSession {
public:
    /// `weights`: of another session with the model; null: its own. Errors: InvalidArgument (a context beyond the model's, no rows, several
    /// beyond max_positions, a cache format that the heads do not fit, a bias of an unknown token), and those of the backend.
    static Result<DecoderSession> create(graph::Backend& backend, const models::Decoder& model,
                                         const DecoderSessionOptions& options,
                                         std::shared_ptr<graph::TensorStore> weights = nullptr);

    /// Called with every token, in order within a sequence, some steps after it was chosen; false ends the sequence there.
    using OnToken = DecoderScript::OnToken;

    /// Continues the requests, options().rows at a time; the next one takes the row of the first that ends. What a row's
    /// caches hold of a prompt's beginning is not computed again. Results do not depend on which sequences run together, but
    /// for the rounding of other variants. `log_probs` as of DecoderScript::begin. Errors: InvalidArgument (an empty or too long
    /// prompt, an unknown token, more log-probabilities than are told; nothing has run then), and those of the backend.
    Result<std::vector<SequenceResult>> run(std::span<const Request> requests, const OnToken& on_token = {},
                                            std::optional<std::uint32_t> log_probs = {});

    const DecoderSessionOptions& options() const noexcept { return script_->options(); }
    /// For other sessions with the same model on the same backend or a twin of it.
    const std::shared_ptr<graph::TensorStore>& weights() const noexcept { return stores_.weights; }
    /// The same, and states: for the session of a model that guesses by this one's hidden states.
    const SessionStores& stores() const noexcept { return stores_; }
    /// What the last run took.
    const DecoderTimings& timings() const noexcept { return script_->timings(); }
    /// Other rules for the next run. Another set of rules is another program: it is recorded anew, weights and caches stay;
    /// but the first with no_repeat_ngram, and the first without, begin with empty caches.
    /// `guesses` as of DecoderSessionOptions; `drafts`: the draft session's, of which there has to be one. Errors: InvalidArgument (a bias
    /// of an unknown token), those of check_guesses.
    Result<void> set_sampling(const graph::SampleOptions& sample, const Penalties& penalties, std::uint32_t guesses = 0,
                              bool drafts = false);
    /// Whose guesses may be asked for, on the same backend.
    void set_draft(std::unique_ptr<DraftSession> draft) noexcept {
        script_->guess_by(nullptr);
        draft_ = std::move(draft);
    }
    /// Null: none was set.
    const DraftSession* draft() const noexcept { return draft_.get(); }
    /// Forgets what the caches hold.
    void clear() noexcept;

private:
    DecoderSession(graph::Backend& backend, const models::Decoder& model, const DecoderSessionOptions& options,
                   std::shared_ptr<graph::TensorStore> weights)
        : backend_(&backend),
          model_(&model),
          stores_(backend, std::move(weights)),
          script_(std::make_unique<DecoderScript>(model, options, chunk_lens(options))) {}

    graph::Backend* backend_;
    const models::Decoder* model_;
    SessionStores stores_;
    std::unique_ptr<DraftSession> draft_;
    std::unique_ptr<DecoderScript> script_;
};

}  // namespace vkformer::decoding
