// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "text/json_field.hpp"
#include "vkformer/result.hpp"

namespace vkformer::text {

/// Puts the special tokens around the ids of one text.
using PostProcessor = std::function<void(std::vector<std::int32_t>&)>;

/// Errors: CorruptFile, UnsupportedConfig (a type that is not implemented, by name).
Result<PostProcessor> read_post_processor(const Field& field);

}  // namespace vkformer::text
