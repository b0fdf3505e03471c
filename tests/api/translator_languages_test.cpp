// SPDX-License-Identifier: MIT
/// A model of many languages, texts in, texts out, against Hugging Face's NLLB tokenizer and generate().
#include <fstream>

#include <nlohmann/json.hpp>

#include "support/backends.hpp"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"
#include "text/languages.hpp"
#include "text/tokenizer.hpp"
#include "vkformer/translator.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

const std::filesystem::path kNllbTexts = goldens_dir() / "nllb_texts", kMadladTexts = goldens_dir() / "madlad_texts";

TranslatorOptions translator_options(const std::string& device, const std::string& from, const std::string& to) {
    TranslatorOptions options;
    options.device = device;
    options.plain_shaders = true;  // nothing is measured in tests
    options.from = from;
    options.to = to;
    return options;
}

Error refused_languages(const std::string& from, const std::string& to) {
    auto result = Translator::load(kNllbTexts, translator_options("cpu", from, to));
    REQUIRE_FALSE(result);
    return std::move(result).error();
}

}  // namespace

TEST_CASE("languages are marked as Hugging Face marks them", "[api][languages][golden]") {
    std::vector<std::string> devices = {"cpu"};
    devices.insert(devices.end(), vulkan_device_indices().begin(), vulkan_device_indices().end());
    const std::string device = GENERATE_COPY(from_range(devices));
    std::ifstream file(kNllbTexts / "golden.json");
    const json entries = json::parse(file);
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (device != "cpu" && i % 5 != 0) continue;
        const json& entry = entries[i];
        CAPTURE(device, entry.dump());
        TranslatorOptions options = translator_options(device, entry["from"], entry["to"]);
        options.beams = entry["beams"];
        options.max_length = 14;
        Translator translator = must(Translator::load(kNllbTexts, options));
        const std::string text = entry["text"];
        const auto found = must(translator.translate({&text, 1}));
        CHECK(found[0].tokens == entry["tokens"].get<std::vector<std::int32_t>>());
        CHECK(found[0].text == entry["translation"].get<std::string>());
    }
}

TEST_CASE("texts of several languages are translated together", "[api][languages]") {
    const std::string device = GENERATE_COPY(from_range(device_names()));
    const std::uint32_t beams = GENERATE(1u, 3u);
    CAPTURE(device, beams);
    const std::vector<PrefixedText> texts = {{.text = "the cat sat on the mat", .from = "eng_Latn", .to = "fra_Latn"},
                                             {.text = "the cat sat on the mat", .from = "deu_Latn", .to = "zho_Hans"},
                                             {.text = "the cat sat on the mat"},
                                             {.text = "we see the sea", .prefix = "an apple", .to = "deu_Latn"},
                                             {.text = " ", .to = "zho_Hans"},
                                             {.text = "a dog eats an apple", .from = "fra_Latn", .to = "eng_Latn"}};
    TranslatorOptions options = translator_options(device, "eng_Latn", "deu_Latn");
    options.beams = beams;
    options.max_length = 14;
    Translator many = must(Translator::load(kNllbTexts, options));
    const auto found = must(many.translate(texts));
    for (std::size_t i = 0; i < texts.size(); ++i) {
        CAPTURE(i);
        TranslatorOptions own = options;
        if (!texts[i].from.empty()) own.from = texts[i].from;
        if (!texts[i].to.empty()) own.to = texts[i].to;
        Translator one = must(Translator::load(kNllbTexts, own));
        const PrefixedText alone = {.text = texts[i].text, .prefix = texts[i].prefix};
        const auto translation = must(one.translate({&alone, 1}));
        CHECK(found[i].tokens == translation[0].tokens);
        CHECK(found[i].score.has_value() == translation[0].score.has_value());
        if (found[i].tokens.empty()) continue;
        if (beams > 1) CHECK(*found[i].score == Approx(*translation[0].score).epsilon(1e-4));
        if (i != 0 && device != "cpu") continue;
        CHECK(must(many.attention(texts[i])).source == must(one.attention(alone)).source);
        const TranslatedText scored = {
            .text = texts[i].text, .translation = "an apple", .from = texts[i].from, .to = texts[i].to};
        const TranslatedText bare = {.text = texts[i].text, .translation = "an apple"};
        CHECK(must(many.score({&scored, 1}))[0].tokens == must(one.score({&bare, 1}))[0].tokens);
        CHECK(must(many.alternatives(texts[i], 2))[1].translation.tokens ==
              must(one.alternatives(alone, 2))[1].translation.tokens);
    }
    CHECK(found[0].tokens != found[1].tokens);
    const std::vector<PrefixedText> unknown = {{.text = "a dog"}, {.text = "a dog", .to = "de"}};
    const auto refused = many.translate(unknown);
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error().message, ContainsSubstring("text 2: the model knows no language \"de\""));
    CHECK_FALSE(many.check(unknown[1]));
}

TEST_CASE("MADLAD's sources name the language of their translations", "[api][languages][golden]") {
    const std::string device = GENERATE_COPY(from_range(device_names()));
    const json entries = read_json(kMadladTexts / "golden.json");
    REQUIRE(entries.size() > 6);
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (device != "cpu" && i % 5 != 0) continue;
        const json& entry = entries[i];
        CAPTURE(device, entry.dump());
        TranslatorOptions options = translator_options(device, "", entry["to"]);
        options.beams = entry["beams"];
        options.max_length = 14;
        Translator translator = must(Translator::load(kMadladTexts, options));
        const std::string text = entry["text"], to = entry["to"];
        const auto tokens = entry["tokens"].get<std::vector<std::int32_t>>();
        const std::vector<PrefixedText> texts = {
            {.text = text}, {.text = text, .from = "en"}, {.text = text, .to = to == "de" ? "fr" : "de"}};
        const auto found = must(translator.translate(texts));
        CHECK(found[0].tokens == tokens);
        CHECK(found[0].text == entry["translation"].get<std::string>());
        CHECK(found[1].tokens == tokens);
        CHECK(found[2].tokens != tokens);
        options.to.clear();
        Translator named = must(Translator::load(kMadladTexts, options));
        const std::string own = "<2" + to + "> " + text;
        CHECK(must(named.translate({&own, 1}))[0].tokens == tokens);
    }
    const auto unknown = Translator::load(kMadladTexts, translator_options("cpu", "", "sv"));
    REQUIRE_FALSE(unknown);
    CHECK_THAT(unknown.error().message, ContainsSubstring("no language \"sv\"; it has <2de>, <2fr>"));
    CHECK(text::list_languages(*must(text::load_tokenizer(kMadladTexts))) ==
          std::vector<std::string>{"de", "fr", "en", "zh_Latn"});
}

TEST_CASE("a language that is missing or unknown is an error", "[api][languages][errors]") {
    CHECK_THAT(refused_languages("eng_Latn", "").message, ContainsSubstring("say which one"));
    const Error unknown = refused_languages("eng_Latn", "de");
    CHECK(unknown.code == ErrorCode::InvalidArgument);
    CHECK_THAT(unknown.message, ContainsSubstring("deu_Latn"));
    CHECK_THAT(refused_languages("the", "deu_Latn").message, ContainsSubstring("no language \"the\""));
    CHECK_THAT(refused_languages("</s>", "deu_Latn").message, ContainsSubstring("it has"));
    const auto single = Translator::load(std::filesystem::path(VKFORMER_SOURCE_DIR) / "samples/models/date-normalizer",
                                         translator_options("cpu", "", "deu_Latn"));
    REQUIRE_FALSE(single);
    CHECK_THAT(single.error().message, ContainsSubstring("no model of many languages"));
}

TEST_CASE("where the marks of a language stand depends on the tokenizer's class", "[text][languages]") {
    const TemporaryFolder folder;
    const auto tokenizer = must(text::load_tokenizer(kNllbTexts)),
               names_targets = must(text::load_tokenizer(kMadladTexts));
    const auto marks = [&](const std::string& config) {
        std::ofstream(folder.path() / "tokenizer_config.json") << config;
        return must(text::read_language_marks(folder.path(), *tokenizer));
    };
    using Ids = std::vector<std::int32_t>;
    const auto nllb = marks(R"({"tokenizer_class": "NllbTokenizerFast", "src_lang": "fra_Latn"})");
    CHECK(nllb->source == "fra_Latn");
    CHECK(text::mark_source(*nllb, {7, 8}, 30, 2) == Ids{30, 7, 8, 2});
    const auto old = marks(R"({"tokenizer_class": "NllbTokenizer", "legacy_behaviour": true})");
    CHECK(text::mark_source(*old, {7, 8}, 30, 2) == Ids{7, 8, 2, 30});
    const auto mbart = marks(R"({"tokenizer_class": "MBartTokenizer", "src_lang": null})");
    CHECK(mbart->starts_target);
    CHECK(text::mark_source(*mbart, {7}, 30, 2) == Ids{7, 2, 30});
    CHECK_FALSE(marks(R"({"tokenizer_class": "MBart50Tokenizer"})")->starts_target);
    CHECK(marks(R"({"tokenizer_class": "M2M100Tokenizer"})")->source == "en");
    CHECK_FALSE(marks(R"({"tokenizer_class": "T5Tokenizer"})"));
    CHECK_FALSE(must(text::read_language_marks(folder.path() / "nowhere", *tokenizer)));
    CHECK(must(text::read_language_marks(folder.path(), *names_targets))->names_target);
}

}  // namespace vkformer::tests
