// SPDX-License-Identifier: MIT
#include "models/gguf_vocabulary.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/mapped_file.hpp"
#include "core/try.hpp"
#include "formats/json.hpp"
#include "text/gguf_tokenizer.hpp"
#include "text/tokenizer.hpp"
#include "text/unicode.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::GgufMetadata;
using nlohmann::json;

// llama.cpp's token types.
constexpr std::int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;

Error unsupported(const std::string& what) {
    return {ErrorCode::UnsupportedConfig, "tokenizer.json: " + what + " has no place in a GGUF file"};
}

/// The member, or null.
const json& member(const json& object, const char* name) {
    static const json null;
    if (!object.is_object()) return null;
    const auto found = object.find(name);
    return found == object.end() ? null : *found;
}

struct Lists {
    std::vector<std::string> tokens;
    std::vector<std::int32_t> types;
};

Result<Lists> read_lists(const text::Tokenizer& tokenizer, const json& root, std::uint32_t vocab_size) {
    if (tokenizer.vocab_size() > vocab_size)
        return Error{ErrorCode::CorruptFile, "tokenizer.json has " + std::to_string(tokenizer.vocab_size()) +
                                                 " tokens, but config.json says \"vocab_size\" is " +
                                                 std::to_string(vocab_size)};
    Lists lists;
    for (std::uint32_t id = 0; id < vocab_size; ++id) {
        std::string piece = tokenizer.piece(static_cast<std::int32_t>(id));
        const bool is_byte = text::byte_of_piece(piece).has_value();
        lists.types.push_back(piece.empty() ? kUnused : is_byte ? kByte : kNormal);
        lists.tokens.push_back(piece.empty() ? "[PAD" + std::to_string(id) + "]" : std::move(piece));
    }
    const json& added = member(root, "added_tokens");
    for (const json& token : added.is_array() ? added : json::array()) {
        const json &id = member(token, "id"), &special = member(token, "special");
        if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= vocab_size) continue;
        lists.types[id.get<std::size_t>()] = special.is_boolean() && special.get<bool>() ? kControl : kUserDefined;
    }
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

bool is_type(const json& value, const char* type) { return member(value, "type") == type; }

Result<void> add_byte_level(const json& root, GgufContents& contents) {
    const json& normalizer = member(root, "normalizer");
    if (is_type(normalizer, "NFC"))
        contents.notes.push_back(
            "the tokenizer composes characters (NFC), llama.cpp does not: texts in decomposed form differ");
    else if (!normalizer.is_null())
        return unsupported("the normalizer " + formats::quote(member(normalizer, "type").dump()));
    const auto pre = text::gguf_pre_name(member(root, "pre_tokenizer"));
    if (!pre) return unsupported("the pre-tokenizer, for which llama.cpp has no name that vkformer knows,");
    VKFORMER_TRY(const auto merges, read_merges(member(root, "model")));
    contents.metadata.set("tokenizer.ggml.model", "gpt2");
    contents.metadata.set("tokenizer.ggml.pre", *pre);
    contents.metadata.set("tokenizer.ggml.merges", std::span(merges));
    return {};
}

/// A token's score is the rank of the first merge that makes it, downwards: the merges' order.
Result<std::vector<float>> scores_of_merges(const json& model, const Lists& lists) {
    VKFORMER_TRY(const auto merges, read_merges(model));
    std::unordered_map<std::string, std::size_t> ranks;
    for (std::size_t i = 0; i < merges.size(); ++i) {
        std::string joined = merges[i];
        joined.erase(joined.find(' '), 1);
        ranks.emplace(std::move(joined), i);
    }
    std::vector<float> scores;
    for (std::size_t id = 0; id < lists.tokens.size(); ++id) {
        const auto rank = ranks.find(lists.tokens[id]);
        const std::size_t place = rank == ranks.end() ? merges.size() : rank->second;
        scores.push_back(lists.types[id] == kNormal ? -static_cast<float>(place) : 0);
    }
    return scores;
}

bool mentions(const json& value, const char* name, const json& wanted) {
    if (member(value, name) == wanted) return true;
    return value.is_structured() &&
           std::ranges::any_of(value, [&](const json& each) { return mentions(each, name, wanted); });
}

Result<void> add_sentencepiece(const json& root, Lists& lists, GgufContents& contents) {
    const json& model = member(root, "model");
    if (const json& unknown = member(model, "unk_token"); unknown.is_string()) {
        const auto found = std::ranges::find(lists.tokens, unknown.get<std::string>());
        if (found != lists.tokens.end()) lists.types[static_cast<std::size_t>(found - lists.tokens.begin())] = kUnknown;
    }
    VKFORMER_TRY(const auto scores, scores_of_merges(model, lists));
    const json &normalizer = member(root, "normalizer"), &pre_tokenizer = member(root, "pre_tokenizer");
    const bool metaspace = mentions(pre_tokenizer, "type", "Metaspace");
    const bool prefix =
        mentions(normalizer, "type", "Prepend") || (metaspace && !mentions(pre_tokenizer, "prepend_scheme", "never"));
    contents.metadata.set("tokenizer.ggml.model", "llama");
    contents.metadata.set("tokenizer.ggml.pre", "default");
    contents.metadata.set("tokenizer.ggml.scores", std::span(scores));
    contents.metadata.set("tokenizer.ggml.add_space_prefix", prefix);
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

Result<void> add_special_ids(const text::Tokenizer& tokenizer, const json& settings, const Config& config,
                             GgufMetadata& metadata) {
    const auto set = [&](const char* name, const char* key) -> Result<std::optional<std::int32_t>> {
        VKFORMER_TRY(const auto id, special_id(tokenizer, settings, config, name));
        if (id && *id >= 0) metadata.set(std::string("tokenizer.ggml.") + key, static_cast<std::uint32_t>(*id));
        return id;
    };
    VKFORMER_TRY(const auto bos, set("bos", "bos_token_id"));
    VKFORMER_TRY(const auto eos, set("eos", "eos_token_id"));
    VKFORMER_CHECK(set("unk", "unknown_token_id"));
    VKFORMER_CHECK(set("pad", "padding_token_id"));
    // Whether a text gets them shows in what the tokenizer does.
    VKFORMER_TRY(const auto plain, tokenizer.encode("a", {.add_special = false}));
    VKFORMER_TRY(const auto whole, tokenizer.encode("a"));
    const bool more = whole.size() > plain.size();
    metadata.set("tokenizer.ggml.add_bos_token", more && bos && whole.front() == *bos);
    metadata.set("tokenizer.ggml.add_eos_token", more && eos && whole.back() == *eos);
    return {};
}

Result<void> add_chat_template(const std::filesystem::path& folder, const json& settings, GgufMetadata& metadata) {
    constexpr const char* kKey = "tokenizer.chat_template";
    if (const json& text = member(settings, "chat_template"); text.is_string()) {
        metadata.set(kKey, text.get<std::string>());
        return {};
    }
    std::error_code ignored;
    if (!std::filesystem::exists(folder / "chat_template.jinja", ignored)) return {};
    VKFORMER_TRY(const auto file, MappedFile::open(folder / "chat_template.jinja"));
    const auto bytes = file->bytes();
    metadata.set(kKey, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
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
    VKFORMER_TRY(Lists lists, read_lists(*tokenizer, root, vocab_size));
    const json& model = member(root, "model");
    if (!is_type(model, "BPE")) return unsupported("the model " + member(model, "type").dump());
    if (member(model, "byte_fallback") == true) {
        VKFORMER_CHECK(add_sentencepiece(root, lists, contents));
    } else {
        VKFORMER_CHECK(add_byte_level(root, contents));
        std::ranges::replace(lists.types, kByte, kNormal);
    }
    contents.metadata.set("tokenizer.ggml.tokens", std::span<const std::string>(lists.tokens));
    contents.metadata.set("tokenizer.ggml.token_type", std::span<const std::int32_t>(lists.types));
    VKFORMER_CHECK(add_special_ids(*tokenizer, settings, config, contents.metadata));
    return add_chat_template(folder, settings, contents.metadata);
}

}  // namespace vkformer::models
