// SPDX-License-Identifier: MIT
/// A sequence's constraint beside what the sequence has become.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "constraints/token_constraint.hpp"

namespace vkformer::decoding {

/// Without a text everything may follow.
class SequenceConstraint {
public:
    explicit SequenceConstraint(std::shared_ptr<constraints::ConstrainedText> text = {}) : text_(std::move(text)) {
        find_allowed();
    }

    explicit operator bool() const noexcept { return static_cast<bool>(text_); }
    /// Why the sequence cannot go on; nothing where it can.
    const std::optional<Error>& failure() const noexcept { return failure_; }
    /// Whether nothing may follow but an end.
    bool is_whole() const noexcept { return allowed_ && !allowed_->may_go_on; }

    /// Takes a token that was chosen. False: it may not follow.
    bool add(std::int32_t token, bool is_end);
    /// What may follow, as graph::Penalize::allowed has it; nullptr: everything.
    const constraints::AllowedTokens* allowed() const noexcept { return allowed_.get(); }
    void look_ahead() const {
        if (text_) text_->look_ahead();
    }

private:
    void find_allowed();

    std::shared_ptr<constraints::ConstrainedText> text_;
    std::shared_ptr<const constraints::AllowedTokens> allowed_;
    std::optional<Error> failure_;
};

/// graph::Penalize::allowed [rows, words of a row]: what the first rows' constraints let follow, and everything where there is none (nullptr)
/// and in further rows.
std::vector<std::int32_t> allowed_tokens(std::span<const SequenceConstraint* const> constraints, std::size_t rows,
                                         std::uint64_t vocab);

}  // namespace vkformer::decoding
