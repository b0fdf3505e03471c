// SPDX-License-Identifier: MIT
#include "text/languages.hpp"

#include <algorithm>
#include <system_error>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "formats/json.hpp"
#include "text/json_field.hpp"

namespace vkformer::text {
namespace {

constexpr std::size_t kMostHints = 8;

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }

/// The name in MADLAD-400's "<2de>", "<2zh_Latn>"; empty for other pieces.
std::string_view name_of_target(std::string_view piece) {
    constexpr std::string_view kBegin = "<2";
    if (piece.size() < 5 || !piece.starts_with(kBegin) || !piece.ends_with('>')) return {};
    const std::string_view name = piece.substr(kBegin.size(), piece.size() - kBegin.size() - 1);
    const std::string_view code = name.substr(0, name.find('_'));
    return code.size() <= 3 && std::ranges::all_of(code, is_lower) ? name : std::string_view();
}

/// "__de__", "de_DE", "deu_Latn", "<2de>"
bool is_language(std::string_view piece) {
    if (piece.size() > 4 && piece.starts_with("__") && piece.ends_with("__")) return true;
    if (!name_of_target(piece).empty()) return true;
    const std::size_t at = piece.find('_');
    if (at != 2 && at != 3) return false;
    const std::string_view code = piece.substr(0, at), region = piece.substr(at + 1);
    const bool is_region = region.size() == 2 && std::ranges::all_of(region, is_upper);
    const bool is_script = region.size() == 4 && is_upper(region[0]) && std::ranges::all_of(region.substr(1), is_lower);
    return std::ranges::all_of(code, is_lower) && (is_region || is_script);
}

/// Languages whose names begin as `name` does, else any: for a message.
std::string hints(const Tokenizer& tokenizer, std::string_view name) {
    const std::string_view start = name.substr(0, 2);
    std::string alike, any;
    std::size_t alike_count = 0, any_count = 0;
    const auto add = [](std::string& list, std::size_t& count, const std::string& piece) {
        if (++count <= kMostHints) list += (list.empty() ? "" : ", ") + piece;
    };
    for (std::size_t id = 0; id < tokenizer.vocab_size(); ++id) {
        const std::string piece = tokenizer.piece(static_cast<std::int32_t>(id));
        if (!is_language(piece)) continue;
        add(any, any_count, piece);
        if (piece.starts_with(start) || piece.starts_with("__" + std::string(start)) ||
            name_of_target(piece).starts_with(start))
            add(alike, alike_count, piece);
    }
    if (any.empty()) return "; its vocabulary has no languages";
    return alike.empty() ? "; it has " + any + ", …" : "; did you mean one of " + alike + "?";
}

std::string without_fast(std::string name) {
    constexpr std::string_view kFast = "Fast";
    if (name.ends_with(kFast)) name.resize(name.size() - kFast.size());
    return name;
}

}  // namespace

Result<std::optional<LanguageMarks>> read_language_marks(const std::filesystem::path& folder,
                                                         const Tokenizer& tokenizer) {
    const auto path = folder / "tokenizer_config.json";
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) return std::optional<LanguageMarks>{};
    VKFORMER_TRY(const nlohmann::json json, formats::read_json(path));
    const Field root(json, "tokenizer_config.json");
    VKFORMER_TRY(const std::string name, root.text("tokenizer_class", ""));
    const std::string type = without_fast(name);
    LanguageMarks marks;
    if (type == "NllbTokenizer") {
        VKFORMER_TRY(marks.is_last, root.boolean("legacy_behaviour", false));
        marks.source = "eng_Latn";
    } else if (type == "MBart50Tokenizer") {
        marks.source = "en_XX";
    } else if (type == "MBartTokenizer") {
        marks = {.is_last = true, .starts_target = true, .source = "en_XX"};
    } else if (type == "M2M100Tokenizer") {
        marks.source = "en";
    } else if (type == "T5Tokenizer" && tokenizer.find("<2en>")) {
        return std::optional(LanguageMarks{.names_target = true, .source = {}});
    } else {
        return std::optional<LanguageMarks>{};
    }
    VKFORMER_TRY(marks.source, root.text("src_lang", marks.source));
    return std::optional(marks);
}

Result<std::int32_t> find_language(const Tokenizer& tokenizer, std::string_view name) {
    for (const std::string& piece :
         {std::string(name), "__" + std::string(name) + "__", "<2" + std::string(name) + ">"})
        if (const auto id = tokenizer.find(piece); id && is_language(piece)) return *id;
    return Error{ErrorCode::InvalidArgument,
                 "the model knows no language \"" + std::string(name) + "\"" + hints(tokenizer, name)};
}

std::vector<std::string> list_languages(const Tokenizer& tokenizer) {
    std::vector<std::string> languages;
    for (std::size_t id = 0; id < tokenizer.vocab_size(); ++id) {
        std::string piece = tokenizer.piece(static_cast<std::int32_t>(id));
        if (!is_language(piece)) continue;
        if (const std::string_view name = name_of_target(piece); !name.empty())
            languages.emplace_back(name);
        else
            languages.push_back(piece.starts_with("__") ? piece.substr(2, piece.size() - 4) : std::move(piece));
    }
    return languages;
}

std::vector<std::int32_t> mark_source(const LanguageMarks& marks, std::vector<std::int32_t> ids, std::int32_t language,
                                      std::int32_t end) {
    if (!marks.is_last) ids.insert(ids.begin(), language);
    ids.push_back(end);
    if (marks.is_last) ids.push_back(language);
    return ids;
}

}  // namespace vkformer::text
