// SPDX-License-Identifier: MIT
#include "api/decoder_text.hpp"

#include <optional>

#include "core/try.hpp"
#include "text/gguf_tokenizer.hpp"

namespace vkformer::api {
namespace {

std::string piece_of(const text::Tokenizer& tokenizer, std::optional<std::int32_t> token) {
    return token ? tokenizer.piece(*token) : std::string();
}

Result<text::ChatTemplate> template_of(const text::GgufTokenizer& found, const std::string& name) {
    if (found.chat_template.empty())
        return Error{
            ErrorCode::FileNotFound,
            name + " has no tokenizer.chat_template: it was not made for conversations. It continues a plain text"};
    VKFORMER_TRY(auto parsed, text::ChatTemplate::parse(found.chat_template, name));
    parsed.set_token("bos_token", piece_of(*found.tokenizer, found.bos));
    parsed.set_token("eos_token", piece_of(*found.tokenizer, found.eos));
    return parsed;
}

/// Tokens will do without one, but a broken one is told.
Result<DecoderText> without_tokenizer(Error error) {
    if (error.code != ErrorCode::FileNotFound) return error;
    return DecoderText{.tokenizer = error, .defaults = {}, .chat_template = error};
}

}  // namespace

Result<DecoderText> load_decoder_text(const models::Opened<models::Decoder>& model, std::uint64_t vocab) {
    const std::filesystem::path& path = model.path;
    DecoderText loaded;
    if (const formats::Gguf* const file = model.gguf()) {
        auto found = text::load_gguf_tokenizer(*file);
        if (!found) return without_tokenizer(std::move(found).error());
        loaded.chat_template = template_of(*found, path.filename().string());
        loaded.tokenizer = std::move(found->tokenizer);
        loaded.defaults.end_tokens = std::move(found->end_ids);
        return loaded;
    }
    if (auto tokenizer = text::load_tokenizer(path)) {
        loaded.tokenizer = *std::move(tokenizer);
    } else {
        VKFORMER_TRY(loaded, without_tokenizer(std::move(tokenizer).error()));
    }
    VKFORMER_TRY(loaded.defaults, models::load_decoder_defaults(path, vocab));
    if (loaded.tokenizer) loaded.chat_template = text::load_chat_template(path);
    return loaded;
}

}  // namespace vkformer::api
