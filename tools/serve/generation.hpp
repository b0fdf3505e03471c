// SPDX-License-Identifier: MIT
/// One request's generations, side by side, from the engine to its reply.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "serve/router.hpp"
#include "serve/text_model.hpp"

namespace vkformer::serve {

/// What becomes of them; told on the engine's thread, by the number of the
/// generation.
struct GenerationSteps {
    /// Before the first token, where GenerationRequest::prompt_log_probs asked.
    std::function<void(std::size_t index, std::span<const StepLogProbs> log_probs)> on_prompt;
    /// Before the token's piece of text, where GenerateOptions::log_probs asked.
    std::function<void(std::size_t index, const StepLogProbs& log_probs)> on_log_probs;
    /// A piece of text; may be empty at first. False: nobody reads it.
    std::function<bool(std::size_t index, std::string_view text)> on_text;
    std::function<void(std::size_t index, const Generation& generation)> on_end;
    std::function<void(const std::vector<Generation>& all)> on_all;
    std::function<void(const Refusal& refusal)> on_error;  ///< once, in place of on_all; on any thread
};

/// Puts them before the engine; a client that goes takes them along. So many as `choices` lie behind each other that
/// have one prompt. Where the first of them asks for its prompt's log-probabilities, the others, which do not, follow
/// once these are told.
void generate(TextModel& model, const Call& call, std::vector<GenerationRequest> requests, GenerationSteps steps,
              std::size_t choices = 1);

}  // namespace vkformer::serve
