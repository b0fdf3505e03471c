// SPDX-License-Identifier: MIT
/// /tokenize and /detokenize, as llama.cpp's server has them.
#pragma once

#include <vector>

#include "serve/model_set.hpp"
#include "serve/router.hpp"

namespace vkformer::serve {

/// `models` outlives them.
std::vector<Route> token_routes(const ModelSet& models, const Limits& limits);

}  // namespace vkformer::serve
