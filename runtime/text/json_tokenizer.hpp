// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "text/added_tokens.hpp"
#include "text/json_field.hpp"
#include "text/normalizers.hpp"
#include "text/token_models.hpp"
#include "text/tokenizer.hpp"

namespace vkformer::text {

/// The tokenizer that a `tokenizer.json` of Hugging Face's tokenizers library describes. Its truncation and padding are not
/// applied, as Hugging Face does not apply them to `tokenizer(text)`. Errors: as load_tokenizer.
Result<std::unique_ptr<Tokenizer>> load_json_tokenizer(const std::filesystem::path& folder);

/// The same from the text of a tokenizer.json alone.
Result<std::unique_ptr<Tokenizer>> parse_json_tokenizer(std::string_view text);

/// The same machinery for what other files say: `components` has the normalizer, pre_tokenizer, post_processor and decoder as a
/// tokenizer.json spells them; each may be absent. `normalizer`, where given, stands for its namesake. Errors: CorruptFile, UnsupportedConfig.
Result<std::unique_ptr<Tokenizer>> assemble_tokenizer(const Field& components, std::optional<Normalizer> normalizer,
                                                      std::unique_ptr<TokenModel> model, std::vector<AddedToken> added);

}  // namespace vkformer::text
