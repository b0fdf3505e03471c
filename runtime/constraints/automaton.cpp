// SPDX-License-Identifier: MIT
#include "constraints/automaton.hpp"

#include <algorithm>
#include <unordered_set>

namespace vkformer::constraints {
namespace {

constexpr std::uint64_t place(StateId state, std::uint32_t stack) { return std::uint64_t{state} << 32 | stack; }
constexpr StateId state_of(std::uint64_t place) { return static_cast<StateId>(place >> 32); }
constexpr std::uint32_t stack_of(std::uint64_t place) { return static_cast<std::uint32_t>(place); }

}  // namespace

Automaton::Automaton(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)), classes_(grammar_->examples().size()) {
    forget({});
}

void Automaton::forget(std::span<Position* const> kept) {
    const auto old_places = std::move(known_);  // where the positions' places are
    const std::vector<Located> old_positions = std::move(positions_);
    const std::vector<Call> old_calls = std::move(calls_);
    known_.clear();
    positions_.clear();
    steps_.clear();
    calls_ = {{0, 0, 0}};
    known_calls_.clear();
    at({}, false);  // kNowhere
    begin_ = closed({place(grammar_->begin(), 0)});
    std::map<Stack, Stack> known;
    for (Position* const position : kept) {
        std::vector<Place> places;
        for (const Place old : *old_positions[*position].places)
            places.push_back(place(state_of(old), copied(stack_of(old), old_calls, known)));
        std::ranges::sort(places);
        *position = at(std::move(places), old_positions[*position].may_end);
    }
}

Automaton::Stack Automaton::copied(Stack stack, const std::vector<Call>& from, std::map<Stack, Stack>& known) {
    std::vector<Stack> outward;
    for (; stack != 0 && !known.contains(stack); stack = from[stack].outer) outward.push_back(stack);
    Stack made = stack == 0 ? 0 : known[stack];
    for (; !outward.empty(); outward.pop_back()) {
        made = push(from[outward.back()].target, made);
        known[outward.back()] = made;
    }
    return made;
}

Automaton::Position Automaton::at(std::vector<Place> places, bool may_end) {
    const auto [found, is_new] =
        known_.try_emplace({std::move(places), may_end}, static_cast<Position>(positions_.size()));
    if (is_new) {
        positions_.push_back({&found->first.first, may_end});
        steps_.resize(steps_.size() + classes_, found->second == kNowhere ? kNowhere : kUnknown);
    }
    return found->second;
}

Automaton::Stack Automaton::push(StateId target, Stack outer) {
    const auto [found, is_new] = known_calls_.try_emplace({target, outer}, static_cast<Stack>(calls_.size()));
    if (is_new) calls_.push_back({target, outer, calls_[outer].depth + 1});
    return found->second;
}

/// All that can be reached from the places without reading.
Automaton::Position Automaton::closed(std::vector<Place> open) {
    std::unordered_set<Place> seen(open.begin(), open.end());
    open.assign(seen.begin(), seen.end());  // each once
    std::vector<Place> reading;             // where a byte leads on
    bool may_end = false;
    const auto note = [&](StateId state, Stack stack) {
        if (seen.insert(place(state, stack)).second) open.push_back(place(state, stack));
    };
    while (!open.empty()) {
        const StateId state = state_of(open.back());
        const Stack stack = stack_of(open.back());
        open.pop_back();
        ++work_;
        if (!grammar_->bytes(state).empty()) reading.push_back(place(state, stack));
        for (const StateId target : grammar_->empties(state)) note(target, stack);
        for (const Grammar::Call& call : grammar_->calls(state)) {
            if (call.target == Grammar::kNowhere)
                note(call.begin, stack);
            else if (calls_[stack].depth < kMostDepth)
                note(call.begin, push(call.target, stack));
        }
        if (grammar_->ends_rule(state)) {
            if (stack == 0)
                may_end = true;
            else
                note(calls_[stack].target, calls_[stack].outer);
        }
        if (seen.size() > kMostPlaces) {
            was_too_wide_ = true;
            return kNowhere;
        }
    }
    std::ranges::sort(reading);
    return at(std::move(reading), may_end);
}

Automaton::Position Automaton::find_step(Position position, std::uint8_t byte) {
    std::vector<Place> next;
    for (const Place from : *positions_[position].places)
        for (const Grammar::ByteEdge& edge : grammar_->bytes(state_of(from)))
            if (edge.first <= byte && byte <= edge.last) next.push_back(place(edge.target, stack_of(from)));
    work_ += positions_[position].places->size();
    const Position found = next.empty() ? kNowhere : closed(std::move(next));
    if (!was_too_wide_) steps_[position * classes_ + grammar_->class_of(byte)] = found;
    return found;
}

}  // namespace vkformer::constraints
