// SPDX-License-Identifier: MIT
// Translations whose beginning is given: generate() with decoder_input_ids (tests/goldens/make_prefixes.py).
#include <map>
#include <vector>

#include <nlohmann/json.hpp>

#include "decoding/generate_case.hpp"
#include "decoding/session.hpp"
#include "models/open_model.hpp"
#include "support/backends.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"
#include "vkformer/translator.hpp"

namespace vkformer::tests {
namespace {

models::GenerationConfig generation_of(const json& options, const std::filesystem::path& folder,
                                       const models::EncoderDecoder::Limits& limits) {
    json config = read_json(folder / "generation_config.json");
    for (const char* forced : {"forced_bos_token_id", "forced_eos_token_id", "bad_words_ids"}) config.erase(forced);
    config.update(options);
    return must(models::parse_generation_config(must(formats::Config::parse(config.dump(), "generation_config.json")),
                                                models::GenerationSource::generation_config, limits.target_len,
                                                limits.target_vocab));
}

}  // namespace

TEST_CASE("a translation goes on from its prefix as generate() does", "[decoding][golden][prefix]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const bool is_cpu = backend.name().starts_with("CPU (");
    const json all = read_json(goldens_dir() / "prefixes.json");
    REQUIRE(all.size() >= 25);
    std::size_t index = 0;
    for (const json& group : all) {
        const std::string name = group["model"];
        if (!is_cpu && index++ % 5 != 1 && index % 5 != 4) continue;  // the rules of greedy ones, and of a search
        const auto folder = goldens_dir() / name;
        const auto model = must(models::load_encoder_decoder(folder));
        const json& entries = group["entries"];
        CAPTURE(backend.name(), name, entries[0]["options"].dump());
        auto session = must(decoding::Session::create(
            backend, *model,
            {.generation = generation_of(entries[0]["options"], folder, model->limits()), .batch = 2}));
        // All together, with prefixes of several lengths and without one.
        std::vector<std::vector<std::int32_t>> sources, prefixes;
        for (const json& entry : entries) {
            sources.push_back(entry["source"]);
            prefixes.push_back(entry["prefix"]);
        }
        std::vector<decoding::Source> given;
        for (std::size_t i = 0; i < sources.size(); ++i)
            given.push_back({.tokens = sources[i], .visible = {}, .prefix = prefixes[i]});
        given.push_back({.tokens = sources[0]});
        const auto found = must(session.generate(given));
        for (std::size_t i = 0; i < entries.size(); ++i) {
            CAPTURE(i);
            CHECK(found[i].tokens == entries[i]["tokens"].get<std::vector<std::int32_t>>());
            if (entries[i].contains("score"))
                CHECK(*found[i].score == Approx(entries[i]["score"].get<double>()).epsilon(1e-4).margin(1e-4));
        }
        const auto alone = must(session.generate(std::span(given).last(1)));
        CHECK(found.back().tokens == alone[0].tokens);
    }
}

TEST_CASE("rows of a batch have prefixes of their own", "[decoding][prefix]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto model = must(models::load_encoder_decoder(goldens_dir() / "marian/relu_d30_h5_h3"));
    const std::uint32_t beams = GENERATE(1u, 3u);
    CAPTURE(backend.name(), beams);
    const models::GenerationConfig generation = {
        .decoder_start = 52, .eos = 0, .pad = 52, .beams = beams, .max_steps = 9, .no_repeat_ngram = 3};
    const std::vector<std::vector<std::int32_t>> sources = {{5, 6, 7}, {30, 8}, {5, 6, 7}},
                                                 prefixes = {{7, 8}, {40, 12}, {22, 3}};
    std::vector<decoding::Source> given;
    for (std::size_t i = 0; i < sources.size(); ++i)
        given.push_back({.tokens = sources[i], .visible = {}, .prefix = prefixes[i]});
    auto together = must(decoding::Session::create(backend, *model, {.generation = generation, .batch = 4})),
         alone = must(decoding::Session::create(backend, *model, {.generation = generation, .batch = 1}));
    const auto found = must(together.generate(given));
    for (std::size_t i = 0; i < given.size(); ++i) {
        const auto one = must(alone.generate({&given[i], 1}));
        CHECK(found[i].tokens == one[0].tokens);
        CHECK(std::ranges::equal(std::span(found[i].tokens).subspan(1, 2), prefixes[i]));
    }
    CHECK(found[0].tokens != found[2].tokens);
}

TEST_CASE("rows of a batch begin with tokens of their own, as the one that all are forced to", "[decoding][prefix]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto model = must(models::load_encoder_decoder(goldens_dir() / "marian/relu_d30_h5_h3"));
    const std::uint32_t beams = GENERATE(1u, 3u);
    const bool has_bans = GENERATE(false, true);
    CAPTURE(backend.name(), beams, has_bans);
    models::GenerationConfig generation = {.decoder_start = 52,
                                           .eos = 0,
                                           .pad = 52,
                                           .beams = beams,
                                           .max_steps = 8,
                                           .length_penalty = 1.5,
                                           .no_repeat_ngram = 2};
    generation.rules.forced_first = 9;
    generation.rules.forced_last = 0;
    if (has_bans) generation.rules.banned_first = {20, 21, 22, 23, 24, 25, 26};
    const std::vector<std::vector<std::int32_t>> sources = {{5, 6, 7}, {30, 8}, {5, 6, 7}, {5, 6, 7}};
    const std::vector<std::int32_t> starts = {52, 51, 52, -1}, firsts = {9, 7, 40, -1};
    std::vector<decoding::Source> given;
    for (std::size_t i = 0; i < sources.size(); ++i)
        given.push_back({.tokens = sources[i], .start = starts[i], .first = firsts[i]});
    auto together =
        must(decoding::Session::create(backend, *model, {.generation = generation, .batch = 4, .hypotheses = beams}));
    const auto found = must(together.generate(given));
    for (std::size_t i = 0; i < given.size(); ++i) {
        models::GenerationConfig own = generation;
        if (starts[i] >= 0) own.decoder_start = starts[i];
        if (firsts[i] >= 0) own.rules.forced_first = firsts[i];
        auto alone = must(decoding::Session::create(backend, *model, {.generation = own, .hypotheses = beams}));
        const decoding::Source plain = {.tokens = sources[i]};
        const auto one = must(alone.generate({&plain, 1}));
        CAPTURE(i);
        CHECK(found[i].tokens == one[0].tokens);
        CHECK(found[i].tokens[0] == own.decoder_start);
        CHECK(found[i].tokens[1] == own.rules.forced_first);
        REQUIRE(found[i].further.size() == one[0].further.size());
        for (const auto& next : found[i].further) CHECK(next.tokens[1] == own.rules.forced_first);
        if (beams > 1) CHECK(*found[i].score == Approx(*one[0].score).epsilon(1e-5));
    }
    CHECK(found[0].tokens == found[3].tokens);
}

TEST_CASE("a forced first token may be all there is", "[decoding][prefix]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto model = must(models::load_encoder_decoder(goldens_dir() / "marian/relu_d30_h5_h3"));
    const std::uint32_t beams = GENERATE(1u, 3u);
    CAPTURE(backend.name(), beams);
    const std::vector<std::int32_t> source = {5, 6, 7};
    const auto tokens_of = [&](std::int32_t first, std::int32_t last, std::uint32_t max_steps) {
        models::GenerationConfig generation = {
            .decoder_start = 52, .eos = 0, .pad = 52, .beams = beams, .max_steps = max_steps};
        generation.rules.forced_first = first;
        generation.rules.forced_last = last;
        auto session = must(decoding::Session::create(backend, *model, {.generation = generation, .batch = 2}));
        const decoding::Source given = {.tokens = source};
        auto found = must(session.generate({&given, 1}));
        CHECK(found[0].score.has_value() == (beams > 1));
        return found[0].tokens;
    };
    using Tokens = std::vector<std::int32_t>;
    CHECK(tokens_of(9, -1, 1) == Tokens{52, 9});
    CHECK(tokens_of(9, 11, 1) == Tokens{52, 11});
    CHECK(tokens_of(0, -1, 5) == Tokens{52, 0});
    CHECK(tokens_of(9, 11, 2) == Tokens{52, 9, 11});
}

TEST_CASE("beginnings that do not fit are refused", "[decoding][prefix][errors]") {
    graph::Backend& backend = *test_backends().front();
    const auto model = must(models::load_encoder_decoder(goldens_dir() / "marian/relu_d30_h5_h3"));
    models::GenerationConfig generation = {.decoder_start = 52, .eos = 0, .pad = 52, .max_steps = 4};
    const std::vector<std::int32_t> source = {5, 6}, prefix = {7};
    const auto error_of = [&](decoding::Source given) {
        given.tokens = source;
        auto session = must(decoding::Session::create(backend, *model, {.generation = generation}));
        const auto found = session.generate({&given, 1});
        return found ? "" : found.error().message;
    };
    using Catch::Matchers::ContainsSubstring;
    CHECK_THAT(error_of({.first = 7}), ContainsSubstring("not forced to begin with any"));
    generation.rules.forced_first = 9;
    CHECK(error_of({.first = 7}).empty());
    CHECK_THAT(error_of({.first = 53}), ContainsSubstring("its first token"));
    CHECK_THAT(error_of({.start = 53}), ContainsSubstring("its start"));
    CHECK_THAT(error_of({.first = 7, .prefix = prefix}), ContainsSubstring("cannot both be given"));
}

TEST_CASE("prefixes that do not fit are refused", "[decoding][prefix][errors]") {
    graph::Backend& backend = *test_backends().front();
    const auto model = must(models::load_encoder_decoder(goldens_dir() / "marian/relu_d30_h5_h3"));
    models::GenerationConfig generation = {.decoder_start = 52, .eos = 0, .pad = 52, .max_steps = 4};
    const std::vector<std::int32_t> source = {5, 6}, longest = {7, 8, 9}, too_long = {7, 8, 9, 10}, unknown = {53};
    const auto error_of = [&](std::span<const std::int32_t> prefix) {
        auto session = must(decoding::Session::create(backend, *model, {.generation = generation}));
        const decoding::Source given = {.tokens = source, .visible = {}, .prefix = prefix};
        const auto found = session.generate({&given, 1});
        return found ? "" : found.error().message;
    };
    CHECK(error_of(longest).empty());
    CHECK_THAT(error_of(too_long), Catch::Matchers::ContainsSubstring("its prefix has 4 tokens, and the target has at most 4"));
    CHECK_THAT(error_of(unknown), Catch::Matchers::ContainsSubstring("its prefix"));
    generation.rules.banned_first = {11};
    CHECK(error_of({}).empty());
    CHECK_THAT(error_of(longest), Catch::Matchers::ContainsSubstring("begin_suppress_tokens"));
}

TEST_CASE("texts go on from texts, in languages and in recurrent models too", "[decoding][prefix][api]") {
    const auto dates = std::filesystem::path(VKFORMER_SOURCE_DIR) / "samples/models/date-normalizer";
    const std::string day = "Donnerstag, den 4. März 2021";
    for (const std::uint32_t beams : {1u, 4u}) {
        Translator translator = must(Translator::load(dates, {.device = "cpu", .beams = beams, .plain_shaders = true}));
        const std::vector<PrefixedText> texts = {
            {day, "2021-"}, {day, ""}, {"", "2021"}, {day, "1999-03"}, {day, "19"}};
        const auto found = must(translator.translate(texts));
        CHECK(found[0].text == "2021-03-04");
        CHECK(found[1].text == "2021-03-04");
        CHECK(found[2].text.empty());
        CHECK(found[3].text.starts_with("1999-03"));
        CHECK(found[4].text.starts_with("19"));
        CHECK(found[0].tokens == must(translator.translate(std::span(&day, 1)))[0].tokens);
        CHECK_THAT(translator.check(PrefixedText{day, "日本"}).error().message,
                   Catch::Matchers::ContainsSubstring("characters that the model does not write"));
        CHECK(must(translator.translate(std::vector<PrefixedText>{{day, " "}}))[0].text == "2021-03-04");
        const std::string endless(400, '1');
        CHECK_THAT(translator.check(PrefixedText{day, endless}).error().message,
                   Catch::Matchers::ContainsSubstring("its prefix has"));
    }
    // A stop string of the prefix ends nothing.
    const TemporaryFolder folder;
    for (const auto& file : std::filesystem::directory_iterator(dates))
        std::filesystem::copy_file(file.path(), folder.path() / file.path().filename());
    json config = read_json(dates / "generation_config.json");
    config.update({{"stop_strings", {"-"}}, {"num_beams", 1}});
    folder.write("generation_config.json", config.dump());
    Translator stopped = must(Translator::load(folder.path(), {.device = "cpu", .plain_shaders = true}));
    const std::vector<PrefixedText> begun = {{day, "2021-"}, {day, ""}};
    const auto ended = must(stopped.translate(begun));
    CHECK(ended[0].text == "2021-03");
    CHECK(ended[1].text == "2021");
    // What a model of many languages begins with comes before the prefix.
    const json languages = read_json(goldens_dir() / "nllb_texts/golden.json");
    for (const json& entry : languages) {
        Translator translator = must(Translator::load(
            goldens_dir() / "nllb_texts",
            {.device = "cpu", .beams = 1, .from = entry["from"], .to = entry["to"], .plain_shaders = true}));
        const std::string text = entry["text"];
        const Translation whole = must(translator.translate(std::span(&text, 1)))[0];
        const PrefixedText again = {text, whole.text.substr(0, whole.text.find(' '))};
        CHECK(must(translator.translate(std::span(&again, 1)))[0].tokens == whole.tokens);
    }
    const auto history = std::filesystem::path(VKFORMER_SOURCE_DIR) / "samples/models/history/date";
    for (const auto& model : std::filesystem::directory_iterator(history)) {
        if (!model.is_directory()) continue;
        CAPTURE(model.path().string());
        Translator translator =
            must(Translator::load(model.path(), {.device = "cpu", .beams = 1, .plain_shaders = true}));
        const std::string text = "March 4, 2021";
        const Translation whole = must(translator.translate(std::span(&text, 1)))[0];
        const PrefixedText again = {text, whole.text.substr(0, 3)};
        CHECK(must(translator.translate(std::span(&again, 1)))[0].tokens == whole.tokens);
    }
}

}  // namespace vkformer::tests
