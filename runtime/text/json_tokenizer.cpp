// SPDX-License-Identifier: MIT
#include "text/json_tokenizer.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <optional>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "formats/json.hpp"
#include "text/added_tokens.hpp"
#include "text/byte_level.hpp"
#include "text/decoders.hpp"
#include "text/json_field.hpp"
#include "text/normalizers.hpp"
#include "text/post_processors.hpp"
#include "text/pre_tokenizers.hpp"
#include "text/token_models.hpp"
#include "text/tokenizer_config.hpp"
#include "text/unicode.hpp"

namespace vkformer::text {
namespace {

/// Tokens that are looked for in the text itself, and those in the normalised text.
class AddedTokenMatcher {
public:
    AddedTokenMatcher(std::vector<AddedToken> tokens, std::vector<std::string> spellings)
        : tokens_(std::move(tokens)), finder_(std::move(spellings)) {}

    struct Part {
        Piece piece;
        std::optional<std::int32_t> id;  ///< of the added token that this is
    };
    std::vector<Part> cut(Piece piece) const {
        const std::string_view text = piece.text;
        std::vector<Part> parts;
        const auto add = [&](std::size_t begin, std::size_t end, std::optional<std::int32_t> id) {
            if (begin < end) parts.push_back({piece.slice(begin, end), id});
        };
        std::size_t rest = 0;
        std::size_t from = 0;
        while (const auto match = finder_.next(text, from)) {
            from = match->end;
            const AddedToken& token = tokens_[match->index];
            std::size_t begin = match->begin, end = match->end;
            if (token.single_word && touches_word(text, begin, end)) continue;
            if (token.lstrip) begin = std::max(trim_end(text.substr(0, begin), is_white_space).size(), rest);
            if (token.rstrip) end = text.size() - trim_start(text.substr(end), is_white_space).size();
            if (begin >= end) continue;  // another has swallowed it
            add(rest, begin, std::nullopt);
            parts.push_back({{}, token.id});
            rest = end;
        }
        add(rest, text.size(), std::nullopt);
        return parts;
    }

private:
    static bool touches_word(std::string_view text, std::size_t begin, std::size_t end) {
        return (begin > 0 && is_word_character(last_character(text.substr(0, begin)).code)) ||
               (end < text.size() && is_word_character(first_character(text.substr(end)).code));
    }

    std::vector<AddedToken> tokens_;
    TextFinder finder_;
};

/// How added tokens are found.
struct Matchers {
    AddedTokenMatcher in_text;
    AddedTokenMatcher in_normalized;
};

/// The spelling of every token.
class Pieces {
public:
    Pieces(const Vocabulary& vocabulary, const std::vector<AddedToken>& added)
        : vocabulary_(vocabulary), size_(vocabulary.id_limit()) {
        for (const AddedToken& token : added) {
            added_.insert_or_assign(token.id, token.content);
            added_ids_.insert_or_assign(token.content, token.id);
            size_ = std::max(size_, static_cast<std::size_t>(token.id) + 1);
        }
    }
    /// nullptr where there is none.
    const std::string* find(std::int32_t id) const {
        const auto added = added_.find(id);
        return added != added_.end() ? &added->second : vocabulary_.token_of(id);
    }
    bool is_added(std::int32_t id) const { return added_.contains(id); }
    std::optional<std::int32_t> find(std::string_view piece) const {
        const auto added = added_ids_.find(piece);
        return added != added_ids_.end() ? added->second : vocabulary_.id_of(piece);
    }
    std::size_t size() const noexcept { return size_; }

private:
    const Vocabulary& vocabulary_;
    std::unordered_map<std::int32_t, std::string> added_;
    std::unordered_map<std::string, std::int32_t, StringHash, std::equal_to<>> added_ids_;
    std::size_t size_;
};

/// Cuts two texts (the second may be empty) to `room` ids together: the longer one down to the shorter, then both to halves.
/// Returns how many were cut.
std::size_t cut_longest_first(std::vector<std::int32_t>& first, std::vector<std::int32_t>& second, std::size_t room) {
    const std::size_t total = first.size() + second.size();
    if (total <= room) return 0;
    std::size_t shorter = std::min(first.size(), second.size());
    std::size_t longer = shorter > room ? shorter : std::max(shorter, room - shorter);
    if (shorter + longer > room) {
        shorter = room / 2;
        longer = shorter + room % 2;
    }
    const bool first_is_longer = first.size() > second.size();
    first.resize(std::min(first.size(), first_is_longer ? longer : shorter));
    second.resize(std::min(second.size(), first_is_longer ? shorter : longer));
    return total - first.size() - second.size();
}

struct JsonParts {
    Normalizer normalizer;
    PreTokenizer pre_tokenizer;
    std::unique_ptr<TokenModel> model;
    PostProcessor post_processor;
    std::optional<Decoder> decoder;
    Result<ByteSpelling> byte_spelling = ByteSpelling::none;  // its error is told when tokens' texts are asked for
    std::vector<AddedToken> added;
    std::optional<Matchers> matchers;        // of all added tokens
    std::optional<Matchers> plain_matchers;  // of those that are not special
    bool clean_up = false;
};

/// The text that a decoder makes of one token.
std::string text_of_token(const JsonParts& parts, std::string_view token) {
    std::string text;
    if (!parts.decoder) return text;
    const DecoderStages stages = (*parts.decoder)(text_collector(text));
    stages->text(token);
    stages->end_token();
    stages->finish();
    return text;
}

/// Tokens through the stages of a decoder.
class JsonStream final : public StreamDecoder {
public:
    /// `skipped`, where given, are tokens to leave out.
    JsonStream(const JsonParts& parts, const Pieces& pieces, const std::unordered_set<std::string>* skipped)
        : pieces_(pieces), skipped_(skipped) {
        stages_ = text_collector(text_);
        if (parts.clean_up) stages_ = space_cleaner(std::move(stages_));
        stages_ = parts.decoder ? (*parts.decoder)(std::move(stages_)) : space_joiner(std::move(stages_));
    }

    void feed(std::int32_t id) {
        const std::string* token = pieces_.find(id);
        if (!token || (skipped_ && skipped_->contains(*token))) return;
        stages_->text(*token);
        stages_->end_token();
    }
    std::string push(std::int32_t id) override {
        feed(id);
        return std::exchange(text_, {});
    }
    std::string finish() override {
        stages_->finish();
        return std::exchange(text_, {});
    }

private:
    const Pieces& pieces_;
    const std::unordered_set<std::string>* skipped_;
    std::string text_;
    DecoderStages stages_;
};

/// The ids of words that came before in the text.
class WordCache {
public:
    Result<void> tokenize(const TokenModel& model, std::string_view word, std::vector<std::int32_t>& ids) {
        constexpr std::size_t kMaxBytes = 64, kMaxWords = 1 << 16;  // some megabytes at most
        if (word.size() > kMaxBytes) return model.tokenize(word, ids);
        if (const auto found = words_.find(word); found != words_.end()) {
            ids.insert(ids.end(), found->second.begin(), found->second.end());
            return {};
        }
        const auto before = static_cast<std::ptrdiff_t>(ids.size());
        VKFORMER_CHECK(model.tokenize(word, ids));
        if (words_.size() < kMaxWords) words_.try_emplace(std::string(word), ids.begin() + before, ids.end());
        return {};
    }

private:
    std::unordered_map<std::string, std::vector<std::int32_t>, StringHash, std::equal_to<>> words_;
};

class JsonTokenizer final : public Tokenizer {
public:
    explicit JsonTokenizer(JsonParts parts)
        : parts_(std::move(parts)), pieces_(parts_.model->vocabulary(), parts_.added) {
        for (const AddedToken& token : parts_.added)
            if (token.special) special_.insert(token.content);
        has_byte_spelling_ = text_of_token(parts_, spell_bytes("\x7F")) == "\x7F";
        has_byte_pieces_ = text_of_token(parts_, "<0x41>") == "A";
    }

    Result<std::vector<std::int32_t>> encode(std::string_view text, const EncodeOptions& options) const override {
        VKFORMER_CHECK(check_utf8(text));
        try {
            const Matchers& matchers = options.parse_special ? *parts_.matchers : *parts_.plain_matchers;
            std::vector<std::int32_t> ids;
            WordCache words;
            for (auto& part :
                 matchers.in_text.cut({std::string(text), text.empty() ? 0 : first_character(text).bytes})) {
                if (part.id) {
                    ids.push_back(*part.id);
                    continue;
                }
                VKFORMER_CHECK(parts_.normalizer(part.piece));
                for (auto& normalized : matchers.in_normalized.cut(std::move(part.piece))) {
                    if (normalized.id) {
                        ids.push_back(*normalized.id);
                    } else {
                        VKFORMER_CHECK(encode_piece(std::move(normalized.piece), words, ids));
                    }
                }
            }
            return options.add_special ? parts_.post_processor(std::move(ids)).ids : ids;
        } catch (const std::bad_alloc&) {
            return Error{ErrorCode::OutOfHostMemory, "out of memory while tokenizing"};
        }
    }

    Result<Encoding> encode_for_encoder(std::string_view first, std::optional<std::string_view> second,
                                        std::size_t max_length) const override {
        const PostProcessor& process = parts_.post_processor;
        if (second && !process.takes_pairs())
            return Error{ErrorCode::UnsupportedConfig, "tokenizer.json says nothing about pairs of texts"};
        const std::size_t added = process.added(second.has_value());
        if (max_length != 0 && max_length < added)
            return Error{ErrorCode::InvalidArgument, "at most " + std::to_string(max_length) +
                                                         " tokens are allowed, but there are " + std::to_string(added) +
                                                         " special ones"};
        const std::size_t room = max_length == 0 ? std::numeric_limits<std::size_t>::max() : max_length - added;
        VKFORMER_TRY(auto ids, encode(first, {.add_special = false}));
        std::vector<std::int32_t> second_ids;
        if (second) {
            VKFORMER_TRY(second_ids, encode(*second, {.add_special = false}));
        }
        const std::size_t cut = cut_longest_first(ids, second_ids, room);
        Encoding encoding = second ? process(std::move(ids), std::move(second_ids)) : process(std::move(ids));
        encoding.cut = cut;
        return encoding;
    }

    std::string decode(std::span<const std::int32_t> ids, bool skip_special) const override {
        JsonStream stream(parts_, pieces_, skip_special ? &special_ : nullptr);
        for (const std::int32_t id : ids) stream.feed(id);
        return stream.finish();
    }

    std::unique_ptr<StreamDecoder> stream(bool skip_special) const override {
        return std::make_unique<JsonStream>(parts_, pieces_, skip_special ? &special_ : nullptr);
    }

    Result<TokenTexts> token_texts() const override {
        VKFORMER_TRY(const ByteSpelling spelling, parts_.byte_spelling);
        TokenTexts texts;
        texts.bytes.resize(pieces_.size());
        bool has_seen_space = false;
        for (std::size_t id = 0; id < texts.bytes.size(); ++id) {
            const std::string* const piece = pieces_.find(static_cast<std::int32_t>(id));
            if (!piece) continue;
            std::string& bytes = texts.bytes[id];
            if (special_.contains(*piece)) {
                bytes = *piece;
                texts.special.push_back(static_cast<std::int32_t>(id));
                continue;
            }
            if (spelling == ByteSpelling::byte_level) {
                bytes = bytes_of_spelling(*piece).value_or(*piece);
                continue;
            }
            if (const auto byte = byte_of_piece(*piece); byte && spelling == ByteSpelling::byte_fallback) {
                bytes = static_cast<char>(*byte);
                continue;
            }
            bytes = text_behind("a", *piece).substr(1);
            if (!has_seen_space && bytes.size() > 1 && bytes[0] == ' ' && bytes[1] != ' ') {
                has_seen_space = true;
                texts.drops_first_space = !text_behind("", *piece).starts_with(' ');
            }
        }
        return texts;
    }

    std::string piece(std::int32_t id) const override {
        const std::string* piece = pieces_.find(id);
        return piece ? *piece : std::string();
    }

    std::string bytes(std::int32_t id) const override {
        const std::string* const piece = pieces_.find(id);
        if (!piece || pieces_.is_added(id)) return piece ? *piece : std::string();
        if (has_byte_spelling_) return bytes_of_spelling(*piece).value_or(*piece);
        if (const auto byte = byte_of_piece(*piece); byte && has_byte_pieces_)
            return std::string(1, static_cast<char>(*byte));
        const std::int32_t twice[] = {id, id};
        const std::string once = decode(std::span(twice, 1), false);
        std::string both = decode(twice, false);
        if (both.size() > once.size()) return both.substr(once.size());
        std::string spaced = *piece;  // a blank that the decoder takes off the end
        replace_all(spaced, "\u2581", " ");
        return spaced;
    }

    std::optional<std::int32_t> find(std::string_view piece) const override { return pieces_.find(piece); }

    std::size_t vocab_size() const noexcept override { return pieces_.size(); }

private:
    /// What the decoder makes of a token behind another; an empty one is none.
    std::string text_behind(std::string_view first, std::string_view piece) const {
        std::string text;
        DecoderStages stages = text_collector(text);
        stages = parts_.decoder ? (*parts_.decoder)(std::move(stages)) : space_joiner(std::move(stages));
        for (const std::string_view token : {first, piece}) {
            if (token.empty()) continue;
            stages->text(token);
            stages->end_token();
        }
        stages->finish();
        return text.starts_with(first) ? text : std::string(first);
    }

    Result<void> encode_piece(Piece piece, WordCache& words, std::vector<std::int32_t>& ids) const {
        std::vector<Piece> pieces;
        pieces.push_back(std::move(piece));
        VKFORMER_CHECK(parts_.pre_tokenizer(pieces));
        for (const Piece& part : pieces) {
            for (std::string_view text = part.text; !text.empty();) {
                const std::string_view word = text.substr(0, parts_.model->word_end(text));
                VKFORMER_CHECK(words.tokenize(*parts_.model, word, ids));
                text.remove_prefix(word.size());
            }
        }
        return {};
    }

    JsonParts parts_;
    Pieces pieces_;
    std::unordered_set<std::string> special_;
    bool has_byte_spelling_ = false, has_byte_pieces_ = false;
};

/// The added tokens of tokenizer.json, then those that only tokenizer_config.json knows. Their ids are found as the
/// tokenizers library finds them: the vocabulary's where it has the token, else the next free one.
Result<std::vector<AddedToken>> read_added_tokens(const Field& root, const TokenizerConfig& config,
                                                  const Vocabulary& vocabulary) {
    std::vector<AddedToken> tokens;
    std::unordered_set<std::string> contents;
    auto next_id = static_cast<std::int32_t>(vocabulary.size());
    const auto place = [&](AddedToken token) {
        if (token.content.empty() || !contents.insert(token.content).second) return;
        const auto id = vocabulary.id_of(token.content);
        token.id = id ? *id : next_id++;
        tokens.push_back(std::move(token));
    };
    if (const auto list = root.find("added_tokens")) {
        VKFORMER_TRY(const auto fields, list->elements());
        for (const Field& field : fields) {
            VKFORMER_TRY(const std::int32_t id, field.id("id"));
            VKFORMER_TRY(AddedToken token, read_added_token(field, id));
            place(std::move(token));
        }
    }
    for (const AddedToken& token : tokens) next_id = std::max(next_id, token.id + 1);
    for (AddedToken token : config.added_tokens) {
        token.special |= std::ranges::find(config.special_tokens, token.content) != config.special_tokens.end();
        place(std::move(token));
    }
    for (const std::string& content : config.special_tokens) place({.content = content, .special = true});
    return tokens;
}

/// A token that is looked for in the normalised text is normalised itself.
Result<Matchers> make_matchers(const JsonParts& parts, bool with_special) {
    std::vector<AddedToken> plain, normalized;
    std::vector<std::string> plain_spellings, normalized_spellings;
    // Special tokens come first, as the tokenizers library has them: it decides between equal spellings.
    for (const bool special : {true, false}) {
        for (const AddedToken& token : parts.added) {
            if (token.special != special || (special && !with_special)) continue;
            if (token.normalized) {
                Piece piece{token.content};
                VKFORMER_CHECK(parts.normalizer(piece));
                if (piece.text.empty())
                    return Error{ErrorCode::UnsupportedConfig,
                                 "tokenizer.json: the added token " + formats::quote(token.content) +
                                     " is \"normalized\", and the normalizer leaves nothing of it; not supported"};
                normalized.push_back(token);
                normalized_spellings.push_back(std::move(piece.text));
            } else {
                plain.push_back(token);
                plain_spellings.push_back(token.content);
            }
        }
    }
    return Matchers{{std::move(plain), std::move(plain_spellings)},
                    {std::move(normalized), std::move(normalized_spellings)}};
}

/// What stands around the model.
Result<JsonParts> read_components(const Field& root, std::optional<bool> add_prefix_space) {
    JsonParts parts;
    parts.normalizer = [](Piece&) -> Result<void> { return {}; };
    parts.pre_tokenizer = [](std::vector<Piece>&) -> Result<void> { return {}; };
    if (const auto field = root.find("normalizer")) {
        VKFORMER_TRY(parts.normalizer, read_normalizer(*field));
    }
    if (const auto field = root.find("pre_tokenizer")) {
        VKFORMER_TRY(parts.pre_tokenizer, read_pre_tokenizer(*field, add_prefix_space));
    }
    if (const auto field = root.find("post_processor")) {
        VKFORMER_TRY(parts.post_processor, read_post_processor(*field));
    }
    if (const auto field = root.find("decoder")) {
        VKFORMER_TRY(parts.decoder, read_decoder(*field));
        parts.byte_spelling = read_byte_spelling(*field);
    }
    return parts;
}

Result<JsonParts> read_parts(const Field& root, const TokenizerConfig& config, std::optional<bool> add_prefix_space) {
    VKFORMER_CHECK(root.check_members({"version", "truncation", "padding", "added_tokens", "normalizer",
                                       "pre_tokenizer", "post_processor", "decoder", "model"}));
    VKFORMER_TRY(const std::string version, root.text("version", "1.0"));
    if (version != "1.0") return root.unsupported("the version " + formats::quote(version) + " is not supported");

    VKFORMER_TRY(JsonParts parts, read_components(root, add_prefix_space));
    parts.clean_up = config.clean_up_spaces;
    VKFORMER_TRY(const Field model, root.at("model"));
    VKFORMER_TRY(parts.model, read_token_model(model));
    VKFORMER_TRY(parts.added, read_added_tokens(root, config, parts.model->vocabulary()));
    VKFORMER_TRY(parts.matchers, make_matchers(parts, !config.split_special_tokens));
    VKFORMER_TRY(parts.plain_matchers, make_matchers(parts, false));
    return parts;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_json_tokenizer(const std::filesystem::path& folder) {
    VKFORMER_TRY(const nlohmann::json value, formats::read_json(folder / "tokenizer.json"));
    const Field root(value, "tokenizer.json");
    VKFORMER_TRY(const TokenizerConfig config, read_tokenizer_config(folder));
    VKFORMER_TRY(JsonParts parts, read_parts(root, config, config.add_prefix_space));
    return std::unique_ptr<Tokenizer>(std::make_unique<JsonTokenizer>(std::move(parts)));
}

Result<std::unique_ptr<Tokenizer>> parse_json_tokenizer(std::string_view text) {
    VKFORMER_TRY(const nlohmann::json value, formats::parse_json(text, "tokenizer.json"));
    VKFORMER_TRY(JsonParts parts, read_parts(Field(value, "tokenizer.json"), {}, {}));
    return std::unique_ptr<Tokenizer>(std::make_unique<JsonTokenizer>(std::move(parts)));
}

Result<std::unique_ptr<Tokenizer>> assemble_tokenizer(const Field& components, std::optional<Normalizer> normalizer,
                                                      std::unique_ptr<TokenModel> model,
                                                      std::vector<AddedToken> added) {
    VKFORMER_TRY(JsonParts parts, read_components(components, {}));
    if (normalizer) parts.normalizer = *std::move(normalizer);
    parts.model = std::move(model);
    parts.added = std::move(added);
    VKFORMER_TRY(parts.matchers, make_matchers(parts, true));
    VKFORMER_TRY(parts.plain_matchers, make_matchers(parts, false));
    return std::unique_ptr<Tokenizer>(std::make_unique<JsonTokenizer>(std::move(parts)));
}

}  // namespace vkformer::text
