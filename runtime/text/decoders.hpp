// SPDX-License-Identifier: MIT
/// From tokens to text, as they come: every decoder of tokenizer.json is a stage that passes on what no later token can
/// change.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "text/json_field.hpp"
#include "vkformer/result.hpp"

namespace vkformer::text {

/// Takes tokens one after the other, each in parts of whole characters. What a stage gives to the next one has tokens of its
/// own; joined they are the text.
class DecoderStage {
public:
    DecoderStage() = default;
    DecoderStage(const DecoderStage&) = delete;
    DecoderStage& operator=(const DecoderStage&) = delete;
    virtual ~DecoderStage() = default;

    /// A part of the present token.
    virtual void text(std::string_view part) = 0;
    virtual void end_token() = 0;
    /// Once, behind the last token: gives out what was held back.
    virtual void finish() = 0;
};
using DecoderStages = std::unique_ptr<DecoderStage>;

/// Makes a stage, with no token seen yet, in front of others. Immutable; may be called from several threads.
using Decoder = std::function<DecoderStages(DecoderStages next)>;

/// Errors: CorruptFile, UnsupportedConfig (a type that is not implemented, by name).
Result<Decoder> read_decoder(const Field& field);

/// How tokens spell bytes that are no characters by themselves.
enum class ByteSpelling : std::uint8_t { none, byte_level, byte_fallback };
/// Errors: as of read_decoder; UnsupportedConfig (a token's text depends on its neighbours, but for a space at the text's front).
Result<ByteSpelling> read_byte_spelling(const Field& field);

/// For tokenizers without a decoder: spaces between the tokens.
DecoderStages space_joiner(DecoderStages next);
/// Hugging Face's clean-up of spaces before punctuation, over the borders of the tokens.
DecoderStages space_cleaner(DecoderStages next);
/// The end of the stages: appends to `text`, which must outlive it.
DecoderStages text_collector(std::string& text);

}  // namespace vkformer::text
