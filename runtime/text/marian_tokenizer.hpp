// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <memory>

#include "text/tokenizer.hpp"

namespace vkformer::text {

/// The tokenizer of MarianMT: SentencePiece finds the pieces, `vocab.json` numbers them. Behaves as Hugging Face's
/// MarianTokenizer. Errors: as load_tokenizer.
Result<std::unique_ptr<Tokenizer>> load_marian_tokenizer(const std::filesystem::path& folder);

}  // namespace vkformer::text
