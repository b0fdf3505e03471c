// SPDX-License-Identifier: MIT
#include "models/gguf_vocabulary.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "formats/gguf.hpp"
#include "formats/gguf_writer.hpp"
#include "support/catch.h"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"
#include "text/gguf_tokenizer.hpp"
#include "text/tokenizer.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using models::GgufContents;
using nlohmann::json;

/// The text files of a folder, with the tokenizer of tests/goldens/hard_text/NAME.
struct Spelled {
    explicit Spelled(const std::string& name)
        : tokenizer(read_json(goldens_dir() / "hard_text" / name / "tokenizer.json")) {
        vocab_size = tokenizer["model"]["vocab"].size() + 16;
    }

    json tokenizer, settings = nullptr, generation = nullptr;
    json config = {{"bos_token_id", 1}, {"eos_token_id", 2}};
    std::string jinja;
    std::size_t vocab_size;
    TemporaryFolder folder = {};

    Result<GgufContents> exported() const {
        const auto put = [&](const char* name, const json& value) {
            std::filesystem::remove(folder / name);
            if (!value.is_null()) std::ofstream(folder / name) << value.dump();
        };
        put("tokenizer.json", tokenizer);
        put("tokenizer_config.json", settings);
        put("generation_config.json", generation);
        put("config.json", config);
        if (!jinja.empty()) std::ofstream(folder / "chat_template.jinja") << jinja;
        GgufContents contents;
        const auto fields = must(formats::Config::open(folder / "config.json"));
        if (auto added =
                models::add_gguf_vocabulary(folder.path(), fields, static_cast<std::uint32_t>(vocab_size), contents);
            !added)
            return added.error();
        return contents;
    }
    std::string refusal() const {
        const auto contents = exported();
        REQUIRE_FALSE(contents);
        CHECK(contents.error().code == ErrorCode::UnsupportedConfig);
        return contents.error().message;
    }
    std::string notes() const {
        std::string all;
        for (const std::string& note : must(exported()).notes) all += note + "\n";
        return all;
    }
    formats::Gguf file() const {
        const auto contents = must(exported());
        static int count = 0;  // what is mapped is not replaced on Windows
        const std::string name = "x" + std::to_string(count++) + ".gguf";
        must(formats::write_gguf(folder / name.c_str(), contents.metadata, {}));
        return must(formats::Gguf::open(folder / name.c_str()));
    }
    json& added(std::int32_t id, const std::string& content) {
        return tokenizer["added_tokens"].emplace_back(json{{"id", id},
                                                           {"content", content},
                                                           {"single_word", false},
                                                           {"lstrip", false},
                                                           {"rstrip", false},
                                                           {"normalized", false},
                                                           {"special", true}});
    }
    /// Puts these tokens before and behind a text.
    void surround(const std::vector<std::string>& before, const std::vector<std::string>& behind = {}) {
        json& post = tokenizer["post_processor"];
        post = {{"type", "TemplateProcessing"}, {"pair", json::array()}, {"special_tokens", json::object()}};
        json single = json::array();
        const auto put = [&](const std::string& token) {
            std::int32_t id = -1;
            for (const json& each : tokenizer["added_tokens"])
                if (each["content"] == token) id = each["id"];
            single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
            post["special_tokens"][token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
        };
        for (const std::string& token : before) put(token);
        single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
        for (const std::string& token : behind) put(token);
        post["single"] = single;
    }
};

/// Whether file and folder have the same ids of a text.
void check_same_ids(const Spelled& spelled, const std::vector<std::string>& texts) {
    const auto after = must(text::load_gguf_tokenizer(spelled.file()));
    const auto before = must(text::load_tokenizer(spelled.folder.path()));
    for (const std::string& text : texts) {
        CAPTURE(text);
        CHECK(must(after.tokenizer->encode(text)) == must(before->encode(text)));
    }
}

const json kLlama3 = {{"bos_token", "<|begin|>"}, {"eos_token", "<|eot_id|>"}};

}  // namespace

TEST_CASE("all the ends of a folder are ends of its GGUF file", "[models][gguf][vocabulary]") {
    Spelled llama3("llama3");
    llama3.settings = kLlama3;
    llama3.generation = {{"eos_token_id", {701, 502}}};
    CHECK(llama3.notes().empty());
    CHECK(must(text::load_gguf_tokenizer(llama3.file())).end_ids == std::vector<std::int32_t>{502, 701});
    llama3.generation = {{"eos_token_id", {701, 502, 5}}};
    CHECK(llama3.notes().empty());
    CHECK(must(text::load_gguf_tokenizer(llama3.file())).end_ids == std::vector<std::int32_t>{5, 502, 701});
    CHECK(llama3.file().unsigned_integer("tokenizer.ggml.eos_token_id").value() == 701);
    CHECK(llama3.file().unsigned_integer("tokenizer.ggml.eot_token_id").value() == 502);
    CHECK(llama3.file().unsigned_integer("tokenizer.ggml.eom_token_id").value() == 5);
    llama3.generation["eos_token_id"] = {701, 502, 5, 6};
    CHECK_THAT(llama3.notes(), ContainsSubstring("a generation goes on behind \"'\" unless"));
    // <|eot_id|> is one by its spelling, whatever the files say.
    llama3.generation["eos_token_id"] = {5};
    CHECK_THAT(llama3.notes(), ContainsSubstring("end with \"<|eot_id|>\", too"));
    llama3.generation = nullptr;
    llama3.config["eos_token_id"] = 701;
    CHECK(llama3.notes().empty());
    CHECK_FALSE(llama3.file().has("tokenizer.ggml.eot_token_id"));
}

TEST_CASE("what a tokenizer puts around a text is bos and eos, or refused", "[models][gguf][vocabulary]") {
    Spelled llama3("llama3");  // <|begin|> is 700
    llama3.config["eos_token_id"] = 701;
    CHECK(llama3.notes().empty());  // config.json calls another bos, which no text has
    const auto file = llama3.file();
    CHECK(file.unsigned_integer("tokenizer.ggml.bos_token_id").value() == 700);
    CHECK(file.boolean("tokenizer.ggml.add_bos_token").value());
    check_same_ids(llama3, {"a", "Hello world"});
    llama3.surround({}, {"<|eot_id|>"});
    check_same_ids(llama3, {"a"});
    CHECK(llama3.file().boolean("tokenizer.ggml.add_eos_token").value());
    llama3.surround({"<|begin|>"}, {"<|begin|>"});
    CHECK_THAT(llama3.refusal(), ContainsSubstring(R"(["<|begin|>"] before a text and ["<|begin|>"] behind it)"));
    llama3.surround({"<|begin|>", "<|eot_id|>"});
    CHECK_THAT(llama3.refusal(), ContainsSubstring(R"(["<|begin|>", "<|eot_id|>"] before)") &&
                                     ContainsSubstring("take it out of the file"));
    llama3.surround({"<|eot_id|>"});
    llama3.settings = kLlama3;
    CHECK_THAT(llama3.notes(), ContainsSubstring("bos is \"<|eot_id|>\", which begins texts, not \"<|begin|>\""));
    check_same_ids(llama3, {"a"});
}

TEST_CASE("a GGUF file has the chat template that the folder uses, and all of a list", "[models][gguf][vocabulary]") {
    Spelled llama3("llama3");
    llama3.config["eos_token_id"] = 701;
    llama3.settings = kLlama3;
    llama3.settings["chat_template"] = "of the settings";
    CHECK(must(text::load_gguf_tokenizer(llama3.file())).chat_template == "of the settings");
    llama3.jinja = "of the file";
    CHECK(must(text::load_gguf_tokenizer(llama3.file())).chat_template == "of the file");
    Spelled list("llama3");
    list.settings = kLlama3;
    list.settings["chat_template"] = {{{"name", "tool use"}, {"template", "T"}},
                                      {{"name", "default"}, {"template", "D"}}};
    const auto file = list.file();
    CHECK(file.string("tokenizer.chat_template").value() == "D");
    CHECK(file.string("tokenizer.chat_template.tool_use").value() == "T");
    CHECK(must(file.strings("tokenizer.chat_templates")) == std::vector<std::string_view>{"tool_use"});
    list.settings["chat_template"] = json::array({{{"name", "default"}}});
    CHECK_FALSE(list.exported());
}

TEST_CASE("options of tokenizers that a GGUF file cannot say are refused by name", "[models][gguf][vocabulary]") {
    const auto refused = [](const std::string& name, const std::function<void(Spelled&)>& change) {
        Spelled spelled(name);
        change(spelled);
        return spelled.refusal();
    };
    const auto of_model = [](const char* field, const json& value) {
        return [field, value](Spelled& spelled) { spelled.tokenizer["model"][field] = value; };
    };
    CHECK_THAT(refused("gpt2", of_model("end_of_word_suffix", "</w>")),
               ContainsSubstring(R"("end_of_word_suffix": "</w>" has no place)"));
    const auto prefix = [](Spelled& s) {
        s.tokenizer["model"]["continuing_subword_prefix"] = "##";
        s.tokenizer["model"]["merges"] = json::array();
    };
    CHECK_THAT(refused("llama2", prefix), ContainsSubstring("continuing_subword_prefix"));
    const auto bytes = [](Spelled& s) {
        s.tokenizer["model"]["unk_token"] = "!";
        s.tokenizer["model"]["vocab"].erase("\u0100");  // of the byte 0
    };
    CHECK_THAT(refused("gpt2", bytes), ContainsSubstring("lacks the byte 0"));
    const auto lower = [](Spelled& s) {
        s.tokenizer["normalizer"] = {{"type", "Sequence"},
                                     {"normalizers", {s.tokenizer["normalizer"], {{"type", "Lowercase"}}}}};
    };
    CHECK_THAT(refused("gemma", lower), ContainsSubstring(R"(the normalizer "Lowercase")"));
    const auto digits = [](Spelled& s) {
        s.tokenizer["pre_tokenizer"] = {{"type", "Digits"}, {"individual_digits", true}};
    };
    CHECK_THAT(refused("llama2", digits), ContainsSubstring(R"(the pre-tokenizer "Digits")"));
    const auto unspaced = [](Spelled& s) { s.tokenizer["normalizer"] = s.tokenizer["pre_tokenizer"] = nullptr; };
    CHECK_THAT(refused("gemma", unspaced), ContainsSubstring("in place of spaces"));
    // A token that no merge makes any more.
    const auto unmerged = [](Spelled& s) {
        s.tokenizer["model"]["merges"].erase(s.tokenizer["model"]["merges"].size() - 1);
    };
    CHECK_THAT(refused("llama2", unmerged), ContainsSubstring("which no merge makes"));
    const auto split = [](Spelled& s) {
        s.tokenizer["pre_tokenizer"]["split"] = true;
        s.tokenizer["model"]["vocab"]["\u2581\u2581"] = s.tokenizer["model"]["vocab"].size();
    };
    CHECK_THAT(refused("mistral", split), ContainsSubstring("\"split\" of Metaspace"));
}

TEST_CASE("words that are tokens are taken whole in a GGUF file where the folder does it",
          "[models][gguf][vocabulary]") {
    const auto pre = [](const Spelled& spelled) { return spelled.file().string("tokenizer.ggml.pre").value(); };
    Spelled llama3("llama3"), merging("llama3");
    CHECK(pre(llama3) == "llama-bpe");
    merging.tokenizer["model"]["ignore_merges"] = false;
    CHECK(pre(merging) == "llama-bpe");  // all tokens have merges: nothing changes
    for (Spelled* const spelled : {&llama3, &merging}) {
        json& model = spelled->tokenizer["model"];
        const std::size_t id = model["vocab"].size();
        model["vocab"]["qzqzx"] = id;
        for (json& token : spelled->tokenizer["added_tokens"]) token["id"] = token["id"].get<int>() + 1;
        spelled->surround({"<|begin|>"});
    }
    CHECK(pre(llama3) == "llama-bpe");
    CHECK(pre(merging) == "smaug-bpe");
    check_same_ids(llama3, {"qzqzx", "a b"});
    check_same_ids(merging, {"qzqzx", "a b"});
    Spelled gpt2("gpt2");
    gpt2.tokenizer["model"]["ignore_merges"] = true;
    CHECK(pre(gpt2) == "gpt-2");
    gpt2.tokenizer["model"]["vocab"]["qzqzx"] = 705;
    CHECK_THAT(gpt2.refusal(), ContainsSubstring("\"ignore_merges\": true"));
}

TEST_CASE("notes say which texts have other ids in a GGUF file", "[models][gguf][vocabulary]") {
    for (const char* scheme : {"first", "always"}) {
        Spelled mistral("mistral");
        mistral.tokenizer["pre_tokenizer"]["prepend_scheme"] = scheme;
        CHECK_THAT(mistral.notes(), ContainsSubstring("before every stretch of text between special tokens"));
        check_same_ids(mistral, {"a b", "Hello world", "a  b"});
    }
    Spelled mistral("mistral");
    mistral.tokenizer["pre_tokenizer"]["prepend_scheme"] = "never";
    CHECK(mistral.notes().empty());
    check_same_ids(mistral, {"a b", " a", "</s>a"});
    CHECK(Spelled("llama2").notes().empty());
    CHECK(Spelled("gemma").notes().empty());

    Spelled llama2("llama2");
    llama2.added(800, "<tool>")["lstrip"] = true;
    CHECK_THAT(llama2.notes(), ContainsSubstring("texts with \"<tool>\" may differ"));
    Spelled normalized("llama2");
    normalized.added(800, "<tool>")["normalized"] = true;
    CHECK_THAT(normalized.notes(), ContainsSubstring("texts with \"<tool>\" may differ"));
    Spelled lacking("llama2");
    lacking.tokenizer["model"]["vocab"].erase("<0x41>");
    CHECK_THAT(lacking.notes(), ContainsSubstring("255 of 256 bytes"));

    Spelled generating("llama2");
    generating.generation = {{"eos_token_id", 2}, {"top_k", 5}, {"do_sample", true}, {"transformers_version", "5"}};
    CHECK_THAT(generating.notes(), ContainsSubstring("says of \"do_sample\", \"top_k\" is left out"));
    Spelled cleaning("llama2");
    cleaning.settings = {{"clean_up_tokenization_spaces", true}};
    CHECK_THAT(cleaning.notes(), ContainsSubstring("clean_up_tokenization_spaces"));
}

TEST_CASE("tokens that tokenizer_config.json adds are such in a GGUF file", "[models][gguf][vocabulary]") {
    Spelled llama2("llama2");
    json entry = {{"content", "hello"}, {"special", true},     {"lstrip", false},
                  {"rstrip", false},    {"normalized", false}, {"single_word", false}};
    llama2.settings = {{"added_tokens_decoder", {{"800", entry}}}};
    check_same_ids(llama2, {"hello", "a hello b"});
    // A filler is spelled like no token.
    Spelled filled("gpt2");
    filled.added(701, "[PAD702]");
    check_same_ids(filled, {"a [PAD702]"});
    const auto file = filled.file();
    const auto tokens = must(file.strings("tokenizer.ggml.tokens"));
    CHECK(std::ranges::count(tokens, "[PAD702]") == 1);
}

}  // namespace vkformer::tests
