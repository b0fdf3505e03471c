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
    TokenLogProb chosen{};                  ///< the token that was generated, likely or not
    std::vector<TokenLogProb> likeliest{};  ///< in falling order, of equal ones the lower token first
};

/// How likely a model finds a text that is given.
struct TextScores {
    std::vector<std::int32_t> tokens{};  ///< as the model reads or writes them, special ones included
    /// Of each of `tokens` but the first, before which there is nothing: `chosen` is that token.
    std::vector<StepLogProbs> log_probs{};

    /// Σ log p, of the text as a whole.
    double sum() const noexcept {
        double sum = 0;
        for (const StepLogProbs& step : log_probs) sum += double{step.chosen.log_prob};
        return sum;
    }
};

}  // namespace vkformer
