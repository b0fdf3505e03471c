// SPDX-License-Identifier: MIT
/// Guesses by a smaller model, for a larger one to check (speculative decoding: Leviathan et al. 2023). Where tokens are drawn, it draws each
/// by the numbers that the larger model draws its own by: the more alike the two distributions, the more often they choose the same
/// token, and what is chosen is what the larger model alone would have chosen.
#pragma once

#include <memory>
#include <optional>

#include "decoding/decoder_script.hpp"
#include "decoding/run_script.hpp"

namespace vkformer::decoding {

/// Not thread-safe. The backend and the model outlive it.
class DraftSession {
public:
    /// `options`: those of the model that checks; what is computed otherwise for it alone (penalties, guesses, adapters) is left out. A
    /// context beyond the draft model's is cut: sequences that grow longer are guessed no further. Errors: InvalidArgument (layers with a
    /// state, a cache format that the heads do not fit), and those of the backend.
    static Result<std::unique_ptr<DraftSession>> create(graph::Backend& backend, const models::Decoder& model,
                                                        const DecoderSessionOptions& options,
                                                        std::shared_ptr<graph::TensorStore> weights = nullptr);
    /// The same by a model with a handover: `shared` has the weights and the states of the session that checks, whose options, given here,
    /// have hands_over.
    static Result<std::unique_ptr<DraftSession>> create(graph::Backend& backend, const models::Decoder& model,
                                                        const DecoderSessionOptions& options, SessionStores shared);

    DraftSession(DraftSession&&) = delete;  // its guesser is of this place

    /// How tokens are drawn from here on. Errors: those of the backend.
    Result<void> set_sample(const graph::SampleOptions& sample);
    /// Finds nothing for a text that is longer than the context or has tokens that the model does not know.
    const Guesser& guesser() const noexcept { return guesser_; }
    /// As of DecoderSession.
    const std::shared_ptr<graph::TensorStore>& weights() const noexcept { return stores_.weights; }
    void clear() noexcept { script_.forget(); }

private:
    DraftSession(graph::Backend& backend, const models::Decoder& model, const DecoderSessionOptions& options,
                 SessionStores stores);
    Result<Guess> guess(Sequence so_far, std::size_t most);
    Result<void> prepare();
    void hand_over(Sequence& so_far);

    graph::Backend* backend_;
    const models::Decoder* model_;
    SessionStores stores_;
    DecoderScript script_;
    StepQueue queue_;
    Guesser guesser_;
    std::int32_t first_token_ = -1;  // of the text that was handed over last
    std::vector<float> adapters_{};  // which it was read with
};

}  // namespace vkformer::decoding
