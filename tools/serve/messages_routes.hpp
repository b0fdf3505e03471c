// SPDX-License-Identifier: MIT
/// /v1/messages and /v1/messages/count_tokens, Anthropic's shape.
#pragma once

#include <vector>

#include "serve/model_set.hpp"
#include "serve/router.hpp"

namespace vkformer::serve {

/// `models` outlives them.
std::vector<Route> messages_routes(const ModelSet& models, const Limits& limits);

}  // namespace vkformer::serve
