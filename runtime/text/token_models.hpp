// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/json_field.hpp"
#include "vkformer/result.hpp"

namespace vkformer::text {

/// Lets string_view look up in maps of strings.
struct StringHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
};

/// Tokens and their ids, both ways.
class Vocabulary {
public:
    /// {"token": id, …}. Errors: CorruptFile (an id twice, too).
    static Result<Vocabulary> read(const Field& field);
    /// `tokens` in the order of their ids; of equal ones the last is found.
    static Vocabulary in_order(std::vector<std::string> tokens);

    std::optional<std::int32_t> id_of(std::string_view token) const;
    /// nullptr where there is none.
    const std::string* token_of(std::int32_t id) const;
    std::size_t size() const noexcept { return tokens_.size(); }
    /// All ids are below it.
    std::size_t id_limit() const noexcept { return id_limit_; }
    /// The ids of "<0x00>" … for the bytes of `text`, where all are there.
    std::optional<std::vector<std::int32_t>> byte_ids(std::string_view text) const;

private:
    std::unordered_map<std::string, std::int32_t, StringHash, std::equal_to<>> ids_;
    std::unordered_map<std::int32_t, std::string> tokens_;
    std::size_t id_limit_ = 0;
};

/// Cuts a piece of text into tokens of its vocabulary. Immutable.
class TokenModel {
public:
    explicit TokenModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
    TokenModel(const TokenModel&) = delete;
    TokenModel& operator=(const TokenModel&) = delete;
    virtual ~TokenModel() = default;

    /// Appends the ids of `text`, which is not empty. Errors: InvalidArgument (no token for it, and no unknown token).
    virtual Result<void> tokenize(std::string_view text, std::vector<std::int32_t>& ids) const = 0;

    /// A place, not 0, where `text` may be cut without any other ids coming out: so that words that come again are found.
    virtual std::size_t word_end(std::string_view text) const { return text.size(); }

    const Vocabulary& vocabulary() const noexcept { return vocabulary_; }

private:
    Vocabulary vocabulary_;
};

/// Errors: CorruptFile, UnsupportedConfig (a type that is not implemented, by name).
Result<std::unique_ptr<TokenModel>> read_token_model(const Field& field);

/// The types, one file each.
Result<std::unique_ptr<TokenModel>> read_unigram(const Field& field);
Result<std::unique_ptr<TokenModel>> read_bpe(const Field& field);
Result<std::unique_ptr<TokenModel>> read_word_level(const Field& field);
Result<std::unique_ptr<TokenModel>> read_word_piece(const Field& field);

struct BpeOptions {
    bool ignore_merges = false;  ///< a word that is a token stays whole
    bool byte_fallback = false;  ///< characters without a token become bytes ("<0x0A>")
    std::optional<std::string>
        unknown;  ///< the token of those that do not, several in a row as one; none: they are dropped
};
/// Byte-pair encoding from merges "left right". `place` begins the messages. Errors: CorruptFile.
Result<std::unique_ptr<TokenModel>> make_bpe(Vocabulary vocabulary, std::span<const std::string_view> merges,
                                             BpeOptions options, const Field& place);
/// The tokens' log-probabilities in the order of their ids.
std::unique_ptr<TokenModel> make_unigram(Vocabulary vocabulary, std::vector<double> scores,
                                         std::optional<std::int32_t> unknown, bool byte_fallback);
/// SentencePiece's byte-pair encoding, which has scores in place of merges: the tokens' scores in the order of their ids.
/// Characters without a token become bytes ("<0x0A>") where all are there, else the unknown token.
std::unique_ptr<TokenModel> make_scored_bpe(Vocabulary vocabulary, std::vector<float> scores,
                                            std::optional<std::int32_t> unknown);

/// The error for a text that has no token.
Error no_token(std::string_view text);

}  // namespace vkformer::text
