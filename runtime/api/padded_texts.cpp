// SPDX-License-Identifier: MIT
#include "api/padded_texts.hpp"

#include "core/try.hpp"
#include "formats/config.hpp"
#include "text/normalizers.hpp"
#include "text/tokenizer_config.hpp"
#include "text/unicode.hpp"

namespace vkformer::api {
namespace {

/// Python's string.punctuation: what ASCII has beside letters, digits, spaces and control characters.
bool is_punctuation(char32_t code) {
    const auto within = [&](char32_t first, char32_t last) { return code >= first && code <= last; };
    return within('!', '~') && !within('0', '9') && !within('A', 'Z') && !within('a', 'z');
}

}  // namespace

Result<PaddedTexts> PaddedTexts::read(const std::filesystem::path& folder, const text::Tokenizer& tokenizer) {
    VKFORMER_TRY(const auto config, formats::Config::open_if_present(folder / "tokenizer_config.json"));
    VKFORMER_TRY(const std::string type, config.string("tokenizer_class", ""));
    PaddedTexts texts;
    texts.is_plain = type == "SiglipTokenizer";
    const bool is_second = type == "Siglip2Tokenizer";
    VKFORMER_TRY(const bool lowers, config.boolean("do_lower_case", true));
    texts.lowers = is_second || (texts.is_plain && lowers);
    const bool is_left = is_second || type.starts_with("GemmaTokenizer");
    VKFORMER_TRY(const std::string side, config.string("padding_side", is_left ? "left" : "right"));
    if (side != "left" && side != "right") return config.unsupported("padding_side", "left, right");
    texts.at_start = side == "left";
    VKFORMER_TRY(const auto tokens, text::read_tokenizer_config(folder));
    const std::string pad = tokens.pad_token.value_or(texts.is_plain ? "</s>" : "<pad>");
    const auto id = tokenizer.find(pad);
    if (!id) return config.unsupported("pad_token", "a token of tokenizer.json; \"" + pad + "\" is none");
    texts.pad = *id;
    return texts;
}

std::string PaddedTexts::written(std::string_view text) const {
    const std::string lower = lowers ? text::lower_case(text) : std::string(text);
    if (!is_plain) return lower;
    std::string plain;
    for (std::string_view rest = lower; !rest.empty();) {
        const text::Character character = text::first_character(rest);
        const bool is_space = text::is_python_space(character.code);
        if (is_space && !plain.ends_with(' '))
            plain += ' ';
        else if (!is_space && !is_punctuation(character.code))
            plain += rest.substr(0, character.bytes);
        rest.remove_prefix(character.bytes);
    }
    const auto is_blank = [](char32_t code) { return code == ' '; };
    return std::string(text::trim_end(text::trim_start(plain, is_blank), is_blank));
}

void PaddedTexts::fill(std::vector<std::int32_t>& ids, std::size_t len) const {
    if (ids.size() >= len) return;
    ids.insert(at_start ? ids.begin() : ids.end(), len - ids.size(), pad);
}

}  // namespace vkformer::api
