// SPDX-License-Identifier: MIT
#include "decoding/sequence_constraint.hpp"

#include <algorithm>

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

void SequenceConstraint::write_allowed(std::span<std::int32_t> row) const {
    if (allowed_) std::ranges::copy(allowed_->bits, row.begin());
}

}  // namespace vkformer::decoding
