// SPDX-License-Identifier: MIT
/// Text to token ids and back, as the model's Hugging Face tokenizer does it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vkformer/result.hpp"

namespace vkformer::text {

/// Immutable once loaded; all members may be called from several threads at once.
class Tokenizer {
public:
    Tokenizer() = default;
    Tokenizer(const Tokenizer&) = delete;
    Tokenizer& operator=(const Tokenizer&) = delete;
    virtual ~Tokenizer() = default;

    /// The ids of a source text, special tokens included: what Hugging Face's `tokenizer(text).input_ids` is, without
    /// truncation and padding. Errors: InvalidArgument (the text is not UTF-8, or a character has no token and the
    /// vocabulary no unknown token), OutOfHostMemory.
    virtual Result<std::vector<std::int32_t>> encode(std::string_view text) const = 0;

    /// The text of generated ids: what Hugging Face's `tokenizer.decode(ids, skip_special_tokens=...)` is. Ids outside the
    /// vocabulary give what Hugging Face gives: nothing, or the unknown token.
    virtual std::string decode(std::span<const std::int32_t> ids, bool skip_special = true) const = 0;

    /// One token as the vocabulary spells it ("▁the", "Ġthe"), to label a picture; empty where there is none.
    virtual std::string piece(std::int32_t id) const = 0;

    /// All ids are below it.
    virtual std::size_t vocab_size() const noexcept = 0;
};

/// The tokenizer of a model folder: `source.spm` + `target.spm` + `vocab.json` (Marian), or `tokenizer.json`; the first
/// where both are there. `tokenizer_config.json`, `special_tokens_map.json` and `added_tokens.json` are read beside them.
/// Errors: FileNotFound, CorruptFile, UnsupportedConfig (a component that is not implemented, by name), OutOfHostMemory.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::filesystem::path& folder);

}  // namespace vkformer::text
