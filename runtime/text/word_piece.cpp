// SPDX-License-Identifier: MIT
#include <algorithm>
#include <optional>
#include <string>

#include "core/try.hpp"
#include "text/token_models.hpp"
#include "text/unicode.hpp"

namespace vkformer::text {
namespace {

struct WordPieceOptions {
    std::string unknown, prefix;
    std::size_t max_characters = 100;
};

/// The longest token at the front of the word, then the longest that continues it, and so on; a word that does not come out
/// is unknown as a whole. Devlin et al. 2019, after Wu et al. 2016.
class WordPiece final : public TokenModel {
public:
    WordPiece(Vocabulary vocabulary, WordPieceOptions options)
        : TokenModel(std::move(vocabulary)),
          options_(std::move(options)),
          unknown_(this->vocabulary().id_of(options_.unknown)) {}

    Result<void> tokenize(std::string_view text, std::vector<std::int32_t>& ids) const override {
        const std::size_t before = ids.size();
        if (count_characters(text) <= options_.max_characters && append_parts(text, ids)) return {};
        ids.resize(before);
        if (!unknown_) return no_token(text);
        ids.push_back(*unknown_);
        return {};
    }

private:
    bool append_parts(std::string_view word, std::vector<std::int32_t>& ids) const {
        for (bool is_first = true; !word.empty(); is_first = false) {
            const std::size_t bytes = append_longest(word, is_first, ids);
            if (bytes == 0) return false;
            word.remove_prefix(bytes);
        }
        return true;
    }

    /// Returns how many bytes of the word the token stands for; 0: there is none.
    std::size_t append_longest(std::string_view word, bool is_first, std::vector<std::int32_t>& ids) const {
        std::string candidate = (is_first ? std::string() : options_.prefix) + std::string(word);
        for (std::size_t bytes = word.size(); bytes > 0;) {
            if (const auto id = vocabulary().id_of(candidate)) {
                ids.push_back(*id);
                return bytes;
            }
            const std::size_t last = last_character(word.substr(0, bytes)).bytes;
            bytes -= last;
            candidate.resize(candidate.size() - last);
        }
        return 0;
    }

    WordPieceOptions options_;
    std::optional<std::int32_t> unknown_;
};

}  // namespace

Result<std::unique_ptr<TokenModel>> read_word_piece(const Field& field) {
    VKFORMER_CHECK(
        field.check_members({"type", "vocab", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word"}));
    WordPieceOptions options;
    VKFORMER_TRY(options.unknown, field.text("unk_token", "[UNK]"));
    VKFORMER_TRY(options.prefix, field.text("continuing_subword_prefix", "##"));
    VKFORMER_TRY(const std::int32_t max_characters, field.id("max_input_chars_per_word", 100));
    options.max_characters = static_cast<std::size_t>(max_characters);
    VKFORMER_TRY(const Field vocab_field, field.at("vocab"));
    VKFORMER_TRY(Vocabulary vocabulary, Vocabulary::read(vocab_field));
    return std::unique_ptr<TokenModel>(std::make_unique<WordPiece>(std::move(vocabulary), std::move(options)));
}

}  // namespace vkformer::text
