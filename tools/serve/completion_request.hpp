// SPDX-License-Identifier: MIT
/// What /v1/chat/completions and /v1/completions are asked, OpenAI's shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "serve/generation.hpp"
#include "serve/model_set.hpp"
#include "serve/router.hpp"
#include "serve/text_model.hpp"
#include "serve/tools.hpp"

namespace vkformer::serve {

struct CompletionRequest {
    bool is_chat = true;
    TextModel* model = nullptr;
    std::string name{};  // as the client called it
    std::vector<std::vector<std::int32_t>> prompts;
    std::vector<std::string> echoed;  // texts of the prompts; empty: they are not part of the answers
    bool is_prompt_alone = false;     // nothing is generated: a prompt's choices are alike
    GenerateOptions options;
    Tools tools;
    std::size_t choices = 1;
    bool streams = false, has_usage = false;

    std::size_t requests_per_prompt() const noexcept { return is_prompt_alone ? 1 : choices; }
    /// A prompt's tokens are asked about once, whatever comes of it.
    std::vector<GenerationRequest> requests() const;
};

/// Both throw Refusal and NotYet, as ModelSet::get does; 400 for a field that is wrong or not understood.
CompletionRequest read_chat_completion(const ModelSet& models, const Call& call);
CompletionRequest read_completion(const ModelSet& models, const Call& call);

}  // namespace vkformer::serve
