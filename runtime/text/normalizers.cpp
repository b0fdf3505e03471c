// SPDX-License-Identifier: MIT
#include "text/normalizers.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/stable_order.hpp"
#include "core/try.hpp"
#include "formats/json.hpp"
#include "text/byte_level.hpp"
#include "text/charsmap.hpp"
#include "text/pattern.hpp"
#include "text/unicode.hpp"

namespace vkformer::text {
namespace {

/// A normalizer from a function on texts that treats their beginning alike whatever follows.
template <class Map>
Normalizer from_map(Map map) {
    return [map](Piece& piece) -> Result<void> {
        VKFORMER_TRY(const std::string front, map(std::string_view(piece.text).substr(0, piece.from_first)));
        VKFORMER_TRY(piece.text, map(std::string_view(piece.text)));
        piece.from_first = std::min(front.size(), piece.text.size());
        // Composition may have joined the last character of the front with the next one.
        while (piece.from_first < piece.text.size() && is_continuation(piece.text[piece.from_first]))
            ++piece.from_first;
        return {};
    };
}

/// Marks behind a character come in the order of their combining classes (Unicode 15, 3.11, D109). utf8proc_map swaps neighbours for it,
/// which takes hours for a text of nothing but marks.
void order_marks(std::vector<utf8proc_int32_t>& codes) {
    const auto mark_class = [](utf8proc_int32_t code) { return utf8proc_get_property(code)->combining_class; };
    const auto is_mark = [&](utf8proc_int32_t code) { return mark_class(code) != 0; };
    for (auto first = codes.begin(); first != codes.end();) {
        first = std::find_if(first, codes.end(), is_mark);
        const auto last = std::find_if_not(first, codes.end(), is_mark);
        if (last - first > 1) {
            std::vector<utf8proc_int32_t> marks(first, last);
            sort_stably(marks, [&](auto a, auto b) { return mark_class(a) < mark_class(b); });
            std::ranges::copy(marks, first);
        }
        first = last;
    }
}

Normalizer unicode_form(int wanted) {
    return from_map([wanted](std::string_view text) -> Result<std::string> {
        if (std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
            return std::string(text);
        const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | wanted);
        std::vector<utf8proc_int32_t> codes;
        codes.reserve(text.size());
        while (!text.empty()) {
            constexpr std::size_t kMost = 32;  // the longest decomposition of Unicode has 18 characters
            const Character character = first_character(text);
            std::array<utf8proc_int32_t, kMost> parts;
            int boundary = 0;
            const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character.code), parts.data(),
                                                       kMost, options, &boundary);
            if (count < 0 || count > static_cast<utf8proc_ssize_t>(kMost))
                return Error{ErrorCode::InvalidArgument, "the text has a character that Unicode has not"};
            codes.insert(codes.end(), parts.begin(), parts.begin() + count);
            text.remove_prefix(character.bytes);
        }
        order_marks(codes);
        const auto size = utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()), options);
        std::string mapped;
        for (utf8proc_ssize_t i = 0; i < size; ++i) append_character(mapped, static_cast<char32_t>(codes[i]));
        return mapped;
    });
}

/// A normalizer that works character by character: `map(out, code)` appends what becomes of each.
template <class Map>
Normalizer character_map(Map map) {
    return from_map([map](std::string_view text) -> Result<std::string> {
        std::string mapped;
        mapped.reserve(text.size());
        while (!text.empty()) {
            const Character character = first_character(text);
            map(mapped, character.code);
            text.remove_prefix(character.bytes);
        }
        return mapped;
    });
}

void append_lowercase(std::string& out, char32_t code) {
    if (code == 0x130) {  // İ is the one character whose lower case is two
        out += "i\u0307";
    } else {
        append_character(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
    }
}

void append_without_mark(std::string& out, char32_t code) {
    const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
    const bool is_mark =
        category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
    if (!is_mark) append_character(out, code);
}

/// SentencePiece's "nmt" cleaning: controls go, odd spaces become spaces.
void append_nmt(std::string& out, char32_t c) {
    const bool goes =
        (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
    const bool is_space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                          (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
                          c == 0xFFFD;
    if (!goes) append_character(out, is_space ? U' ' : c);
}

// ---- BERT's, as the tokenizers library has it

/// Controls, formats and private use go, white space becomes a space.
void append_clean(std::string& out, char32_t code) {
    if (code == '\t' || code == '\n' || code == '\r' || is_white_space(code)) {
        const bool is_control = code != '\t' && code != '\n' && code != '\r' && code < 0xA0 && code != ' ';
        if (!is_control) out += ' ';
        return;
    }
    const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
    const bool goes = code == 0 || code == 0xFFFD || category == UTF8PROC_CATEGORY_CC ||
                      category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO;
    if (!goes) append_character(out, code);
}

/// Han characters are words of their own: the blocks of CJK ideographs that BERT knows.
void append_apart(std::string& out, char32_t code) {
    constexpr std::array<std::pair<char32_t, char32_t>, 8> kBlocks = {{{0x3400, 0x4DBF},
                                                                       {0x4E00, 0x9FFF},
                                                                       {0xF900, 0xFAFF},
                                                                       {0x20000, 0x2A6DF},
                                                                       {0x2A700, 0x2B73F},
                                                                       {0x2B740, 0x2B81F},
                                                                       {0x2B920, 0x2CEAF},
                                                                       {0x2F800, 0x2FA1F}}};
    const bool is_ideograph =
        std::ranges::any_of(kBlocks, [&](const auto& block) { return block.first <= code && code <= block.second; });
    if (is_ideograph) out += ' ';
    append_character(out, code);
    if (is_ideograph) out += ' ';
}

void append_without_nonspacing(std::string& out, char32_t code) {
    if (utf8proc_category(static_cast<utf8proc_int32_t>(code)) != UTF8PROC_CATEGORY_MN) append_character(out, code);
}

Result<Normalizer> read_bert_normalizer(const Field& field) {
    VKFORMER_CHECK(field.check_members({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"}));
    VKFORMER_TRY(const bool cleans, field.boolean("clean_text", true));
    VKFORMER_TRY(const bool parts_han, field.boolean("handle_chinese_chars", true));
    VKFORMER_TRY(const bool lowers, field.boolean("lowercase", true));
    VKFORMER_TRY(const bool strips, field.boolean("strip_accents", lowers));
    std::vector<Normalizer> steps;
    if (cleans) steps.push_back(character_map(append_clean));
    if (parts_han) steps.push_back(character_map(append_apart));
    if (strips) steps.push_back(unicode_form(UTF8PROC_DECOMPOSE));
    if (strips) steps.push_back(character_map(append_without_nonspacing));
    if (lowers) steps.push_back(character_map(append_lowercase));
    return Normalizer([steps = std::move(steps)](Piece& piece) -> Result<void> {
        for (const Normalizer& step : steps) VKFORMER_CHECK(step(piece));
        return {};
    });
}

Result<Normalizer> read_strip_normalizer(const Field& field) {
    VKFORMER_TRY(const bool left, field.boolean("strip_left"));
    VKFORMER_TRY(const bool right, field.boolean("strip_right"));
    return Normalizer([left, right](Piece& piece) -> Result<void> {
        const std::string_view text = piece.text;
        const std::size_t begin = left ? text.size() - trim_start(text, is_white_space).size() : 0;
        const std::size_t end = right ? trim_end(text, is_white_space).size() : text.size();
        piece = piece.slice(begin, std::max(begin, end));
        return {};
    });
}

Result<Normalizer> read_replace_normalizer(const Field& field) {
    VKFORMER_TRY(const Field pattern_field, field.at("pattern"));
    VKFORMER_TRY(Pattern pattern, Pattern::read(pattern_field));
    VKFORMER_TRY(std::string content, field.text("content"));
    return Normalizer([pattern = std::move(pattern), content = std::move(content)](Piece& piece) -> Result<void> {
        VKFORMER_TRY(const auto spans, pattern.find_all(piece.text));
        const std::string_view text = piece.text;
        std::string replaced;
        std::size_t from_first = 0;
        for (const Span& span : spans) {
            replaced += span.is_match ? std::string_view(content) : text.substr(span.begin, span.end - span.begin);
            if (span.end <= piece.from_first) {
                from_first = replaced.size();
            } else if (!span.is_match && span.begin < piece.from_first) {
                from_first = replaced.size() - (span.end - piece.from_first);
            }
        }
        piece = {std::move(replaced), from_first};
        return {};
    });
}

Result<std::string> decode_base64(const Field& field) {
    VKFORMER_TRY(const std::string text, field.text());
    const auto value_of = [](char c) -> int {
        if (c >= 'A' && c <= 'Z') return c - 'A';
        if (c >= 'a' && c <= 'z') return c - 'a' + 26;
        if (c >= '0' && c <= '9') return c - '0' + 52;
        return c == '+' ? 62 : c == '/' ? 63 : -1;
    };
    std::string bytes;
    unsigned buffer = 0, bits = 0;
    for (const char c : std::string_view(text).substr(0, text.find_last_not_of('=') + 1)) {
        const int value = value_of(c);
        if (value < 0) return field.corrupt("is not base64");
        buffer = (buffer << 6 | static_cast<unsigned>(value)) & 0xFFFF;
        if ((bits += 6) < 8) continue;
        bits -= 8;
        bytes += static_cast<char>(buffer >> bits);
    }
    return bytes;
}

/// The length of the extended grapheme cluster at the front.
std::size_t grapheme_length(std::string_view text) {
    utf8proc_int32_t state = 0;
    Character last = first_character(text);
    std::size_t length = last.bytes;
    while (length < text.size()) {
        const Character next = first_character(text.substr(length));
        if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last.code),
                                             static_cast<utf8proc_int32_t>(next.code), &state))
            break;
        length += next.bytes;
        last = next;
    }
    return length;
}

/// Short grapheme clusters are looked up whole, others character by character, and a rule for a prefix replaces all of what
/// is looked up: not what SentencePiece does, but what Hugging Face does.
Result<Normalizer> read_precompiled_normalizer(const Field& field) {
    constexpr std::size_t kMaxWholeBytes = 5;
    VKFORMER_TRY(const Field map_field, field.at("precompiled_charsmap"));
    VKFORMER_TRY(const std::string blob, decode_base64(map_field));
    VKFORMER_TRY(Charsmap parsed, Charsmap::parse(blob, field.path()));
    return Normalizer([map = std::make_shared<const Charsmap>(std::move(parsed))](Piece& piece) -> Result<void> {
        std::string mapped;
        for (std::string_view rest = piece.text; !rest.empty();) {
            std::string_view grapheme = rest.substr(0, grapheme_length(rest));
            rest.remove_prefix(grapheme.size());
            if (const auto whole = grapheme.size() <= kMaxWholeBytes ? map->shortest(grapheme) : std::nullopt) {
                mapped += whole->replacement;
                continue;
            }
            while (!grapheme.empty()) {
                const std::string_view character = grapheme.substr(0, first_character(grapheme).bytes);
                const auto match = map->shortest(character);
                mapped += match ? match->replacement : character;
                grapheme.remove_prefix(character.size());
            }
        }
        // Hugging Face counts the first character that is left as the first one, even if one before it was removed.
        const bool at_start = piece.at_start() && !mapped.empty();
        piece = {std::move(mapped), 0};
        if (at_start) piece.from_first = first_character(piece.text).bytes;
        return {};
    });
}

Result<Normalizer> read_sequence_normalizer(const Field& field) {
    VKFORMER_TRY(const auto fields, field.elements("normalizers"));
    std::vector<Normalizer> normalizers;
    for (const Field& element : fields) {
        VKFORMER_TRY(auto normalizer, read_normalizer(element));
        normalizers.push_back(std::move(normalizer));
    }
    return Normalizer([normalizers = std::move(normalizers)](Piece& piece) -> Result<void> {
        for (const Normalizer& normalizer : normalizers) VKFORMER_CHECK(normalizer(piece));
        return {};
    });
}

}  // namespace

Result<Normalizer> read_normalizer(const Field& field) {
    VKFORMER_TRY(const std::string type, field.text("type"));
    const auto only = [&](std::initializer_list<std::string_view> names) { return field.check_members(names); };
    if (type == "Sequence") {
        VKFORMER_CHECK(only({"type", "normalizers"}));
        return read_sequence_normalizer(field);
    }
    if (type == "Replace") {
        VKFORMER_CHECK(only({"type", "pattern", "content"}));
        return read_replace_normalizer(field);
    }
    if (type == "BertNormalizer") return read_bert_normalizer(field);
    if (type == "Strip") {
        VKFORMER_CHECK(only({"type", "strip_left", "strip_right"}));
        return read_strip_normalizer(field);
    }
    if (type == "Precompiled") {
        VKFORMER_CHECK(only({"type", "precompiled_charsmap"}));
        return read_precompiled_normalizer(field);
    }
    if (type == "Prepend") {
        VKFORMER_CHECK(only({"type", "prepend"}));
        VKFORMER_TRY(std::string prefix, field.text("prepend"));
        return Normalizer([prefix = std::move(prefix)](Piece& piece) -> Result<void> {
            if (piece.text.empty()) return {};
            piece.text.insert(0, prefix);
            if (piece.at_start()) piece.from_first += prefix.size();
            return {};
        });
    }
    const auto simple = [&](Normalizer normalizer) -> Result<Normalizer> {
        VKFORMER_CHECK(only({"type"}));
        return normalizer;
    };
    if (type == "NFC") return simple(unicode_form(UTF8PROC_COMPOSE));
    if (type == "NFD") return simple(unicode_form(UTF8PROC_DECOMPOSE));
    if (type == "NFKC") return simple(unicode_form(UTF8PROC_COMPOSE | UTF8PROC_COMPAT));
    if (type == "NFKD") return simple(unicode_form(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT));
    if (type == "Lowercase") return simple(character_map(append_lowercase));
    if (type == "StripAccents") return simple(character_map(append_without_mark));
    if (type == "Nmt") return simple(character_map(append_nmt));
    if (type == "ByteLevel")
        return simple(from_map([](std::string_view text) -> Result<std::string> { return spell_bytes(text); }));
    return field.unsupported("the normalizer " + formats::quote(type) + " is not supported");
}

std::string lower_case(std::string_view text) {
    std::string result;
    while (!text.empty()) {
        const Character character = first_character(text);
        append_lowercase(result, character.code);
        text.remove_prefix(character.bytes);
    }
    return result;
}

}  // namespace vkformer::text
