// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/added_tokens.hpp"
#include "text/json_field.hpp"
#include "vkformer/result.hpp"

namespace vkformer::text {

/// What Hugging Face keeps beside a tokenizer: `tokenizer_config.json`, and where it lists no tokens with ids (older
/// folders), `special_tokens_map.json` and `added_tokens.json`.
struct TokenizerConfig {
    std::optional<std::string> unk_token, eos_token, pad_token;
    std::vector<std::string> special_tokens;             ///< all special tokens by role, then the additional ones
    std::vector<std::string> additional_special_tokens;  ///< a part of special_tokens
    std::vector<AddedToken> added_tokens;
    std::optional<bool> add_prefix_space;  ///< of ByteLevel; there wherever the file is: absent in it means false
    bool clean_up_spaces = false;          ///< decode removes spaces before punctuation
    bool split_special_tokens = false;
    bool separate_vocabs = false;
};

/// Files that are not there are as if empty. Errors: CorruptFile, UnsupportedConfig.
Result<TokenizerConfig> read_tokenizer_config(const std::filesystem::path& folder);

/// {"content": …, "lstrip": …, …}, as tokenizer.json and tokenizer_config.json have it. Errors: CorruptFile.
Result<AddedToken> read_added_token(const Field& field, std::int32_t id);

/// What Hugging Face calls clean_up_tokenization: these replacements, one after the other.
inline constexpr std::array<std::pair<const char*, const char*>, 10> kCleanUpRules = {{{" .", "."},
                                                                                       {" ?", "?"},
                                                                                       {" !", "!"},
                                                                                       {" ,", ","},
                                                                                       {" ' ", "'"},
                                                                                       {" n't", "n't"},
                                                                                       {" 'm", "'m"},
                                                                                       {" 's", "'s"},
                                                                                       {" 've", "'ve"},
                                                                                       {" 're", "'re"}}};
/// "Hello , it 's" → "Hello, it's"
void clean_up_spaces(std::string& text);

}  // namespace vkformer::text
