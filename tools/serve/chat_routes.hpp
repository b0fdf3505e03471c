// SPDX-License-Identifier: MIT
/// /v1/chat/completions and /v1/completions, OpenAI's shape.
#pragma once

#include <vector>

#include "serve/model_set.hpp"
#include "serve/router.hpp"
#include "serve/work_thread.hpp"

namespace vkformer::serve {

/// `models` and `thread`, which writes what has log-probabilities, outlive them; the thread is finished before the models go.
std::vector<Route> chat_routes(const ModelSet& models, const Limits& limits, WorkThread& thread);

}  // namespace vkformer::serve
