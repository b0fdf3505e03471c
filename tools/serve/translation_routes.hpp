// SPDX-License-Identifier: MIT
/// /translate, /languages and /detect, LibreTranslate's shape.
#pragma once

#include <vector>

#include "serve/access.hpp"
#include "serve/model_set.hpp"
#include "serve/router.hpp"

namespace vkformer::serve {

/// `models` and `access` outlive them.
std::vector<Route> translation_routes(const ModelSet& models, const Access& access, const Limits& limits);

}  // namespace vkformer::serve
