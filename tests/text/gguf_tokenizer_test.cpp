// SPDX-License-Identifier: MIT
/// The tokenizers inside tests/goldens/gguf/*.gguf against the libraries that made them.
#include "text/gguf_tokenizer.hpp"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/files.hpp"
#include "support/gguf_bytes.hpp"
#include "support/goldens.hpp"

namespace vkformer::tests {
namespace {

using namespace text;
using Catch::Matchers::ContainsSubstring;
using formats::Gguf;
using formats::GgufType;

GgufTokenizer load_golden_tokenizer(const std::string& name) {
    const auto file = Gguf::open(goldens_dir() / "gguf" / (name + ".gguf"));
    if (!file) FAIL(file.error().message);
    auto tokenizer = load_gguf_tokenizer(*file);
    if (!tokenizer) FAIL(tokenizer.error().message);
    return std::move(tokenizer).value();
}

Result<GgufTokenizer> parse_tokenizer(const std::vector<std::string>& values) {
    GgufBytes file;
    file.values = values;
    const auto bytes = std::make_shared<std::string>(file.file());
    const auto parsed = Gguf::parse(std::as_bytes(std::span(*bytes)), bytes, "x.gguf");
    if (!parsed) return parsed.error();
    return load_gguf_tokenizer(*parsed);
}

std::string text_value(std::string_view key, std::string_view text) {
    return gguf_value(key, GgufType::string, gguf_text(text));
}

template <class T>
std::string list_value(std::string_view key, GgufType type, const std::vector<T>& numbers) {
    std::string elements;
    for (const T number : numbers) elements += raw(number);
    return gguf_value(key, GgufType::array, gguf_array(type, numbers.size(), elements));
}

/// A vocabulary of four tokens, the second one "ab".
std::vector<std::string> small_tokenizer(std::string_view model) {
    return {text_value("tokenizer.ggml.model", model),
            gguf_value("tokenizer.ggml.tokens", GgufType::array, gguf_string_array({"<unk>", "ab", "a", "b"})),
            list_value<float>("tokenizer.ggml.scores", GgufType::f32, {0, -1, -2, -3}),
            list_value<std::int32_t>("tokenizer.ggml.token_type", GgufType::i32, {2, 1, 1, 1}),
            gguf_value("tokenizer.ggml.add_bos_token", GgufType::boolean, std::string(1, '\0')),
            gguf_value("tokenizer.ggml.add_eos_token", GgufType::boolean, std::string(1, '\0')),
            gguf_value("tokenizer.ggml.add_space_prefix", GgufType::boolean, std::string(1, '\0'))};
}

std::string refused_tokenizer(std::vector<std::string> values, ErrorCode code = ErrorCode::CorruptFile) {
    const auto tokenizer = parse_tokenizer(values);
    REQUIRE_FALSE(tokenizer);
    CHECK(tokenizer.error().code == code);
    CHECK_THAT(tokenizer.error().message, ContainsSubstring("x.gguf"));
    return tokenizer.error().message;
}

}  // namespace

TEST_CASE("tokenizers inside GGUF files give the ids of the libraries that made them", "[text][gguf]") {
    const std::string name = GENERATE(as<std::string>(), "gpt-2", "llama-bpe", "qwen2", "smollm", "default",
                                      "deepseek-llm", "deepseek-coder", "deepseek-v3", "seed-coder", "llama", "gemma4", "t5", "bert");
    CAPTURE(name);
    const GgufTokenizer loaded = load_golden_tokenizer(name);
    const auto lines = read_json(goldens_dir() / "tokenizers/lines.json");
    const auto expected = read_json(goldens_dir() / "gguf" / (name + ".json"));
    REQUIRE(lines.size() > 300);
    REQUIRE(expected["ids"].size() == lines.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const std::string line = lines[i];
        CAPTURE(i, line);
        const auto ids = loaded.tokenizer->encode(line);
        if (!ids) FAIL(ids.error().message);
        // SentencePiece's own library knows no special tokens in a text; llama.cpp does, as we do. Its WordPiece cuts
        // Korean syllables otherwise than Hugging Face, and so than we.
        const auto& theirs = expected["llama_cpp"];
        const bool other = name != "bert" && theirs.contains(std::to_string(i));
        CHECK(*ids == (other ? theirs[std::to_string(i)] : expected["ids"][i]).get<std::vector<std::int32_t>>());
    }
}

TEST_CASE("byte-level and SentencePiece tokenizers inside GGUF files give the text back", "[text][gguf]") {
    const std::string name = GENERATE(as<std::string>(), "gpt-2", "llama-bpe", "qwen2", "smollm", "default",
                                      "deepseek-llm", "deepseek-coder", "deepseek-v3", "seed-coder", "llama", "gemma4");
    CAPTURE(name);
    const GgufTokenizer loaded = load_golden_tokenizer(name);
    for (const std::string line : read_json(goldens_dir() / "tokenizers/lines.json")) {
        CAPTURE(line);
        const auto ids = loaded.tokenizer->encode(line, {.parse_special = false});
        REQUIRE(ids);
        // The mark of spaces becomes one itself.
        if ((name == "llama" || name == "gemma4") && line.find("\u2581") != line.npos) continue;
        CHECK(loaded.tokenizer->decode(*ids) == line);
    }
}

TEST_CASE("GGUF tokenizers say what is special", "[text][gguf]") {
    const GgufTokenizer loaded = load_golden_tokenizer("llama-bpe");
    CHECK(loaded.bos == 0);
    CHECK(loaded.eos == 1);
    CHECK(loaded.eot == 2);
    CHECK(loaded.end_ids == std::vector<std::int32_t>{1, 2});
    CHECK(loaded.adds_bos);
    CHECK_FALSE(loaded.adds_eos);
    CHECK(loaded.chat_template == "{{ messages }}");
    CHECK(loaded.tokenizer->encode("a<|im_end|>").value().back() == 2);
    CHECK(loaded.tokenizer->encode("a<|im_end|>", {.parse_special = false}).value().back() != 2);
    CHECK(loaded.tokenizer->encode("a", {.add_special = false}).value().front() != 0);
    const GgufTokenizer t5 = load_golden_tokenizer("t5");
    CHECK(t5.adds_eos);
    CHECK(t5.eos == 1);
    CHECK(t5.padding == 0);
    CHECK(t5.chat_template.empty());
}

TEST_CASE("GGUF tokenizers that are wrong are refused", "[text][gguf]") {
    using enum GgufType;
    REQUIRE(parse_tokenizer(small_tokenizer("llama")));
    CHECK(parse_tokenizer(small_tokenizer("llama"))->tokenizer->encode("abx").value() ==
          std::vector<std::int32_t>{1, 0});
    const auto changed = [](std::size_t index, const std::string& value) {
        auto values = small_tokenizer("llama");
        values[index] = value;
        return values;
    };
    CHECK_THAT(refused_tokenizer({}), ContainsSubstring("\"tokenizer.ggml.tokens\" is missing or empty"));
    CHECK_THAT(refused_tokenizer(small_tokenizer("rwkv"), ErrorCode::UnsupportedConfig),
               ContainsSubstring("\"tokenizer.ggml.model\" is \"rwkv\", supported: gpt2, llama, gemma4, t5, bert"));
    auto unknown_pre = small_tokenizer("gpt2");
    unknown_pre.push_back(text_value("tokenizer.ggml.pre", "kimi-k2"));
    CHECK_THAT(refused_tokenizer(unknown_pre, ErrorCode::UnsupportedConfig), ContainsSubstring("\"kimi-k2\""));
    CHECK_THAT(refused_tokenizer(changed(0, gguf_value("tokenizer.ggml.model", u32, raw(1)))),
               ContainsSubstring("expected a text"));
    CHECK_THAT(refused_tokenizer(changed(1, list_value<float>("tokenizer.ggml.tokens", f32, {1}))),
               ContainsSubstring("expected a list of texts"));
    CHECK_THAT(refused_tokenizer(
                   changed(1, gguf_value("tokenizer.ggml.tokens", array, gguf_string_array({"a", "\xFF", "b", "c"})))),
               ContainsSubstring("token 1 is not UTF-8"));
    CHECK_THAT(refused_tokenizer(changed(2, list_value<float>("tokenizer.ggml.scores", f32, {1, 2}))),
               ContainsSubstring("has 2 entries, expected 4"));
    CHECK_THAT(refused_tokenizer(changed(2, list_value<float>("tokenizer.ggml.scores", f32, {1, 2, NAN, 3}))),
               ContainsSubstring("contains NaN"));
    CHECK_THAT(refused_tokenizer(changed(3, list_value<std::int32_t>("tokenizer.ggml.token_type", i32, {1}))),
               ContainsSubstring("has 1 entries, expected 4"));
    CHECK_THAT(refused_tokenizer(changed(4, gguf_value("tokenizer.ggml.add_bos_token", u8, "\1"))),
               ContainsSubstring("expected true or false"));
    auto values = small_tokenizer("llama");
    values.push_back(gguf_value("tokenizer.ggml.eos_token_id", u32, raw(4u)));
    CHECK_THAT(refused_tokenizer(values),
               ContainsSubstring("\"tokenizer.ggml.eos_token_id\" is 4, but there are 4 tokens"));
    values = small_tokenizer("gpt2");
    values.push_back(gguf_value("tokenizer.ggml.merges", array, gguf_string_array({"a b", "b x"})));
    CHECK_THAT(refused_tokenizer(values), ContainsSubstring("needs a token that the vocabulary lacks"));
    values.back() = gguf_value("tokenizer.ggml.merges", array, gguf_string_array({"ab"}));
    CHECK_THAT(refused_tokenizer(values), ContainsSubstring("is not a pair of tokens"));
    values = small_tokenizer("gpt2");
    values[4] = gguf_value("tokenizer.ggml.add_bos_token", boolean, "\1");
    CHECK_THAT(refused_tokenizer(values), ContainsSubstring("there is no such token"));
    values = small_tokenizer("t5");
    values.push_back(list_value<std::uint8_t>("tokenizer.ggml.precompiled_charsmap", u8, {255, 255, 255, 255, 1}));
    refused_tokenizer(values);
}

}  // namespace vkformer::tests
