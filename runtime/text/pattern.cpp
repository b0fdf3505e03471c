// SPDX-License-Identifier: MIT
#include "text/pattern.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
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
constexpr std::string_view kWord = R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be}\x{24b6}-\x{24e9})"
                                   R"(\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";

std::string in_class(std::string_view members, bool negated = false) {
    return (negated ? "[^" : "[") + std::string(members) + "]";
}

/// Rewrites an Oniguruma expression for PCRE2, or says what cannot be.
class Translator {
public:
    explicit Translator(std::string_view expression) : rest_(expression) {}

    /// Empty result and a reason where it cannot be done.
    std::optional<std::string> translate() {
        while (!rest_.empty() && reason_.empty()) step();
        if (!reason_.empty()) return std::nullopt;
        return std::move(out_);
    }
    const std::string& reason() const { return reason_; }

private:
    void step() {
        switch (rest_.front()) {
        case '\\': escape(); return;
        case '[': open_class(); return;
        case ']': is_in_class_ = false; break;
        case '&':
            if (is_in_class_ && rest_.starts_with("&&")) return refuse("an intersection of classes (&&)");
            break;
        case '{':
            if (!is_in_class_) return interval();
            break;
        case '(':
            if (!is_in_class_ && rest_.starts_with("(?")) return group();
            break;
        default: break;
        }
        copy(1);
    }

    void open_class() {
        if (is_in_class_) return refuse("a class inside a class");
        is_in_class_ = true;
        copy(rest_.starts_with("[^") ? 2 : 1);
        if (rest_.starts_with(']')) copy(1);
    }

    void escape() {
        if (rest_.size() < 2) return refuse("a backslash at the end");
        const auto replace = [&](std::string_view text) {
            out_ += text;
            rest_.remove_prefix(2);
        };
        switch (const char c = rest_[1]) {
        case 's': return replace(is_in_class_ ? std::string(kSpaces) : in_class(kSpaces));
        case 'S': return replace(is_in_class_ ? std::string(kNoSpaces) : in_class(kNoSpaces));
        case 'w': return replace(is_in_class_ ? std::string(kWord) : in_class(kWord));
        case 'W': return is_in_class_ ? refuse("\\W inside a class") : replace(in_class(kWord, true));
        case 'b':
            if (is_in_class_) break;
            return replace("(?:(?<=" + in_class(kWord) + ")(?!" + in_class(kWord) + ")|(?<!" + in_class(kWord) +
                           ")(?=" + in_class(kWord) + "))");
        case 'B':
            return replace("(?:(?<=" + in_class(kWord) + ")(?=" + in_class(kWord) + ")|(?<!" + in_class(kWord) +
                           ")(?!" + in_class(kWord) + "))");
        case 'v': return replace("\\x{b}");
        case 'u': return unicode_escape();
        case 'p':
        case 'P':
        case 'x': return braced_escape();
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
        case 'z': break;
        default:
            if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return refuse(std::string("\\") + c);
        }
        copy(2);
    }

    /// \uHHHH
    void unicode_escape() {
        const auto digits = rest_.substr(2, 4);
        if (digits.size() < 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos)
            return refuse("\\u");
        out_ += "\\x{" + std::string(digits) + "}";
        rest_.remove_prefix(6);
    }

    /// \p{…}, \x{…} or a short form: copied whole, so that the braces are not taken for an interval.
    void braced_escape() {
        const auto end = rest_.size() > 2 && rest_[2] == '{' ? rest_.find('}') : std::string_view::npos;
        copy(end == rest_.npos ? 2 : end + 1);
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

    /// In Ruby's syntax (?m) makes the dot match newlines, in PCRE2 it changes ^ and $.
    void group() {
        const auto options = rest_.substr(2, rest_.find_first_of(":)", 2) - 2);
        if (options.find_first_not_of("imx-") == options.npos && options.find('m') != options.npos)
            return refuse("the option (?m)");
        copy(2);
    }

    void copy(std::size_t count) {
        out_ += rest_.substr(0, count);
        rest_.remove_prefix(std::min(count, rest_.size()));
    }
    void refuse(std::string reason) { reason_ = std::move(reason); }

    std::string_view rest_;
    std::string out_;
    std::string reason_;
    bool is_in_class_ = false;
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
