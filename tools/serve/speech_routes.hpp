// SPDX-License-Identifier: MIT
/// /v1/audio/transcriptions and /v1/audio/translations, OpenAI's shape.
#pragma once

#include <vector>

#include "serve/model_set.hpp"
#include "serve/router.hpp"

namespace vkformer::serve {

/// `models` outlives them.
std::vector<Route> speech_routes(const ModelSet& models, const Limits& limits);

}  // namespace vkformer::serve
