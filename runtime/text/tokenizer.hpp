// SPDX-License-Identifier: MIT
/// Text to token ids and back, as the model's Hugging Face tokenizer does it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/stream_decoder.hpp"
#include "vkformer/result.hpp"

namespace vkformer::text {

struct EncodeOptions {
    /// Put the special tokens around the text that the tokenizer's post-processor knows. Not for a text made by a chat
    /// template: that spells them out.
    bool add_special = true;
    /// Special tokens that the text spells out ("<|im_end|>") become their ids. Without, they are text like any other: what
    /// a user typed cannot end his turn (unless the vocabulary itself, as a Unigram one may, has a piece spelled like the
    /// token). Added tokens that are not special are found in either case.
    bool parse_special = true;
    /// A text that the model writes and does not read: Hugging Face's `tokenizer(text_target=text)`. Of a tokenizer of `source.spm` and
    /// `target.spm`, the latter's.
    bool is_target = false;
};

/// What an encoder reads: token ids and, for each, its type (segment): which of two texts it belongs to.
struct Encoding {
    std::vector<std::int32_t> ids, types;
    std::size_t cut = 0;  ///< tokens that were left out, because there were too many
};

/// What each token adds to a text.
struct TokenTexts {
    std::vector<std::string> bytes;       ///< by id, of a token behind others; empty where there is none
    bool drops_first_space = false;       ///< a space that the first token begins with is no part of the text
    std::vector<std::int32_t> special{};  ///< whose bytes are how they are spelled, which is part of no text
};

/// Immutable once loaded; all members may be called from several threads at once.
class Tokenizer {
public:
    Tokenizer() = default;
    Tokenizer(const Tokenizer&) = delete;
    Tokenizer& operator=(const Tokenizer&) = delete;
    virtual ~Tokenizer() = default;

    /// The ids of a source text: what Hugging Face's `tokenizer(text).input_ids` is, without truncation and padding.
    /// Errors: InvalidArgument (the text is not UTF-8, or a character has no token and the vocabulary no unknown token),
    /// OutOfHostMemory.
    virtual Result<std::vector<std::int32_t>> encode(std::string_view text, const EncodeOptions& options) const = 0;
    Result<std::vector<std::int32_t>> encode(std::string_view text) const { return encode(text, EncodeOptions{}); }

    /// The ids of one text or a pair of them, with their types, cut to at most `max_length` ids (0: any number), special tokens
    /// included: Hugging Face's `tokenizer(first, second, truncation="longest_first", max_length=...)`. Errors: as of encode, and
    /// UnsupportedConfig (a tokenizer that has no pairs, or none for encoders).
    virtual Result<Encoding> encode_for_encoder(std::string_view first, std::optional<std::string_view> second,
                                                std::size_t max_length) const;

    /// The text of generated ids: what Hugging Face's `tokenizer.decode(ids, skip_special_tokens=...)` is. Ids outside the
    /// vocabulary give what Hugging Face gives: nothing, or the unknown token.
    virtual std::string decode(std::span<const std::int32_t> ids, bool skip_special = true) const = 0;

    /// The same for ids that come one by one. A tokenizer of `source.spm` and `target.spm` gives all its text at the end.
    virtual std::unique_ptr<StreamDecoder> stream(bool skip_special = true) const = 0;

    /// All that the tokens can write, before any cleaning up of spaces. Errors: UnsupportedConfig (a token's text depends on its
    /// neighbours).
    virtual Result<TokenTexts> token_texts() const;

    /// One token as the vocabulary spells it ("▁the", "Ġthe"), to label a picture; empty where there is none.
    virtual std::string piece(std::int32_t id) const = 0;

    /// What one token adds to a text that has begun: whole characters or some of their bytes; an added token as it is spelled. Empty
    /// where there is none.
    virtual std::string bytes(std::int32_t id) const { return piece(id); }

    /// The token that is spelled like that ("</s>", "▁the").
    virtual std::optional<std::int32_t> find(std::string_view piece) const = 0;

    /// All ids are below it.
    virtual std::size_t vocab_size() const noexcept = 0;
};

/// The tokenizer in a GGUF file, or that of a model folder: `source.spm` + `target.spm` + `vocab.json` (Marian), or
/// `tokenizer.json`; the first where both are there. `tokenizer_config.json`, `special_tokens_map.json` and `added_tokens.json` are
/// read beside them.
/// Errors: FileNotFound, CorruptFile, UnsupportedConfig (a component that is not implemented, by name), OutOfHostMemory.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::filesystem::path& path);

}  // namespace vkformer::text
