// SPDX-License-Identifier: MIT
/// /v1/embeddings (OpenAI's shape) and /v1/rerank (Jina's, and Cohere's).
#pragma once

#include <vector>

#include "serve/model_set.hpp"
#include "serve/router.hpp"

namespace vkformer::serve {

/// `models` outlives them.
std::vector<Route> encoder_routes(const ModelSet& models, const Limits& limits);

}  // namespace vkformer::serve
