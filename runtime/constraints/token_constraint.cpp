// SPDX-License-Identifier: MIT
#include "constraints/token_constraint.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "core/stable_order.hpp"
#include "core/try.hpp"

namespace vkformer::constraints {
namespace {

// A constraint costs this much at most: places looked at for one answer, positions between two answers, bytes of answers that are kept.
constexpr std::size_t kMostPlacesSeen = 1'000'000, kMostPositions = 1 << 14, kMostKeptBytes = 8 << 20;

constexpr std::size_t kAhead = 4;  // answers that one look ahead finds

void set_bit(std::vector<std::int32_t>& bits, std::int32_t token) {
    const auto index = static_cast<std::uint32_t>(token);
    bits[index / 32] |= static_cast<std::int32_t>(1u << (index % 32));
}

bool has_bit(const std::vector<std::int32_t>& bits, std::int32_t token) {
    const auto index = static_cast<std::uint32_t>(token);
    return index / 32 < bits.size() && (static_cast<std::uint32_t>(bits[index / 32]) >> (index % 32) & 1) == 1;
}

/// The second bytes that UTF-8 has behind a first one, and how many follow those.
struct Continuation {
    unsigned first, last, further;
};
Continuation continuation_of(unsigned lead) {
    return {.first = lead == 0xE0   ? 0xA0u
                     : lead == 0xF0 ? 0x90u
                                    : 0x80u,
            .last = lead == 0xED   ? 0x9Fu
                    : lead == 0xF4 ? 0x8Fu
                                   : 0xBFu,
            .further = lead < 0xE0   ? 0u
                       : lead < 0xF0 ? 1u
                                     : 2u};
}

/// Whether every character beyond ASCII leads from one position to another.
class AllCharacters {
public:
    AllCharacters(Automaton& automaton, Automaton::Position to) : automaton_(automaton), to_(to) {}
    bool lead_from(Automaton::Position position) {
        for (unsigned lead = 0xC2; lead <= 0xF4; ++lead) {
            const auto [first, last, further] = continuation_of(lead);
            const Automaton::Position behind = automaton_.step(position, static_cast<std::uint8_t>(lead));
            for (unsigned byte = first; byte <= last; ++byte)
                if (!arrives(automaton_.step(behind, static_cast<std::uint8_t>(byte)), further)) return false;
        }
        return true;
    }

private:
    bool arrives(Automaton::Position from, unsigned bytes) {
        if (bytes == 0) return from == to_;
        const auto [known, is_new] = known_.try_emplace({from, bytes}, true);
        for (unsigned byte = 0x80; byte <= 0xBF && is_new && known->second; ++byte)
            known->second = arrives(automaton_.step(from, static_cast<std::uint8_t>(byte)), bytes - 1);
        return known->second;
    }

    Automaton& automaton_;
    Automaton::Position to_;
    std::map<std::pair<Automaton::Position, unsigned>, bool> known_;
};

/// The positions that most tokens lead to.
std::vector<Automaton::Position> most_frequent(std::vector<std::pair<Automaton::Position, std::uint32_t>> counts) {
    sort_stably(counts, [](const auto& a, const auto& b) { return a.second > b.second; });
    counts.resize(std::min(counts.size(), kAhead));
    std::vector<Automaton::Position> positions;
    for (const auto& count : counts) positions.push_back(count.first);
    return positions;
}

}  // namespace

TokenConstraint::TokenConstraint(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const Vocabulary> vocabulary)
    : vocabulary_(std::move(vocabulary)), automaton_(std::move(grammar)) {}

Result<void> TokenConstraint::check_work() const {
    if (!is_too_much()) return {};
    return invalid("the constraint is too ambiguous: a text can be read in too many ways at once");
}

bool TokenConstraint::is_too_much() const noexcept {
    return automaton_.work() > kMostPlacesSeen || automaton_.positions() > 4 * kMostPositions ||
           automaton_.was_too_wide();
}

/// Forgets what was found out where it has become much.
void TokenConstraint::make_room() {
    const std::size_t bytes = vocabulary_->size() / 8 + 1;
    while (known_.size() * bytes > kMostKeptBytes)
        known_.erase(std::ranges::min_element(known_, {}, [](const auto& one) { return one.second.used; }));
    if (automaton_.positions() <= kMostPositions) return;
    known_.clear();
    onward_.clear();
    first_ = nullptr;
    automaton_.forget(sequences_);
}

Result<TokenConstraint::Allowed> TokenConstraint::allowed(Position position, bool is_first) {
    const bool is_own = is_first && vocabulary_->drops_first_space();
    if (is_own && first_) return first_;
    const auto known = is_own ? known_.end() : known_.find(position);
    if (known != known_.end()) {
        known->second.used = ++uses_;
        return known->second.allowed;
    }
    VKFORMER_TRY(AllowedTokens found, find(position, is_own));
    auto made = std::make_shared<const AllowedTokens>(std::move(found));
    if (is_own)
        first_ = made;
    else
        known_[position] = {made, ++uses_};
    return Allowed(made);
}

/// Which kinds of characters all lead to the same next position, and to which.
TokenConstraint::Onward TokenConstraint::onward(Position position) {
    if (position >= onward_.size()) onward_.resize(position + 1);
    if (!onward_[position].is_known) {
        Onward found = {.is_known = true};
        for (const std::uint8_t example : {'a', '0', ' '})
            if (found.next == Automaton::kNowhere) found.next = automaton_.step(position, example);
        if (found.next != Automaton::kNowhere) {
            found.kinds = kLetters | kDigits | kSpaces | kOthers | kQuotes | kControls;
            for (std::uint8_t byte = 0; byte < 0x80; ++byte)
                if (automaton_.step(position, byte) != found.next)
                    found.kinds &= static_cast<std::uint8_t>(~kind_of(byte));
            if (AllCharacters(automaton_, found.next).lead_from(position)) found.kinds |= kBeyondAscii;
        }
        onward_[position] = found;
    }
    return onward_[position];
}

/// Whether every text of so many characters of the kinds leads on from the position: then nobody has to look at each.
bool TokenConstraint::all_lead_on(Position position, std::uint8_t kinds, std::size_t characters) {
    for (std::size_t i = 0; i < characters; ++i) {
        const Onward next = onward(position);
        if ((kinds & ~next.kinds) != 0) return false;
        if (next.next == position) return true;
        position = next.next;
    }
    return true;
}

/// A walk through the tree of all tokens; `drops_space`: the first byte is none if it is a space.
Result<AllowedTokens> TokenConstraint::find(Position position, bool drops_space) {
    automaton_.reset_work();
    AllowedTokens made;
    made.bits.assign((vocabulary_->size() + 31) / 32, 0);
    made.may_end = automaton_.may_end(position);
    if (made.may_end)
        for (const std::int32_t end : vocabulary_->ends())
            if (static_cast<std::size_t>(end) < vocabulary_->size()) set_bit(made.bits, end);

    std::vector<Position> path(vocabulary_->deepest() + 1, position);  // by depth
    std::vector<std::pair<Position, std::uint32_t>> counts;
    std::size_t last = 0;  // of the counts that was raised
    const auto nodes = vocabulary_->nodes();
    for (std::size_t i = 0; i < nodes.size();) {
        const Vocabulary::Node& node = nodes[i];
        const bool is_dropped = drops_space && node.depth == 1 && node.byte == ' ';
        const Position next = is_dropped ? position : automaton_.step(path[node.depth - 1], node.byte);
        if (is_too_much()) break;
        if (next == Automaton::kNowhere) {
            i = node.behind;
            continue;
        }
        path[node.depth] = next;
        const bool has_more = node.behind > i + 1;
        const bool all = has_more && (node.kinds & kParts) == 0 && all_lead_on(next, node.kinds, node.height);
        const auto tokens = all ? vocabulary_->tokens_below(i) : vocabulary_->tokens_at(i);
        i = all ? node.behind : i + 1;
        if (tokens.empty()) continue;
        for (const std::int32_t token : tokens) set_bit(made.bits, token);
        made.may_go_on = true;
        if (last == counts.size() || counts[last].first != next) {
            const auto known = std::ranges::find(counts, next, [](const auto& count) { return count.first; });
            last = static_cast<std::size_t>(known - counts.begin());
            if (known == counts.end() && counts.size() < 4 * kAhead) counts.emplace_back(next, 0);
        }
        if (last < counts.size()) counts[last].second += static_cast<std::uint32_t>(tokens.size());
    }
    VKFORMER_CHECK(check_work());
    made.next = most_frequent(std::move(counts));
    return made;
}

Result<Automaton::Position> TokenConstraint::step(Position position, std::string_view bytes) {
    automaton_.reset_work();
    for (const char byte : bytes) position = automaton_.step(position, static_cast<std::uint8_t>(byte));
    VKFORMER_CHECK(check_work());
    return position;
}

// ---- one text -------------------------------------------------------------------------------------------------------

ConstrainedText::ConstrainedText(std::shared_ptr<TokenConstraint> constraint) : constraint_(std::move(constraint)) {
    const std::scoped_lock lock(constraint_->mutex_);
    position_ = constraint_->automaton_.begin();
    constraint_->sequences_.push_back(&position_);
}

ConstrainedText::~ConstrainedText() {
    const std::scoped_lock lock(constraint_->mutex_);
    std::erase(constraint_->sequences_, &position_);
}

Result<std::shared_ptr<const AllowedTokens>> ConstrainedText::allowed() {
    const std::scoped_lock lock(constraint_->mutex_);
    constraint_->make_room();
    VKFORMER_TRY(auto found, constraint_->allowed(position_, is_first_));
    if (!found->may_end && !found->may_go_on)
        return invalid("no token of the model's vocabulary goes on from here in the way that the constraint asks for");
    return found;
}

Result<void> ConstrainedText::add(std::int32_t token) {
    const std::scoped_lock lock(constraint_->mutex_);
    VKFORMER_TRY(const auto now, constraint_->allowed(position_, is_first_));
    if (!has_bit(now->bits, token))
        return invalid("token " + std::to_string(token) +
                       " was chosen, which the constraint does not allow: biases or rules of the model leave no other");
    const Vocabulary& vocabulary = *constraint_->vocabulary_;
    std::string_view bytes = vocabulary.bytes(token);
    if (vocabulary.is_end(token)) return {};
    if (std::exchange(is_first_, false) && vocabulary.drops_first_space() && bytes.starts_with(' '))
        bytes.remove_prefix(1);
    VKFORMER_TRY(position_, constraint_->step(position_, bytes));
    return {};
}

void ConstrainedText::look_ahead() {
    const std::scoped_lock lock(constraint_->mutex_);
    const auto now = constraint_->allowed(position_, is_first_);
    if (!now) return;
    for (const Automaton::Position next : (*now)->next)
        if (!constraint_->allowed(next, false)) return;
}

}  // namespace vkformer::constraints
