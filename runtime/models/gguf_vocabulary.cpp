// SPDX-License-Identifier: MIT
#include "models/gguf_vocabulary.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/mapped_file.hpp"
#include "core/try.hpp"
#include "formats/json.hpp"
#include "models/decoder_defaults.hpp"
#include "models/generation_config.hpp"
#include "text/byte_level.hpp"
#include "text/gguf_tokenizer.hpp"
#include "text/json_field.hpp"
#include "text/token_models.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_config.hpp"
#include "text/unicode.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::GgufMetadata;
using nlohmann::json;

// llama.cpp's token types.
constexpr std::int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;

Error unsupported(const std::string& what, const char* advice = "") {
    return {ErrorCode::UnsupportedConfig, "tokenizer.json: " + what + " has no place in a GGUF file" + advice};
}

/// The member, or null.
const json& member(const json& object, const char* name) {
    static const json null;
    if (!object.is_object()) return null;
    const auto found = object.find(name);
    return found == object.end() ? null : *found;
}

bool mentions(const json& value, const char* name, const json& wanted) {
    if (member(value, name) == wanted) return true;
    return value.is_structured() &&
           std::ranges::any_of(value, [&](const json& each) { return mentions(each, name, wanted); });
}

bool is_type(const json& value, const char* type) { return member(value, "type") == type; }

struct Lists {
    std::vector<std::string> tokens;
    std::vector<std::int32_t> types;

    bool is(std::int32_t id, std::int32_t type) const { return types[static_cast<std::size_t>(id)] == type; }
    /// As messages show it.
    std::string shown(std::int32_t id) const {
        return std::cmp_less(id, tokens.size()) ? formats::quote(tokens[static_cast<std::size_t>(id)])
                                                : std::to_string(id);
    }
    std::string shown(std::span<const std::int32_t> ids) const {
        std::string all;
        for (const std::int32_t id : ids) all += (all.empty() ? "" : ", ") + shown(id);
        return all;
    }
};

/// The added tokens of all files, as load_tokenizer finds them; of one that several name, the first.
Result<std::vector<text::AddedToken>> read_added(const json& root, const text::TokenizerConfig& config) {
    std::vector<text::AddedToken> added;
    const json& list = member(root, "added_tokens");
    for (const json& entry : list.is_array() ? list : json::array()) {
        VKFORMER_TRY(text::AddedToken token, text::read_added_token(text::Field(entry, "tokenizer.json"), 0));
        added.push_back(std::move(token));
    }
    const auto is_special = [&](const std::string& content) {
        return std::ranges::find(config.special_tokens, content) != config.special_tokens.end();
    };
    for (text::AddedToken token : config.added_tokens) {
        token.special |= is_special(token.content);
        added.push_back(std::move(token));
    }
    for (const std::string& content : config.special_tokens) added.push_back({.content = content, .special = true});
    std::unordered_set<std::string> seen;
    std::erase_if(added, [&](const text::AddedToken& token) { return !seen.insert(token.content).second; });
    return added;
}

/// Notes say which tokens a GGUF file finds where the folder does not.
Result<Lists> read_lists(const text::Tokenizer& tokenizer, const json& root, const text::TokenizerConfig& config,
                         std::uint32_t vocab_size, std::vector<std::string>& notes) {
    if (tokenizer.vocab_size() > vocab_size)
        return Error{ErrorCode::CorruptFile, "tokenizer.json has " + std::to_string(tokenizer.vocab_size()) +
                                                 " tokens, but config.json says \"vocab_size\" is " +
                                                 std::to_string(vocab_size)};
    Lists lists;
    for (std::uint32_t id = 0; id < vocab_size; ++id) {
        std::string piece = tokenizer.piece(static_cast<std::int32_t>(id));
        const bool is_byte = text::byte_of_piece(piece).has_value();
        lists.types.push_back(piece.empty() ? kUnused : is_byte ? kByte : kNormal);
        if (piece.empty()) {
            piece = "[PAD" + std::to_string(id) + "]";
            while (tokenizer.find(piece)) piece += '_';
        }
        lists.tokens.push_back(std::move(piece));
    }
    VKFORMER_TRY(const auto added, read_added(root, config));
    const bool prepends = mentions(member(root, "normalizer"), "type", "Prepend");
    std::vector<std::int32_t> odd;
    for (const text::AddedToken& token : added) {
        const auto id = tokenizer.find(token.content);
        if (!id) continue;
        lists.types[static_cast<std::size_t>(*id)] = token.special ? kControl : kUserDefined;
        if (token.lstrip || token.rstrip || token.single_word || (token.normalized && prepends)) odd.push_back(*id);
    }
    if (!odd.empty())
        notes.push_back(
            "a GGUF file finds a token wherever it is spelled; the tokenizer takes spaces along, or finds it "
            "only apart from words or behind the normalizer (lstrip, rstrip, single_word, normalized): "
            "texts with " +
            lists.shown(odd) + " may differ");
    return lists;
}

/// "left right", however the file writes it.
std::optional<std::string> merge_line(const json& merge) {
    if (merge.is_string()) return merge.get<std::string>();
    if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) return std::nullopt;
    return merge[0].get<std::string>() + " " + merge[1].get<std::string>();
}

Result<std::vector<std::string>> read_merges(const json& model) {
    std::vector<std::string> merges;
    const json& list = member(model, "merges");
    for (const json& merge : list.is_array() ? list : json::array()) {
        auto line = merge_line(merge);
        if (!line) return Error{ErrorCode::CorruptFile, "tokenizer.json: a merge is not a pair of tokens"};
        if (!line->starts_with("#version")) merges.push_back(*std::move(line));
    }
    return merges;
}

Result<std::unique_ptr<text::TokenModel>> read_model(const json& model) {
    return text::read_token_model(text::Field(model, "tokenizer.json: model"));
}

/// Whether merges alone make every token of its own spelling: ignore_merges changes nothing then.
Result<bool> merges_make_all(json model, const Lists& lists) {
    model["ignore_merges"] = false;
    VKFORMER_TRY(const auto merging, read_model(model));
    for (std::size_t id = 0; id < lists.tokens.size(); ++id) {
        if (lists.types[id] != kNormal && lists.types[id] != kByte) continue;
        std::vector<std::int32_t> ids;
        if (!merging->tokenize(lists.tokens[id], ids) || ids.size() != 1) return false;
    }
    return true;
}

Result<void> add_byte_level(const json& root, const text::TokenizerConfig& config, const Lists& lists,
                            GgufContents& contents) {
    const json &normalizer = member(root, "normalizer"), &model = member(root, "model");
    if (is_type(normalizer, "NFC"))
        contents.notes.push_back(
            "the tokenizer composes characters (NFC), llama.cpp does not: texts in decomposed form differ");
    else if (!normalizer.is_null())
        return unsupported("the normalizer " + member(normalizer, "type").dump());
    json pre_tokenizer = member(root, "pre_tokenizer");
    if (config.add_prefix_space && is_type(pre_tokenizer, "ByteLevel"))
        pre_tokenizer["add_prefix_space"] = *config.add_prefix_space;
    if (mentions(pre_tokenizer, "add_prefix_space", true))
        return unsupported("\"add_prefix_space\": true (here or in tokenizer_config.json)");
    auto pre = text::gguf_pre_name(pre_tokenizer);
    if (!pre) return unsupported("the pre-tokenizer, for which llama.cpp has no name that vkformer knows,");
    const auto same_merges = text::gguf_pre_name(pre_tokenizer, member(model, "ignore_merges") == true);
    if (same_merges != pre) {
        VKFORMER_TRY(const bool all, merges_make_all(model, lists));
        if (!all) pre = same_merges;
    }
    if (!pre)
        return unsupported("\"ignore_merges\": " + member(model, "ignore_merges").dump() +
                           ", beside this pre-tokenizer and tokens that no merges make,");
    if (member(model, "unk_token").is_string())
        for (int byte = 0; byte < 256; ++byte)
            if (const std::string spelling = text::spell_bytes(std::string(1, static_cast<char>(byte)));
                std::ranges::find(lists.tokens, spelling) == lists.tokens.end())
                return unsupported("\"unk_token\", with a vocabulary that lacks the byte " + std::to_string(byte) +
                                   ",");
    VKFORMER_TRY(const auto merges, read_merges(model));
    contents.metadata.set("tokenizer.ggml.model", "gpt2");
    contents.metadata.set("tokenizer.ggml.pre", *pre);
    contents.metadata.set("tokenizer.ggml.merges", std::span(merges));
    return {};
}

/// A token's score is the rank of the first merge that makes it, downwards: the merges' order. Errors: UnsupportedConfig (a token that
/// no merge makes, and scores would).
Result<std::vector<float>> scores_of_merges(const json& model, const Lists& lists) {
    VKFORMER_TRY(const auto merges, read_merges(model));
    std::unordered_map<std::string, std::size_t> ranks;
    for (std::size_t i = 0; i < merges.size(); ++i) {
        std::string joined = merges[i];
        joined.erase(joined.find(' '), 1);
        ranks.emplace(std::move(joined), i);
    }
    std::vector<float> scores;
    std::vector<std::size_t> without;
    for (std::size_t id = 0; id < lists.tokens.size(); ++id) {
        const std::string& token = lists.tokens[id];
        const auto rank = ranks.find(token);
        const bool is_normal = lists.types[id] == kNormal;
        scores.push_back(is_normal ? -static_cast<float>(rank == ranks.end() ? merges.size() : rank->second) : 0);
        const bool is_character = text::first_character(token).bytes == token.size();
        if (is_normal && !is_character && (rank == ranks.end() || member(model, "ignore_merges") == true))
            without.push_back(id);
    }
    if (without.empty()) return scores;
    VKFORMER_TRY(const auto merging, read_model(model));
    const auto scoring = text::make_scored_bpe(text::Vocabulary::in_order(lists.tokens), scores, {});
    for (const std::size_t id : without) {
        std::vector<std::int32_t> merged, scored;
        // What has no token is unknown in both.
        const bool both = merging->tokenize(lists.tokens[id], merged) && scoring->tokenize(lists.tokens[id], scored);
        if (both && merged != scored)
            return unsupported("the token " + formats::quote(lists.tokens[id]) +
                               ", which no merge makes (an added token may be spelled like it),");
    }
    return scores;
}

/// What a tokenizer does about spaces.
struct SpaceRules {
    bool replaces = false, prepends = false;  // ▁ for them, and one before each stretch of text
    bool spares = false;                      // none where one is, or in front of the text alone
    bool splits = false;                      // no token reaches over the ▁ before another word
};

/// A normalizer or a pre-tokenizer.
Result<void> read_spaces(const json& step, const char* kind, SpaceRules& rules) {
    constexpr const char* kSpace = "\u2581";
    const auto is_space = [](const json& pattern) { return member(pattern, "String") == " "; };
    if (step.is_null()) return {};
    if (is_type(step, "Sequence")) {
        for (const char* list : {"normalizers", "pretokenizers"})
            for (const json& each : member(step, list)) VKFORMER_CHECK(read_spaces(each, kind, rules));
        return {};
    }
    const bool is_metaspace = is_type(step, "Metaspace") && member(step, "replacement") == kSpace;
    if (is_type(step, "Replace") && is_space(member(step, "pattern")) && member(step, "content") == kSpace) {
        rules.replaces = true;
        return {};
    }
    if (is_type(step, "Split") && is_space(member(step, "pattern")) && rules.replaces) return {};  // there are none
    const bool prepends = is_metaspace
                              ? member(step, "prepend_scheme") != "never" && member(step, "add_prefix_space") != false
                              : is_type(step, "Prepend") && member(step, "prepend") == kSpace;
    if ((!is_metaspace && !prepends) || (prepends && rules.prepends))
        return unsupported("the " + std::string(kind) + " " + member(step, "type").dump() +
                           " of a SentencePiece vocabulary");
    rules.prepends |= prepends;
    if (!is_metaspace) return {};
    rules.replaces = true;
    rules.spares = prepends;
    rules.splits |= member(step, "split") != false;
    return {};
}

Result<void> add_sentencepiece(const json& root, Lists& lists, GgufContents& contents) {
    const json& model = member(root, "model");
    if (const json& unknown = member(model, "unk_token"); unknown.is_string()) {
        const auto found = std::ranges::find(lists.tokens, unknown.get<std::string>());
        if (found != lists.tokens.end()) lists.types[static_cast<std::size_t>(found - lists.tokens.begin())] = kUnknown;
    }
    SpaceRules rules;
    VKFORMER_CHECK(read_spaces(member(root, "normalizer"), "normalizer", rules));
    VKFORMER_CHECK(read_spaces(member(root, "pre_tokenizer"), "pre-tokenizer", rules));
    if (!rules.replaces) return unsupported("a SentencePiece vocabulary without ▁ in place of spaces");
    for (std::size_t id = 0; rules.splits && id < lists.tokens.size(); ++id)
        if (lists.types[id] == kNormal && lists.tokens[id].find("\u2581", 1) != std::string::npos)
            return unsupported("\"split\" of Metaspace, beside the token " + formats::quote(lists.tokens[id]) + ",");
    if (rules.spares)
        contents.notes.push_back(
            "a GGUF file puts a space before every stretch of text between special tokens; the tokenizer puts none "
            "before a space, nor, if its prepend_scheme is \"first\", behind a special token: such texts differ");
    if (std::ranges::count(lists.types, kByte) != 256)
        contents.notes.push_back("the vocabulary has " + std::to_string(std::ranges::count(lists.types, kByte)) +
                                 " of 256 bytes: texts with characters that it lacks differ, or fail in llama.cpp");
    VKFORMER_TRY(const auto scores, scores_of_merges(model, lists));
    contents.metadata.set("tokenizer.ggml.model", "llama");
    contents.metadata.set("tokenizer.ggml.pre", "default");
    contents.metadata.set("tokenizer.ggml.scores", std::span(scores));
    contents.metadata.set("tokenizer.ggml.add_space_prefix", rules.prepends);
    return {};
}

/// The id of a special token: by tokenizer_config.json, else by config.json (of several the first).
Result<std::optional<std::int32_t>> special_id(const text::Tokenizer& tokenizer, const json& settings,
                                               const Config& config, const std::string& name) {
    const json& entry = member(settings, (name + "_token").c_str());
    const json& content = entry.is_object() ? member(entry, "content") : entry;
    if (content.is_string())
        if (const auto id = tokenizer.find(content.get<std::string>())) return id;
    VKFORMER_TRY(const auto ids, config.token_ids(name + "_token_id"));
    return ids.empty() ? std::optional<std::int32_t>() : ids.front();
}

using Ids = std::vector<std::int32_t>;
bool has_id(const Ids& ids, std::int32_t id) { return std::ranges::find(ids, id) != ids.end(); }

/// Ends beside eos: llama.cpp knows some by their spelling, and the metadata has room for two.
void add_ends(const Lists& lists, const Ids& ends, std::optional<std::int32_t> eos, bool defaults,
              GgufContents& contents) {
    Ids known, further;
    if (eos || defaults) known.push_back(eos.value_or(2));  // SentencePiece's </s>, where the file says none
    for (std::int32_t id = 0; std::cmp_less(id, lists.tokens.size()); ++id)
        if (!lists.is(id, kNormal) && text::is_gguf_end(lists.tokens[static_cast<std::size_t>(id)]) &&
            !has_id(known, id))
            known.push_back(id);
    for (const std::int32_t id : ends)
        if (!has_id(known, id) && !has_id(further, id)) further.push_back(id);
    std::size_t written = 0;
    for (const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"})
        if (written < further.size()) contents.metadata.set(key, static_cast<std::uint32_t>(further[written++]));
    if (written < further.size())
        contents.notes.push_back("a GGUF file has no room for more ends: a generation goes on behind " +
                                 lists.shown(std::span(further).subspan(written)) + " unless they are given as stops");
    std::erase_if(known, [&](std::int32_t id) { return has_id(ends, id); });
    if (!known.empty())
        contents.notes.push_back("a GGUF file's generations end with " + lists.shown(known) +
                                 ", too, which neither generation_config.json nor config.json says");
}

Result<void> add_special_ids(const text::Tokenizer& tokenizer, const json& settings, const Config& config,
                             const Lists& lists, const Ids& ends, bool defaults, GgufContents& contents) {
    GgufMetadata& metadata = contents.metadata;
    VKFORMER_TRY(auto bos, special_id(tokenizer, settings, config, "bos"));
    VKFORMER_TRY(auto eos, special_id(tokenizer, settings, config, "eos"));
    if (!eos && !ends.empty()) eos = ends.front();
    // Whether a text gets them shows in what the tokenizer does.
    VKFORMER_TRY(const auto plain, tokenizer.encode("a", {.add_special = false}));
    VKFORMER_TRY(const auto whole, tokenizer.encode("a"));
    const auto text = std::ranges::search(whole, plain);
    const Ids before(whole.begin(), text.begin()), behind(text.end(), whole.end());
    if (before.size() > 1 || (!behind.empty() && (!eos || behind != Ids{*eos})))
        return unsupported("a post-processor that puts [" + lists.shown(before) + "] before a text and [" +
                               lists.shown(behind) + "] behind it, other than bos and eos,",
                           "; take it out of the file and write them into the texts, as chat templates do");
    if (!before.empty() && before.front() != bos) {
        if (bos && settings.contains("bos_token"))
            contents.notes.push_back("bos is " + lists.shown(before) + ", which begins texts, not " +
                                     lists.shown(*bos) + ", which tokenizer_config.json names");
        bos = before.front();
    }
    VKFORMER_TRY(const auto unknown, special_id(tokenizer, settings, config, "unk"));
    VKFORMER_TRY(const auto padding, special_id(tokenizer, settings, config, "pad"));
    for (const auto& [id, key] : {std::pair(bos, "bos_token_id"), std::pair(eos, "eos_token_id"),
                                  std::pair(unknown, "unknown_token_id"), std::pair(padding, "padding_token_id")})
        if (id && *id >= 0) metadata.set(std::string("tokenizer.ggml.") + key, static_cast<std::uint32_t>(*id));
    metadata.set("tokenizer.ggml.add_bos_token", !before.empty());
    metadata.set("tokenizer.ggml.add_eos_token", !behind.empty());
    add_ends(lists, ends, eos, defaults, contents);
    return {};
}

/// As text::load_chat_template finds it; further ones of a list as gguf-py names them.
Result<void> add_chat_template(const std::filesystem::path& folder, const json& settings, GgufMetadata& metadata) {
    const std::string key = "tokenizer.chat_template";
    std::error_code ignored;
    if (std::filesystem::exists(folder / "chat_template.jinja", ignored)) {
        VKFORMER_TRY(const auto file, MappedFile::open(folder / "chat_template.jinja"));
        const auto bytes = file->bytes();
        metadata.set(key, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
        return {};
    }
    const json& found = member(settings, "chat_template");
    if (found.is_string()) metadata.set(key, found.get<std::string>());
    if (!found.is_array()) return {};
    std::vector<std::string> names;
    for (const json& each : found) {
        const text::Field field(each, "tokenizer_config.json: chat_template");
        VKFORMER_TRY(std::string name, field.text("name"));
        VKFORMER_TRY(const std::string source, field.text("template"));
        std::ranges::replace_if(
            name, [](unsigned char c) { return c >= 0x80 || !std::isalnum(c); }, '_');
        metadata.set(name == "default" ? key : key + "." + name, source);
        if (name != "default") names.push_back(std::move(name));
    }
    if (!names.empty()) metadata.set("tokenizer.chat_templates", std::span<const std::string>(names));
    return {};
}

/// What the folder has besides that no GGUF file says.
Result<void> add_notes_of_text(const std::filesystem::path& folder, const text::TokenizerConfig& config,
                               std::vector<std::string>& notes) {
    if (config.clean_up_spaces)
        notes.push_back(
            "the folder's texts lose spaces before punctuation (\"clean_up_tokenization_spaces\"), those "
            "of a GGUF file do not");
    VKFORMER_TRY(const Config generation, Config::open_if_present(folder / "generation_config.json"));
    std::string names;
    for (const std::string& name : generation.names())
        if (changes_language_models(name)) names += (names.empty() ? "" : ", ") + formats::quote(name);
    if (!names.empty())
        notes.push_back("what generation_config.json says of " + names + " is left out: give it as options");
    return {};
}

}  // namespace

Result<void> add_gguf_vocabulary(const std::filesystem::path& folder, const Config& config, std::uint32_t vocab_size,
                                 GgufContents& contents) {
    VKFORMER_TRY(const auto tokenizer, text::load_tokenizer(folder));
    VKFORMER_TRY(const json root, formats::read_json(folder / "tokenizer.json"));
    json settings;
    if (std::filesystem::exists(folder / "tokenizer_config.json")) {
        VKFORMER_TRY(settings, formats::read_json(folder / "tokenizer_config.json"));
    }
    VKFORMER_TRY(const auto text_config, text::read_tokenizer_config(folder));
    if (text_config.split_special_tokens) return unsupported("\"split_special_tokens\" (of tokenizer_config.json)");
    VKFORMER_TRY(const auto ends, load_end_tokens(folder, vocab_size));
    VKFORMER_TRY(Lists lists, read_lists(*tokenizer, root, text_config, vocab_size, contents.notes));
    const json& model = member(root, "model");
    if (!is_type(model, "BPE")) return unsupported("the model " + member(model, "type").dump());
    for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"})
        if (const json& value = member(model, affix); value.is_string() && value != "")
            return unsupported(formats::quote(affix) + ": " + value.dump());
    const bool is_sentencepiece = member(model, "byte_fallback") == true;
    if (is_sentencepiece) {
        VKFORMER_CHECK(add_sentencepiece(root, lists, contents));
    } else {
        VKFORMER_CHECK(add_byte_level(root, text_config, lists, contents));
        std::ranges::replace(lists.types, kByte, kNormal);
    }
    contents.metadata.set("tokenizer.ggml.tokens", std::span<const std::string>(lists.tokens));
    contents.metadata.set("tokenizer.ggml.token_type", std::span<const std::int32_t>(lists.types));
    VKFORMER_CHECK(add_special_ids(*tokenizer, settings, config, lists, ends, is_sentencepiece, contents));
    VKFORMER_CHECK(add_notes_of_text(folder, text_config, contents.notes));
    return add_chat_template(folder, settings, contents.metadata);
}

}  // namespace vkformer::models
