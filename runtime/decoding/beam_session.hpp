// SPDX-License-Identifier: MIT
/// Beam search with a decoder-only model, on a backend that is waited for.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "decoding/beam_script.hpp"
#include "decoding/decoder_session.hpp"
#include "decoding/run_script.hpp"

namespace vkformer::decoding {

struct BeamResult {
    BeamHypothesis best;
    FinishReason finish = FinishReason::none;
    std::uint32_t reused = 0;  ///< tokens of the prompt that the caches held already
};

/// Continues prompts one by one: token for token what Hugging Face's generate() returns with num_beams (transformers 4.57). Not
/// thread-safe. The backend and the model outlive the session.
class BeamSession {
public:
    /// Errors: InvalidArgument (several rows, a temperature, beams that are none or too many, a context beyond max_positions),
    /// and those of DecoderSession::create.
    static Result<BeamSession> create(graph::Backend& backend, const models::Decoder& model,
                                      const DecoderSessionOptions& options, const BeamRules& rules,
                                      std::shared_ptr<graph::TensorStore> weights = nullptr);

    /// One result per request, in their order; seeds do nothing. Errors: InvalidArgument (an empty or too long prompt, an unknown
    /// token, more stop tokens than a search with so many beams looks for; nothing has run then), and those of the backend.
    Result<std::vector<BeamResult>> run(std::span<const Request> requests);

    const DecoderSessionOptions& options() const noexcept { return script_->options(); }
    /// For other sessions with the same model on the same backend or a twin of it.
    const std::shared_ptr<graph::TensorStore>& weights() const noexcept { return stores_.weights; }
    const BeamRules& rules() const noexcept { return script_->rules(); }
    /// What the last run took.
    const DecoderTimings& timings() const noexcept { return script_->timings(); }
    /// For the next run. Errors: InvalidArgument (a bias of an unknown token).
    Result<void> set_penalties(const Penalties& penalties) { return script_->set_penalties(penalties); }

private:
    BeamSession(graph::Backend& backend, const models::Decoder& model, const DecoderSessionOptions& options,
                const BeamRules& rules, std::shared_ptr<graph::TensorStore> weights);

    graph::Backend* backend_;
    const models::Decoder* model_;
    SessionStores stores_;
    std::unique_ptr<BeamScript> script_;
};

}  // namespace vkformer::decoding
