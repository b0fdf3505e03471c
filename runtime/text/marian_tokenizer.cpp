// SPDX-License-Identifier: MIT
#include "text/marian_tokenizer.hpp"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "formats/json.hpp"
#include "text/added_tokens.hpp"
#include "text/json_field.hpp"
#include "text/sentencepiece_model.hpp"
#include "text/tokenizer_config.hpp"
#include "text/unicode.hpp"

namespace vkformer::text {
namespace {

using Model = std::shared_ptr<const sentencepiece::SentencePieceProcessor>;
using IdsOfSpellings = std::unordered_map<std::string, std::int32_t>;
using SpellingsOfIds = std::unordered_map<std::int32_t, std::string>;

struct MarianParts {
    Model source;
    Model target;
    IdsOfSpellings source_ids, target_ids;
    SpellingsOfIds target_pieces;
    std::vector<AddedToken> added;
    std::vector<std::string> special;        // contents
    std::unordered_set<std::string> breaks;  // added tokens that decode sets apart with spaces
    std::string unk, eos;
    bool split_special = false;
    bool clean_up = false;
};

std::vector<std::string> contents_of(const std::vector<AddedToken>& tokens) {
    std::vector<std::string> contents;
    for (const AddedToken& token : tokens) contents.push_back(token.content);
    return contents;
}

/// SentencePiece joins pieces of a whole text only, so each token decodes all of them anew: in proportion to the text so far, which
/// is a sentence.
class WholeText final : public StreamDecoder {
public:
    /// `clean_up`: whether spaces may go from before what follows.
    WholeText(const Tokenizer& tokenizer, bool skip_special, bool clean_up)
        : tokenizer_(tokenizer), skip_special_(skip_special), clean_up_(clean_up) {}

    std::string push(std::int32_t id) override {
        ids_.push_back(id);
        if (is_byte(tokenizer_.piece(id))) return {};  // perhaps a part of a character
        std::string text = tokenizer_.decode(ids_, skip_special_);
        // The next token may take the spaces at the end away, and cleaning up the last one before what looks like a mark or a suffix.
        const std::size_t end = clean_up_ ? text.rfind(' ') : text.find_last_not_of(' ') + 1;
        text.resize(end == text.npos ? 0 : end);
        return given_out(text);
    }
    std::string finish() override { return given_out(tokenizer_.decode(ids_, skip_special_)); }

private:
    static bool is_byte(std::string_view piece) {
        return piece.size() == 6 && piece.starts_with("<0x") && piece.ends_with('>');
    }
    /// What is new of it. What was given out is never taken back, not even where decoding changes its mind.
    std::string given_out(std::string_view text) {
        if (text.size() <= given_) return {};
        std::string part(text.substr(given_));
        given_ = text.size();
        return part;
    }

    const Tokenizer& tokenizer_;
    bool skip_special_, clean_up_;
    std::vector<std::int32_t> ids_;
    std::size_t given_ = 0;  // bytes
};

class MarianTokenizer final : public Tokenizer {
public:
    explicit MarianTokenizer(MarianParts parts) : parts_(std::move(parts)), finder_(contents_of(parts_.added)) {
        for (const AddedToken& token : parts_.added) {
            added_ids_.emplace(token.content, token.id);
            added_pieces_.insert_or_assign(token.id, token.content);
        }
        special_.insert(parts_.special.begin(), parts_.special.end());
        for (const std::string& token : parts_.special) special_ids_.insert(id_of(token, source()));
        for (const auto& [piece, id] : parts_.source_ids) size_ = std::max(size_, static_cast<std::size_t>(id) + 1);
        for (const auto& [id, piece] : parts_.target_pieces) size_ = std::max(size_, static_cast<std::size_t>(id) + 1);
        for (const auto& [id, piece] : added_pieces_) size_ = std::max(size_, static_cast<std::size_t>(id) + 1);
    }

    Result<std::vector<std::int32_t>> encode(std::string_view text, const EncodeOptions& options) const override {
        VKFORMER_CHECK(check_utf8(text));
        try {
            std::vector<std::int32_t> ids;
            const Side side = options.is_target ? Side{*parts_.target, parts_.target_ids} : source();
            for (const Segment& segment : segments(text, options.parse_special && !parts_.split_special)) {
                if (segment.is_token) {
                    ids.push_back(id_of(segment.text, side));
                } else if (!segment.text.empty()) {
                    VKFORMER_CHECK(check_words(segment.text));
                    encode_plain(segment.text, side, ids);
                }
            }
            if (options.add_special) ids.push_back(id_of(parts_.eos, side));
            return ids;
        } catch (const std::bad_alloc&) {
            return Error{ErrorCode::OutOfHostMemory, "out of memory while tokenizing"};
        }
    }

    std::string decode(std::span<const std::int32_t> ids, bool skip_special) const override {
        std::string text;
        std::vector<std::string> pieces;
        bool is_first = true;
        const auto append = [&](std::string_view part) {
            if (!std::exchange(is_first, false)) text += ' ';
            text += part;
        };
        for (const std::int32_t id : ids) {
            std::string piece = token_of(id);
            if (skip_special && (special_ids_.contains(id) || special_.contains(piece))) continue;
            if (!parts_.breaks.contains(piece)) {
                pieces.push_back(std::move(piece));
                continue;
            }
            if (const std::string part = join(pieces); !part.empty()) append(part);
            pieces.clear();
            append(piece);
        }
        if (!pieces.empty()) append(join(pieces));
        if (parts_.clean_up) clean_up_spaces(text);
        return text;
    }

    std::unique_ptr<StreamDecoder> stream(bool skip_special) const override {
        return std::make_unique<WholeText>(*this, skip_special, parts_.clean_up);
    }

    std::string piece(std::int32_t id) const override {
        const std::string* piece = find_piece(id);
        return piece ? *piece : std::string();
    }

    std::optional<std::int32_t> find(std::string_view piece) const override {
        const std::string text(piece);
        if (const auto added = added_ids_.find(text); added != added_ids_.end()) return added->second;
        const auto found = parts_.source_ids.find(text);
        return found != parts_.source_ids.end() ? std::optional(found->second) : std::nullopt;
    }

    std::size_t vocab_size() const noexcept override { return size_; }

private:
    struct Segment {
        std::string text;
        bool is_token;
    };
    /// What reads a text of the one language or the other.
    struct Side {
        const sentencepiece::SentencePieceProcessor& model;
        const IdsOfSpellings& ids;
    };
    Side source() const { return {*parts_.source, parts_.source_ids}; }

    /// The text cut at the added tokens.
    std::vector<Segment> segments(std::string_view text, bool parse_special) const {
        if (!parse_special) return {{std::string(text), false}};
        std::vector<Segment> result;
        std::vector<const AddedToken*> tokens;  // beside `result`
        std::size_t at = 0;
        const auto add = [&](std::string_view part, const AddedToken* token) {
            if (part.empty()) return;
            result.push_back({std::string(part), token != nullptr});
            tokens.push_back(token);
        };
        while (const auto match = finder_.next(text, at)) {
            add(text.substr(at, match->begin - at), nullptr);
            add(text.substr(match->begin, match->end - match->begin), &parts_.added[match->index]);
            at = match->end;
        }
        add(text.substr(at), nullptr);
        for (std::size_t i = 0; i < result.size(); ++i)
            if (tokens[i]) give_way(result, i, *tokens[i]);
        return result;
    }

    /// The effect of a token's flags on its neighbours.
    static void give_way(std::vector<Segment>& segments, std::size_t i, const AddedToken& token) {
        Segment* left = i > 0 ? &segments[i - 1] : nullptr;
        Segment* right = i + 1 < segments.size() ? &segments[i + 1] : nullptr;
        if (token.rstrip && right) right->text = trim_start(std::string(right->text), is_python_space);
        if (token.lstrip && left) left->text = trim_end(std::string(left->text), is_python_space);
        if (!token.single_word) return;
        Segment& self = segments[i];
        if (left && !left->text.empty() && left->text.back() != ' ') {
            left->text += self.text;
            left->is_token = self.is_token = false;
            self.text.clear();
        } else if (right && !right->text.empty() && right->text.front() != ' ') {
            right->text = self.text + right->text;
            right->is_token = self.is_token = false;
            self.text.clear();
        }
    }

    /// libsentencepiece joins neighbours that no piece has by copying what it has of them each time.
    static Result<void> check_words(std::string_view text) {
        constexpr std::size_t kMostBytes = std::size_t{16} << 10;
        while (!text.empty()) {
            const std::size_t end = std::min(text.find_first_of(" \t\n\r"), text.size());
            if (end > kMostBytes)
                return Error{ErrorCode::InvalidArgument, "the text has " + std::to_string(end) +
                                                             " bytes without a blank or a new line, but at most " +
                                                             std::to_string(kMostBytes) +
                                                             " are taken; translate it by sentences"};
            text.remove_prefix(std::min(end + 1, text.size()));
        }
        return {};
    }

    void encode_plain(std::string_view text, const Side& side, std::vector<std::int32_t>& ids) const {
        if (text.starts_with(">>")) {
            if (const auto end = text.find("<<"); end != text.npos) {
                ids.push_back(id_of(std::string(text.substr(0, end + 2)), side));
                text.remove_prefix(end + 2);
            }
        }
        std::vector<std::string> pieces;
        side.model.Encode(text, &pieces).IgnoreError();  // fails only where no model is loaded
        for (const std::string& piece : pieces) ids.push_back(id_of(piece, side));
    }

    std::int32_t id_of(const std::string& token, const Side& side) const {
        if (const auto added = added_ids_.find(token); added != added_ids_.end()) return added->second;
        const auto found = side.ids.find(token);
        return found != side.ids.end() ? found->second : side.ids.at(parts_.unk);
    }

    const std::string* find_piece(std::int32_t id) const {
        if (const auto added = added_pieces_.find(id); added != added_pieces_.end()) return &added->second;
        const auto found = parts_.target_pieces.find(id);
        return found != parts_.target_pieces.end() ? &found->second : nullptr;
    }
    const std::string& token_of(std::int32_t id) const {
        const std::string* piece = find_piece(id);
        return piece ? *piece : parts_.unk;
    }

    /// Pieces as SentencePiece joins them; special tokens in between are copied.
    std::string join(const std::vector<std::string>& pieces) const {
        std::string text;
        std::vector<std::string> run;
        const auto flush = [&] {
            std::string part;
            parts_.target->Decode(run, &part).IgnoreError();  // fails only where no model is loaded
            text += part;
            run.clear();
        };
        for (const std::string& piece : pieces) {
            if (!special_.contains(piece)) {
                run.push_back(piece);
                continue;
            }
            flush();
            text += piece + " ";
        }
        flush();
        replace_all(text, "▁", " ");
        return std::string(trim_end(trim_start(text, is_python_space), is_python_space));
    }

    MarianParts parts_;
    TextFinder finder_;
    IdsOfSpellings added_ids_;
    SpellingsOfIds added_pieces_;
    std::unordered_set<std::string> special_;
    std::unordered_set<std::int32_t> special_ids_;
    std::size_t size_ = 0;
};

Result<IdsOfSpellings> read_vocabulary(const std::filesystem::path& path) {
    VKFORMER_TRY(const nlohmann::json value, formats::read_json(path));
    const std::string name = path.filename().string();
    const Field root(value, name);
    if (!value.is_object()) return root.corrupt("expected an object of pieces and ids");
    IdsOfSpellings vocabulary;
    for (const auto& [piece, id_value] : value.items()) {
        VKFORMER_TRY(const std::int32_t id, Field(id_value, name + ": " + formats::quote(piece)).id());
        vocabulary.emplace(piece, id);
    }
    return vocabulary;
}

/// The tokens that Hugging Face would hand out beyond the vocabulary, and those it only marks in it.
void add_special_tokens(const TokenizerConfig& config, MarianParts& parts) {
    parts.added = config.added_tokens;
    std::vector<std::string> contents = contents_of(parts.added);
    std::vector<std::string> all = config.special_tokens;
    for (const std::string& token : {parts.eos, parts.unk, config.pad_token.value_or("<pad>")})
        if (std::ranges::find(all, token) == all.end()) all.push_back(token);
    for (const AddedToken& token : parts.added)
        if (token.special && std::ranges::find(all, token.content) == all.end()) all.push_back(token.content);

    const auto known = [&](const std::string& token) {
        return parts.source_ids.contains(token) || std::ranges::find(contents, token) != contents.end();
    };
    auto next_id = static_cast<std::int32_t>(parts.source_ids.size());
    for (const AddedToken& token : config.added_tokens) next_id += !parts.source_ids.contains(token.content);
    for (const std::string& token : all) {
        if (std::ranges::find(contents, token) != contents.end()) continue;
        const std::int32_t id = known(token) ? parts.source_ids.at(token) : next_id++;
        parts.added.push_back({.id = id, .content = token, .special = true});
        contents.push_back(token);
    }
    parts.special = std::move(all);

    const auto is_special = [&](const std::string& token) {
        return std::ranges::find(parts.special, token) != parts.special.end();
    };
    for (const AddedToken& token : parts.added) {
        const bool additional = std::ranges::find(config.additional_special_tokens, token.content) !=
                                config.additional_special_tokens.end();
        const bool beyond = static_cast<std::size_t>(token.id) >= parts.source_ids.size();
        if (!is_special(token.content) || (additional && beyond)) parts.breaks.insert(token.content);
    }
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_marian_tokenizer(const std::filesystem::path& folder) {
    VKFORMER_TRY(const TokenizerConfig config, read_tokenizer_config(folder));
    MarianParts parts{.unk = config.unk_token.value_or("<unk>"),
                      .eos = config.eos_token.value_or("</s>"),
                      .split_special = config.split_special_tokens,
                      .clean_up = config.clean_up_spaces};
    VKFORMER_TRY(parts.source, load_sentencepiece(folder / "source.spm"));
    VKFORMER_TRY(parts.target, load_sentencepiece(folder / "target.spm"));
    VKFORMER_TRY(parts.source_ids, read_vocabulary(folder / "vocab.json"));
    for (const std::string& token : {parts.unk, config.pad_token.value_or("<pad>")})
        if (!parts.source_ids.contains(token))
            return Error{ErrorCode::CorruptFile, "vocab.json: has no token " + formats::quote(token)};
    if (config.separate_vocabs) {
        VKFORMER_TRY(IdsOfSpellings target, read_vocabulary(folder / "target_vocab.json"));
        for (const auto& [piece, id] : target) parts.target_pieces.emplace(id, piece);
        if (!target.contains(parts.unk))
            return Error{ErrorCode::CorruptFile, "target_vocab.json: has no token " + formats::quote(parts.unk)};
        parts.target_ids = std::move(target);
    } else {
        parts.target_ids = parts.source_ids;
        for (const auto& [piece, id] : parts.source_ids)
            if (!parts.target_pieces.emplace(id, piece).second)
                return Error{ErrorCode::CorruptFile, "vocab.json: the id " + std::to_string(id) + " occurs twice"};
    }
    add_special_tokens(config, parts);
    return std::unique_ptr<Tokenizer>(std::make_unique<MarianTokenizer>(std::move(parts)));
}

}  // namespace vkformer::text
