// SPDX-License-Identifier: MIT
#include "constraints/grammar.hpp"

#include <algorithm>
#include <map>
#include <string>

namespace vkformer::constraints {
namespace {

constexpr char32_t kLastCharacter = 0x10FFFF, kBeforeSurrogates = 0xD7FF, kBehindSurrogates = 0xE000;

}  // namespace

CharacterSet complement(const CharacterSet& set) {
    CharacterSet rest;
    char32_t next = 0;
    for (const auto& [first, last] : set) {
        if (first > next) rest.emplace_back(next, first - 1);
        next = last + 1;
    }
    if (next <= kLastCharacter) rest.emplace_back(next, kLastCharacter);
    return normalized(std::move(rest));
}

CharacterSet normalized(CharacterSet set) {
    std::ranges::sort(set);
    CharacterSet joined;
    const auto add = [&](char32_t first, char32_t last) {
        if (first > last) return;
        if (!joined.empty() && first <= joined.back().second + 1)
            joined.back().second = std::max(joined.back().second, last);
        else
            joined.emplace_back(first, last);
    };
    for (const auto& [first, last] : set) {
        add(first, std::min(last, kBeforeSurrogates));
        add(std::max(first, kBehindSurrogates), std::min(last, kLastCharacter));
    }
    return joined;
}

// ---- building -------------------------------------------------------------------------------------------------------

RuleId GrammarBuilder::add_rule() {
    const StateId begin = state(), end = state();
    rules_.push_back({begin, end});
    return static_cast<RuleId>(rules_.size() - 1);
}

StateId GrammarBuilder::state() {
    if (states_.size() == kMostStates) {
        is_full_ = true;
        return 0;
    }
    states_.push_back(0);
    return static_cast<StateId>(states_.size() - 1);
}

void GrammarBuilder::add_edge(StateId from, Edge edge) {
    if (edges_.size() == kMostEdges) is_full_ = true;
    if (is_full_) return;
    edge.next = states_[from];
    states_[from] = static_cast<std::uint32_t>(edges_.size());
    edges_.push_back(edge);
}

GrammarBuilder::Utf8 GrammarBuilder::encoded(char32_t code) noexcept {
    const auto continuation = [&](unsigned shift) { return static_cast<std::uint8_t>(0x80 | (code >> shift & 0x3F)); };
    const auto lead = [&](unsigned shift, unsigned mark) { return static_cast<std::uint8_t>(mark | code >> shift); };
    if (code < 0x80) return {{static_cast<std::uint8_t>(code)}, 1};
    if (code < 0x800) return {{lead(6, 0xC0), continuation(0)}, 2};
    if (code < 0x10000) return {{lead(12, 0xE0), continuation(6), continuation(0)}, 3};
    return {{lead(18, 0xF0), continuation(12), continuation(6), continuation(0)}, 4};
}

/// Sequences of one length from `first` to `last`; tails[n]: from where n continuation bytes lead on, tails[0] to the end.
void GrammarBuilder::add_sequences(StateId from, std::span<const std::uint8_t> first,
                                   std::span<const std::uint8_t> last, std::array<StateId, 4>& tails) {
    if (first.size() == 1) return bytes(from, first[0], last[0], tails[0]);
    const auto rest = [](std::span<const std::uint8_t> sequence) { return sequence.subspan(1); };
    if (first[0] == last[0]) {
        const StateId next = state();
        bytes(from, first[0], first[0], next);
        return add_sequences(next, rest(first), rest(last), tails);
    }
    static constexpr std::array<std::uint8_t, 3> kLowest = {0x80, 0x80, 0x80}, kHighest = {0xBF, 0xBF, 0xBF};
    const auto lowest = std::span(kLowest).first(first.size() - 1),
               highest = std::span(kHighest).first(first.size() - 1);
    unsigned low = first[0], high = last[0];
    if (!std::ranges::equal(rest(first), lowest)) {
        const StateId next = state();
        bytes(from, first[0], first[0], next);
        add_sequences(next, rest(first), highest, tails);
        ++low;
    }
    if (!std::ranges::equal(rest(last), highest)) {
        const StateId next = state();
        bytes(from, last[0], last[0], next);
        add_sequences(next, lowest, rest(last), tails);
        --high;
    }
    if (low > high) return;
    for (std::size_t left = 1; left < first.size(); ++left) {
        if (tails[left] != Grammar::kNowhere) continue;
        tails[left] = state();
        bytes(tails[left], 0x80, 0xBF, tails[left - 1]);
    }
    bytes(from, static_cast<std::uint8_t>(low), static_cast<std::uint8_t>(high), tails[first.size() - 1]);
}

void GrammarBuilder::characters(StateId from, const CharacterSet& set, StateId to) {
    std::array<StateId, 4> tails = {to, Grammar::kNowhere, Grammar::kNowhere, Grammar::kNowhere};
    constexpr std::array<char32_t, 4> kLastOfLength = {0x7F, 0x7FF, 0xFFFF, kLastCharacter};
    for (const auto& [first, last] : set) {
        char32_t low = first;
        for (const char32_t longest : kLastOfLength) {
            if (low > longest || low > last || is_full_) continue;
            const Utf8 least = encoded(low), most = encoded(std::min(last, longest));
            add_sequences(from, std::span(least.bytes).first(least.size), std::span(most.bytes).first(most.size),
                          tails);
            low = longest + 1;
        }
    }
}

StateId GrammarBuilder::literal(StateId from, std::string_view text) {
    for (const char c : text) {
        if (is_full_) break;
        const auto byte = static_cast<std::uint8_t>(c);
        const StateId next = state();
        bytes(from, byte, byte, next);
        from = next;
    }
    return from;
}

StateId GrammarBuilder::call(StateId from, RuleId rule) {
    const StateId next = state();
    add_edge(from, {.kind = Edge::Kind::call, .target = next, .rule = rule});
    return next;
}

StateId GrammarBuilder::repeat(StateId from, RuleId rule, std::uint64_t least, std::uint64_t most) {
    for (std::uint64_t i = 0; i < least && !is_full_; ++i) from = call(from, rule);
    const StateId end = state();
    if (most == kForever) {
        const StateId loop = state();
        empty(from, loop);
        empty(call(loop, rule), loop);
        empty(loop, end);
        return end;
    }
    for (std::uint64_t i = least; i < most && !is_full_; ++i) {
        empty(from, end);
        from = call(from, rule);
    }
    empty(from, end);
    return end;
}

StateId GrammarBuilder::one_of(StateId from, std::vector<std::string> texts) {
    std::ranges::sort(texts);
    const StateId end = state();
    std::vector<StateId> path = {state()};  // of the text before: it has what this one has in common with any before
    empty(from, path[0]);
    std::string_view before;
    for (const std::string& text : texts) {
        if (is_full_) break;
        const auto common = static_cast<std::size_t>(std::ranges::mismatch(before, text).in1 - before.begin());
        path.resize(common + 1);
        for (std::size_t i = common; i < text.size(); ++i)
            path.push_back(literal(path.back(), std::string_view(text).substr(i, 1)));
        empty(path.back(), end);
        before = text;
    }
    return end;
}

RuleId GrammarBuilder::add(const Grammar& grammar) {
    const RuleId whole = add_rule();
    const auto [begin, end] = rule(whole);
    std::vector<StateId> states(grammar.states());
    for (StateId& one : states) one = state();
    if (is_full_) return whole;
    std::map<StateId, RuleId> called;  // by where they begin; all end where the whole does
    const auto rule_at = [&, end = end](StateId first) {
        const auto [found, is_new] = called.try_emplace(first, static_cast<RuleId>(rules_.size()));
        if (is_new) rules_.push_back({states[first], end});
        return found->second;
    };
    empty(begin, states[grammar.begin()]);
    for (StateId from = 0; from < states.size(); ++from) {
        for (const auto& [first, last, target] : grammar.bytes(from)) bytes(states[from], first, last, states[target]);
        for (const StateId target : grammar.empties(from)) empty(states[from], states[target]);
        for (const auto& [first, target] : grammar.calls(from))
            add_edge(states[from], {.kind = Edge::Kind::call,
                                    .target = target == Grammar::kNowhere ? end : states[target],
                                    .rule = rule_at(first)});
        if (grammar.ends_rule(from)) empty(states[from], end);
    }
    return whole;
}

// ---- what is known of all of it -------------------------------------------------------------------------------------

/// Of each state, whether its rule can end from there; without `by_bytes` by reading nothing.
std::vector<bool> GrammarBuilder::reach_end(bool by_bytes) const {
    struct Incoming {
        StateId from;
        RuleId rule;
        Edge::Kind kind;
    };
    std::vector<std::vector<Incoming>> incoming(states_.size()), callers(rules_.size());
    for (StateId from = 0; from < states_.size(); ++from)
        for (std::uint32_t e = states_[from]; e != 0; e = edges_[e].next) {
            const Edge& edge = edges_[e];
            if (edge.kind == Edge::Kind::bytes && !by_bytes) continue;
            incoming[edge.target].push_back({from, edge.rule, edge.kind});
            if (edge.kind == Edge::Kind::call) callers[edge.rule].push_back({from, edge.target, edge.kind});
        }
    std::vector<RuleId> rule_of(states_.size(), Grammar::kNowhere);  // that begins there
    for (RuleId rule = 0; rule < rules_.size(); ++rule) rule_of[rules_[rule].begin] = rule;
    std::vector<bool> reaches(states_.size(), false);
    std::vector<StateId> found;
    const auto note = [&](StateId state) {
        if (reaches[state]) return;
        reaches[state] = true;
        found.push_back(state);
    };
    for (const Rule& rule : rules_) note(rule.end);
    while (!found.empty()) {
        const StateId state = found.back();
        found.pop_back();
        for (const Incoming& edge : incoming[state])
            if (edge.kind != Edge::Kind::call || reaches[rules_[edge.rule].begin]) note(edge.from);
        if (rule_of[state] == Grammar::kNowhere) continue;
        for (const Incoming& caller : callers[rule_of[state]])
            if (reaches[caller.rule]) note(caller.from);  // here a state: where the call goes on
    }
    return reaches;
}

/// Whether a rule calls itself before it has read anything.
bool GrammarBuilder::begins_with_itself(const std::vector<bool>& nullable) const {
    std::vector<std::vector<RuleId>> first_calls(rules_.size());
    std::vector<std::size_t> callers(rules_.size(), 0);
    std::vector<bool> seen(states_.size(), false);  // rules have no states in common
    for (RuleId rule = 0; rule < rules_.size(); ++rule) {
        std::vector<StateId> open = {rules_[rule].begin};
        while (!open.empty()) {
            const StateId state = open.back();
            open.pop_back();
            if (seen[state]) continue;
            seen[state] = true;
            for (std::uint32_t e = states_[state]; e != 0; e = edges_[e].next) {
                const Edge& edge = edges_[e];
                if (edge.kind == Edge::Kind::bytes) continue;
                if (edge.kind == Edge::Kind::call) {
                    first_calls[rule].push_back(edge.rule);
                    ++callers[edge.rule];
                    if (!nullable[rules_[edge.rule].begin]) continue;
                }
                open.push_back(edge.target);
            }
        }
    }
    // Whoever nobody is left to call is in no circle.
    std::vector<RuleId> free;
    for (RuleId rule = 0; rule < rules_.size(); ++rule)
        if (callers[rule] == 0) free.push_back(rule);
    std::size_t freed = 0;
    for (; !free.empty(); ++freed) {
        const RuleId rule = free.back();
        free.pop_back();
        for (const RuleId called : first_calls[rule])
            if (--callers[called] == 0) free.push_back(called);
    }
    return freed < rules_.size();
}

/// The state itself, or where it does nothing but lead on.
StateId GrammarBuilder::skipped(StateId state) const noexcept {
    constexpr int kMostSteps = 64;  // there may be circles
    for (int i = 0; i < kMostSteps; ++i) {
        const Edge& only = edges_[states_[state]];
        if (states_[state] == 0 || only.kind != Edge::Kind::empty || only.next != 0) break;
        state = only.target;
    }
    return state;
}

Result<std::shared_ptr<const Grammar>> GrammarBuilder::finish(RuleId root) const {
    if (is_full_)
        return invalid("it is too large: it has more than " + std::to_string(kMostStates) + " states or " +
                       std::to_string(kMostEdges) + " edges");
    if (begins_with_itself(reach_end(false)))
        return invalid("something in it begins with itself, so that it would never get to a text");
    const std::vector<bool> lives = reach_end(true);
    if (!lives[rules_[root].begin]) return invalid("there is no text that fits it");

    auto made = std::make_shared<Grammar>();
    made->begin_ = rules_[root].begin;
    made->ends_.resize(states_.size());
    for (const Rule& rule : rules_) made->ends_[rule.end] = true;
    std::array<bool, 257> begins_class{};
    for (const std::uint32_t first : states_) {
        const auto place = [](const auto& all) { return static_cast<std::uint32_t>(all.size()); };
        made->firsts_.push_back({place(made->bytes_), place(made->empties_), place(made->calls_)});
        for (std::uint32_t e = first; e != 0; e = edges_[e].next) {
            const Edge& edge = edges_[e];
            const StateId target = skipped(edge.target);
            if (!lives[target]) continue;
            if (edge.kind == Edge::Kind::bytes) {
                begins_class[edge.first] = begins_class[edge.last + 1u] = true;
                made->bytes_.push_back({edge.first, edge.last, target});
            } else if (edge.kind == Edge::Kind::empty) {
                made->empties_.push_back(target);
            } else if (lives[rules_[edge.rule].begin]) {
                made->calls_.push_back({rules_[edge.rule].begin, made->ends_[target] ? Grammar::kNowhere : target});
            }
        }
    }
    made->firsts_.push_back({static_cast<std::uint32_t>(made->bytes_.size()),
                             static_cast<std::uint32_t>(made->empties_.size()),
                             static_cast<std::uint32_t>(made->calls_.size())});
    begins_class[0] = true;
    for (std::size_t byte = 0; byte < 256; ++byte) {
        if (begins_class[byte]) made->examples_.push_back(static_cast<std::uint8_t>(byte));
        made->classes_[byte] = static_cast<std::uint8_t>(made->examples_.size() - 1);
    }
    return std::shared_ptr<const Grammar>(std::move(made));
}

}  // namespace vkformer::constraints
