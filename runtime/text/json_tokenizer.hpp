// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <memory>

#include "text/tokenizer.hpp"

namespace vkformer::text {

/// The tokenizer that a `tokenizer.json` of Hugging Face's tokenizers library describes. Its truncation and padding are not
/// applied, as Hugging Face does not apply them to `tokenizer(text)`. Errors: as load_tokenizer.
Result<std::unique_ptr<Tokenizer>> load_json_tokenizer(const std::filesystem::path& folder);

}  // namespace vkformer::text
