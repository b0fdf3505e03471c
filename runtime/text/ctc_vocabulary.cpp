// SPDX-License-Identifier: MIT
#include "text/ctc_vocabulary.hpp"

#include "core/first_error.hpp"
#include "core/try.hpp"
#include "formats/config.hpp"
#include "text/normalizers.hpp"
#include "text/tokenizer_config.hpp"

namespace vkformer::text {

std::string CtcVocabulary::as_text(std::string text) const {
    if (lowers) text = lower_case(text);
    if (cleans_up) clean_up_spaces(text);
    return text;
}

Result<void> load_ctc_vocabulary(const std::filesystem::path& folder, std::uint32_t logits, CtcVocabulary& vocabulary) {
    constexpr const char* kTokenizer = "Wav2Vec2CTCTokenizer";
    VKFORMER_TRY(const TokenizerConfig tokens, read_tokenizer_config(folder));
    VKFORMER_TRY(const auto config, formats::Config::open_if_present(folder / "tokenizer_config.json"));
    VKFORMER_TRY(const auto pieces, formats::Config::open(folder / "vocab.json"));
    std::string type = kTokenizer, bound;
    FirstError first;
    first.set(type, config.string("tokenizer_class", kTokenizer));
    first.set(bound, config.string("word_delimiter_token", "|"));
    first.set(vocabulary.space, config.string("replace_word_delimiter_char", " "));
    first.set(vocabulary.lowers, config.boolean("do_lower_case", false));
    vocabulary.cleans_up = tokens.clean_up_spaces;
    if (type != kTokenizer && type != "Wav2Vec2Tokenizer") return config.unsupported("tokenizer_class", kTokenizer);
    if (config.has("target_lang")) return config.unsupported("target_lang", "null: the vocabulary of one language");

    vocabulary.pieces.assign(logits, tokens.unk_token.value_or("<unk>"));
    const auto set = [&](std::uint32_t id, const std::string& piece) {
        if (id < logits) vocabulary.pieces[id] = piece;
    };
    for (const AddedToken& token : tokens.added_tokens) set(static_cast<std::uint32_t>(token.id), token.content);
    for (const std::string& piece : pieces.names()) {
        std::uint32_t id = logits;
        first.set(id, pieces.unsigned_integer(piece));
        set(id, piece);
    }
    const std::string blank = tokens.pad_token.value_or("<pad>");
    for (std::uint32_t id = 0; id < logits; ++id) {
        if (vocabulary.pieces[id] == blank) vocabulary.blank = static_cast<std::int32_t>(id);
        if (vocabulary.pieces[id] == bound) vocabulary.pieces[id] = vocabulary.space;
    }
    return first.status();
}

}  // namespace vkformer::text
