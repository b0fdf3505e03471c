// SPDX-License-Identifier: MIT
#include "text/pre_tokenizers.hpp"

#include <utf8proc.h>

#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "formats/json.hpp"
#include "text/byte_level.hpp"
#include "text/pattern.hpp"
#include "text/unicode.hpp"

namespace vkformer::text {
namespace {

utf8proc_category_t category_of(char32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

bool is_numeric(char32_t code) {
    const auto category = category_of(code);
    return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(char32_t code) {
    if (code < 0x80)
        return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') || (code >= '[' && code <= '`') ||
               (code >= '{' && code <= '~');
    const auto category = category_of(code);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

void append_pieces(const Piece& piece, const std::vector<Span>& spans, std::vector<Piece>& out) {
    for (const Span& span : spans)
        if (span.begin != span.end) out.push_back(piece.slice(span.begin, span.end));
}

/// A pre-tokenizer from a function that cuts one piece into spans.
template <class Cut>
PreTokenizer cutter(Cut cut) {
    return [cut = std::move(cut)](std::vector<Piece>& pieces) -> Result<void> {
        std::vector<Piece> result;
        for (const Piece& piece : pieces) {
            VKFORMER_TRY(const std::vector<Span> spans, cut(piece.text));
            append_pieces(piece, spans, result);
        }
        pieces = std::move(result);
        return {};
    };
}

PreTokenizer character_splitter(bool (*matches)(char32_t), SplitBehavior behavior) {
    return cutter([=](std::string_view text) -> Result<std::vector<Span>> {
        return split(find_characters(text, matches), behavior);
    });
}

/// \w+|[^\w\s]+
std::vector<Span> words_and_signs(std::string_view text) {
    enum class Kind { None, Space, Word, Sign };
    std::vector<Span> spans;
    Kind last = Kind::None;
    for (std::size_t at = 0; at < text.size();) {
        const Character character = first_character(text.substr(at));
        const Kind kind = is_word_character(character.code) ? Kind::Word
                          : is_white_space(character.code)  ? Kind::Space
                                                            : Kind::Sign;
        const std::size_t end = at + character.bytes;
        if (kind == last && kind != Kind::Space) {
            spans.back().end = end;
        } else if (kind != Kind::Space) {
            spans.push_back({at, end, true});
        }
        last = kind;
        at = end;
    }
    return spans;
}

Result<PreTokenizer> read_metaspace_pre_tokenizer(const Field& field) {
    enum class Prepend { First, Never, Always };
    VKFORMER_CHECK(
        field.check_members({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"}));
    VKFORMER_TRY(const std::string replacement, field.text("replacement"));
    if (count_characters(replacement) != 1) return field.corrupt("the replacement is not one character");
    VKFORMER_TRY(const std::string scheme, field.text("prepend_scheme", "always"));
    VKFORMER_TRY(const bool add_prefix_space, field.boolean("add_prefix_space", true));
    VKFORMER_TRY(const bool splits, field.boolean("split", true));
    if (scheme != "first" && scheme != "never" && scheme != "always")
        return field.unsupported("the prepend_scheme " + formats::quote(scheme) + " is not supported");
    if (!add_prefix_space && field.has("prepend_scheme") && scheme != "never")
        return field.corrupt("add_prefix_space contradicts prepend_scheme");
    const Prepend prepend = scheme == "never" || !add_prefix_space ? Prepend::Never
                            : scheme == "first"                    ? Prepend::First
                                                                   : Prepend::Always;
    VKFORMER_TRY(const Pattern pattern, Pattern::literal(replacement, field));
    return PreTokenizer([=](std::vector<Piece>& pieces) -> Result<void> {
        std::vector<Piece> result;
        for (Piece& piece : pieces) {
            replace_all(piece.text, " ", replacement);
            const bool wanted = prepend == Prepend::Always || (prepend == Prepend::First && piece.at_start());
            if (wanted && !piece.text.starts_with(replacement)) piece.text.insert(0, replacement);
            if (piece.at_start()) piece.from_first = first_character(piece.text).bytes;
            if (splits) {
                VKFORMER_TRY(auto spans, pattern.find_all(piece.text));
                append_pieces(piece, split(std::move(spans), SplitBehavior::MergedWithNext), result);
            } else if (!piece.text.empty()) {
                result.push_back(std::move(piece));
            }
        }
        pieces = std::move(result);
        return {};
    });
}

/// GPT-2's words.
constexpr std::string_view kByteLevelWords =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

Result<PreTokenizer> read_byte_level(const Field& field, std::optional<bool> override_prefix_space) {
    VKFORMER_CHECK(field.check_members({"type", "add_prefix_space", "trim_offsets", "use_regex"}));
    VKFORMER_TRY(const bool own_prefix_space, field.boolean("add_prefix_space"));
    VKFORMER_TRY(const bool use_regex, field.boolean("use_regex", true));
    VKFORMER_TRY(const Pattern words, Pattern::regex(kByteLevelWords, field));
    const bool add_prefix_space = override_prefix_space.value_or(own_prefix_space);
    return PreTokenizer([=](std::vector<Piece>& pieces) -> Result<void> {
        std::vector<Piece> result;
        for (Piece& piece : pieces) {
            if (add_prefix_space && !piece.text.empty() && !piece.text.starts_with(' ')) piece.text.insert(0, 1, ' ');
            if (!use_regex) {
                result.push_back(std::move(piece));
                continue;
            }
            VKFORMER_TRY(const auto spans, words.find_all(piece.text));
            append_pieces(piece, spans, result);
        }
        for (Piece& piece : result) {
            piece.text = spell_bytes(piece.text);
            if (piece.at_start()) piece.from_first = first_character(piece.text).bytes;
        }
        pieces = std::move(result);
        return {};
    });
}

Result<PreTokenizer> read_split(const Field& field) {
    VKFORMER_CHECK(field.check_members({"type", "pattern", "behavior", "invert"}));
    VKFORMER_TRY(const Field pattern_field, field.at("pattern"));
    VKFORMER_TRY(const Pattern pattern, Pattern::read(pattern_field));
    VKFORMER_TRY(const Field behavior_field, field.at("behavior"));
    VKFORMER_TRY(const SplitBehavior behavior, read_split_behavior(behavior_field));
    VKFORMER_TRY(const bool invert, field.boolean("invert"));
    return cutter([=](std::string_view text) -> Result<std::vector<Span>> {
        VKFORMER_TRY(auto spans, pattern.find_all(text));
        if (invert)
            for (Span& span : spans) span.is_match = !span.is_match;
        return split(std::move(spans), behavior);
    });
}

/// At a character, which goes.
Result<PreTokenizer> read_delimiter_split(const Field& field) {
    VKFORMER_CHECK(field.check_members({"type", "delimiter"}));
    VKFORMER_TRY(const std::string delimiter, field.text("delimiter"));
    if (count_characters(delimiter) != 1) return field.corrupt("the delimiter is not one character");
    VKFORMER_TRY(const Pattern pattern, Pattern::literal(delimiter, field));
    return cutter([=](std::string_view text) -> Result<std::vector<Span>> {
        VKFORMER_TRY(auto spans, pattern.find_all(text));
        return split(std::move(spans), SplitBehavior::Removed);
    });
}

/// Pieces of as many characters; the last one may be shorter.
Result<PreTokenizer> read_fixed_length(const Field& field) {
    VKFORMER_CHECK(field.check_members({"type", "length"}));
    VKFORMER_TRY(const std::int32_t length, field.id("length"));
    if (length == 0) return field.unsupported("a length of 0 is not supported");
    return cutter([=](std::string_view text) -> Result<std::vector<Span>> {
        std::vector<Span> spans;
        std::int32_t characters = 0;
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t end = at + first_character(text.substr(at)).bytes;
            if (characters++ % length == 0) spans.push_back({at, at, true});
            spans.back().end = at = end;
        }
        return spans;
    });
}

Result<PreTokenizer> read_sequence_pre_tokenizer(const Field& field) {
    VKFORMER_CHECK(field.check_members({"type", "pretokenizers"}));
    VKFORMER_TRY(const auto fields, field.elements("pretokenizers"));
    std::vector<PreTokenizer> steps;
    for (const Field& element : fields) {
        VKFORMER_TRY(auto step, read_pre_tokenizer(element));
        steps.push_back(std::move(step));
    }
    return PreTokenizer([steps = std::move(steps)](std::vector<Piece>& pieces) -> Result<void> {
        for (const PreTokenizer& step : steps) VKFORMER_CHECK(step(pieces));
        return {};
    });
}

}  // namespace

bool is_word_character(char32_t code) noexcept {
    switch (category_of(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: break;
    }
    // The joiners, and circled and squared letters: symbols that Unicode calls alphabetic.
    return code == 0x200C || code == 0x200D || (code >= 0x24B6 && code <= 0x24E9) ||
           (code >= 0x1F130 && code <= 0x1F149) || (code >= 0x1F150 && code <= 0x1F169) ||
           (code >= 0x1F170 && code <= 0x1F189);
}

Result<PreTokenizer> read_pre_tokenizer(const Field& field, std::optional<bool> add_prefix_space) {
    VKFORMER_TRY(const std::string type, field.text("type"));
    if (type == "Sequence") return read_sequence_pre_tokenizer(field);
    if (type == "Metaspace") return read_metaspace_pre_tokenizer(field);
    if (type == "ByteLevel") return read_byte_level(field, add_prefix_space);
    if (type == "Split") return read_split(field);
    if (type == "CharDelimiterSplit") return read_delimiter_split(field);
    if (type == "FixedLength") return read_fixed_length(field);
    if (type == "Digits") {
        VKFORMER_CHECK(field.check_members({"type", "individual_digits"}));
        VKFORMER_TRY(const bool individual, field.boolean("individual_digits"));
        return character_splitter(is_numeric, individual ? SplitBehavior::Isolated : SplitBehavior::Contiguous);
    }
    if (type == "Punctuation") {
        VKFORMER_CHECK(field.check_members({"type", "behavior"}));
        SplitBehavior behavior = SplitBehavior::Isolated;
        if (const auto behavior_field = field.find("behavior")) {
            VKFORMER_TRY(behavior, read_split_behavior(*behavior_field));
        }
        return character_splitter(is_punctuation, behavior);
    }
    if (type == "BertPreTokenizer") {  // words, and every punctuation mark by itself
        VKFORMER_CHECK(field.check_members({"type"}));
        return PreTokenizer([words = character_splitter(is_white_space, SplitBehavior::Removed),
                             marks = character_splitter(is_punctuation, SplitBehavior::Isolated)](
                                std::vector<Piece>& pieces) -> Result<void> {
            VKFORMER_CHECK(words(pieces));
            return marks(pieces);
        });
    }
    if (type == "WhitespaceSplit") {
        VKFORMER_CHECK(field.check_members({"type"}));
        return character_splitter(is_white_space, SplitBehavior::Removed);
    }
    if (type == "Whitespace") {
        VKFORMER_CHECK(field.check_members({"type"}));
        return cutter([](std::string_view text) -> Result<std::vector<Span>> { return words_and_signs(text); });
    }
    return field.unsupported("the pre-tokenizer " + formats::quote(type) + " is not supported");
}

}  // namespace vkformer::text
