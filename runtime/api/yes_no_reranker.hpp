// SPDX-License-Identifier: MIT
/// Language models that answer whether a document fits a query, and are scored by how likely their "yes" is: Qwen3-Reranker (Zhang et al.
/// 2025).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "models/encoder.hpp"
#include "models/open_model.hpp"

namespace vkformer::api {

/// How a query and a document become one text. Prefix and suffix may spell special tokens and are never cut; between them is
/// before + query + between + document, where what is spelled like a special token is text, and whose end is cut.
struct PairPrompt {
    std::string prefix, before, between, suffix;
};

struct YesNoReranker {
    models::Encoder encoder;  ///< of one label, logit("yes") − logit("no") behind the last token
    PairPrompt prompt;
    std::uint32_t max_length = 0;  ///< tokens of a pair at most, the prompt's too; 0: nothing is said
};

/// A Qwen 3, whose folder may also be one of sentence-transformers with a LogitScore of these tokens. Errors: UnsupportedConfig (another
/// language model; a LogitScore of other tokens or with another instruction; a tokenizer without them), and the model's.
Result<YesNoReranker> load_yes_no_reranker(const models::Opened<models::Decoder>& opened);

}  // namespace vkformer::api
