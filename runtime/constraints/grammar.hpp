// SPDX-License-Identifier: MIT
/// Languages of bytes, as rules that may call each other: a recursive transition network (Woods 1970). A rule's text leads from its
/// first state to its last; an edge reads a byte, reads nothing, or reads the whole text of a rule.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "vkformer/result.hpp"

namespace vkformer::constraints {

inline Error invalid(std::string message) { return {ErrorCode::InvalidArgument, std::move(message)}; }

using StateId = std::uint32_t;
using RuleId = std::uint32_t;

/// Characters: ranges of code points, both ends included.
using CharacterSet = std::vector<std::pair<char32_t, char32_t>>;
/// In order, without overlap, and without surrogates, which no UTF-8 has.
CharacterSet normalized(CharacterSet set);
/// All characters that are not in `set`, which is normalized.
CharacterSet complement(const CharacterSet& set);

/// Immutable, as GrammarBuilder makes it: without dead ends.
class Grammar {
public:
    struct ByteEdge {
        std::uint8_t first, last;
        StateId target;
    };
    struct Call {
        StateId begin;   // of the rule
        StateId target;  // where it goes on; kNowhere: the caller's rule ends there
    };
    static constexpr StateId kNowhere = ~StateId{0};

    StateId begin() const noexcept { return begin_; }
    std::span<const ByteEdge> bytes(StateId state) const noexcept { return part(bytes_, state, 0); }
    std::span<const StateId> empties(StateId state) const noexcept { return part(empties_, state, 1); }
    std::span<const Call> calls(StateId state) const noexcept { return part(calls_, state, 2); }
    bool ends_rule(StateId state) const noexcept { return ends_[state]; }
    std::size_t states() const noexcept { return ends_.size(); }

    /// Bytes that no edge tells apart have one class.
    std::uint8_t class_of(std::uint8_t byte) const noexcept { return classes_[byte]; }
    std::span<const std::uint8_t> examples() const noexcept { return examples_; }  ///< a byte of each class

private:
    friend class GrammarBuilder;
    template <class T>
    std::span<const T> part(const std::vector<T>& all, StateId state, std::size_t kind) const noexcept {
        const std::uint32_t first = firsts_[state][kind], end = firsts_[state + 1][kind];
        return std::span(all).subspan(first, end - first);
    }

    StateId begin_ = 0;
    std::vector<std::array<std::uint32_t, 3>> firsts_;  // of a state, and one behind the last
    std::vector<ByteEdge> bytes_;
    std::vector<StateId> empties_;
    std::vector<Call> calls_;
    std::vector<bool> ends_;
    std::array<std::uint8_t, 256> classes_{};
    std::vector<std::uint8_t> examples_;
};

/// Makes a grammar piece by piece: the functions that take `from` add what leads on from there, and give the state that follows.
/// What is too large is only noted, and told by finish(): loops over what a text asks for end where is_full().
class GrammarBuilder {
public:
    static constexpr std::size_t kMostStates = 1 << 16, kMostEdges = 1 << 18;

    struct Rule {
        StateId begin, end;
    };
    RuleId add_rule();
    Rule rule(RuleId id) const { return rules_[id]; }

    StateId state();
    void empty(StateId from, StateId to) { add_edge(from, {.kind = Edge::Kind::empty, .target = to}); }
    void bytes(StateId from, std::uint8_t first, std::uint8_t last, StateId to) {
        add_edge(from, {.kind = Edge::Kind::bytes, .first = first, .last = last, .target = to});
    }
    void characters(StateId from, const CharacterSet& set, StateId to);

    StateId literal(StateId from, std::string_view text);
    StateId call(StateId from, RuleId rule);
    /// The rule `least` to `most` times; kForever: any number of times more.
    StateId repeat(StateId from, RuleId rule, std::uint64_t least, std::uint64_t most);
    static constexpr std::uint64_t kForever = ~std::uint64_t{0};
    /// One of the texts, which may begin alike.
    StateId one_of(StateId from, std::vector<std::string> texts);

    /// The texts of a grammar that is there, as a rule.
    RuleId add(const Grammar& grammar);

    bool is_full() const noexcept { return is_full_; }
    /// The texts of `root`. Errors: InvalidArgument (too large, a rule that begins with itself, no text at all).
    Result<std::shared_ptr<const Grammar>> finish(RuleId root) const;

private:
    struct Edge {
        enum class Kind : std::uint8_t { bytes, empty, call };
        Kind kind = Kind::empty;
        std::uint8_t first = 0, last = 0;
        StateId target = 0;
        RuleId rule = 0;
        std::uint32_t next = 0;  // of the same state; 0: none
    };
    struct Utf8 {
        std::array<std::uint8_t, 4> bytes{};
        std::size_t size = 0;
    };
    static Utf8 encoded(char32_t code) noexcept;
    void add_edge(StateId from, Edge edge);
    void add_sequences(StateId from, std::span<const std::uint8_t> first, std::span<const std::uint8_t> last,
                       std::array<StateId, 4>& tails);
    std::vector<bool> reach_end(bool by_bytes) const;
    bool begins_with_itself(const std::vector<bool>& nullable) const;
    StateId skipped(StateId state) const noexcept;

    std::vector<std::uint32_t> states_;   // the first edge of each; 0: none
    std::vector<Edge> edges_ = {Edge{}};  // the first stands for none
    std::vector<Rule> rules_;
    bool is_full_ = false;
};

}  // namespace vkformer::constraints
