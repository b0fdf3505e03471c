// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>

#include "models/decoder_defaults.hpp"
#include "models/open_model.hpp"
#include "text/chat_template.hpp"
#include "text/tokenizer.hpp"

namespace vkformer::api {

/// What a language model's files say besides its weights.
struct DecoderText {
    Result<std::unique_ptr<text::Tokenizer>> tokenizer =
        Error{};  // its error, that there is none, is told when text is asked for
    models::DecoderDefaults defaults;
    Result<text::ChatTemplate> chat_template = Error{};  // its error is told when a conversation is to be answered
};

/// `vocab`: tokens that the model knows. Errors: those of its parts; a missing tokenizer and a missing or broken chat template are
/// none.
Result<DecoderText> load_decoder_text(const models::Opened<models::Decoder>& model, std::uint64_t vocab);

}  // namespace vkformer::api
