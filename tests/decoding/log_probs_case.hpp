// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "models/run_in_pieces.hpp"
#include "support/backends.hpp"

namespace vkformer::tests {

/// Log softmax of the logits behind each of the last `count` tokens, in double precision.
inline std::vector<std::vector<double>> log_probs_of(const models::Decoder& model, std::vector<std::int32_t> tokens,
                                                     std::size_t count) {
    graph::Backend& backend = **std::ranges::find_if(test_backends(), [](auto* b) { return is_double(*b); });
    const auto len = static_cast<std::uint32_t>(tokens.size());
    const std::vector<double> logits = run_in_pieces(model, backend, tokens, 1, DType::f32, {len}).logits;
    const std::size_t vocab = model.config().vocab_size;
    std::vector<std::vector<double>> rows;
    for (std::size_t i = tokens.size() - count; i < tokens.size(); ++i) {
        const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(i * vocab);
        rows.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(vocab));
        double sum = 0;
        for (const double logit : rows.back()) sum += std::exp(logit);
        for (double& logit : rows.back()) logit -= std::log(sum);
    }
    return rows;
}

}  // namespace vkformer::tests
