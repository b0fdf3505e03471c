// SPDX-License-Identifier: MIT
/// Where a text can stand in a grammar: sets of places, each a state with the calls that it is inside of, found as they are needed
/// (Thompson 1968; with stacks that share their beginnings, Tomita 1985).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "constraints/grammar.hpp"

namespace vkformer::constraints {

/// Not thread-safe. Whatever the grammar is, one call of step() looks at kMostPlaces places at most, and at kMostDepth calls inside
/// each other: what nests deeper is not in the language.
class Automaton {
public:
    static constexpr std::size_t kMostPlaces = 4096, kMostDepth = 128;

    using Position = std::uint32_t;          ///< where a text stands; valid until forget()
    static constexpr Position kNowhere = 0;  ///< no text leads on from there, and it is none

    explicit Automaton(std::shared_ptr<const Grammar> grammar);

    Position begin() const noexcept { return begin_; }
    Position step(Position position, std::uint8_t byte) {
        const std::uint32_t known = steps_[position * classes_ + grammar_->class_of(byte)];
        return known != kUnknown ? known : find_step(position, byte);
    }
    bool may_end(Position position) const noexcept { return positions_[position].may_end; }

    /// Positions, and work since reset_work(), as counts of places looked at: bounds are the caller's.
    std::size_t positions() const noexcept { return positions_.size(); }
    std::size_t work() const noexcept { return work_; }
    void reset_work() noexcept { work_ = 0; }
    /// Whether a step since reset_work() had more than kMostPlaces places, and so led nowhere.
    bool was_too_wide() const noexcept { return was_too_wide_; }

    /// Forgets all positions but those of `kept`, which become other numbers for the same, and begin().
    void forget(std::span<Position* const> kept);

private:
    static constexpr std::uint32_t kUnknown = ~std::uint32_t{0};
    using Place = std::uint64_t;  // state << 32 | stack
    using Stack = std::uint32_t;  // 0: no call
    struct Call {
        StateId target;  // where it goes on
        Stack outer;
        std::uint32_t depth;
    };
    struct Located {
        const std::vector<Place>* places;
        bool may_end;
    };

    Position find_step(Position position, std::uint8_t byte);
    Position at(std::vector<Place> places, bool may_end);
    Position closed(std::vector<Place> open);
    Stack push(StateId target, Stack outer);
    Stack copied(Stack stack, const std::vector<Call>& from, std::map<Stack, Stack>& known);

    std::shared_ptr<const Grammar> grammar_;
    std::size_t classes_;
    std::map<std::pair<std::vector<Place>, bool>, Position> known_;
    std::vector<Located> positions_;
    std::vector<Position> steps_;  // of each position, for each class
    std::vector<Call> calls_ = {{0, 0, 0}};
    std::map<std::pair<StateId, Stack>, Stack> known_calls_;
    Position begin_ = kNowhere;
    std::size_t work_ = 0;
    bool was_too_wide_ = false;
};

}  // namespace vkformer::constraints
