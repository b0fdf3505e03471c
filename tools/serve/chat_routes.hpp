// SPDX-License-Identifier: MIT
/// /v1/chat/completions and /v1/completions, OpenAI's shape.
#pragma once

#include <vector>

#include "serve/model_set.hpp"
#include "serve/router.hpp"

namespace vkformer::serve {

/// `models` outlives them.
std::vector<Route> chat_routes(const ModelSet& models, const Limits& limits);

}  // namespace vkformer::serve
