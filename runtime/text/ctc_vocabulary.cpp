// SPDX-License-Identifier: MIT
#include "text/ctc_vocabulary.hpp"

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "formats/json.hpp"
#include "text/json_field.hpp"
#include "text/normalizers.hpp"
#include "text/tokenizer_config.hpp"

namespace vkformer::text {

std::string CtcVocabulary::as_text(std::string text) const {
    if (lowers) text = lower_case(text);
    if (cleans_up) clean_up_spaces(text);
    return text;
}

Result<CtcVocabulary> load_ctc_vocabulary(const std::filesystem::path& folder, std::uint64_t logits) {
    VKFORMER_TRY(const TokenizerConfig config, read_tokenizer_config(folder));
    nlohmann::json fields = nlohmann::json::object();
    std::error_code ignored;
    if (std::filesystem::exists(folder / "tokenizer_config.json", ignored)) {
        VKFORMER_TRY(fields, formats::read_json(folder / "tokenizer_config.json"));
    }
    const Field root(fields, "tokenizer_config.json");
    constexpr const char* kTokenizer = "Wav2Vec2CTCTokenizer";
    VKFORMER_TRY(const std::string type, root.text("tokenizer_class", kTokenizer));
    if (type != kTokenizer && type != "Wav2Vec2Tokenizer")
        return root.unsupported("tokenizer_class is " + type + ", supported: " + kTokenizer);
    if (root.has("target_lang"))
        return root.unsupported("target_lang: vocabularies of several languages are not supported");
    VKFORMER_TRY(const std::string bound, root.text("word_delimiter_token", "|"));
    CtcVocabulary vocabulary;
    VKFORMER_TRY(vocabulary.space, root.text("replace_word_delimiter_char", " "));
    VKFORMER_TRY(vocabulary.lowers, root.boolean("do_lower_case", false));
    vocabulary.cleans_up = config.clean_up_spaces;
    const std::string pad = config.pad_token.value_or("<pad>");

    vocabulary.pieces.assign(logits, config.unk_token.value_or("<unk>"));
    const auto set = [&](std::int32_t id, const std::string& piece) {
        if (static_cast<std::uint64_t>(id) < logits) vocabulary.pieces[static_cast<std::size_t>(id)] = piece;
    };
    for (const AddedToken& token : config.added_tokens) set(token.id, token.content);
    VKFORMER_TRY(const nlohmann::json pieces, formats::read_json(folder / "vocab.json"));
    const Field ids(pieces, "vocab.json");
    if (!pieces.is_object()) return ids.corrupt("expected an object");
    for (const auto& [piece, value] : pieces.items()) {
        if (value.is_object()) return ids.unsupported("vocabularies of several languages are not supported");
        VKFORMER_TRY(const std::int32_t id, ids.id(piece));
        set(id, piece);
    }
    for (std::string& piece : vocabulary.pieces) {
        vocabulary.is_blank.push_back(piece == pad);
        if (piece == bound) piece = vocabulary.space;
    }
    return vocabulary;
}

}  // namespace vkformer::text
