// SPDX-License-Identifier: MIT
/// /v1/responses, OpenAI's shape: its text, nothing kept.
#pragma once

#include <vector>

#include "serve/model_set.hpp"
#include "serve/router.hpp"

namespace vkformer::serve {

/// `models` outlives them.
std::vector<Route> responses_routes(const ModelSet& models, const Limits& limits);

}  // namespace vkformer::serve
