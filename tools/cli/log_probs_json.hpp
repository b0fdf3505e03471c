// SPDX-License-Identifier: MIT
#pragma once

#include <nlohmann/json.hpp>

#include "vkformer/log_probs.hpp"

namespace vkformer::cli {

/// −∞, for what is impossible, is null.
inline nlohmann::json json_of(const TokenLogProb& one) { return {{"token", one.token}, {"log_prob", one.log_prob}}; }

inline nlohmann::json json_of(const StepLogProbs& step) {
    nlohmann::json told = json_of(step.chosen);
    told["likeliest"] = nlohmann::json::array();
    for (const TokenLogProb& other : step.likeliest) told["likeliest"].push_back(json_of(other));
    return told;
}

}  // namespace vkformer::cli
