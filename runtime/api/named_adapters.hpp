// SPDX-License-Identifier: MIT
/// Adapters that are loaded beside a model's weights, and asked for by their names.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/adapter.hpp"
#include "vkformer/adapter.hpp"

namespace vkformer::api {

/// Errors: InvalidArgument (two of one name, or one without), and open_adapter's.
Result<std::vector<models::Adapter>> open_adapters(const std::vector<Adapter>& adapters);
std::vector<std::string> names_of(const std::vector<Adapter>& adapters);

/// A scale of each adapter, which `names` are those of; none where none counts. Errors: InvalidArgument (a name that no adapter has, a scale
/// out of its range).
Result<std::vector<float>> scales_of(const models::AdapterSet& set, const std::vector<std::string>& names,
                                     const std::map<std::string, float>& asked);

}  // namespace vkformer::api
