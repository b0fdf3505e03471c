// SPDX-License-Identifier: MIT
/// Which tokens of a vocabulary lead on in a grammar's texts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "constraints/automaton.hpp"
#include "constraints/vocabulary.hpp"

namespace vkformer::constraints {

/// What may follow at a place.
struct AllowedTokens {
    std::vector<std::int32_t> bits;  ///< as of graph::Penalize::allowed, ends included where the text may end
    bool may_end = false;
    bool may_go_on = false;                 ///< there is a token that is no end
    std::vector<Automaton::Position> next;  ///< where the allowed tokens lead, most of them first; not all
};

/// A grammar with a vocabulary: what is found out for one sequence serves all. Thread-safe.
class TokenConstraint {
public:
    TokenConstraint(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const Vocabulary> vocabulary);

    const std::shared_ptr<const Vocabulary>& vocabulary() const noexcept { return vocabulary_; }

private:
    friend class ConstrainedText;
    using Position = Automaton::Position;
    using Allowed = std::shared_ptr<const AllowedTokens>;
    struct Known {
        Allowed allowed;
        std::uint64_t used = 0;
    };

    struct Onward {
        bool is_known = false;
        std::uint8_t kinds = 0;
        Position next = Automaton::kNowhere;
    };

    Result<Allowed> allowed(Position position, bool is_first);
    Result<Position> step(Position position, std::string_view bytes);
    Onward onward(Position position);
    bool all_lead_on(Position position, std::uint8_t kinds, std::size_t characters);
    Result<AllowedTokens> find(Position position, bool is_first);
    bool is_too_much() const noexcept;
    Result<void> check_work() const;
    void make_room();

    std::mutex mutex_;
    std::shared_ptr<const Vocabulary> vocabulary_;
    Automaton automaton_;
    std::map<Position, Known> known_;
    std::vector<Onward> onward_;        // of each position
    Allowed first_;                     // at the beginning, where a space may be dropped
    std::vector<Position*> sequences_;  // where the texts under way stand
    std::uint64_t uses_ = 0;
};

/// One text under its constraint.
class ConstrainedText {
public:
    explicit ConstrainedText(std::shared_ptr<TokenConstraint> constraint);
    ConstrainedText(const ConstrainedText&) = delete;
    ConstrainedText& operator=(const ConstrainedText&) = delete;
    ~ConstrainedText();

    /// The tokens that may follow. Errors: InvalidArgument (none; or finding out is more work than is allowed).
    Result<std::shared_ptr<const AllowedTokens>> allowed();
    /// Errors: InvalidArgument (the token may not follow).
    Result<void> add(std::int32_t token);
    /// Finds out what may follow behind the tokens that may follow now, as far as that is not known: while a device chooses one.
    void look_ahead();

private:
    std::shared_ptr<TokenConstraint> constraint_;
    Automaton::Position position_;
    bool is_first_ = true;
};

}  // namespace vkformer::constraints
