// SPDX-License-Identifier: MIT
#include <algorithm>

#include "cpu/rows.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {

// counts[row, token] says what a row has of a token: see graph::kInPrompt. tokens: [rows] or [rows, len], of which lengths[row] count, or all;
// one outside the vocabulary is passed over.
template <std::floating_point T>
void execute(const graph::CountTokens& op, const Operands<T>& operands) {
    const std::span<const std::int32_t> tokens = operands.ints(op.tokens), lengths = operands.ints(op.lengths);
    const std::size_t rows = operands.dim(op.tokens, 0), len = tokens.size() / rows;
    for (std::size_t row = 0; row < rows; ++row) {
        const std::span<std::int32_t> counts = operands.ints(op.counts, row);
        const auto length = lengths.empty() ? len : static_cast<std::size_t>(std::max(lengths[row], 0));
        for (const std::int32_t token : row_of(tokens, row, len).first(std::min(length, len))) {
            if (token < 0 || static_cast<std::size_t>(token) >= counts.size()) continue;
            std::int32_t& count = counts[static_cast<std::size_t>(token)];
            if (op.origin == graph::TokenOrigin::prompt)
                count |= graph::kInPrompt;
            else
                ++count;
        }
    }
}
template void execute(const graph::CountTokens&, const Operands<float>&);
template void execute(const graph::CountTokens&, const Operands<double>&);

ErrorRule error_rule(const graph::CountTokens&, const graph::Graph&) { return kExact; }

}  // namespace vkformer::cpu
