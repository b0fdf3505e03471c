// SPDX-License-Identifier: MIT
#include "constraints/json_values.hpp"

#include <algorithm>

#include "constraints/regex.hpp"
#include "text/unicode.hpp"

namespace vkformer::constraints {
namespace {

constexpr std::size_t kMostFraction = JsonValues::kMostDigits - 1, kMostExponent = 2, kMostIndentation = 20;

/// The characters that a JSON string has as they are, less some.
CharacterSet plain_but(CharacterSet without, char32_t first, char32_t last) {
    without.insert(without.end(), {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}, {last + 1, 0x10FFFF}});
    if (first > 0) without.emplace_back(0, first - 1);
    return complement(normalized(std::move(without)));
}

bool has_escapes(std::string_view name) {
    return std::ranges::any_of(name,
                               [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\'; });
}

}  // namespace

bool JsonValues::is_new(Which which) {
    if (rules_[which]) return false;
    rules_[which] = builder_.add_rule();
    return true;
}

RuleId JsonValues::space() {
    if (is_new(kSpace)) {
        const auto [begin, end] = ends_of(kSpace);
        builder_.empty(begin, end);
        builder_.bytes(begin, ' ', ' ', end);
        const StateId one = builder_.literal(begin, "\n");
        StateId line = builder_.state();
        builder_.empty(one, line);
        builder_.bytes(one, '\n', '\n', line);
        for (std::size_t i = 0; i < kMostIndentation; ++i) {
            builder_.empty(line, end);
            const StateId next = builder_.state();
            builder_.bytes(line, ' ', ' ', next);
            builder_.bytes(line, '\t', '\t', next);
            line = next;
        }
        builder_.empty(line, end);
    }
    return of(kSpace);
}

RuleId JsonValues::character() {
    if (is_new(kCharacter)) add_json_character(builder_, ends_of(kCharacter).begin, ends_of(kCharacter).end);
    return of(kCharacter);
}

RuleId JsonValues::string() {
    if (is_new(kString)) {
        const StateId inside = builder_.literal(ends_of(kString).begin, "\"");
        add_json_character(builder_, inside, inside);
        builder_.bytes(inside, '"', '"', ends_of(kString).end);
    }
    return of(kString);
}

StateId JsonValues::digits(StateId from, std::size_t least, std::size_t most) {
    const StateId end = builder_.state();
    for (std::size_t i = 0; i <= most; ++i) {
        if (i >= least) builder_.empty(from, end);
        if (i == most) break;
        const StateId next = builder_.state();
        builder_.bytes(from, '0', '9', next);
        from = next;
    }
    return end;
}

StateId JsonValues::whole_number(StateId from) {
    const StateId unsigned_one = builder_.state(), first = builder_.state();
    builder_.empty(from, unsigned_one);
    builder_.bytes(from, '-', '-', unsigned_one);
    builder_.bytes(unsigned_one, '1', '9', first);
    const StateId end = digits(first, 0, kMostDigits - 1);
    builder_.bytes(unsigned_one, '0', '0', end);
    return end;
}

RuleId JsonValues::integer() {
    if (is_new(kInteger)) builder_.empty(whole_number(ends_of(kInteger).begin), ends_of(kInteger).end);
    return of(kInteger);
}

RuleId JsonValues::number() {
    if (is_new(kNumber)) {
        const StateId whole = whole_number(ends_of(kNumber).begin), exponent = builder_.state();
        builder_.empty(whole, ends_of(kNumber).end);
        const StateId fraction = digits(builder_.literal(whole, "."), 1, kMostFraction);
        builder_.empty(fraction, ends_of(kNumber).end);
        for (const StateId before : {whole, fraction}) {
            builder_.bytes(before, 'e', 'e', exponent);
            builder_.bytes(before, 'E', 'E', exponent);
        }
        const StateId sign = builder_.state();
        builder_.empty(exponent, sign);
        builder_.bytes(exponent, '+', '+', sign);
        builder_.bytes(exponent, '-', '-', sign);
        builder_.empty(digits(sign, 1, kMostExponent), ends_of(kNumber).end);
    }
    return of(kNumber);
}

RuleId JsonValues::object() {
    if (is_new(kObject)) {
        const StateId open = spaced(ends_of(kObject).begin, "{"), member = builder_.state();
        builder_.empty(open, member);
        const StateId value = builder_.call(spaced(builder_.call(member, string()), ":"), any());
        builder_.empty(spaced(value, ","), member);
        builder_.bytes(builder_.call(value, space()), '}', '}', ends_of(kObject).end);
        builder_.bytes(open, '}', '}', ends_of(kObject).end);
    }
    return of(kObject);
}

RuleId JsonValues::any() {
    if (is_new(kAny)) {
        const auto [begin, end] = ends_of(kAny);
        builder_.empty(builder_.one_of(begin, {"true", "false", "null"}), end);
        for (const RuleId rule : {string(), number(), object()}) builder_.empty(builder_.call(begin, rule), end);
        const StateId open = spaced(begin, "["), item = builder_.state();
        builder_.empty(open, item);
        const StateId value = builder_.call(item, of(kAny));
        builder_.empty(spaced(value, ","), item);
        builder_.bytes(builder_.call(value, space()), ']', ']', end);
        builder_.bytes(open, ']', ']', end);
    }
    return of(kAny);
}

// ---- numbers within bounds ------------------------------------------------------------------------------------------

/// Numbers without sign from `least` to `most`, digit by digit beside those of the bounds.
struct JsonValues::Magnitudes {
    GrammarBuilder& builder;
    const Decimal& least;
    bool is_above;
    const Decimal* most;  // none: any
    bool is_below;
    bool is_integer;
    StateId end;
    std::array<StateId, kMostDigits> whole{};  // so many digits before the point are left, of which any will do
    std::array<StateId, kMostFraction + 1> fraction{};  // likewise at most, behind it

    void add(StateId from) {
        for (auto* const states : {whole.data(), fraction.data()})
            std::generate_n(states, kMostDigits, [&] { return builder.state(); });
        for (std::size_t left = 1; left < kMostDigits; ++left) builder.bytes(whole[left], '0', '9', whole[left - 1]);
        builder.empty(whole[0], end);
        for (std::size_t left = 0; left <= kMostFraction; ++left) {
            if (left < kMostFraction) builder.empty(fraction[left], end);
            if (left > 0) builder.bytes(fraction[left], '0', '9', fraction[left - 1]);
        }
        if (!is_integer) builder.bytes(whole[0], '.', '.', fraction[kMostFraction]);
        const std::size_t shortest = std::max<std::size_t>(least.whole.size(), 1);
        const std::size_t longest = most ? std::max<std::size_t>(most->whole.size(), 1) : kMostDigits;
        for (std::size_t length = shortest; length <= longest; ++length)
            follow(from, 0, length, length == shortest, most && length == longest);
    }

    /// A bound's digit, the first being that of a number with so many before the point.
    static unsigned digit(const Decimal& bound, std::size_t at, std::size_t length) {
        const std::size_t zeros = length - bound.whole.size();  // 1 for 0
        const std::string digits = std::string(zeros, '0') + bound.whole + bound.fraction;
        return at < digits.size() ? static_cast<unsigned>(digits[at] - '0') : 0;
    }
    static bool has_more(const Decimal& bound, std::size_t at, std::size_t length) {
        for (; at < length + bound.fraction.size(); ++at)
            if (digit(bound, at, length) != 0) return true;
        return false;
    }

    /// `at` digits are read; of `length` before the point; which so far are those of a bound or not.
    void follow(StateId from, std::size_t at, std::size_t length, bool is_least, bool is_most) {
        if (at >= length) {
            const bool is_enough = !is_least || (!has_more(least, at, length) && !is_above);
            const bool is_few = !is_most || !is_below || has_more(*most, at, length);
            if (is_enough && is_few) builder.empty(from, end);
            if (is_integer || at == length + kMostFraction) return;
            if (at == length) from = builder.literal(from, ".");
        }
        const unsigned first = is_least ? digit(least, at, length) : at == 0 && length > 1 ? 1 : 0;
        const unsigned last = is_most ? digit(*most, at, length) : 9;
        for (unsigned d = first; d <= last; ++d) {
            const bool stays_least = is_least && d == first, stays_most = is_most && d == last;
            const auto byte = static_cast<std::uint8_t>('0' + d);
            if (stays_least || stays_most) {
                const StateId next = builder.state();
                builder.bytes(from, byte, byte, next);
                follow(next, at + 1, length, stays_least, stays_most);
            } else {
                builder.bytes(from, byte, byte,
                              at < length ? whole[length - at - 1] : fraction[length + kMostFraction - at - 1]);
            }
        }
    }
};

StateId JsonValues::in_range(StateId from, const NumberRange& range, bool is_integer) {
    const StateId end = builder_.state();
    const Decimal zero;
    const auto& [least, most, is_above, is_below] = range;
    if (!most || !most->is_negative) {
        const bool is_bound = least && !least->is_negative;
        Magnitudes{
            builder_, is_bound ? *least : zero, is_bound && is_above, most ? &*most : nullptr, is_below, is_integer,
            end}
            .add(from);
    }
    if (!least || least->is_negative) {
        const bool is_bound = most && most->is_negative;  // the magnitudes' bounds are the other way round
        Magnitudes{builder_,
                   is_bound ? *most : zero,
                   is_bound ? is_below : true,
                   least ? &*least : nullptr,
                   is_above,
                   is_integer,
                   end}
            .add(builder_.literal(from, "-"));
    }
    return end;
}

// ---- other names ----------------------------------------------------------------------------------------------------

void JsonValues::other_string(StateId from, std::vector<std::string_view> names, StateId to) {
    std::erase_if(names, has_escapes);
    std::ranges::sort(names);
    const StateId rest = builder_.state();  // behind a difference
    builder_.characters(rest, plain_but({}, 0, 0x10FFFF), rest);
    builder_.bytes(rest, '"', '"', to);
    const StateId beyond_ascii = builder_.state();
    builder_.characters(beyond_ascii, plain_but({}, 0x80, 0x10FFFF), rest);

    struct Alike {
        StateId state;
        std::size_t begin, end;  // names
        std::size_t at;          // bytes that they have in common
    };
    std::vector<Alike> open = {{builder_.literal(from, "\""), 0, names.size(), 0}};
    while (!open.empty() && !builder_.is_full()) {
        auto [state, begin, end, at] = open.back();
        open.pop_back();
        bool is_name = false;
        for (; begin < end && names[begin].size() == at; ++begin) is_name = true;
        if (!is_name && at > 0) builder_.bytes(state, '"', '"', to);
        CharacterSet followed;
        for (std::size_t next = begin; begin < end; begin = next) {
            const text::Character character = text::first_character(names[begin].substr(at));
            const std::string_view common = names[begin].substr(0, at + character.bytes);
            while (next < end && names[next].starts_with(common)) ++next;
            const StateId behind = builder_.state();
            builder_.characters(state, {{character.code, character.code}}, behind);
            open.push_back({behind, begin, next, common.size()});
            followed.emplace_back(character.code, character.code);
        }
        const bool is_ascii = followed.empty() || normalized(followed).back().second < 0x80;
        builder_.characters(state, plain_but(followed, 0, is_ascii ? 0x7F : 0x10FFFF), rest);
        if (is_ascii) builder_.empty(state, beyond_ascii);
    }
}

}  // namespace vkformer::constraints
