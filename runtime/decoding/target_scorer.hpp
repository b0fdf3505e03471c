// SPDX-License-Identifier: MIT
/// How likely an encoder–decoder model finds targets that are given, on a backend that is waited for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "decoding/log_probs.hpp"
#include "decoding/recent_programs.hpp"
#include "models/encoder_decoder.hpp"

namespace vkformer::decoding {

/// Borrows the tokens.
struct ScoredTarget {
    std::span<const std::int32_t> source;
    std::span<const std::int32_t> target;  ///< what the decoder begins with comes first
};

/// One forward pass for as many as fit, of like lengths; programs are RecentPrograms. Not thread-safe. Backend and model outlive it.
class TargetScorer {
public:
    /// Shares its weights with whoever has the store.
    TargetScorer(graph::Backend& backend, const models::EncoderDecoder& model, DType dtype,
                 models::WeightFormat weights, std::shared_ptr<graph::TensorStore> store)
        : backend_(&backend), model_(&model), dtype_(dtype), weights_(weights), programs_(backend, std::move(store)) {}

    using Progress = std::function<void(std::size_t done, std::size_t total)>;

    /// Of each target the log-probabilities of its tokens but the first, with so many of the likeliest, at most kMostLikeliest. Requires tokens
    /// that the model knows, one at least of source and target, and no more than it takes. Errors: InvalidArgument (more of the likeliest, a
    /// target whose logits are more than 2^28),
    /// NotANumber (says which text, counted from 1), those of the backend; Cancelled.
    Result<std::vector<std::vector<StepLogProbs>>> run(std::span<const ScoredTarget> texts, std::uint32_t likeliest,
                                                       const Progress& progress = {});

private:
    struct Kind {
        std::uint32_t batch = 1, source_len = 1, target_len = 1, likeliest = 0;
        friend bool operator==(const Kind&, const Kind&) = default;
    };
    struct Pass {
        graph::Graph graph;
        graph::Value source_tokens, source_lengths, target_tokens;
        GivenLogProbs given;
    };
    using Programs = RecentPrograms<Kind, Pass, 3>;  // each has logits of its own

    Result<Pass> pass(const Kind& kind) const;
    Result<void> run_batch(const Programs::Prepared& prepared, std::span<const ScoredTarget> texts,
                           std::span<const std::size_t> chosen, std::uint32_t likeliest,
                           std::vector<std::vector<StepLogProbs>>& results) const;

    graph::Backend* backend_;
    const models::EncoderDecoder* model_;
    DType dtype_;
    models::WeightFormat weights_;
    Programs programs_;
};

}  // namespace vkformer::decoding
