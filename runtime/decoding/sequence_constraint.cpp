// SPDX-License-Identifier: MIT
#include "decoding/sequence_constraint.hpp"

#include <algorithm>

#include "graph/ops.hpp"

namespace vkformer::decoding {

bool SequenceConstraint::add(std::int32_t token, bool is_end) {
    if (!text_) return true;
    if (auto fits = text_->add(token); !fits) {
        failure_ = std::move(fits).error();
        return false;
    }
    if (!is_end) find_allowed();
    return true;
}

void SequenceConstraint::find_allowed() {
    if (!text_) return;
    if (auto found = text_->allowed())
        allowed_ = *std::move(found);
    else
        failure_ = std::move(found).error();
}

std::vector<std::int32_t> allowed_tokens(std::span<const SequenceConstraint* const> constraints, std::size_t rows,
                                         std::uint64_t vocab) {
    const auto words = static_cast<std::ptrdiff_t>(graph::allowed_words(vocab));
    std::vector<std::int32_t> bits(rows * static_cast<std::size_t>(words), -1);
    auto row = bits.begin();
    for (const SequenceConstraint* constraint : constraints) {
        if (constraint && constraint->allowed()) std::ranges::copy(constraint->allowed()->bits, row);
        row += words;
    }
    return bits;
}

}  // namespace vkformer::decoding
