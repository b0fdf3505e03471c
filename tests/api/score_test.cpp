// SPDX-License-Identifier: MIT
/// How likely models find texts and translations, and what else a translation might go on with.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "api/text_scorer.hpp"
#include "decoding/log_probs_case.hpp"
#include "models/open_model.hpp"
#include "support/backends.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/refused.hpp"
#include "support/temporary_folder.hpp"
#include "vkformer/generator.hpp"
#include "vkformer/translator.hpp"

namespace vkformer::tests {
namespace {

using nlohmann::json;
using Tokens = std::vector<std::int32_t>;

const std::filesystem::path kDates = std::filesystem::path(VKFORMER_SOURCE_DIR) / "samples/models/date-normalizer";

Generator load_scoring(const std::string& device, GeneratorOptions options = {}) {
    options.device = device;
    options.plain_shaders = true;
    return must(Generator::load(goldens_dir() / "decoder_text", options));
}

Translator load_translating(const std::filesystem::path& folder, TranslatorOptions options) {
    options.plain_shaders = true;
    return must(Translator::load(folder, options));
}

const models::Decoder& text_model() {
    static const models::Decoder model = must(models::load_decoder(goldens_dir() / "decoder_text"));
    return model;
}

/// Of tokens first … size − 1, the oracle's log-probability of each behind all that come before it.
void check_tail(const std::vector<StepLogProbs>& found, const Tokens& tokens, std::size_t first, std::size_t from) {
    const auto expected = log_probs_of(text_model(), {tokens.begin(), tokens.end() - 1}, tokens.size() - first);
    for (std::size_t i = first; i < tokens.size(); ++i) {
        CAPTURE(i);
        const StepLogProbs& step = found.at(from + i - first);
        CHECK(step.chosen.token == tokens[i]);
        CHECK(std::abs(step.chosen.log_prob - expected[i - first][static_cast<std::size_t>(tokens[i])]) < 2e-4);
    }
}

}  // namespace

TEST_CASE("windows tell each token once, behind enough of what comes before it", "[api][score]") {
    for (std::size_t head : {0u, 1u, 2u})
        for (std::size_t context = head + 2; context < 10; ++context)
            for (std::size_t stride = 1; stride + head < context; ++stride)
                for (std::size_t tokens = std::max<std::size_t>(head, 1); tokens < 40; ++tokens) {
                    const auto windows = api::score_windows(tokens, head, context, stride);
                    std::size_t next = 1;
                    bool fits = windows[0].begin == 0;
                    for (const api::ScoreWindow& window : windows) {
                        const std::size_t before = window.begin == 0 ? 0 : head;
                        fits = fits && window.first == next && window.first > window.begin;
                        fits = fits && before + window.end - window.begin <= context;
                        if (window.begin > 0)
                            fits = fits && window.begin >= head &&
                                   before + window.first - window.begin == context - stride;
                        next = window.end;
                    }
                    INFO(head << " " << context << " " << stride << " " << tokens);
                    REQUIRE((fits && next == tokens));
                    REQUIRE((tokens > context || windows.size() == 1));
                }
}

TEST_CASE("a generator scores texts, whatever else it is asked", "[api][score]") {
    const std::string device = GENERATE(from_range(device_names()));
    CAPTURE(device);
    const std::uint32_t beams = GENERATE(1u, 2u);
    Generator generator = load_scoring(device, {.beam_search = {.beams = beams}});
    const std::vector<std::string> texts = {"the cat and the dog and the cat", "a frog",
                                            "Once upon a time there was a small bird"};
    const GenerateOptions asked = {.max_tokens = 8, .ignore_end = true};
    const auto before = must(generator.generate(texts, asked));
    const auto scores = must(generator.score(texts, {.likeliest = 2}));
    const auto after = must(generator.generate(texts, asked));
    REQUIRE(scores.size() == texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
        CAPTURE(i);
        CHECK(before[i].tokens == after[i].tokens);
        CHECK(scores[i].tokens == must(generator.tokenize(texts[i])));
        REQUIRE(scores[i].log_probs.size() + 1 == scores[i].tokens.size());
        check_tail(scores[i].log_probs, scores[i].tokens, 1, 0);
        double sum = 0;
        for (const StepLogProbs& step : scores[i].log_probs) {
            CHECK(step.likeliest.size() == 2);
            sum += double{step.chosen.log_prob};
        }
        CHECK(scores[i].sum() == sum);
    }
    // What a generation said of its own tokens.
    if (beams == 1) {
        GenerateOptions telling = asked;
        telling.log_probs = 0;
        const auto told = must(generator.generate(std::vector{texts[0]}, telling))[0];
        Tokens all = scores[0].tokens;
        all.insert(all.end(), told.tokens.begin(), told.tokens.end());
        const auto again = must(generator.score_tokens({{all}}))[0].log_probs;
        for (std::size_t i = 0; i < told.tokens.size(); ++i)
            CHECK(again[again.size() - told.tokens.size() + i].chosen.log_prob ==
                  Approx(told.log_probs[i].chosen.log_prob).margin(1e-4));
    }
}

TEST_CASE("a text longer than the context is read in windows", "[api][score]") {
    const std::string device = GENERATE(from_range(device_names()));
    CAPTURE(device);
    Generator generator = load_scoring(device, {.context = 24});
    std::string text = "Once upon a time";
    while (must(generator.tokenize(text)).size() < 61) text += " the cat and the dog";
    const Tokens tokens = must(generator.tokenize(text)), head = must(generator.tokenize(""));
    check_refused(generator.score({{text}}), ErrorCode::InvalidArgument, "the context holds 24");
    check_refused(generator.score({{text}}, {.stride = 24}), ErrorCode::InvalidArgument, "the stride is 24");
    CAPTURE(head.size());
    std::size_t told = 0;
    const auto scores = must(generator.score({{std::string("a frog"), text}}, {.stride = 10},
                                             [&](std::size_t done, std::size_t) { told = done; }));
    CHECK(scores[1].tokens == tokens);
    REQUIRE(scores[1].log_probs.size() + 1 == tokens.size());
    const auto windows = api::score_windows(tokens.size(), head.size(), 24, 10);
    CHECK(told == windows.size() + 1);
    for (const api::ScoreWindow& window : windows) {
        CAPTURE(window.begin);
        Tokens read;
        if (window.begin > 0) read = head;
        const std::size_t own = read.size();
        read.insert(read.end(), tokens.begin() + static_cast<std::ptrdiff_t>(window.begin),
                    tokens.begin() + static_cast<std::ptrdiff_t>(window.end));
        check_tail(scores[1].log_probs, read, own + window.first - window.begin, window.first - 1);
    }
    // Tokens are read as they are: no window begins with what none was given.
    const auto bare = must(generator.score_tokens({{tokens}}, {.stride = 10}))[0].log_probs;
    REQUIRE(bare.size() + 1 == tokens.size());
    const auto second = api::score_windows(tokens.size(), 0, 24, 10)[1];
    const Tokens read(tokens.begin() + static_cast<std::ptrdiff_t>(second.begin),
                      tokens.begin() + static_cast<std::ptrdiff_t>(second.end));
    check_tail(bare, read, second.first - second.begin, second.first - 1);
}

TEST_CASE("each window begins with what the tokenizer puts before every text", "[api][score][verse]") {
    const auto verses =
        std::filesystem::path(VKFORMER_SOURCE_DIR) / "samples/models/verse-writer/verse-writer-q8_0.gguf";
    Generator generator = must(Generator::load(verses, {.device = "cpu", .context = 24, .plain_shaders = true}));
    const std::string text =
        "And the king said unto the people, Go ye into the city, and the LORD shall be with you in all the land of "
        "Israel, "
        "and in the house of your fathers, for ever and ever.";
    const Tokens tokens = must(generator.tokenize(text)), head = must(generator.tokenize(""));
    REQUIRE(head.size() == 1);
    REQUIRE((tokens.size() > 34 && tokens[0] == head[0]));
    const auto found = must(generator.score({{text}}, {.stride = 10}))[0].log_probs;
    REQUIRE(found.size() + 1 == tokens.size());
    for (const api::ScoreWindow& window : api::score_windows(tokens.size(), 1, 24, 10)) {
        CAPTURE(window.begin);
        Tokens read;
        if (window.begin > 0) read = head;
        const std::size_t own = read.size();
        read.insert(read.end(), tokens.begin() + static_cast<std::ptrdiff_t>(window.begin),
                    tokens.begin() + static_cast<std::ptrdiff_t>(window.end));
        const auto expected = must(generator.score_tokens({{read}}))[0].log_probs;
        for (std::size_t i = window.first; i < window.end; ++i)
            CHECK(found[i - 1].chosen.log_prob ==
                  Approx(expected[own + i - window.begin - 1].chosen.log_prob).margin(1e-4));
    }
}

TEST_CASE("a context that leaves windows no room is refused", "[api][score][errors]") {
    Generator generator = load_scoring("cpu", {.context = 2});
    const Tokens text(9, 7);
    CHECK(must(generator.score_tokens({{text}}, {.stride = 1}))[0].log_probs.size() == 8);
    Generator least = load_scoring("cpu", {.context = 1});
    check_refused(least.score_tokens({{text}}, {.stride = 1}), ErrorCode::InvalidArgument, "no room for windows");
}

TEST_CASE("a translation's score is that of the search that found it", "[api][score][golden]") {
    const std::string device = GENERATE(from_range(device_names()));
    CAPTURE(device);
    const std::vector<std::string> texts = {"Donnerstag, den 4. März 2021", "March 4, 2021", "le 1er mai 1968"};
    Translator translator = load_translating(kDates, {.device = device, .beams = 4});
    const auto found = must(translator.translate(texts));
    std::vector<TranslatedText> given;
    for (std::size_t i = 0; i < texts.size(); ++i) given.push_back({texts[i], found[i].text});
    given.push_back({texts[0], "2021-04-03"});
    given.push_back({texts[0], ""});
    const std::uint64_t weights = translator.memory().weights;
    const auto scores = must(translator.score(given, 1));
    CHECK(translator.memory().weights <= weights + weights / 4);  // they are not there twice
    for (std::size_t i = 0; i < texts.size(); ++i) {
        CAPTURE(texts[i]);
        CHECK(scores[i].tokens == found[i].tokens);
        const auto length = static_cast<double>(scores[i].log_probs.size());
        CHECK(scores[i].sum() / length == Approx(*found[i].score).epsilon(1e-3).margin(1e-6));
        for (const StepLogProbs& step : scores[i].log_probs) CHECK(step.likeliest[0].token == step.chosen.token);
    }
    CHECK(scores[3].sum() < scores[0].sum() - 5);
    CHECK(scores[4].tokens.size() == 2);
    check_refused(translator.score({{{.text = " ", .translation = "2021"}}}), ErrorCode::InvalidArgument,
                  "text 1: it is blank");
    check_refused(translator.score({{{.text = "a", .translation = "2021"}, {.text = "a", .translation = "猫"}}}),
                  ErrorCode::InvalidArgument, "text 2: its translation has characters that the model does not write");
    check_refused(translator.score({{{.text = "a", .translation = std::string(2000, '2')}}}),
                  ErrorCode::InvalidArgument, "the model writes at most");
    CHECK(must(translator.score({})).empty());
}

TEST_CASE("a model of many languages scores what it writes, and goes on another way", "[api][score][languages]") {
    std::ifstream file(goldens_dir() / "nllb_texts" / "golden.json");
    std::size_t checked = 0;
    for (const json& entry : json::parse(file)) {
        const std::string text = entry["text"], translation = entry["translation"];
        Translator translator =
            load_translating(goldens_dir() / "nllb_texts",
                             {.device = "cpu", .beams = 1, .max_length = 14, .from = entry["from"], .to = entry["to"]});
        const auto scores = must(translator.score({{{text, translation}}}))[0];
        const Tokens tokens = entry["tokens"];
        // Some translations are not how the tokenizer would have written their texts, or were cut off.
        if (scores.tokens != tokens) continue;
        ++checked;
        const auto ways = must(translator.alternatives({.text = text, .prefix = ""}, 3));
        REQUIRE(ways.size() == 3);
        for (const Alternative& way : ways) {
            CHECK(way.translation.tokens.at(1) == tokens[1]);  // the language's
            CHECK(way.translation.tokens.at(2) == way.next.token);
        }
        if (entry["beams"] == 1) CHECK(ways[0].translation.tokens == tokens);
        if (entry["beams"] == 1)
            CHECK(scores.log_probs[1].chosen.log_prob == Approx(ways[0].next.log_prob).margin(1e-5));
        const Tokens blank = must(translator.score({{{text, ""}}}))[0].tokens;
        CHECK(blank == Tokens{tokens[0], tokens[1], tokens[0]});  // start, language and end: 2, its own, and 2
    }
    CHECK(checked >= 5);
}

TEST_CASE("a translation goes on with each of the likeliest tokens", "[api][score][prefix]") {
    const std::string device = GENERATE(from_range(device_names()));
    const std::uint32_t beams = GENERATE(1u, 3u);
    CAPTURE(device, beams);
    if (!takes_case(device, 2)) return;
    Translator translator = load_translating(kDates, {.device = device, .beams = beams});
    const std::string day = "Donnerstag, den 4. März 2021";
    const auto ways = must(translator.alternatives({.text = day, .prefix = "2021-0"}, 5));
    REQUIRE(ways.size() == 5);
    CHECK(ways[0].piece == "3");
    CHECK(ways[0].translation.text == "2021-03-04");
    for (std::size_t i = 0; i < ways.size(); ++i) {
        CAPTURE(i, ways[i].piece);
        CHECK((i == 0 || ways[i].next.log_prob <= ways[i - 1].next.log_prob));
        CHECK(ways[i].translation.tokens.at(7) == ways[i].next.token);
        CHECK(ways[i].translation.score.has_value() == (beams > 1));
        const std::string prefix = "2021-0" + ways[i].piece;
        const PrefixedText same = {.text = day, .prefix = prefix};
        const Translation expected = must(translator.translate({&same, 1}))[0];
        CHECK(ways[i].translation.text == expected.text);
    }
    // Where the translation ends, that is one way.
    const auto ends = must(translator.alternatives({.text = day, .prefix = "2021-03-04"}, 2));
    CHECK(ends[0].translation.text == "2021-03-04");
    CHECK(ends[0].next.token == ends[0].translation.tokens.back());
    CHECK(ends[0].next.log_prob > -0.1f);
    CHECK(ends[1].translation.text.size() > 10);
    // Nothing is generated, so there is nothing to begin with.
    Translator fresh = load_translating(kDates, {.device = device, .beams = beams});
    CHECK(must(fresh.alternatives({.text = day, .prefix = "2021-03-04"}, 1))[0].translation.tokens ==
          ends[0].translation.tokens);
    // Where there is room for that token alone, all are whole.
    Translator brief = load_translating(kDates, {.device = device, .beams = beams, .max_length = 7});
    const auto last = must(brief.alternatives({.text = day, .prefix = "2021-0"}, 2));
    CHECK((last[0].translation.text == "2021-03" && last[1].translation.tokens.size() == 8));
    check_refused(translator.alternatives({.text = day, .prefix = ""}, 0), ErrorCode::InvalidArgument, "1 to 20");
    check_refused(translator.alternatives({.text = day, .prefix = ""}, 21), ErrorCode::InvalidArgument, "1 to 20");
    check_refused(translator.alternatives({.text = " ", .prefix = ""}, 2), ErrorCode::InvalidArgument, "blank");
}

TEST_CASE("no alternative is what the model's files forbid", "[api][score][rules]") {
    const TemporaryFolder folder;
    std::filesystem::copy(kDates, folder / "model");
    const auto with = [&](const json& fields) {
        std::ifstream file(kDates / "generation_config.json");
        json config = json::parse(file);
        config.update(fields);
        std::ofstream(folder / "model" / "generation_config.json") << config.dump();
        return load_translating(folder / "model", {.device = "cpu", .beams = 1});
    };
    const std::string day = "4. März 2021";
    const PrefixedText whole = {.text = day, .prefix = "2021-03-04"};
    Translator plain = with(json::object());
    const auto ways = must(plain.alternatives(whole, 3));
    const std::int32_t end = ways[0].next.token, second = ways[1].next.token;
    Translator banning = with({{"bad_words_ids", {{second}}}});
    const auto banned = must(banning.alternatives(whole, 3));
    CHECK(banned[0].next.token == end);
    CHECK(banned[1].next.token == ways[2].next.token);
    Translator longer = with({{"min_length", 20}});
    CHECK(must(longer.alternatives(whole, 3))[0].next.token == second);
    Translator phrases = with({{"bad_words_ids", {{second, second}}}});
    check_refused(phrases.alternatives(whole, 3), ErrorCode::UnsupportedConfig, "bad_words_ids");
    Translator biased = with({{"sequence_bias", {{{second}, 1.0}}}});
    check_refused(biased.alternatives(whole, 3), ErrorCode::UnsupportedConfig, "sequence_bias");
    for (const char* const field : {"no_repeat_ngram_size", "encoder_no_repeat_ngram_size"}) {
        Translator once = with({{field, 2}});
        check_refused(once.alternatives(whole, 3), ErrorCode::UnsupportedConfig, field);
    }
}

}  // namespace vkformer::tests
