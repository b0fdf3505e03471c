// SPDX-License-Identifier: MIT
/// Tokenizers of many languages: which token says what language a text is in, and where it stands.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.hpp"

namespace vkformer::text {

/// A plain value.
struct LanguageMarks {
    bool is_last = false;  ///< the source ends with its language's token, behind the end token; else it begins with it
    bool starts_target =
        false;           ///< the decoder starts with the target's token (mBART); else it is the first one generated
    bool names_target =
        false;           ///< the source begins with the target's token, and no token says its own language (MADLAD-400)
    std::string source;  ///< the language of texts of which nothing is said
};

/// What Hugging Face's class for the tokenizer does, by `tokenizer_class` of tokenizer_config.json (NLLB, M2M100, mBART, mBART-50, or
/// T5 where the vocabulary has MADLAD-400's "<2en>"); nothing for tokenizers without languages. Errors: CorruptFile.
Result<std::optional<LanguageMarks>> read_language_marks(const std::filesystem::path& folder,
                                                         const Tokenizer& tokenizer);

/// The token of a language, as the vocabulary spells it ("deu_Latn", "de_DE"), or "de" for "__de__" and "<2de>". Errors: InvalidArgument, with
/// languages that are spelled alike.
Result<std::int32_t> find_language(const Tokenizer& tokenizer, std::string_view name);

/// All of them, as find_language takes them: "deu_Latn", "de_DE", or "de" for "__de__" and "<2de>".
std::vector<std::string> list_languages(const Tokenizer& tokenizer);

/// The ids of a text without special tokens, with the marks of its language around.
std::vector<std::int32_t> mark_source(const LanguageMarks& marks, std::vector<std::int32_t> ids, std::int32_t language,
                                      std::int32_t end);

}  // namespace vkformer::text
