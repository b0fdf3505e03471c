// SPDX-License-Identifier: MIT
// Beam search with decoder-only models, against transformers' generate() and against itself.
#include "decoding/beam_session.hpp"

#include <cstdlib>
#include <limits>

#include "cpu/backend.hpp"
#include "decoding/generate_case.hpp"
#include "models/decoder_case.hpp"
#include "models/tiny_llama.hpp"
#include "support/backends.hpp"
#include "support/temporary_folder.hpp"
#include "vkformer/generator.hpp"

namespace vkformer::tests {
namespace {

using decoding::BeamResult;
using decoding::BeamRules;
using decoding::BeamSession;
using decoding::DecoderSession;
using decoding::DecoderSessionOptions;
using decoding::FinishReason;
using decoding::Request;
using models::CacheFormat;

/// A call of generate() and what it returned.
struct BeamGolden {
    Request request;
    BeamRules rules;
    decoding::Penalties penalties;
    std::vector<std::int32_t> continuation;
    double score = 0;
};

BeamGolden read_golden(const json& entry) {
    const json& options = entry["options"];
    BeamGolden golden;
    golden.request.prompt = entry["prompt"].get<std::vector<std::int32_t>>();
    golden.request.max_tokens = options["max_new_tokens"].get<std::uint32_t>();
    golden.request.stop_tokens = options.value("eos_token_id", std::vector<std::int32_t>());
    golden.rules.beams = options["num_beams"].get<std::uint32_t>();
    golden.rules.length_penalty = options.value("length_penalty", 1.0f);
    if (options.contains("early_stopping"))
        golden.rules.early_stopping =
            options["early_stopping"] == "never" ? graph::EarlyStopping::never : graph::EarlyStopping::always;
    golden.penalties = {.repetition = options.value("repetition_penalty", 1.0f),
                        .no_repeat_ngram = options.value("no_repeat_ngram_size", 0u),
                        .min_tokens = options.value("min_new_tokens", 0u),
                        .ends = golden.request.stop_tokens};
    golden.continuation = entry["continuation"].get<std::vector<std::int32_t>>();
    golden.score = entry["score"].get<double>();
    return golden;
}

std::vector<std::string> beam_cases() {
    std::vector<std::string> names;
    for (const std::string& name : decoder_cases())
        if (std::filesystem::exists(goldens_dir() / "decoders" / name / "beams.json")) names.push_back(name);
    REQUIRE(names.size() >= 3);
    return names;
}

BeamResult search(graph::Backend& backend, const models::Decoder& model, const BeamGolden& golden,
                  DecoderSessionOptions options = {.context = 64, .chunk = 16}) {
    options.penalties = golden.penalties;
    auto session = must(BeamSession::create(backend, model, options, golden.rules));
    return must(session.run({&golden.request, 1}))[0];
}

TEST_CASE("beam searches find what Hugging Face's generate finds", "[decoding][decoder][beam][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE(from_range(beam_cases()));
    CAPTURE(backend.name(), name);
    if (!takes_case(backend, 2)) return;
    const models::Decoder model = load_decoder_case(name);
    const json entries = read_json(goldens_dir() / "decoders" / name / "beams.json");
    const bool is_cpu = cast_to<const vulkan::VulkanBackend>(&backend) == nullptr;
    // On devices, which compile a program for each: an early stop, and all rules on tokens with two ends.
    const std::size_t stride = is_cpu || std::getenv("VKFORMER_TEST_THOROUGH") ? 1 : 3;
    for (std::size_t i = stride - 1; i < entries.size(); i += stride) {
        const BeamGolden golden = read_golden(entries[i]);
        CAPTURE(golden.rules.beams, golden.request.prompt);
        const BeamResult found = search(backend, model, golden);
        CHECK(found.best.tokens == golden.continuation);
        CHECK(found.best.score == Approx(golden.score).epsilon(1e-4));
        const auto& ends = golden.request.stop_tokens;
        const bool is_end = std::ranges::count(ends, golden.continuation.back()) > 0;
        CHECK(found.finish == (is_end ? FinishReason::stop : FinishReason::length));
    }
}

TEST_CASE("a search with a cache of q8_0 finds what the oracle with one finds", "[decoding][beam][q8_0]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const TemporaryFolder folder;
    write_tiny_llama(folder.path(), {});
    const models::Decoder model = must(models::load_decoder(folder.path()));
    const auto oracle = cpu::make_cpu_backend<double>();
    const BeamGolden golden{.request = {.prompt = prompt_of(21), .max_tokens = 9},
                            .rules = {.beams = 3},
                            .penalties = {},
                            .continuation = {}};
    const DecoderSessionOptions options{.context = 48, .chunk = 16, .cache = CacheFormat::q8_0};
    const BeamResult expected = search(*oracle, model, golden, options),
                     found = search(backend, model, golden, options);
    CHECK(found.best.tokens == expected.best.tokens);
    CHECK(found.best.score == Approx(expected.best.score).epsilon(2e-3));
}

TEST_CASE("one prompt after the other is searched as alone, and beginnings are reused", "[decoding][beam]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const models::Decoder model = load_decoder_case("gpt2");
    const BeamRules rules{.beams = 3};
    const DecoderSessionOptions options{.context = 32, .chunk = 16};
    std::vector<Request> requests;
    for (const std::size_t length : {30u, 4u, 17u})
        requests.push_back({.prompt = prompt_of(length), .max_tokens = length == 4 ? 6u : 0u});
    auto together = must(BeamSession::create(backend, model, options, rules));
    const auto results = must(together.run(requests));
    for (std::size_t i = 0; i < requests.size(); ++i) {
        CAPTURE(i);
        auto alone = must(BeamSession::create(backend, model, options, rules));
        const auto expected = must(alone.run({&requests[i], 1}))[0];
        CHECK(results[i].best.tokens == expected.best.tokens);
        CHECK(results[i].best.score == Approx(expected.best.score).epsilon(1e-5));
        CHECK(expected.reused == 0);
    }
    // The prompts begin alike: what the first row has of one serves the next.
    CHECK(results[1].reused == 3);
    CHECK(results[2].reused == 4);
    CHECK(results[0].best.tokens.size() == 3);  // 30 tokens and the keys of two more fill the context
    CHECK(results[0].finish == FinishReason::context);
    CHECK(results[1].finish == FinishReason::length);

    // Nothing is known of an answer: the row that found it may be any.
    Request longer = requests[1];
    longer.prompt.insert(longer.prompt.end(), results[1].best.tokens.begin(), results[1].best.tokens.begin() + 3);
    must(together.run({&requests[1], 1}));
    const auto continued = must(together.run({&longer, 1}))[0];
    CHECK(continued.reused == requests[1].prompt.size());
    auto alone = must(BeamSession::create(backend, model, options, rules));
    CHECK(continued.best.tokens == must(alone.run({&longer, 1}))[0].best.tokens);
}

TEST_CASE("a search may be told other rules on tokens, run after run", "[decoding][beam]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const models::Decoder model = load_decoder_case("gpt2");
    const Request request{.prompt = prompt_of(9), .max_tokens = 10};
    auto session = must(BeamSession::create(backend, model, {.context = 32, .chunk = 16}, {.beams = 4}));
    const auto free = must(session.run({&request, 1}))[0].best;
    const std::int32_t banned = free.tokens[0];
    must(session.set_penalties({.no_repeat_ngram = 1, .bias = {{banned, -std::numeric_limits<float>::infinity()}}}));
    auto ruled = must(session.run({&request, 1}))[0].best.tokens;
    CHECK(std::ranges::count(ruled, banned) == 0);
    ruled.insert(ruled.end(), request.prompt.begin(), request.prompt.end());
    std::ranges::sort(ruled);
    std::vector<std::int32_t> prompt = request.prompt;
    std::ranges::sort(prompt);
    const auto repeated = [](const std::vector<std::int32_t>& tokens) {
        return static_cast<std::size_t>(std::ranges::distance(std::ranges::adjacent_find(tokens), tokens.end()));
    };
    if (repeated(prompt) == 0) CHECK(repeated(ruled) == 0);
    must(session.set_penalties({}));
    CHECK(must(session.run({&request, 1}))[0].best.tokens == free.tokens);
    CHECK_FALSE(session.set_penalties({.bias = {{61, 1.0f}}}));
}

TEST_CASE("searches that cannot be are refused with what to do", "[decoding][beam][errors]") {
    graph::Backend& backend = *test_backends().front();
    const models::Decoder model = load_decoder_case("gpt2");
    const auto refused = [&](const DecoderSessionOptions& options, const BeamRules& rules, const std::string& what) {
        const auto session = BeamSession::create(backend, model, options, rules);
        REQUIRE_FALSE(session);
        CAPTURE(session.error().message);
        CHECK(session.error().code == ErrorCode::InvalidArgument);
        CHECK(session.error().message.find(what) != std::string::npos);
    };
    refused({.context = 32}, {.beams = 1}, "takes 2 to 32");
    refused({.context = 32}, {.beams = 33}, "33 beams");
    refused({.rows = 2, .context = 32}, {}, "one by one");
    refused({.context = 32, .sample = {.temperature = 1}}, {}, "temperature must be 0");
    refused({.context = 97}, {}, "at most 96");

    const auto hybrid = BeamSession::create(backend, load_decoder_case("lfm2"), {.context = 32}, {});
    REQUIRE_FALSE(hybrid);
    CHECK(hybrid.error().message.find("keep a state of each sequence") != std::string::npos);
    CHECK(hybrid.error().hint == Hint::beams);

    auto session = must(BeamSession::create(backend, model, {.context = 32}, {.beams = 32}));
    const auto run = [&](const Request& request) {
        const auto results = session.run({&request, 1});
        REQUIRE_FALSE(results);
        return results.error().message;
    };
    CHECK(run({.prompt = {}}) == "prompt 1 has no tokens");
    CHECK(run({.prompt = {61}}).find("token 61") != std::string::npos);
    CHECK(run({.prompt = {1}, .stop_tokens = {1, 2, 3, 4}}).find("at most 25") != std::string::npos);
}

TEST_CASE("a generator searches with beams, as its options and its folder say", "[api][beam]") {
    const std::vector<std::string> prompts = {"a", "the cat"};
    const auto folder = goldens_dir() / "decoder_text";
    auto greedy = must(Generator::load(folder, {.device = "cpu", .beam_search = {.beams = 1}}));
    auto beams = must(Generator::load(folder, {.device = "cpu", .beam_search = {.beams = 3, .length_penalty = 0.5f}}));
    std::vector<std::string> told(2);
    std::size_t calls = 0;
    const auto on_text = [&](std::size_t index, std::string_view text, std::int32_t token) {
        CHECK(token == -1);
        told[index] += text;
        ++calls;
        return true;
    };
    const auto found = must(beams.generate(prompts, {.max_tokens = 8}, on_text));
    const auto likely = must(greedy.generate(prompts, {.max_tokens = 8}));
    CHECK(calls <= 2);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
        CHECK(told[i] == found[i].text);
        CHECK(found[i].score.has_value());
        CHECK_FALSE(likely[i].score.has_value());
    }
    const auto drawn = beams.generate(prompts, {.max_tokens = 8, .sampling = Sampling{.temperature = 1}});
    REQUIRE_FALSE(drawn);
    CHECK(drawn.error().message.find("draws nothing") != std::string::npos);
    const auto stopped = beams.generate(prompts, {.max_tokens = 8, .stop = {"x"}});
    REQUIRE_FALSE(stopped);
    CHECK(stopped.error().message.find("stop texts") != std::string::npos);
    CHECK_FALSE(Generator::load(folder, {.device = "cpu", .batch = 2, .beam_search = {.beams = 3}}));
    CHECK_FALSE(Generator::load(folder, {.device = "cpu", .beam_search = {.beams = 3, .length_penalty = 1e9f}}));

    // What the folder says holds where nothing else is said.
    const TemporaryFolder copy;
    std::filesystem::copy(folder, copy.path(), std::filesystem::copy_options::recursive);
    const auto say = [&](const json& fields) {
        const auto path = copy.path() / "generation_config.json";
        json config = std::filesystem::exists(path) ? read_json(path) : json::object();
        config.update(fields);
        std::ofstream(path) << config;
    };
    say({{"num_beams", 3}, {"length_penalty", 0.5}});
    auto by_folder = must(Generator::load(copy.path(), {.device = "cpu"}));
    const auto same = must(by_folder.generate(prompts, {.max_tokens = 8}));
    for (std::size_t i = 0; i < prompts.size(); ++i) {
        CHECK(same[i].tokens == found[i].tokens);
        CHECK(same[i].score == found[i].score);
    }
    say({{"do_sample", true}});
    const auto both = Generator::load(copy.path(), {.device = "cpu"});
    REQUIRE_FALSE(both);
    CHECK(both.error().hint == Hint::beams);
    CHECK(Generator::load(copy.path(), {.device = "cpu", .beam_search = {.beams = 1}}));
    auto explicitly = must(Generator::load(copy.path(), {.device = "cpu", .beam_search = {.beams = 3}}));
    CHECK(must(explicitly.generate(prompts, {.max_tokens = 8}))[1].tokens == found[1].tokens);
}

}  // namespace
}  // namespace vkformer::tests
