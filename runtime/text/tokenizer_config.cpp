// SPDX-License-Identifier: MIT
#include "text/tokenizer_config.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "formats/json.hpp"
#include "text/json_field.hpp"
#include "text/unicode.hpp"

namespace vkformer::text {
namespace {

using nlohmann::json;

Result<json> read_if_present(const std::filesystem::path& path) {
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return formats::read_json(path);
    return json(json::object());
}

/// A special token is written as a text or as an object with the text in "content".
Result<std::string> token_text(const Field& field) {
    return field.json().is_object() ? field.text("content") : field.text();
}

Result<void> read_special_tokens(const Field& root, TokenizerConfig& config) {
    constexpr std::array<const char*, 7> kRoles = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                   "pad_token", "cls_token", "mask_token"};
    const auto add = [&](const std::string& token) {
        if (std::ranges::find(config.special_tokens, token) == config.special_tokens.end())
            config.special_tokens.push_back(token);
    };
    for (const std::string_view role : kRoles) {
        const auto field = root.find(role);
        if (!field || field->json() == false) continue;
        VKFORMER_TRY(const std::string token, token_text(*field));
        if (role == "unk_token") config.unk_token = token;
        if (role == "eos_token") config.eos_token = token;
        if (role == "pad_token") config.pad_token = token;
        add(token);
    }
    if (!root.has("additional_special_tokens")) return {};
    VKFORMER_TRY(const auto additional, root.elements("additional_special_tokens"));
    for (const Field& field : additional) {
        VKFORMER_TRY(const std::string token, token_text(field));
        config.additional_special_tokens.push_back(token);
        add(token);
    }
    return {};
}

Result<void> read_added_tokens(const Field& tokens, TokenizerConfig& config) {
    if (!tokens.json().is_object()) return tokens.corrupt("expected an object");
    for (const auto& [key, value] : tokens.json().items()) {
        std::int32_t id = -1;
        const auto [end, failure] = std::from_chars(key.data(), key.data() + key.size(), id);
        if (failure != std::errc() || end != key.data() + key.size() || id < 0)
            return tokens.corrupt(formats::quote(key) + " is no token id");
        VKFORMER_TRY(auto token, read_added_token(Field(value, tokens.path() + "." + key), id));
        config.added_tokens.push_back(std::move(token));
    }
    return {};
}

/// {"token": id, …}: the older way.
Result<void> read_old_added_tokens(const Field& root, TokenizerConfig& config) {
    if (!root.json().is_object()) return root.corrupt("expected an object");
    for (const auto& [content, value] : root.json().items()) {
        VKFORMER_TRY(const std::int32_t id, Field(value, root.path() + ": " + formats::quote(content)).id());
        const bool special = std::ranges::find(config.special_tokens, content) != config.special_tokens.end();
        config.added_tokens.push_back({.id = id, .content = content, .normalized = !special, .special = special});
    }
    return {};
}

}  // namespace

Result<AddedToken> read_added_token(const Field& field, std::int32_t id) {
    AddedToken token{.id = id};
    VKFORMER_TRY(token.content, field.text("content"));
    VKFORMER_TRY(token.single_word, field.boolean("single_word", false));
    VKFORMER_TRY(token.lstrip, field.boolean("lstrip", false));
    VKFORMER_TRY(token.rstrip, field.boolean("rstrip", false));
    VKFORMER_TRY(token.special, field.boolean("special", false));
    VKFORMER_TRY(token.normalized, field.boolean("normalized", !token.special));
    return token;
}

Result<TokenizerConfig> read_tokenizer_config(const std::filesystem::path& folder) {
    constexpr const char* kFile = "tokenizer_config.json";
    TokenizerConfig config;
    VKFORMER_TRY(const json value, read_if_present(folder / kFile));
    const Field root(value, kFile);
    if (!value.is_object()) return root.corrupt("expected an object");
    VKFORMER_CHECK(read_special_tokens(root, config));
    if (const auto added = root.find("added_tokens_decoder")) {
        VKFORMER_CHECK(read_added_tokens(*added, config));
    } else {
        VKFORMER_TRY(const json special, read_if_present(folder / "special_tokens_map.json"));
        VKFORMER_CHECK(read_special_tokens(Field(special, "special_tokens_map.json"), config));
        VKFORMER_TRY(const json old_added, read_if_present(folder / "added_tokens.json"));
        VKFORMER_CHECK(read_old_added_tokens(Field(old_added, "added_tokens.json"), config));
    }
    if (const auto options = root.find("sp_model_kwargs"); options && !options->json().empty())
        return options->unsupported("options of SentencePiece (sampling) are not supported");
    std::error_code ignored;
    if (std::filesystem::exists(folder / kFile, ignored)) {
        VKFORMER_TRY(config.add_prefix_space, root.boolean("add_prefix_space", false));
    }
    VKFORMER_TRY(config.clean_up_spaces, root.boolean("clean_up_tokenization_spaces", false));
    VKFORMER_TRY(config.split_special_tokens, root.boolean("split_special_tokens", false));
    VKFORMER_TRY(config.separate_vocabs, root.boolean("separate_vocabs", false));
    return config;
}

void clean_up_spaces(std::string& text) {
    for (const auto& [from, to] : kCleanUpRules) replace_all(text, from, to);
}

}  // namespace vkformer::text
