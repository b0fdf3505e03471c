// SPDX-License-Identifier: MIT
/// What the server says of itself: /v1/models, /health, /metrics, /openapi.json, and the page.
#pragma once

#include <atomic>
#include <vector>

#include "serve/metrics.hpp"
#include "serve/model_set.hpp"
#include "serve/router.hpp"

namespace vkformer::serve {

/// All outlive them. `is_stopping`: /health says so.
std::vector<Route> service_routes(const ModelSet& models, Metrics& metrics, const std::atomic<bool>& is_stopping);
/// The description of all routes that `router` has by then.
Route openapi_route(const Router& router);

}  // namespace vkformer::serve
