// SPDX-License-Identifier: MIT
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/temporary_folder.hpp"
#include "text/charsmap.hpp"
#include "text/tokenizer.hpp"

namespace vkformer::tests {
namespace {

using namespace text;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

/// A folder that a tokenizer is read from.
struct TokenizerFolder : TemporaryFolder {
    Result<std::unique_ptr<Tokenizer>> load() const { return load_tokenizer(path()); }
    Result<std::unique_ptr<Tokenizer>> load(const json& tokenizer) const {
        write("tokenizer.json", tokenizer.dump());
        return load();
    }
    std::string message(const json& tokenizer, ErrorCode code) const {
        const auto loaded = load(tokenizer);
        REQUIRE_FALSE(loaded);
        CHECK(loaded.error().code == code);
        return loaded.error().message;
    }
};

json words() {
    return json::parse(
        R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "<unk>": 2}, "unk_token": "<unk>"}})");
}

std::string tokenizer_golden(const char* path) {
    std::ifstream file(std::filesystem::path(VKFORMER_SOURCE_DIR) / "tests/goldens/tokenizers" / path,
                       std::ios::binary);
    REQUIRE(file);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("tokenizer.json: what is not implemented is refused by name", "[text][json]") {
    const TokenizerFolder folder;
    const auto refused = [&](const char* part, const char* value, const char* expected) {
        json tokenizer = words();
        tokenizer[part] = json::parse(value);
        CHECK_THAT(folder.message(tokenizer, ErrorCode::UnsupportedConfig), ContainsSubstring(expected));
    };
    REQUIRE(folder.load(words()));
    refused("normalizer", R"({"type": "BertNormalizer", "upper": true})", "normalizer: the option \"upper\"");
    refused("normalizer", R"({"type": "NFC", "strict": true})", "tokenizer.json: normalizer: the option \"strict\"");
    refused("normalizer", R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Magic"}]})",
            "normalizers[1]: the normalizer \"Magic\"");
    refused("normalizer", R"({"type": "Replace", "pattern": {"Regex": "[a&&b]"}, "content": ""})", "intersection");
    refused("normalizer", R"({"type": "Replace", "pattern": {"Regex": "a{1,2}+"}, "content": ""})", "quantifier");
    refused("normalizer", R"json({"type": "Replace", "pattern": {"Regex": "(?m:.)"}, "content": ""})json", "(?m)");
    refused("normalizer", R"({"type": "Replace", "pattern": {"Regex": "[[:alpha:]]"}, "content": ""})", "class inside");
    refused("normalizer", R"({"type": "Replace", "pattern": {"Regex": "\\h"}, "content": ""})", "\\h");
    refused("normalizer", R"({"type": "Replace", "pattern": {"Regex": "(a"}, "content": ""})", "not understood");
    refused("normalizer", R"({"type": "Replace", "pattern": {"Regex": "\\p{Nonsense}"}, "content": ""})",
            "not understood");
    refused("normalizer", R"({"type": "Replace", "pattern": {"String": ""}, "content": ""})", "empty pattern");
    refused("pre_tokenizer", R"({"type": "UnicodeScripts"})", "the pre-tokenizer \"UnicodeScripts\"");
    refused("pre_tokenizer", R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})", "\"last\"");
    refused("pre_tokenizer", R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Glued", "invert": false})",
            "\"Glued\"");
    refused("post_processor", R"({"type": "Other"})", "the post-processor \"Other\"");
    refused("decoder", R"({"type": "Magic"})", "the decoder \"Magic\"");
    refused("model", R"({"type": "Syllables", "vocab": {}})", "the model \"Syllables\"");
    refused("model", R"({"type": "BPE", "vocab": {}, "merges": [], "dropout": 0.1})", "dropout");
    refused("version", R"("2.0")", "the version \"2.0\"");
    refused("surprise", "1", "the option \"surprise\"");
}

TEST_CASE("tokenizer.json: expressions mean what Oniguruma takes them for", "[text][json]") {
    const TokenizerFolder folder;
    const auto pieces = [&](const std::string& expression, const std::string& text,
                            const std::vector<std::string>& expected) {
        CAPTURE(expression, text);
        json tokenizer = words();
        tokenizer["pre_tokenizer"] = {
            {"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}, {"invert", false}};
        json vocabulary = {{"<unk>", 99}};
        for (const std::string& piece : expected)
            if (!vocabulary.contains(piece)) vocabulary[piece] = vocabulary.size() - 1;
        tokenizer["model"]["vocab"] = vocabulary;
        std::vector<std::int32_t> ids;
        for (const std::string& piece : expected) ids.push_back(vocabulary[piece]);
        const auto loaded = folder.load(tokenizer);
        REQUIRE(loaded);
        CHECK((*loaded)->encode(text).value() == ids);
    };
    // All of them are what tokenizers 0.22.2 gives. Scripts have not what other characters share with them.
    for (const char* const han : {R"([\p{Han}]+)", R"(\p{^Han}+)", R"(\P{Han}+)", R"(\P{^Han}+)", R"(\p{han}+)"})
        pieces(han, "《你好》你好。", {"《", "你好", "》", "你好", "。"});
    pieces(R"(\p{Hiragana}+)", "あーあ", {"あ", "ー", "あ"});
    pieces(R"([\p{katakana}ー]+)", "カーアあー", {"カーア", "あ", "ー"});
    pieces(R"(\p{Devanagari}+)", "क।ख", {"क", "।", "ख"});
    pieces(R"(\p{Lu}+\p{N})", "aBC1", {"a", "BC1"});
    // A class has fewer word characters than \w.
    pieces(R"([\w]+)", "m²x", {"m", "²", "x"});
    pieces(R"(\w+)", "m²x", {"m²x"});
    pieces(R"([^\w]+)", "m²x½", {"m", "²", "x", "½"});
    // An option holds up to the end of its group, past its alternatives.
    pieces("a(?i)b|c", "xcyaBzAbaC", {"xcy", "aB", "zAb", "aC"});
    pieces("(?i)b|c", "xcyabzC", {"x", "c", "ya", "b", "z", "C"});
    pieces("a(?i)b(?-i)c|d", "aBcaBCaBdaBD", {"aBc", "aBC", "aBd", "aBD"});
    pieces("x(?:(?i)a|b)c", "xAcxBcxBC", {"xAc", "xBc", "xBC"});
    pieces("(?-i:a)(?i)b", "aBAbab", {"aB", "Ab", "ab"});
    pieces("(?#no (?i)a", "xaA", {"x", "a", "A"});
    pieces(R"((?i)\x61\u0062|[\-c])", "ABC-", {"AB", "C", "-"});
}

TEST_CASE("tokenizer.json: what folds to several characters is refused without case", "[text][json]") {
    const TokenizerFolder folder;
    const auto load = [&](const std::string& expression) {
        json tokenizer = words();
        tokenizer["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", expression}}}, {"content", ""}};
        return folder.load(tokenizer);
    };
    for (const char* const expression : {"(?i)ss", "(?i:pasS)", "(?i)ß", "(?i)[ß]", "(?i)[à-ẞ]", "(?i)ſs", "(?i)ffi",
                                         "(?i)s(?#x)s", R"((?i)\x{73}\u0073)", R"((?i)\u00DF)", "(?:(?i)a|ss)"}) {
        CAPTURE(expression);
        const auto loaded = load(expression);
        REQUIRE_FALSE(loaded);
        CHECK(loaded.error().code == ErrorCode::UnsupportedConfig);
        CHECK_THAT(loaded.error().message, ContainsSubstring("the option (?i) over"));
    }
    for (const char* const expression : {"ss|ß", "(?i:a)ss", "(?i)s|s", "(?i)[ss]", "(?i)[^ß]",
                                         "(?i:'s|'t|'re|'ve|'m|'ll|'d)", "(?i)s+s", "(?-i)ss", "(?i:x)(?-i:ss)"}) {
        CAPTURE(expression);
        CHECK(load(expression));
    }
    CHECK_THAT(load(R"(\xC3\xA9)").error().message, ContainsSubstring("without a character's number"));
    CHECK_THAT(load("a)").error().message, ContainsSubstring("a ) too many"));
}

TEST_CASE("tokenizer.json: added tokens that others have swallowed, or the normalizer", "[text][json]") {
    const TokenizerFolder folder;
    json tokenizer = words();
    const auto add = [&](int id, const char* content, bool lstrip, bool rstrip, bool normalized = false) {
        tokenizer["added_tokens"].push_back({{"id", id},
                                             {"content", content},
                                             {"single_word", false},
                                             {"lstrip", lstrip},
                                             {"rstrip", rstrip},
                                             {"normalized", normalized},
                                             {"special", false}});
    };
    const auto ids = [&](const char* text) {
        const auto loaded = folder.load(tokenizer);
        REQUIRE(loaded);
        return (*loaded)->encode(text).value();
    };
    using Ids = std::vector<std::int32_t>;
    add(3, " ", true, true);
    CHECK(ids("a  b") == Ids{0, 3, 1});  // as tokenizers 0.22.2
    CHECK(ids("a \n b") == Ids{0, 3, 1});
    CHECK(ids("   ") == Ids{3});
    tokenizer["added_tokens"].clear();
    add(3, " ", false, true);
    CHECK(ids("a   b") == Ids{0, 3, 3, 3, 1});
    tokenizer["added_tokens"].clear();
    add(3, "<x>", false, true);
    add(4, " ", true, false);
    CHECK(ids("a<x> b") == Ids{0, 3, 1});

    tokenizer["normalizer"] = {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}};
    add(5, "  ", false, false, true);
    CHECK_THAT(folder.message(tokenizer, ErrorCode::UnsupportedConfig),
               ContainsSubstring("the added token \"  \" is \"normalized\""));
}

TEST_CASE("tokenizer.json: broken files", "[text][json]") {
    const TokenizerFolder folder;
    const auto broken = [&](const char* part, const char* value, const char* expected) {
        json tokenizer = words();
        tokenizer[part] = json::parse(value);
        CHECK_THAT(folder.message(tokenizer, ErrorCode::CorruptFile), ContainsSubstring(expected));
    };
    broken("model", "[]", "tokenizer.json: model: has no \"type\"");
    broken("model", R"({"type": "WordLevel", "vocab": [], "unk_token": "x"})", "model.vocab: expected an object");
    broken("model", R"({"type": "WordLevel", "vocab": {"a": 0}})", "has no \"unk_token\"");
    broken("model", R"({"type": "WordLevel", "vocab": {"a": -1}, "unk_token": "a"})", "non-negative integer");
    broken("model", R"({"type": "WordLevel", "vocab": {"a": 1, "b": 1}, "unk_token": "a"})", "the id 1 occurs twice");
    broken("model", R"({"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]})", "\"a\" and \"b\" needs a token");
    broken("model", R"({"type": "BPE", "vocab": {"a": 0}, "merges": ["ab"]})", "the merge 0 is not a pair");
    broken("model", R"({"type": "BPE", "vocab": {"a": 0}, "merges": ["a a a"]})", "the merge 0 is not a pair");
    broken("model", R"({"type": "BPE", "vocab": {"a": 0}, "merges": [["a", 1]]})", "the merge 0 is not a pair");
    broken("model", R"({"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "a"]], "continuing_subword_prefix": "##"})",
           "lacks the prefix");
    broken("model", R"({"type": "Unigram", "vocab": [["a"]]})", "the entry 0 is not a token and its score");
    broken("model", R"({"type": "Unigram", "vocab": [["a", 0.5]], "unk_id": 1})", "outside the vocabulary");
    broken("model", R"({"type": "Unigram", "vocab": {"a": 1}})", "expected a list");
    broken("added_tokens", R"([{"id": 1}])", "added_tokens[0]: has no \"content\"");
    broken("added_tokens", R"({"id": 1})", "expected a list");
    broken("normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "AA=="})", "truncated");
    broken("normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "*"})", "not base64");
    broken("post_processor", R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x", "type_id": 0}}],
           "pair": [], "special_tokens": {}})",
           "special_tokens: has no \"x\"");
    broken("post_processor", R"({"type": "TemplateProcessing", "single": [{"Sequence": {"id": "B", "type_id": 0}}],
           "pair": [], "special_tokens": {}})",
           "uses a second one");
    broken("post_processor", R"({"type": "BertProcessing", "sep": ["x"], "cls": ["y", 1]})",
           "is not a token and its id");
    broken("decoder", R"({"type": "Metaspace", "replacement": "ab"})", "not one character");

    json no_model = words();
    no_model.erase("model");
    CHECK_THAT(folder.message(no_model, ErrorCode::CorruptFile), ContainsSubstring("has no \"model\""));
    folder.write("tokenizer.json", std::string(100'000, '['));
    CHECK_THAT(folder.load().error().message, ContainsSubstring("nested deeper"));

    const std::string whole = words().dump();
    for (std::size_t size = 0; size < whole.size(); ++size) {
        folder.write("tokenizer.json", whole.substr(0, size));
        REQUIRE_FALSE(folder.load());
    }
}

TEST_CASE("tokenizer.json: texts without a token are errors, not crashes", "[text][json]") {
    const TokenizerFolder folder;
    const auto encode = [&](const char* model, const char* text) {
        json tokenizer = words();
        tokenizer["model"] = json::parse(model);
        const auto loaded = folder.load(tokenizer);
        REQUIRE(loaded);
        return (*loaded)->encode(text);
    };
    for (const char* model : {R"({"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "<unk>"})",
                              R"({"type": "Unigram", "vocab": [["a", -1.0]]})",
                              R"({"type": "BPE", "vocab": {"a": 0}, "merges": [], "unk_token": "<unk>"})"}) {
        CAPTURE(model);
        CHECK(encode(model, "a a").value() == std::vector<std::int32_t>{0, 0});
        const auto missing = encode(model, "a é");
        REQUIRE_FALSE(missing);
        CHECK(missing.error().code == ErrorCode::InvalidArgument);
        CHECK_THAT(missing.error().message, ContainsSubstring("\"é\""));
        CHECK_THAT(encode(model, "a \xE9").error().message, ContainsSubstring("not UTF-8 at byte 2"));
    }
    // Without an unknown token BPE drops what it does not know, as Hugging Face does.
    CHECK(encode(R"({"type": "BPE", "vocab": {"a": 0}, "merges": []})", "a éa").value() ==
          std::vector<std::int32_t>{0, 0});
    CHECK(encode(R"({"type": "Unigram", "vocab": []})", "").value().empty());
}

TEST_CASE("tokenizer.json: an expression that explodes is an error", "[text][json]") {
    const TokenizerFolder folder;
    json tokenizer = words();
    tokenizer["normalizer"] = json::parse(R"({"type": "Replace", "pattern": {"Regex": "(a|aa)+$"}, "content": ""})");
    const auto loaded = folder.load(tokenizer);
    REQUIRE(loaded);
    const auto ids = (*loaded)->encode(std::string(200, 'a') + "b");
    REQUIRE_FALSE(ids);
    CHECK_THAT(ids.error().message, ContainsSubstring("takes too long"));
}

TEST_CASE("tokenizer.json: the spm files win where both are there", "[text][json]") {
    const TokenizerFolder folder;
    REQUIRE(folder.load(words()));
    for (const char* name : {"source.spm", "target.spm", "vocab.json"})
        folder.write(name, tokenizer_golden((std::string("marian/") + name).c_str()));
    const auto loaded = folder.load();
    REQUIRE(loaded);
    CHECK((*loaded)->piece(0) == "</s>");
}

TEST_CASE("tokenizer.json: mutated files never crash", "[text][json]") {
    const TokenizerFolder folder;
    const char* name = GENERATE("unigram", "unigram-bytes", "bpe-pieces", "bpe-words", "words");
    const std::string whole = tokenizer_golden((std::string(name) + "/tokenizer.json").c_str());
    std::mt19937 random(1234);
    int loaded_count = 0;
    for (int round = 0; round < 60; ++round) {
        std::string mutated = whole;
        // The components come before the vocabulary, which is the longest part.
        for (auto flips = 1 + random() % 2; flips > 0; --flips) {
            const std::size_t range = random() % 2 ? mutated.size() : std::min<std::size_t>(mutated.size(), 2000);
            mutated[random() % range] ^= static_cast<char>(1u << random() % 7);
        }
        folder.write("tokenizer.json", mutated);
        const auto tokenizer = folder.load();
        if (!tokenizer) {
            REQUIRE_FALSE(tokenizer.error().message.empty());
            continue;
        }
        ++loaded_count;
        for (const char* text : {"Hello  world 123", "ﬁ１２３ e\u0301 \u3000 😀", "", "<mask> x </s>"}) {
            const auto ids = (*tokenizer)->encode(text);
            if (ids) (void)(*tokenizer)->decode(*ids);
        }
    }
    CHECK(loaded_count > 0);
}

TEST_CASE("normalisation map: truncations and flipped bits never lead outside", "[text][charsmap]") {
    const json tokenizer = json::parse(tokenizer_golden("unigram/tokenizer.json"));
    const std::string encoded = tokenizer["normalizer"]["normalizers"][1]["precompiled_charsmap"];
    const TokenizerFolder folder;
    std::mt19937 random(99);
    const std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    int accepted = 0;
    for (int round = 0; round < 400; ++round) {
        std::string mutated = encoded;
        if (round % 4 == 0) mutated.resize(random() % mutated.size());
        for (auto flips = random() % 4; flips > 0 && !mutated.empty(); --flips)
            mutated[random() % mutated.size()] = alphabet[random() % alphabet.size()];
        json candidate = words();
        candidate["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", mutated}};
        const auto loaded = folder.load(candidate);
        if (!loaded) continue;
        ++accepted;
        std::string text;
        for (int i = 0; i < 64; ++i) text += i % 3 ? "ﬁ１２３" : "e\u0301ガ";
        (void)(*loaded)->encode(text);
    }
    CHECK(accepted > 0);
    CHECK_FALSE(Charsmap::parse("", "x"));
    CHECK_FALSE(Charsmap::parse(std::string(8, '\0'), "x"));
    CHECK_FALSE(Charsmap::parse(std::string("\xFF\xFF\xFF\xFF", 4) + std::string(2000, '\0'), "x"));
}

}  // namespace vkformer::tests
