// SPDX-License-Identifier: MIT
#include "formats/expect.hpp"

#include <nlohmann/json.hpp>

namespace vkformer::formats {

std::string shown(double value) { return nlohmann::json(value).dump(); }

}  // namespace vkformer::formats
