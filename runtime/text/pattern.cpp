// SPDX-License-Identifier: MIT
#include "text/pattern.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <new>
#include <optional>
#include <utility>

#include "core/try.hpp"
#include "formats/json.hpp"
#include "text/unicode.hpp"

namespace vkformer::text {
namespace {

// The character classes of Oniguruma, spelled out: PCRE2's \s takes U+180E too, and its \w lacks the marks.
constexpr std::string_view kSpaces =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNoSpaces =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
constexpr std::string_view kWord = R"(\x{b2}\x{b3}\x{b9}\x{bc}-\x{be}\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9})"
                                   R"(\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
// Inside of a class it takes \p{No} of Latin-1 for no words.
constexpr std::string_view kWordInClass = kWord.substr(kWord.find("\\p"));

std::string in_class(std::string_view members, bool negated = false) {
    return (negated ? "[^" : "[") + std::string(members) + "]";
}

/// Whether PCRE2 knows the script, by a prefix that 10.40 brought: from then on the bare name takes the characters of Script_Extensions,
/// too, and meant what Oniguruma means before.
bool is_prefixed_script(std::string_view name) {
    const std::string expression = "\\p{sc:" + std::string(name) + "}";
    int error = 0;
    std::size_t offset = 0;
    pcre2_code* const code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                                           PCRE2_UTF, &error, &offset, nullptr);
    pcre2_code_free(code);
    return code != nullptr;
}

// Unicode's CaseFolding.txt, status F: the characters that a match without case takes for several, and what it takes them for, between
// blanks. (Not utf8proc's, which need not have foldings.)
constexpr std::pair<char32_t, char32_t> kOfSeveral[] = {
    {0xDF, 0xDF},     {0x130, 0x130},   {0x149, 0x149},   {0x1F0, 0x1F0},   {0x390, 0x390},   {0x3B0, 0x3B0},
    {0x587, 0x587},   {0x1E96, 0x1E9A}, {0x1E9E, 0x1E9E}, {0x1F50, 0x1F50}, {0x1F52, 0x1F52}, {0x1F54, 0x1F54},
    {0x1F56, 0x1F56}, {0x1F80, 0x1FAF}, {0x1FB2, 0x1FB4}, {0x1FB6, 0x1FB7}, {0x1FBC, 0x1FBC}, {0x1FC2, 0x1FC4},
    {0x1FC6, 0x1FC7}, {0x1FCC, 0x1FCC}, {0x1FD2, 0x1FD3}, {0x1FD6, 0x1FD7}, {0x1FE2, 0x1FE4}, {0x1FE6, 0x1FE7},
    {0x1FF2, 0x1FF4}, {0x1FF6, 0x1FF7}, {0x1FFC, 0x1FFC}, {0xFB00, 0xFB06}, {0xFB13, 0xFB17}};
constexpr std::u32string_view kFolds =
    U" a\u02be ff fi fl h\u0331 i\u0307 j\u030c ss st t\u0308 w\u030a y\u030a \u02bcn \u03ac\u03b9 \u03ae\u03b9 "
    U"\u03b1\u0342 \u03b1\u03b9 \u03b7\u0342 \u03b7\u03b9 \u03b9\u0342 \u03c1\u0313 \u03c5\u0313 \u03c5\u0342 "
    U"\u03c9\u0342 \u03c9\u03b9 \u03ce\u03b9 \u0565\u0582 \u0574\u0565 \u0574\u056b \u0574\u056d \u0574\u0576 "
    U"\u057e\u0576 \u1f00\u03b9 \u1f01\u03b9 \u1f02\u03b9 \u1f03\u03b9 \u1f04\u03b9 \u1f05\u03b9 \u1f06\u03b9 "
    U"\u1f07\u03b9 \u1f20\u03b9 \u1f21\u03b9 \u1f22\u03b9 \u1f23\u03b9 \u1f24\u03b9 \u1f25\u03b9 \u1f26\u03b9 "
    U"\u1f27\u03b9 \u1f60\u03b9 \u1f61\u03b9 \u1f62\u03b9 \u1f63\u03b9 \u1f64\u03b9 \u1f65\u03b9 \u1f66\u03b9 "
    U"\u1f67\u03b9 \u1f70\u03b9 \u1f74\u03b9 \u1f7c\u03b9 ffi ffl \u03b1\u0342\u03b9 \u03b7\u0342\u03b9 "
    U"\u03b9\u0308\u0300 \u03b9\u0308\u0301 \u03b9\u0308\u0342 \u03c5\u0308\u0300 \u03c5\u0308\u0301 "
    U"\u03c5\u0308\u0342 \u03c5\u0313\u0300 \u03c5\u0313\u0301 \u03c5\u0313\u0342 \u03c9\u0342\u03b9 ";

/// The first character from `first` to `last` that folds to several.
std::optional<char32_t> first_of_several(char32_t first, char32_t last) {
    for (const auto& [least, most] : kOfSeveral)
        if (std::max(first, least) <= std::min(last, most)) return std::max(first, least);
    return std::nullopt;
}

/// What a match without case takes a part of those for.
char32_t small_letter(char32_t code) {
    switch (code) {
    case 0x17F: return U's';    // ſ
    case 0x345:                 // iota below
    case 0x1FBE: return 0x3B9;  // iota behind
    case 0x3F1: return 0x3C1;   // ϱ
    default: return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
    }
}

/// Whether the text, in small letters, ends in what one character folds to.
bool ends_in_fold(std::u32string_view text) {
    constexpr std::size_t kLeast = 2, kMost = 3;
    for (std::size_t size = kLeast; size <= std::min(kMost, text.size()); ++size) {
        const std::u32string_view end = text.substr(text.size() - size);
        if (end.find(U' ') == end.npos && kFolds.find(U" " + std::u32string(end) + U" ") != kFolds.npos) return true;
    }
    return false;
}

/// Rewrites an Oniguruma expression for PCRE2, or says what cannot be.
class Translator {
public:
    explicit Translator(std::string_view expression) : rest_(expression) {}

    /// Empty result and a reason where it cannot be done.
    std::optional<std::string> translate() {
        while (!rest_.empty() && reason_.empty()) step();
        if (!reason_.empty()) return std::nullopt;
        out_.append(groups_.front().options, ')');
        return std::move(out_);
    }
    const std::string& reason() const { return reason_; }

private:
    /// A group that is open, or the whole.
    struct Group {
        bool is_caseless = false;
        std::size_t options = 0;  ///< (?i) inside of it, each a group up to the end of this one
    };

    void step() {
        if (is_in_class_) return step_in_class();
        switch (rest_.front()) {
        case '\\': return escape();
        case '[': return open_class();
        case '{': return interval();
        case '(':
            if (rest_.starts_with("(?")) return group();
            groups_.push_back({.is_caseless = groups_.back().is_caseless});
            return copy(1);
        case ')':
            if (groups_.size() == 1) return refuse("a ) too many");
            out_.append(groups_.back().options, ')');
            groups_.pop_back();
            return copy(1);
        case '.':
        case '^':
        case '$':
        case '|':
        case '*':
        case '+':
        case '?': return copy(1);
        default: literal();
        }
    }

    void step_in_class() {
        if (rest_.starts_with("&&")) return refuse("an intersection of classes (&&)");
        switch (rest_.front()) {
        case '\\': return escape();
        case '[': return refuse("a class inside a class");
        case ']': is_in_class_ = false; return copy(1);
        default: literal();
        }
    }

    void open_class() {
        is_in_class_ = true;
        is_negated_ = rest_.starts_with("[^");
        copy(is_negated_ ? 2 : 1);
        if (rest_.starts_with(']')) copy(1);
    }

    /// The character in front, as it stands there.
    void literal() {
        const Character character = first_character(rest_);
        take(character.bytes);
        stand(character.code);
    }

    /// A character stands here for itself. Without case, Oniguruma takes ß for ss and ss for ß, and PCRE2 does not.
    void stand(char32_t code) {
        const bool is_range = is_in_class_ && literals_.size() > 1 && literals_.back() == U'-';
        const char32_t first = is_range ? literals_[literals_.size() - 2] : code;
        literals_ += code;
        if (!groups_.back().is_caseless || (is_in_class_ && is_negated_)) return;
        std::u32string folds;
        for (const char32_t each : literals_) folds += small_letter(each);
        const auto several = first_of_several(first, code);
        if (!several && (is_in_class_ || !ends_in_fold(folds))) return;
        std::string text;
        for (const char32_t each : several ? std::u32string(1, *several) : literals_) append_character(text, each);
        refuse("the option (?i) over " + formats::quote(text) +
               ", where one character is taken for several or several for one");
    }

    void escape() {
        if (rest_.size() < 2) return refuse("a backslash at the end");
        const auto replace = [&](std::string_view text) {
            out_ += text;
            rest_.remove_prefix(2);
            literals_.clear();
        };
        switch (const char c = rest_[1]) {
        case 's': return replace(is_in_class_ ? std::string(kSpaces) : in_class(kSpaces));
        case 'S': return replace(is_in_class_ ? std::string(kNoSpaces) : in_class(kNoSpaces));
        case 'w': return replace(is_in_class_ ? std::string(kWordInClass) : in_class(kWord));
        case 'W': return is_in_class_ ? refuse("\\W inside a class") : replace(in_class(kWord, true));
        case 'b':
            if (is_in_class_) break;
            return replace("(?:(?<=" + in_class(kWord) + ")(?!" + in_class(kWord) + ")|(?<!" + in_class(kWord) +
                           ")(?=" + in_class(kWord) + "))");
        case 'B':
            return replace("(?:(?<=" + in_class(kWord) + ")(?=" + in_class(kWord) + ")|(?<!" + in_class(kWord) +
                           ")(?!" + in_class(kWord) + "))");
        case 'v': return replace("\\x{b}");
        case 'u': return code_escape(rest_.substr(2, 4), 6);
        case 'x':
            if (rest_.substr(2).starts_with('{')) {
                const auto end = rest_.find('}');
                if (end != rest_.npos) return code_escape(rest_.substr(3, end - 3), end + 1);
            }
            return code_escape(rest_.substr(2, 2), 4);
        case 'p':
        case 'P': return property();
        case 'a':
        case 'e':
        case 'f':
        case 'n':
        case 'r':
        case 't':
        case 'd':
        case 'D':
        case 'A':
        case 'Z':
        case 'z': return copy(2);
        default:
            if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return refuse(std::string("\\") + c);
            if (c >= '0' && c <= '9') return copy(2);
        }
        take(1);
        literal();
    }

    /// \uHHHH, \x{H…} or \xHH: `size` bytes.
    void code_escape(std::string_view digits, std::size_t size) {
        std::uint32_t code = 0;
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
        if (error != std::errc() || end != digits.data() + digits.size() || code > 0x10FFFF || rest_.size() < size ||
            (size == 4 && rest_[2] != '{' && code > 0x7F))  // a byte, then
            return refuse("\\" + std::string(rest_.substr(1, 1)) + " without a character's number");
        out_ += "\\x{" + std::string(digits) + "}";
        rest_.remove_prefix(size);
        stand(code);
    }

    /// \p{…}, \P{…} or a short form: copied whole, so that the braces are not taken for an interval. Scripts get their prefix.
    void property() {
        const auto end = rest_.size() > 2 && rest_[2] == '{' ? rest_.find('}') : rest_.npos;
        if (end == rest_.npos) return copy(2);
        copy(rest_.substr(3).starts_with('^') ? 4 : 3);
        const std::size_t size = rest_.find('}');
        if (is_prefixed_script(rest_.substr(0, size))) out_ += "sc:";
        copy(size + 1);
    }

    /// {n,m} as Ruby reads it: {,m} begins at 0, a + or ? behind it is a second quantifier.
    void interval() {
        const auto end = rest_.find('}');
        const auto inner = end == rest_.npos ? std::string_view() : rest_.substr(1, end - 1);
        const bool is_interval = !inner.empty() && inner != "," &&
                                 inner.find_first_not_of("0123456789,") == inner.npos &&
                                 std::ranges::count(inner, ',') <= 1;
        if (!is_interval) return copy(1);
        const char next = end + 1 < rest_.size() ? rest_[end + 1] : '\0';
        if (next == '+' || (next == '?' && inner.find(',') == inner.npos))
            return refuse("a quantifier on an interval ({n,m}+ or {n}?)");
        if (inner.starts_with(',')) {
            out_ += "{0";
            rest_.remove_prefix(1);
            return copy(end);
        }
        copy(end + 1);
    }

    /// In Ruby's syntax (?m) makes the dot match newlines, in PCRE2 it changes ^ and $. a(?i)b|c is a(?i:b|c).
    void group() {
        if (rest_.starts_with("(?#")) return rest_.remove_prefix(std::min(rest_.find(')'), rest_.size() - 1) + 1);
        const auto end = rest_.find_first_of(":)", 2);
        const auto options = rest_.substr(2, end == rest_.npos ? end : end - 2);
        Group opened{.is_caseless = groups_.back().is_caseless};
        if (end == rest_.npos || options.find_first_not_of("imx-") != options.npos) {
            groups_.push_back(opened);
            return copy(2);
        }
        if (options.find('m') != options.npos) return refuse("the option (?m)");
        if (const auto at = options.find('i'); at != options.npos) opened.is_caseless = options.find('-') > at;
        if (rest_[end] == ':') {
            groups_.push_back(opened);
            return copy(end + 1);
        }
        groups_.back().is_caseless = opened.is_caseless;
        ++groups_.back().options;
        copy(end);
        out_ += ':';
        rest_.remove_prefix(1);
    }

    void take(std::size_t count) {
        out_ += rest_.substr(0, count);
        rest_.remove_prefix(std::min(count, rest_.size()));
    }
    /// Of what stands for no character.
    void copy(std::size_t count) {
        take(count);
        literals_.clear();
    }
    void refuse(std::string reason) { reason_ = std::move(reason); }

    std::string_view rest_;
    std::string out_;
    std::string reason_;
    std::vector<Group> groups_{1};
    std::u32string literals_;  // that stand in a row before the place
    bool is_in_class_ = false, is_negated_ = false;
};

using MatchData = std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)>;

using MatchContext = std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)>;

/// As pcre2_match; what needs more stack than compiled code has is interpreted.
int match_at(const pcre2_code& code, std::string_view text, std::size_t from, pcre2_match_data& match,
             pcre2_match_context& context) {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    const int found = pcre2_match(&code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, &match, &context);
    if (found != PCRE2_ERROR_JIT_STACKLIMIT) return found;
    return pcre2_match(&code, subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, &match, &context);
}

void add_gap(std::vector<Span>& spans, std::size_t begin, std::size_t end) {
    if (begin != end) spans.push_back({begin, end, false});
}

}  // namespace

Result<Pattern> Pattern::read(const Field& field) {
    if (field.has("Regex")) {
        VKFORMER_TRY(const std::string expression, field.text("Regex"));
        return regex(expression, field);
    }
    VKFORMER_TRY(std::string text, field.text("String"));
    return literal(std::move(text), field);
}

Result<Pattern> Pattern::literal(std::string text, const Field& field) {
    if (text.empty()) return field.unsupported("an empty pattern is not supported");
    Pattern pattern;
    pattern.literal_ = std::move(text);
    return pattern;
}

Result<Pattern> Pattern::regex(std::string_view expression, const Field& field) {
    Translator translator(expression);
    const auto translated = translator.translate();
    if (!translated)
        return field.unsupported("the expression " + formats::quote(expression) + " contains " + translator.reason() +
                                 ", which is not supported");
    int error = 0;
    std::size_t offset = 0;
    pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, nullptr);
    if (!code) {
        std::array<PCRE2_UCHAR, 256> message{};
        pcre2_get_error_message(error, message.data(), message.size());
        return field.unsupported("the expression " + formats::quote(expression) +
                                 " is not understood: " + reinterpret_cast<const char*>(message.data()));
    }
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // where PCRE2 has no compiler for this machine, it interprets
    Pattern pattern;
    pattern.code_ = std::shared_ptr<pcre2_real_code_8>(code, pcre2_code_free);
    return pattern;
}

Result<std::vector<Span>> Pattern::find_all(std::string_view text) const {
    if (text.empty()) return std::vector<Span>{{}};
    std::vector<Span> spans;
    std::size_t gap_begin = 0;
    if (!code_) {
        for (std::size_t begin; (begin = text.find(literal_, gap_begin)) != text.npos;
             gap_begin = begin + literal_.size()) {
            add_gap(spans, gap_begin, begin);
            spans.push_back({begin, begin + literal_.size(), true});
        }
        add_gap(spans, gap_begin, text.size());
        return spans;
    }

    const MatchData match(pcre2_match_data_create_from_pattern(code_.get(), nullptr), pcre2_match_data_free);
    if (!match) return Error{ErrorCode::OutOfHostMemory, "out of memory while tokenizing"};
    const MatchContext context(pcre2_match_context_create(nullptr), pcre2_match_context_free);
    if (!context) return Error{ErrorCode::OutOfHostMemory, "out of memory while tokenizing"};
    // A run of spaces is walked back once, so that the steps allowed grow with the text.
    constexpr std::size_t kSteps = 10'000'000, kStepsPerByte = 16;
    pcre2_set_match_limit(context.get(), static_cast<std::uint32_t>(
                                             std::min<std::size_t>(kSteps + kStepsPerByte * text.size(), UINT32_MAX)));
    std::optional<std::size_t> last_end;
    std::size_t from = 0;
    while (from <= text.size()) {
        const int found = match_at(*code_, text, from, *match, *context);
        if (found == PCRE2_ERROR_NOMATCH) break;
        if (found == PCRE2_ERROR_NOMEMORY) return Error{ErrorCode::OutOfHostMemory, "out of memory while tokenizing"};
        if (found < 0)
            return Error{ErrorCode::InvalidArgument,
                         "the tokenizer's regular expression takes too long on this text (PCRE2 error " +
                             std::to_string(found) + ")"};
        const std::size_t* ends = pcre2_get_ovector_pointer(match.get());
        const std::size_t begin = ends[0], end = std::max(ends[0], ends[1]);
        if (begin == end && last_end == end) {  // an empty match right behind a match does not count
            from += from < text.size() ? sequence_length(text[from]) : 1;
            continue;
        }
        from = end;
        last_end = end;
        add_gap(spans, gap_begin, begin);
        spans.push_back({begin, end, true});
        gap_begin = end;
    }
    add_gap(spans, gap_begin, text.size());
    return spans;
}

std::vector<Span> find_characters(std::string_view text, bool (*matches)(char32_t)) {
    if (text.empty()) return {{}};
    std::vector<Span> spans;
    std::size_t gap_begin = 0;
    for (std::size_t at = 0; at < text.size();) {
        const Character character = first_character(text.substr(at));
        const std::size_t end = at + character.bytes;
        if (matches(character.code)) {
            add_gap(spans, gap_begin, at);
            spans.push_back({at, end, true});
            gap_begin = end;
        }
        at = end;
    }
    add_gap(spans, gap_begin, text.size());
    return spans;
}

Result<SplitBehavior> read_split_behavior(const Field& field) {
    VKFORMER_TRY(const std::string name, field.text());
    if (name == "Removed") return SplitBehavior::Removed;
    if (name == "Isolated") return SplitBehavior::Isolated;
    if (name == "MergedWithPrevious") return SplitBehavior::MergedWithPrevious;
    if (name == "MergedWithNext") return SplitBehavior::MergedWithNext;
    if (name == "Contiguous") return SplitBehavior::Contiguous;
    return field.unsupported(formats::quote(name) + " is not supported");
}

std::vector<Span> split(std::vector<Span> spans, SplitBehavior behavior) {
    if (behavior == SplitBehavior::Isolated) return spans;
    if (behavior == SplitBehavior::Removed) {
        std::erase_if(spans, [](const Span& span) { return span.is_match; });
        return spans;
    }
    const bool backwards = behavior == SplitBehavior::MergedWithNext;
    if (backwards) std::ranges::reverse(spans);
    std::vector<Span> kept;
    bool was_match = false;
    for (const Span& span : spans) {
        const bool merges =
            behavior == SplitBehavior::Contiguous ? span.is_match == was_match : span.is_match && !was_match;
        if (!merges || kept.empty()) {
            kept.push_back(span);
        } else if (backwards) {
            kept.back().begin = span.begin;
        } else {
            kept.back().end = span.end;
        }
        was_match = span.is_match;
    }
    if (backwards) std::ranges::reverse(kept);
    return kept;
}

}  // namespace vkformer::text
