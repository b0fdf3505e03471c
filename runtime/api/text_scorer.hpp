// SPDX-License-Identifier: MIT
/// How likely a language model finds texts, in windows where they are long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "api/language_model.hpp"
#include "decoding/score_session.hpp"

namespace vkformer::api {

/// Tokens of a text that are read together.
struct ScoreWindow {
    std::size_t begin = 0, end = 0;
    std::size_t first = 1;  ///< the token from which on this window tells, which is not the first that it reads
};
/// Of a text of so many tokens, one at least, for a context of two and more. `head`: tokens at the text's beginning that every window
/// reads, below context − 1; `stride`: from the beginning of one window to that of the next, 1 to context − head − 1.
std::vector<ScoreWindow> score_windows(std::size_t tokens, std::size_t head, std::size_t context, std::size_t stride);

/// Has caches of its own from the first call on, as long as the texts need. Backend and model outlive it.
class TextScorer {
public:
    /// `options`: of the session that has the weights, but for the context, which is within the model's own positions.
    TextScorer(graph::Backend& backend, const LanguageModel& language, const decoding::DecoderSessionOptions& options,
               std::shared_ptr<graph::TensorStore> weights);

    /// As of Generator::score_tokens. `head`: what every window of a text begins with that does so itself.
    Result<std::vector<TextScores>> score(std::span<const std::vector<std::int32_t>> texts,
                                          std::span<const std::int32_t> head, const ScoreOptions& asked,
                                          const decoding::ScoreSession::Progress& progress);

private:
    Result<decoding::ScoreSession*> session(std::size_t longest);

    graph::Backend* backend_;
    const LanguageModel* language_;
    decoding::BatchOptions options_;  // context: the longest that there may be
    std::shared_ptr<graph::TensorStore> weights_;
    std::unique_ptr<decoding::ScoreSession> session_;
};

}  // namespace vkformer::api
