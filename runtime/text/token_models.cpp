// SPDX-License-Identifier: MIT
#include "text/token_models.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "formats/json.hpp"

namespace vkformer::text {
namespace {

/// "<0x0A>"
std::string byte_token(char byte) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    const auto value = static_cast<unsigned char>(byte);
    return {'<', '0', 'x', kDigits[value >> 4], kDigits[value & 15], '>'};
}

class WordLevel final : public TokenModel {
public:
    WordLevel(Vocabulary vocabulary, std::string_view unknown)
        : TokenModel(std::move(vocabulary)), unknown_(this->vocabulary().id_of(unknown)) {}

    Result<void> tokenize(std::string_view text, std::vector<std::int32_t>& ids) const override {
        auto id = vocabulary().id_of(text);
        if (!id) id = unknown_;
        if (!id) return no_token(text);
        ids.push_back(*id);
        return {};
    }

private:
    std::optional<std::int32_t> unknown_;
};

}  // namespace

Result<Vocabulary> Vocabulary::read(const Field& field) {
    if (!field.json().is_object()) return field.corrupt("expected an object of tokens and ids");
    Vocabulary vocabulary;
    for (const auto& [token, value] : field.json().items()) {
        VKFORMER_TRY(const std::int32_t id, Field(value, field.path() + "." + formats::quote(token)).id());
        vocabulary.ids_.emplace(token, id);
        if (!vocabulary.tokens_.emplace(id, token).second)
            return field.corrupt("the id " + std::to_string(id) + " occurs twice");
        vocabulary.id_limit_ = std::max(vocabulary.id_limit_, static_cast<std::size_t>(id) + 1);
    }
    return vocabulary;
}

Vocabulary Vocabulary::in_order(std::vector<std::string> tokens) {
    Vocabulary vocabulary;
    vocabulary.id_limit_ = tokens.size();
    for (std::size_t id = 0; id < tokens.size(); ++id) {
        vocabulary.ids_.insert_or_assign(tokens[id], static_cast<std::int32_t>(id));
        vocabulary.tokens_.emplace(static_cast<std::int32_t>(id), std::move(tokens[id]));
    }
    return vocabulary;
}

std::optional<std::int32_t> Vocabulary::id_of(std::string_view token) const {
    const auto found = ids_.find(token);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
}

const std::string* Vocabulary::token_of(std::int32_t id) const {
    const auto found = tokens_.find(id);
    return found == tokens_.end() ? nullptr : &found->second;
}

std::optional<std::vector<std::int32_t>> Vocabulary::byte_ids(std::string_view text) const {
    std::vector<std::int32_t> ids;
    for (const char byte : text) {
        const auto id = id_of(byte_token(byte));
        if (!id) return std::nullopt;
        ids.push_back(*id);
    }
    return ids;
}

Result<std::unique_ptr<TokenModel>> read_word_level(const Field& field) {
    VKFORMER_CHECK(field.check_members({"type", "vocab", "unk_token"}));
    VKFORMER_TRY(const Field vocab_field, field.at("vocab"));
    VKFORMER_TRY(Vocabulary vocabulary, Vocabulary::read(vocab_field));
    VKFORMER_TRY(const std::string unknown, field.text("unk_token"));
    return std::unique_ptr<TokenModel>(std::make_unique<WordLevel>(std::move(vocabulary), unknown));
}

/// Beside unigram.cpp, which is compiled for speed.
Result<std::unique_ptr<TokenModel>> read_unigram(const Field& field) {
    VKFORMER_CHECK(field.check_members({"type", "vocab", "unk_id", "byte_fallback"}));
    VKFORMER_TRY(const Field vocab, field.at("vocab"));
    if (!vocab.json().is_array()) return vocab.corrupt("expected a list");
    std::vector<std::string> tokens;
    std::vector<double> scores;
    for (const auto& entry : vocab.json()) {
        if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
            return vocab.corrupt("the entry " + std::to_string(tokens.size()) + " is not a token and its score");
        tokens.push_back(entry[0].get<std::string>());
        scores.push_back(entry[1].get<double>());
    }
    std::optional<std::int32_t> unknown;
    if (field.has("unk_id")) {
        VKFORMER_TRY(unknown, field.id("unk_id"));
        if (std::cmp_greater_equal(*unknown, tokens.size())) return field.corrupt("unk_id is outside the vocabulary");
    }
    VKFORMER_TRY(const bool byte_fallback, field.boolean("byte_fallback", false));
    return make_unigram(Vocabulary::in_order(std::move(tokens)), std::move(scores), unknown, byte_fallback);
}

Result<std::unique_ptr<TokenModel>> read_token_model(const Field& field) {
    VKFORMER_TRY(const std::string type, field.text("type"));
    if (type == "Unigram") return read_unigram(field);
    if (type == "BPE") return read_bpe(field);
    if (type == "WordLevel") return read_word_level(field);
    if (type == "WordPiece") return read_word_piece(field);
    return field.unsupported("the model " + formats::quote(type) + " is not supported");
}

Error no_token(std::string_view text) {
    return {ErrorCode::InvalidArgument,
            "the vocabulary has neither a token for " + formats::quote(text) + " nor an unknown token"};
}

}  // namespace vkformer::text
