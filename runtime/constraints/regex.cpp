// SPDX-License-Identifier: MIT
#include "constraints/regex.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "core/try.hpp"
#include "text/unicode.hpp"

namespace vkformer::constraints {
namespace {

constexpr std::size_t kMostExpressionBytes = 1 << 16, kMostGroups = 64;
constexpr std::uint64_t kMostRepeats = 1'000'000'000;  // the builder is full long before

CharacterSet digits() { return {{'0', '9'}}; }
CharacterSet word() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }
CharacterSet spaces() { return {{'\t', '\r'}, {' ', ' '}}; }
/// What any of the two languages calls a space: a class without spaces has none of these.
CharacterSet all_spaces() {
    return {{'\t', '\r'},     {0x1C, ' '},      {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
            {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
}
CharacterSet line_ends() { return {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}; }
CharacterSet escaped_in_json() { return {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}; }

CharacterSet both(const CharacterSet& a, const CharacterSet& b) {
    CharacterSet outside = complement(a);
    const CharacterSet other = complement(b);
    outside.insert(outside.end(), other.begin(), other.end());
    return complement(normalized(std::move(outside)));
}

struct Node {
    enum class Kind : std::uint8_t { characters, sequence, alternatives, repeat };
    Kind kind = Kind::sequence;
    CharacterSet set{};
    std::vector<Node> parts{};
    std::uint64_t least = 1, most = 1;
    bool is_at_begin = false, is_at_end = false;  // of the whole text: an alternative's anchors
};

class Parser {
public:
    explicit Parser(std::string_view text) : text_(text) {}

    Result<Node> parse() {
        if (text_.size() > kMostExpressionBytes)
            return wrong("it has more than " + std::to_string(kMostExpressionBytes) + " bytes");
        VKFORMER_CHECK(text::check_utf8(text_));
        VKFORMER_TRY(Node all, alternatives(0));
        if (at_ < text_.size()) return wrong("there is a ) without its (");
        return all;
    }

private:
    Error wrong(const std::string& what) const {
        return {ErrorCode::InvalidArgument, "the regular expression at byte " + std::to_string(at_) + ": " + what};
    }
    Error unsupported(const std::string& what) const { return wrong(what + " is not supported"); }
    bool is_over() const { return at_ == text_.size(); }
    bool next_is(std::string_view part) const { return text_.substr(at_).starts_with(part); }
    bool take(std::string_view part) {
        if (!next_is(part)) return false;
        at_ += part.size();
        return true;
    }
    char32_t character() {
        const text::Character found = text::first_character(text_.substr(at_));
        at_ += found.bytes;
        return found.code;
    }

    Result<Node> alternatives(std::size_t depth) {
        if (depth > kMostGroups) return wrong("groups are nested too deep");
        Node all = {.kind = Node::Kind::alternatives};
        do {
            VKFORMER_TRY(Node one, sequence(depth));
            all.parts.push_back(std::move(one));
        } while (take("|"));
        return all;
    }

    Result<Node> sequence(std::size_t depth) {
        Node made;
        while (!is_over() && !next_is("|") && !next_is(")")) {
            if (take("^")) {
                if (depth > 0 || !made.parts.empty() || made.is_at_begin)
                    return unsupported("^ elsewhere than at the front");
                made.is_at_begin = true;
                continue;
            }
            if (take("$")) {
                if (depth > 0 || !(is_over() || next_is("|"))) return unsupported("$ elsewhere than at the end");
                made.is_at_end = true;
                continue;
            }
            VKFORMER_TRY(Node one, atom(depth));
            VKFORMER_TRY(one, repeated(std::move(one)));
            made.parts.push_back(std::move(one));
        }
        return made;
    }

    Result<Node> atom(std::size_t depth) {
        if (take("(")) return group(depth);
        if (take("[")) return one_class();
        if (take(".")) return of_set(complement(line_ends()));
        if (take("\\")) {
            VKFORMER_TRY(CharacterSet set, escape(false));
            return of_set(std::move(set));
        }
        for (const std::string_view special : {"*", "+", "?", "{"})
            if (next_is(special))
                return wrong(std::string(special) + " has nothing to repeat; write \\" + std::string(special) +
                             " for itself");
        const char32_t code = character();
        return of_set({{code, code}});
    }
    static Node of_set(CharacterSet set) { return {.kind = Node::Kind::characters, .set = std::move(set)}; }

    Result<Node> group(std::size_t depth) {
        if (take("?") && !take(":")) {
            const bool is_named = take("P<") || (next_is("<") && !next_is("<=") && !next_is("<!") && take("<"));
            if (!is_named) return unsupported("a group that begins with (?" + std::string(text_.substr(at_, 1)));
            while (!is_over() && !next_is(">")) character();
            if (!take(">")) return wrong("a group's name has no end");
        }
        VKFORMER_TRY(Node inner, alternatives(depth + 1));
        if (!take(")")) return wrong("there is a ( without its )");
        return inner;
    }

    std::optional<std::uint64_t> number() {
        std::uint64_t value = 0;
        const std::size_t begin = at_;
        for (; !is_over() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
            value = std::min(kMostRepeats, value * 10 + static_cast<std::uint64_t>(text_[at_] - '0'));
        return at_ > begin ? std::optional(value) : std::nullopt;
    }

    Result<Node> repeated(Node one) {
        std::uint64_t least = 0, most = GrammarBuilder::kForever;
        if (take("*")) {
        } else if (take("+")) {
            least = 1;
        } else if (take("?")) {
            most = 1;
        } else if (take("{")) {
            const auto first = number();
            if (first) least = most = *first;
            if (take(",")) most = number().value_or(GrammarBuilder::kForever);
            if (!first || !take("}")) return wrong("it is no {m}, {m,} or {m,n}; write \\{ for itself");
            if (least > most) return wrong("the numbers of a {m,n} are in the wrong order");
        } else {
            return one;
        }
        take("?");  // of the same texts the shortest first: they stay the same
        for (const std::string_view further : {"*", "+", "?", "{"})
            if (next_is(further)) return unsupported("a repetition of a repetition");
        Node made = {.kind = Node::Kind::repeat, .least = least, .most = most};
        made.parts.push_back(std::move(one));
        return made;
    }

    Result<char32_t> hex(std::size_t digits) {
        char32_t code = 0;
        for (std::size_t i = 0; i < digits; ++i, ++at_) {
            constexpr std::string_view kHex = "0123456789abcdef";
            const auto digit = is_over() ? kHex.npos
                                         : kHex.find(static_cast<char>(
                                               text_[at_] >= 'A' && text_[at_] <= 'F' ? text_[at_] + 32 : text_[at_]));
            if (digit == kHex.npos) return wrong("hexadecimal digits are missing");
            code = code * 16 + static_cast<char32_t>(digit);
        }
        return code;
    }

    /// Behind a backslash. `is_negated`: the set's complement is what counts.
    Result<CharacterSet> escape(bool is_negated) {
        if (is_over()) return wrong("it ends with a backslash");
        constexpr std::string_view kLetters = "nrtfv0", kMeant = {"\n\r\t\f\v\0", 6};
        const char32_t code = character();
        switch (code) {
        case 'd': return digits();
        case 'D': return complement(digits());
        case 'w': return word();
        case 'W': return complement(word());
        case 's': return is_negated ? all_spaces() : spaces();
        case 'S': return complement(is_negated ? spaces() : all_spaces());
        case 'x':
        case 'u': {
            VKFORMER_TRY(char32_t meant, hex(code == 'x' ? 2 : 4));
            if (meant >= 0xD800 && meant < 0xDC00 && take("\\u")) {
                VKFORMER_TRY(const char32_t low, hex(4));
                if (low < 0xDC00 || low > 0xDFFF) return wrong("half a surrogate pair is no character");
                meant = 0x10000 + ((meant - 0xD800) << 10) + (low - 0xDC00);
            }
            if (meant >= 0xD800 && meant <= 0xDFFF) return wrong("half a surrogate pair is no character");
            return CharacterSet{{meant, meant}};
        }
        default: break;
        }
        if (const auto known = code < 0x80 ? kLetters.find(static_cast<char>(code)) : kLetters.npos;
            known != kLetters.npos) {
            const auto meant = static_cast<char32_t>(kMeant[known]);
            if (meant == 0 && number()) return unsupported("an octal number");
            return CharacterSet{{meant, meant}};
        }
        const bool is_name = code == '_' || (code < 0x80 && both({{code, code}}, word()).size() == 1);
        if (is_name) return unsupported("\\" + std::string(1, static_cast<char>(code)));
        return CharacterSet{{code, code}};
    }

    /// Behind its [.
    Result<Node> one_class() {
        const bool is_negated = take("^");
        if (next_is("]")) return wrong("a class has nothing in it; write \\] for itself");
        CharacterSet set;
        while (!take("]")) {
            if (is_over()) return wrong("there is a [ without its ]");
            if (next_is("[:") || next_is("[.") || next_is("[=")) return unsupported("a class by name");
            VKFORMER_TRY(const CharacterSet first, class_part(is_negated));
            set.insert(set.end(), first.begin(), first.end());
            if (!next_is("-") || next_is("-]")) continue;
            take("-");
            if (is_over()) return wrong("there is a [ without its ]");
            VKFORMER_TRY(const CharacterSet last, class_part(is_negated));
            const auto is_one = [](const CharacterSet& s) { return s.size() == 1 && s[0].first == s[0].second; };
            if (!is_one(first) || !is_one(last) || first[0].first > last[0].first)
                return wrong("it is no range from one character to a later one");
            set.emplace_back(first[0].first, last[0].first);
        }
        set = normalized(std::move(set));
        return of_set(is_negated ? complement(set) : set);
    }
    Result<CharacterSet> class_part(bool is_negated) {
        if (take("\\")) return escape(is_negated);
        const char32_t code = character();
        return CharacterSet{{code, code}};
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

class Adder {
public:
    Adder(GrammarBuilder& builder, bool in_json) : builder_(builder), in_json_(in_json) {}

    StateId add(const Node& node, StateId from) {
        switch (node.kind) {
        case Node::Kind::characters: return add_set(node.set, from);
        case Node::Kind::repeat: return add_repeat(node, from);
        case Node::Kind::sequence:
            for (const Node& part : node.parts) from = add(part, from);
            return from;
        case Node::Kind::alternatives: break;
        }
        if (node.parts.size() == 1) return add(node.parts[0], from);
        const StateId end = builder_.state();
        for (const Node& part : node.parts) builder_.empty(add(part, from), end);
        return end;
    }

private:
    StateId add_set(const CharacterSet& all, StateId from) {
        const StateId end = builder_.state();
        if (!in_json_) {
            builder_.characters(from, all, end);
            return end;
        }
        builder_.characters(from, both(all, complement(escaped_in_json())), end);
        for (const auto& [first, last] : both(all, escaped_in_json()))
            for (char32_t code = first; code <= last; ++code)
                builder_.empty(builder_.literal(from, escaped(static_cast<unsigned char>(code))), end);
        return end;
    }
    static std::string escaped(unsigned char code) {
        constexpr std::string_view kShort = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt", kHex = "0123456789abcdef";
        if (const auto at = kShort.find(static_cast<char>(code)); at != kShort.npos) return {'\\', kLetters[at]};
        return {'\\', 'u', '0', '0', kHex[code >> 4], kHex[code & 15]};
    }

    StateId add_repeat(const Node& node, StateId from) {
        const Node& part = node.parts[0];
        if (node.most == 0) return from;
        if (node.most == 1 && node.least == 1) return add(part, from);
        const StateId begin = builder_.state();
        builder_.empty(from, begin);
        if (node.most == 1 || (node.most == GrammarBuilder::kForever && node.least <= 1)) {
            const StateId behind = add(part, begin), end = builder_.state();
            if (node.most != 1) builder_.empty(behind, begin);
            if (node.least == 0) builder_.empty(begin, end);
            builder_.empty(behind, end);
            return end;
        }
        const RuleId rule = builder_.add_rule();
        builder_.empty(add(part, builder_.rule(rule).begin), builder_.rule(rule).end);
        return builder_.repeat(begin, rule, node.least, node.most);
    }

    GrammarBuilder& builder_;
    bool in_json_;
};

}  // namespace

Result<StateId> add_regex(GrammarBuilder& builder, StateId from, std::string_view expression, const RegexUse& use) {
    VKFORMER_TRY(const Node all, Parser(expression).parse());
    Adder adder(builder, use.in_json);
    const StateId end = builder.state();
    for (const Node& one : all.parts) {
        const StateId begin = builder.state();
        builder.empty(from, begin);
        StateId at = begin;
        if (use.searches && !one.is_at_begin) at = builder.repeat(at, use.character, 0, GrammarBuilder::kForever);
        at = adder.add(one, at);
        if (use.searches && !one.is_at_end) at = builder.repeat(at, use.character, 0, GrammarBuilder::kForever);
        builder.empty(at, end);
    }
    return end;
}

Result<std::shared_ptr<const Grammar>> regex_grammar(std::string_view expression) {
    GrammarBuilder builder;
    const RuleId all = builder.add_rule();
    VKFORMER_TRY(const StateId end, add_regex(builder, builder.rule(all).begin, expression));
    builder.empty(end, builder.rule(all).end);
    auto made = builder.finish(all);
    if (!made) return Error{ErrorCode::InvalidArgument, "the regular expression: " + made.error().message};
    return made;
}

void add_json_character(GrammarBuilder& builder, StateId from, StateId to) {
    builder.characters(from, complement(escaped_in_json()), to);
    const StateId escape = builder.literal(from, "\\");
    for (const char letter : std::string_view("\"\\/bfnrt")) {
        const auto byte = static_cast<std::uint8_t>(letter);
        builder.bytes(escape, byte, byte, to);
    }
    // Four hexadecimal digits that are no surrogate, or a pair of surrogates.
    const auto lead = [&](StateId at, std::string_view letters, StateId next) {
        for (const char letter : letters)
            builder.bytes(at, static_cast<std::uint8_t>(letter), static_cast<std::uint8_t>(letter), next);
    };
    constexpr std::string_view kHex = "0123456789abcdefABCDEF";
    const StateId first = builder.literal(escape, "u");
    const StateId three = builder.state(), two = builder.state(), one = builder.state();  // digits that are left
    lead(first, "0123456789abcefABCEF", three);
    lead(three, kHex, two);
    lead(two, kHex, one);
    lead(one, kHex, to);
    const StateId d = builder.state(), high_two = builder.state(), high_one = builder.state(), high = builder.state();
    lead(first, "dD", d);
    lead(d, "01234567", two);
    lead(d, "89abAB", high_two);
    lead(high_two, kHex, high_one);
    lead(high_one, kHex, high);
    const StateId low = builder.state();
    lead(builder.literal(high, "\\u"), "dD", low);
    lead(low, "cdefCDEF", two);
}

}  // namespace vkformer::constraints
