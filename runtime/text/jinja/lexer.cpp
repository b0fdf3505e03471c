// SPDX-License-Identifier: MIT
#include "text/jinja/lexer.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "text/jinja/value.hpp"
#include "text/unicode.hpp"

namespace vkformer::text::jinja {
namespace {

constexpr std::size_t kMaxTokens = 1'000'000;
constexpr std::size_t kMaxNameBytes = 256;  // looking one up counts as one step

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

/// Line ends become \n, and the one at the end goes.
std::string with_plain_lines(std::string_view source) {
    std::string text;
    for (std::size_t i = 0; i < source.size(); ++i) {
        const bool is_return = source[i] == '\r';
        if (is_return && i + 1 < source.size() && source[i + 1] == '\n') continue;
        text += is_return ? '\n' : source[i];
    }
    if (text.ends_with('\n')) text.pop_back();
    return text;
}

class Lexer {
public:
    Lexer(std::string_view source, std::size_t& line) : source_(source), line_(line) {}

    std::vector<Token> run() {
        while (at_ < source_.size()) {
            const std::size_t begin = find_tag();
            data(begin);
            if (at_ == source_.size()) break;
            tag();
        }
        add(Token::Kind::End, {});
        return std::move(tokens_);
    }

private:
    std::string_view rest() const { return source_.substr(at_); }

    void add(Token::Kind kind, std::string text) {
        if (tokens_.size() >= kMaxTokens) broken("it has more than " + std::to_string(kMaxTokens) + " tokens");
        tokens_.push_back({kind, std::move(text), line_});
    }
    void skip(std::size_t count) {
        line_ += static_cast<std::size_t>(std::ranges::count(source_.substr(at_, count), '\n'));
        at_ += count;
        after_newline_ = at_ > 0 && source_[at_ - 1] == '\n';
    }

    std::size_t find_tag() const {
        for (std::size_t i = at_; i + 1 < source_.size(); ++i)
            if (source_[i] == '{' && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#'))
                return i;
        return source_.size();
    }

    /// The text up to `end`, as the tag that begins there leaves it.
    void data(std::size_t end) {
        std::string_view text = source_.substr(at_, end - at_);
        if (end < source_.size()) {
            const char kind = source_[end + 1];
            const char sign = end + 2 < source_.size() ? source_[end + 2] : '\0';
            if (sign == '-') {
                text = trim_end(text, is_python_space);
            } else if (sign != '+' && kind != '{') {
                text = without_indentation(text);
            }
        }
        if (!text.empty()) add(Token::Kind::Data, std::string(text));
        if (end > at_) skip(end - at_);
    }

    std::string_view without_indentation(std::string_view text) const {
        const std::size_t line_begin = text.rfind('\n') + 1;  // npos + 1 is 0
        if (line_begin == 0 && !after_newline_) return text;
        return trim_start(text.substr(line_begin), is_python_space).empty() ? text.substr(0, line_begin) : text;
    }

    void tag() {
        const char kind = source_[at_ + 1];
        const bool has_sign = rest().size() > 2 && (rest()[2] == '-' || rest()[2] == '+');
        if (kind == '#') return comment();
        if (kind == '%' && raw()) return;
        add(kind == '{' ? Token::Kind::BeginVariable : Token::Kind::BeginBlock, {});
        skip(has_sign ? 3 : 2);
        inside(kind == '{');
    }

    /// How long the end of a tag is, with the white space that it takes along; nothing where it does not end here.
    std::optional<std::size_t> end_of_tag(std::size_t at, std::string_view close, bool trims_newline) const {
        const std::string_view text = source_.substr(at);
        if (text.starts_with("-" + std::string(close))) {
            const std::string_view behind = text.substr(1 + close.size());
            return text.size() - trim_start(behind, is_python_space).size();
        }
        if (close != "}}" && text.starts_with("+" + std::string(close))) return 1 + close.size();
        if (!text.starts_with(close)) return std::nullopt;
        return close.size() + (trims_newline && text.substr(close.size()).starts_with('\n'));
    }

    void comment() {
        const std::size_t open_line = line_;
        skip(2);
        while (at_ < source_.size()) {
            if (const auto size = end_of_tag(at_, "#}", true)) return skip(*size);
            skip(1);
        }
        line_ = open_line;
        broken("a comment has no end");
    }

    /// {% raw %} … {% endraw %}
    bool raw() {
        const auto opened = named_tag(at_, "raw", false);
        if (!opened) return false;
        const std::size_t open_line = line_;
        skip(*opened - at_);
        for (std::size_t end = source_.find("{%", at_); end != source_.npos; end = source_.find("{%", end + 1)) {
            const auto closed = named_tag(end, "endraw", true);
            if (!closed) continue;
            data(end);
            skip(*closed - at_);
            return true;
        }
        line_ = open_line;
        broken("a raw block has no end");
    }

    /// Where the tag {% name %} at `begin` ends.
    std::optional<std::size_t> named_tag(std::size_t begin, std::string_view name, bool trims_newline) const {
        std::size_t at = begin + 2;
        const auto skip_spaces = [&] {
            while (at < source_.size() && is_ascii_space(source_[at])) ++at;
        };
        if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) ++at;
        skip_spaces();
        if (!source_.substr(at).starts_with(name)) return std::nullopt;
        at += name.size();
        skip_spaces();
        const auto size = end_of_tag(at, "%}", trims_newline);
        if (!size) return std::nullopt;
        return at + *size;
    }

    void inside(bool is_variable) {
        const std::size_t open_line = line_;
        std::vector<char> brackets;
        while (at_ < source_.size()) {
            if (brackets.empty()) {
                if (const auto size = end_of_tag(at_, is_variable ? "}}" : "%}", !is_variable)) {
                    add(is_variable ? Token::Kind::EndVariable : Token::Kind::EndBlock, {});
                    return skip(*size);
                }
            }
            token(brackets);
        }
        line_ = open_line;
        broken("a tag has no end");
    }

    void token(std::vector<char>& brackets) {
        const char c = source_[at_];
        if (is_ascii_space(c)) return skip(1);
        if (is_name_start(c)) {
            std::size_t size = 1;
            while (size < rest().size() && is_name_part(rest()[size])) ++size;
            if (size > kMaxNameBytes) broken("a name of more than " + std::to_string(kMaxNameBytes) + " characters");
            return take(Token::Kind::Name, size);
        }
        if (is_digit(c)) return number();
        if (c == '\'' || c == '"') return literal(c);
        sign(brackets);
    }

    void take(Token::Kind kind, std::size_t size) {
        add(kind, std::string(rest().substr(0, size)));
        skip(size);
    }

    void number() {
        std::size_t size = 0;
        const auto digits = [&] {
            while (size < rest().size() && (is_digit(rest()[size]) || rest()[size] == '_')) ++size;
        };
        digits();
        const auto follows = [&](std::size_t i) { return i < rest().size() && is_digit(rest()[i]); };
        if (size < rest().size() && (rest()[size] == 'x' || rest()[size] == 'o' || rest()[size] == 'b'))
            refuse("a number that is not decimal");
        bool is_float = false;
        if (size < rest().size() && rest()[size] == '.' && follows(size + 1)) {
            is_float = true;
            ++size;
            digits();
        }
        if (size < rest().size() && (rest()[size] == 'e' || rest()[size] == 'E')) {
            const std::size_t sign = size + 1 < rest().size() && (rest()[size + 1] == '-' || rest()[size + 1] == '+');
            if (follows(size + 1 + sign)) {
                is_float = true;
                size += 1 + sign;
                digits();
            }
        }
        std::string text(rest().substr(0, size));
        std::erase(text, '_');
        add(is_float ? Token::Kind::Float : Token::Kind::Integer, std::move(text));
        skip(size);
    }

    void literal(char quote) {
        const std::size_t open_line = line_;
        std::string text;
        std::size_t at = at_ + 1;
        while (at < source_.size() && source_[at] != quote) {
            if (source_[at] == '\\' && at + 1 < source_.size()) {
                at = escape(at + 1, text);
            } else {
                text += source_[at++];
            }
        }
        if (at >= source_.size()) {
            line_ = open_line;
            broken("a string has no end");
        }
        add(Token::Kind::Text, std::move(text));
        skip(at + 1 - at_);
    }

    /// Python's escape sequences; what is none stays as it is. Returns where it ends.
    std::size_t escape(std::size_t at, std::string& text) {
        constexpr std::string_view kNames = "nrtabfv\\'\"", kValues = "\n\r\t\a\b\f\v\\'\"";
        const char c = source_[at];
        if (const auto named = kNames.find(c); named != kNames.npos) {
            text += kValues[named];
            return at + 1;
        }
        if (c == '\n') return at + 1;
        if (c == 'N') refuse("the escape \\N in a string");
        if (c >= '0' && c <= '7') return code_escape(at, 8, 1, 3, text);
        if (c == 'x') return code_escape(at + 1, 16, 2, 2, text);
        if (c == 'u') return code_escape(at + 1, 16, 4, 4, text);
        if (c == 'U') return code_escape(at + 1, 16, 8, 8, text);
        text += '\\';
        return at;
    }

    std::size_t code_escape(std::size_t at, int base, std::size_t least, std::size_t most, std::string& text) const {
        const std::string_view digits = source_.substr(std::min(at, source_.size()), most);
        unsigned code = 0;
        const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), code, base).ptr;
        const auto size = static_cast<std::size_t>(end - digits.data());
        if (size < least) broken("a string has a broken escape");
        if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) broken("a string has an escape that is no character");
        append_character(text, code);
        return at + size;
    }

    void sign(std::vector<char>& brackets) {
        static constexpr std::array<std::string_view, 26> kSigns = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                                    "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                                    ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
        const auto found = std::ranges::find_if(kSigns, [&](std::string_view s) { return rest().starts_with(s); });
        if (found == kSigns.end())
            broken("the character " + std::string(rest().substr(0, 1)) + " does not belong into a tag");
        const char c = found->front();
        if (c == '(' || c == '[' || c == '{') brackets.push_back(c == '(' ? ')' : static_cast<char>(c + 2));
        if (c == ')' || c == ']' || c == '}') {
            if (brackets.empty() || brackets.back() != c) broken(std::string("an unexpected ") + c);
            brackets.pop_back();
        }
        take(Token::Kind::Sign, found->size());
    }

    std::string_view source_;
    std::size_t& line_;
    std::size_t at_ = 0;
    bool after_newline_ = true;  // or at the beginning
    std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, std::size_t& line) {
    line = 1;
    const std::string text = with_plain_lines(source);
    return Lexer(text, line).run();
}

}  // namespace vkformer::text::jinja
