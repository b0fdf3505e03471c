// SPDX-License-Identifier: MIT
/// How likely a language model finds tokens.
#pragma once

#include <cstdint>
#include <vector>

namespace vkformer {

/// The natural logarithm of a token's probability: log softmax of the model's logits, before biases, penalties, temperature and all
/// other rules of choosing.
struct TokenLogProb {
    std::int32_t token = 0;
    float log_prob = 0;
};

/// Of one step.
struct StepLogProbs {
    TokenLogProb chosen;                  ///< the token that was generated, likely or not
    std::vector<TokenLogProb> likeliest;  ///< in falling order, of equal ones the lower token first
};

}  // namespace vkformer
