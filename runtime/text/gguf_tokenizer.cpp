// SPDX-License-Identifier: MIT
#include "text/gguf_tokenizer.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <span>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/try.hpp"
#include "formats/json.hpp"
#include "text/added_tokens.hpp"
#include "text/charsmap.hpp"
#include "text/json_field.hpp"
#include "text/json_tokenizer.hpp"
#include "text/normalizers.hpp"
#include "text/token_models.hpp"
#include "text/unicode.hpp"

namespace vkformer::text {
namespace {

using formats::Gguf;
using nlohmann::json;

constexpr std::string_view kPrefix = "tokenizer.ggml.";
std::string key(std::string_view name) { return std::string(kPrefix) + std::string(name); }

/// llama.cpp's token types.
enum TokenType : std::int32_t { Normal = 1, Unknown = 2, Control = 3, UserDefined = 4, Unused = 5, Byte = 6 };

/// The lists that every tokenizer has.
struct Tokens {
    std::vector<std::string> spellings;
    std::vector<std::int32_t> types;  // as many

    bool is(std::size_t id, TokenType type) const { return types[id] == type; }
};

Result<Tokens> read_tokens(const Gguf& file) {
    const auto corrupt = [&](const std::string& what) {
        return Error{ErrorCode::CorruptFile, file.file_name() + ": " + what};
    };
    VKFORMER_TRY(const auto texts, file.strings(key("tokens")));
    if (texts.empty()) return corrupt("has no tokenizer: \"tokenizer.ggml.tokens\" is missing or empty");
    if (texts.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
        return corrupt("\"tokenizer.ggml.tokens\" has " + std::to_string(texts.size()) +
                       " tokens, more than 32 bits count");
    Tokens tokens;
    tokens.spellings.reserve(texts.size());
    for (const std::string_view text : texts) {
        if (!is_utf8(text)) return corrupt("token " + std::to_string(tokens.spellings.size()) + " is not UTF-8");
        tokens.spellings.emplace_back(text);
    }
    VKFORMER_TRY(tokens.types, file.integers(key("token_type")));
    if (tokens.types.empty()) tokens.types.assign(texts.size(), Normal);
    if (tokens.types.size() != texts.size())
        return corrupt("\"tokenizer.ggml.token_type\" has " + std::to_string(tokens.types.size()) +
                       " entries, expected " + std::to_string(texts.size()) + " (one for each token)");
    return tokens;
}

Result<std::vector<float>> read_scores(const Gguf& file, std::size_t count) {
    VKFORMER_TRY(auto scores, file.floats(key("scores")));
    if (scores.size() != count)
        return Error{ErrorCode::CorruptFile, file.file_name() + ": \"tokenizer.ggml.scores\" has " +
                                                 std::to_string(scores.size()) + " entries, expected " +
                                                 std::to_string(count) + " (one for each token)"};
    // NaN would order nothing.
    if (std::ranges::any_of(scores, [](float score) { return score != score; }))
        return Error{ErrorCode::CorruptFile, file.file_name() + ": \"tokenizer.ggml.scores\" contains NaN"};
    return scores;
}

/// The id under `name`, where it is given and a token.
Result<std::optional<std::int32_t>> read_id(const Gguf& file, std::string_view name, std::size_t count,
                                            std::optional<std::int32_t> fallback = {}) {
    const std::string full = key(name);
    if (!file.has(full)) {
        if (fallback && std::cmp_greater_equal(*fallback, count)) return std::optional<std::int32_t>();
        return fallback;
    }
    VKFORMER_TRY(const std::int64_t id, file.integer(full));
    if (id == -1 || id == std::numeric_limits<std::uint32_t>::max()) return std::optional<std::int32_t>();  // none
    if (id < 0 || std::cmp_greater_equal(id, count))
        return Error{ErrorCode::CorruptFile, file.file_name() + ": " + formats::quote(full) + " is " +
                                                 std::to_string(id) + ", but there are " + std::to_string(count) +
                                                 " tokens"};
    return std::optional(static_cast<std::int32_t>(id));
}

// ---- the words of byte-level BPE

// As in the tokenizer.json of the models that the names come from.
constexpr std::string_view kGpt2Words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSeedWords =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekkenWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4oWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kDeepSeekLetters =
    R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)";
constexpr std::string_view kDeepSeekMarks = R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)";
constexpr std::string_view kDeepSeekScripts = R"([一-龥ࠀ-一가-퟿]+)";
constexpr std::string_view kDeepSeek3Scripts = R"([一-龥぀-ゟ゠-ヿ]+)";
constexpr std::string_view kDeepSeek3Words =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Expressions applied one after the other: each cuts what the ones before it left.
using Words = std::vector<std::string_view>;

struct PreType {
    Words words;
    bool ignore_merges = false;
    bool add_bos = false;
};

/// What llama.cpp's names mean (src/llama-vocab.cpp); nullopt for names that are not implemented.
std::optional<PreType> pre_type(std::string_view name) {
    const auto is = [&](std::initializer_list<std::string_view> names) {
        return std::ranges::find(names, name) != names.end();
    };
    if (is({"", "default"})) return PreType{{R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Words, R"(\p{N}+)", "[0-9][0-9][0-9]"}};
    if (is({"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "jina-es", "jina-de", "jina-v2-es",
            "jina-v2-de", "jina-v1-en", "jina-v2-code", "roberta-bpe", "gigachat", "a.x-4.0", "mellum", "modern-bert",
            "exaone4"}))
        return PreType{{kGpt2Words}};
    if (is({"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"}))
        return PreType{{kLlama3Words}, true, true};
    if (is({"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"})) return PreType{{kLlama3Words}};
    if (is({"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "megrez", "hunyuan", "solar-open", "grok-2"}))
        return PreType{{kQwen2Words}};
    if (is({"seed-coder"})) return PreType{{kSeedWords}};
    if (is({"qwen35"})) return PreType{{kQwen35Words}};
    if (is({"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"}))
        return PreType{{R"(\p{N})", kGpt2Words}};
    if (is({"falcon"})) return PreType{{R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2Words, "[0-9][0-9][0-9]"}};
    if (is({"tekken"})) return PreType{{kTekkenWords}, true, true};
    if (is({"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"})) return PreType{{kGpt4oWords}};
    if (is({"deepseek-llm"}))
        return PreType{{R"([\r\n])", kDeepSeekLetters, kDeepSeekMarks, R"(\s+$)", kDeepSeekScripts, R"(\p{N}+)"}};
    if (is({"deepseek-coder"}))
        return PreType{{R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepSeekScripts, R"(\p{N})"}};
    if (is({"deepseek-v3", "hunyuan-dense"})) return PreType{{R"(\p{N}{1,3})", kDeepSeek3Scripts, kDeepSeek3Words}};
    return std::nullopt;
}

/// The value that `text` spells as a file would: a third of the code that a json's initializer list takes.
json spelled(std::string_view text) {
    auto value = formats::parse_json(text, "");
    if (!value) throw std::bad_alloc();  // it is JSON
    return *std::move(value);
}
std::string in_quotes(const std::string& text) { return json(text).dump(); }
std::string_view spelling_of(bool value) { return value ? "true" : "false"; }

constexpr std::string_view kByteLevel =
    R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false})";

json pre_tokenizer_of(const Words& words) {
    std::string text = R"({"type": "Sequence", "pretokenizers": [)";
    for (const std::string_view expression : words) {
        text += R"({"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex": )";
        text += in_quotes(std::string(expression));
        text += "}},";
    }
    text += kByteLevel;
    return spelled(text += "]}");
}

// ---- SentencePiece

constexpr const char* kSpace = "\u2581";  // ▁

struct Spaces {
    bool add_prefix = true;     // one before each stretch between special tokens
    bool remove_extra = false;  // none at the ends, and one for several
};

/// No spaces at the ends, and one for several.
void drop_extra_spaces(std::string& text) {
    std::string kept;
    for (std::size_t i = 0; i < text.size(); ++i)
        if (text[i] != ' ' || (!kept.empty() && kept.back() != ' ')) kept += text[i];
    if (kept.ends_with(' ')) kept.pop_back();
    text = std::move(kept);
}

/// As SentencePiece normalises: the longest rule that matches, then the spaces, which become ▁.
Normalizer sentencepiece_normalizer(std::optional<Charsmap> rules, Spaces spaces) {
    const auto shared = rules ? std::make_shared<const Charsmap>(*std::move(rules)) : nullptr;
    return [shared, spaces](Piece& piece) -> Result<void> {
        std::string text;
        for (std::string_view rest = piece.text; !rest.empty();) {
            const auto match = shared ? shared->longest(rest) : std::nullopt;
            const std::size_t bytes = match ? match->bytes : first_character(rest).bytes;
            text += match ? match->replacement : rest.substr(0, bytes);
            rest.remove_prefix(bytes);
        }
        if (spaces.remove_extra) drop_extra_spaces(text);
        if (spaces.add_prefix && !text.empty()) text.insert(0, " ");
        replace_all(text, " ", kSpace);
        piece = {std::move(text), 0};
        return {};
    };
}

json spm_decoder(bool add_space_prefix) {
    std::string text = R"({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"})";
    if (add_space_prefix) text += R"(, {"type": "Strip", "content": " ", "start": 1, "stop": 0})";
    return spelled(text += "]}");
}

/// The rules of normalisation, a list of bytes; nothing where absent.
Result<std::optional<Charsmap>> read_charsmap(const Gguf& file) {
    VKFORMER_TRY(const auto numbers, file.integers(key("precompiled_charsmap")));
    if (numbers.empty()) return std::optional<Charsmap>();
    std::string bytes;
    bytes.reserve(numbers.size());
    for (const std::int32_t number : numbers) bytes += static_cast<char>(number);
    VKFORMER_TRY(Charsmap rules, Charsmap::parse(bytes, file.file_name() + ": tokenizer.ggml.precompiled_charsmap"));
    return std::optional(std::move(rules));
}

// ---- WordPiece

/// The vocabulary as Hugging Face has it: llama.cpp marks the beginnings of words (▁the), Hugging Face their other parts (##s).
std::string word_piece_spelling(const std::string& token) {
    if (token.starts_with('[') && token.ends_with(']')) return token;
    constexpr std::string_view kMark = kSpace;
    if (token.starts_with(kMark)) return token.substr(kMark.size());
    return "##" + token;
}

json word_piece_model(const Tokens& tokens, std::string_view unknown) {
    json model = spelled(R"({"type": "WordPiece", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                             "vocab": {}})");
    model["unk_token"] = std::string(unknown);
    json& vocabulary = model["vocab"];
    for (std::size_t id = 0; id < tokens.spellings.size(); ++id) vocabulary[tokens.spellings[id]] = id;
    return model;
}

// ---- all together

/// What the kinds differ in.
struct TokenizerKind {
    json components;
    std::optional<Normalizer> normalizer;  // where no component says it
    std::unique_ptr<TokenModel> model;
    bool add_bos = false, add_eos = false, add_separator = false;  // where the file does not say
    std::optional<std::int32_t> bos, eos, unknown, separator, padding, mask;
};

Result<TokenizerKind> read_byte_level_kind(const Gguf& file, Tokens& tokens, const Field& place) {
    VKFORMER_TRY(const std::string name, file.string(key("pre"), ""));
    const auto type = pre_type(name);
    if (!type)
        return file.unsupported(key("pre"),
                                "default, gpt-2, llama-bpe, qwen2, qwen35, smollm, starcoder, tekken, gpt-4o, "
                                "falcon, deepseek-llm, deepseek-coder, deepseek-v3 and other names of these splits");
    TokenizerKind kind;
    kind.components["pre_tokenizer"] = pre_tokenizer_of(type->words);
    kind.components["decoder"] = spelled(kByteLevel);
    kind.add_bos = type->add_bos;
    VKFORMER_TRY(const auto merges, file.strings(key("merges")));
    VKFORMER_TRY(kind.model, make_bpe(Vocabulary::in_order(tokens.spellings), merges,
                                      {.ignore_merges = type->ignore_merges}, place));
    return kind;
}

/// Gemma 4's: merges over ▁ in place of spaces, each line by itself, and bytes.
Result<TokenizerKind> read_spaced_kind(const Gguf& file, Tokens& tokens, const Field& place) {
    TokenizerKind kind;
    VKFORMER_TRY(const bool add_space_prefix, file.boolean(key("add_space_prefix"), false));
    kind.normalizer = sentencepiece_normalizer({}, {.add_prefix = add_space_prefix});
    kind.components["pre_tokenizer"] =
        spelled(R"({"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex": "[^\n]+|[\n]+"}})");
    kind.components["decoder"] = spm_decoder(add_space_prefix);
    kind.add_bos = true;
    VKFORMER_TRY(const auto merges, file.strings(key("merges")));
    VKFORMER_TRY(const auto unknown, read_id(file, "unknown_token_id", tokens.spellings.size()));
    BpeOptions options = {.byte_fallback = true};
    if (unknown) options.unknown = tokens.spellings[static_cast<std::size_t>(*unknown)];
    VKFORMER_TRY(kind.model, make_bpe(Vocabulary::in_order(tokens.spellings), merges, std::move(options), place));
    return kind;
}

Result<TokenizerKind> read_sentencepiece_kind(const Gguf& file, Tokens& tokens) {
    TokenizerKind kind;
    VKFORMER_TRY(const bool add_space_prefix, file.boolean(key("add_space_prefix"), true));
    VKFORMER_TRY(auto scores, read_scores(file, tokens.spellings.size()));
    kind.normalizer = sentencepiece_normalizer({}, {.add_prefix = add_space_prefix});
    kind.components["decoder"] = spm_decoder(add_space_prefix);
    kind.add_bos = true;
    kind.bos = 1, kind.eos = 2, kind.unknown = 0;
    VKFORMER_TRY(const auto unknown, read_id(file, "unknown_token_id", scores.size(), kind.unknown));
    kind.model = make_scored_bpe(Vocabulary::in_order(tokens.spellings), std::move(scores), unknown);
    return kind;
}

Result<TokenizerKind> read_unigram_kind(const Gguf& file, Tokens& tokens) {
    TokenizerKind kind;
    VKFORMER_TRY(const bool add_space_prefix, file.boolean(key("add_space_prefix"), true));
    VKFORMER_TRY(const bool remove_extra, file.boolean(key("remove_extra_whitespaces"), false));
    VKFORMER_TRY(auto rules, read_charsmap(file));
    VKFORMER_TRY(const auto scores, read_scores(file, tokens.spellings.size()));
    kind.normalizer =
        sentencepiece_normalizer(std::move(rules), {.add_prefix = add_space_prefix, .remove_extra = remove_extra});
    kind.components["decoder"] = spm_decoder(add_space_prefix);
    kind.add_eos = true;
    kind.eos = 1, kind.unknown = 2, kind.padding = 0;
    VKFORMER_TRY(const auto unknown, read_id(file, "unknown_token_id", scores.size(), kind.unknown));
    kind.model = make_unigram(Vocabulary::in_order(tokens.spellings), {scores.begin(), scores.end()}, unknown, false);
    return kind;
}

Result<TokenizerKind> read_word_piece_kind(const Gguf& file, Tokens& tokens) {
    TokenizerKind kind;
    VKFORMER_TRY(const bool lowercase, file.boolean(key("normalizer.lowercase"), true));
    VKFORMER_TRY(const bool strip_accents, file.boolean(key("normalizer.strip_accents"), lowercase));
    for (std::string& token : tokens.spellings) token = word_piece_spelling(token);
    std::string components =
        R"({"normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
        "strip_accents": )";
    components += spelling_of(strip_accents);
    components += R"(, "lowercase": )";
    components += spelling_of(lowercase);
    kind.components = spelled(components += R"(}, "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true}})");
    kind.add_bos = kind.add_separator = true;
    kind.bos = 101, kind.unknown = 100, kind.separator = 102, kind.padding = 0, kind.mask = 103;
    VKFORMER_TRY(const auto unknown, read_id(file, "unknown_token_id", tokens.spellings.size(), kind.unknown));
    if (!unknown)
        return Error{ErrorCode::CorruptFile, file.file_name() + ": a WordPiece vocabulary needs an unknown token"};
    const json model = word_piece_model(tokens, tokens.spellings[static_cast<std::size_t>(*unknown)]);
    VKFORMER_TRY(kind.model, read_token_model(Field(model, file.file_name() + ": tokenizer.ggml")));
    return kind;
}

Result<TokenizerKind> read_kind(const Gguf& file, Tokens& tokens, const Field& place) {
    VKFORMER_TRY(const std::string model, file.string(key("model")));
    if (model == "gpt2") return read_byte_level_kind(file, tokens, place);
    if (model == "llama") return read_sentencepiece_kind(file, tokens);
    if (model == "gemma4") return read_spaced_kind(file, tokens, place);
    if (model == "t5") return read_unigram_kind(file, tokens);
    if (model == "bert") return read_word_piece_kind(file, tokens);
    return file.unsupported(key("model"), "gpt2, llama, gemma4, t5, bert");
}

/// Tokens that are found in the text before it is cut: control tokens, and what a user added.
std::vector<AddedToken> added_tokens(const Tokens& tokens) {
    std::vector<AddedToken> added;
    for (std::size_t id = 0; id < tokens.spellings.size(); ++id) {
        const bool special = tokens.is(id, Control) || tokens.is(id, Unknown);
        if (special || tokens.is(id, UserDefined))
            added.push_back({.id = static_cast<std::int32_t>(id), .content = tokens.spellings[id], .special = special});
    }
    return added;
}

/// Spellings by which llama.cpp knows the end of a turn or a text where the metadata does not say.
constexpr std::array<std::string_view, 15> kEndSpellings = {
    "<|eot_id|>", "<|im_end|>", "<|end|>",    "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",    "<EOT>",
    "_<EOT>",     "[EOT]",      "<|eom_id|>", "<|return|>",    "<|call|>",      "<end_of_utterance>", "<|calls|>",
    "<turn|>"};

Result<void> read_special_ids(const Gguf& file, const Tokens& tokens, const TokenizerKind& kind, GgufTokenizer& out) {
    const std::size_t count = tokens.spellings.size();
    VKFORMER_TRY(out.bos, read_id(file, "bos_token_id", count, kind.bos));
    VKFORMER_TRY(out.eos, read_id(file, "eos_token_id", count, kind.eos));
    VKFORMER_TRY(out.eot, read_id(file, "eot_token_id", count));
    VKFORMER_TRY(const auto eom, read_id(file, "eom_token_id", count));
    VKFORMER_TRY(out.unknown, read_id(file, "unknown_token_id", count, kind.unknown));
    VKFORMER_TRY(out.separator, read_id(file, "seperator_token_id", count, kind.separator));  // the format's spelling
    VKFORMER_TRY(out.padding, read_id(file, "padding_token_id", count, kind.padding));
    VKFORMER_TRY(out.mask, read_id(file, "mask_token_id", count, kind.mask));
    for (const auto& id : {out.eos, out.eot, eom})
        if (id) out.end_ids.push_back(*id);
    for (std::size_t id = 0; id < count; ++id) {
        const bool spelled = std::ranges::find(kEndSpellings, tokens.spellings[id]) != kEndSpellings.end();
        if (!spelled || tokens.is(id, Normal)) continue;
        out.end_ids.push_back(static_cast<std::int32_t>(id));
        if (!out.eot) out.eot = static_cast<std::int32_t>(id);
    }
    std::ranges::sort(out.end_ids);
    out.end_ids.erase(std::unique(out.end_ids.begin(), out.end_ids.end()), out.end_ids.end());
    return {};
}

/// The template that puts bos, eos or the separator around the text.
Result<json> post_processor(const Gguf& file, const Tokens& tokens, const TokenizerKind& kind, GgufTokenizer& out) {
    VKFORMER_TRY(out.adds_bos, file.boolean(key("add_bos_token"), kind.add_bos));
    VKFORMER_TRY(out.adds_eos, file.boolean(key("add_eos_token"), kind.add_eos));
    VKFORMER_TRY(const bool add_separator, file.boolean(key("add_sep_token"), kind.add_separator));
    json special(json::value_t::object);
    const auto part = [&](std::int32_t id, char type) {
        const std::string& token = tokens.spellings[static_cast<std::size_t>(id)];
        const std::string name = in_quotes(token);
        special[token] =
            spelled(R"({"id": )" + name + R"(, "ids": [)" + std::to_string(id) + R"(], "tokens": [)" + name + "]}");
        return R"({"SpecialToken": {"id": )" + name + R"(, "type_id": )" + type + "}}";
    };
    const bool separated = kind.add_separator && add_separator;
    for (const auto& [wanted, id, name] :
         {std::tuple(out.adds_bos, out.bos, "add_bos_token"), std::tuple(out.adds_eos, out.eos, "add_eos_token")})
        if (wanted && !id)
            return Error{ErrorCode::CorruptFile,
                         file.file_name() + ": " + formats::quote(key(name)) + " is true, but there is no such token"};
    std::string single;
    if (out.adds_bos) single = part(*out.bos, '0') + ", ";
    single += R"({"Sequence": {"id": "A", "type_id": 0}})";
    const auto append_end = [&](std::string& parts, char type) {
        if (separated && out.separator) parts += ", " + part(*out.separator, type);
        if (!separated && out.adds_eos) parts += ", " + part(*out.eos, type);
    };
    append_end(single, '0');
    std::string pair = single + R"(, {"Sequence": {"id": "B", "type_id": 1}})";
    append_end(pair, '1');
    json processor =
        spelled(R"({"type": "TemplateProcessing", "single": [)" + single + R"(], "pair": [)" + pair + "]}");
    processor["special_tokens"] = std::move(special);
    return processor;
}

/// The expressions that a pre-tokenizer of tokenizer.json stands for; false where it is no sequence of such.
bool append_words(const json& step, std::vector<std::string>& words) {
    const auto is = [&](const char* name, const json& value) { return step.contains(name) && step[name] == value; };
    if (!step.is_object()) return false;
    if (is("type", "Sequence") && step.contains("pretokenizers") && step["pretokenizers"].is_array())
        return std::ranges::all_of(step["pretokenizers"], [&](const json& each) { return append_words(each, words); });
    if (is("type", "ByteLevel")) {
        if (!is("use_regex", false)) words.emplace_back(kGpt2Words);
        return !is("add_prefix_space", true);
    }
    if (is("type", "Digits") && is("individual_digits", true)) {
        words.emplace_back(R"(\p{N})");
        return true;
    }
    const bool splits = is("type", "Split") && is("behavior", "Isolated") && !is("invert", true) &&
                        step.contains("pattern") && step["pattern"].is_object() && step["pattern"].contains("Regex") &&
                        step["pattern"]["Regex"].is_string();
    if (splits) words.push_back(step["pattern"]["Regex"].get<std::string>());
    return splits;
}

}  // namespace

bool is_gguf_end(std::string_view token) { return std::ranges::find(kEndSpellings, token) != kEndSpellings.end(); }

std::optional<std::string> gguf_pre_name(const json& pre_tokenizer, std::optional<bool> ignore_merges) {
    std::vector<std::string> words;
    if (!append_words(pre_tokenizer, words)) return std::nullopt;
    for (const char* name :
         {"gpt-2", "llama-bpe", "qwen2", "qwen35", "smollm", "tekken", "gpt-4o", "deepseek-v3", "smaug-bpe"})
        if (const auto type = pre_type(name); std::ranges::equal(type->words, words) &&
                                              ignore_merges.value_or(type->ignore_merges) == type->ignore_merges)
            return name;
    return std::nullopt;
}

Result<GgufTokenizer> load_gguf_tokenizer(const Gguf& file) try {
    const json nothing;
    const Field place(nothing, file.file_name() + ": tokenizer.ggml.merges");
    VKFORMER_TRY(Tokens tokens, read_tokens(file));
    VKFORMER_TRY(TokenizerKind kind, read_kind(file, tokens, place));
    GgufTokenizer out;
    VKFORMER_CHECK(read_special_ids(file, tokens, kind, out));
    VKFORMER_TRY(kind.components["post_processor"], post_processor(file, tokens, kind, out));
    VKFORMER_TRY(out.tokenizer,
                 assemble_tokenizer(Field(kind.components, file.file_name() + ": tokenizer"),
                                    std::move(kind.normalizer), std::move(kind.model), added_tokens(tokens)));
    VKFORMER_TRY(out.chat_template, file.string("tokenizer.chat_template", ""));
    return out;
} catch (const std::bad_alloc&) {
    return Error{ErrorCode::OutOfHostMemory, file.file_name() + ": out of memory while loading the tokenizer"};
}

}  // namespace vkformer::text
