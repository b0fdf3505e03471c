// SPDX-License-Identifier: MIT
#include "decoding/prompt_lookup.hpp"

#include <numeric>

#include "decoding/timed_session.hpp"
#include "support/backends.hpp"
#include "vkformer/generator.hpp"

namespace vkformer::tests {
namespace {

using decoding::DecoderSessionOptions;
using decoding::FinishReason;
using decoding::look_up;
using decoding::Sequence;
using Tokens = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("a text is guessed to go on as it did behind the longest run that it ends with", "[decoding][lookup]") {
    CHECK(look_up(Tokens{}, 4).empty());
    CHECK(look_up(Tokens{1}, 4).empty());
    CHECK(look_up(Tokens{1, 2, 3, 1}, 4).empty());  // one token alone says nothing
    CHECK(look_up(Tokens{1, 2, 3, 4, 1, 2}, 2) == Tokens{3, 4});
    CHECK(look_up(Tokens{1, 2, 3, 4, 1, 2}, 0).empty());
    CHECK(look_up(Tokens{1, 2, 3, 9, 1, 2, 4, 8, 1, 2}, 2) == Tokens{4, 8});           // the latest of equal ones
    CHECK(look_up(Tokens{7, 1, 2, 3, 9, 5, 1, 2, 4, 8, 7, 1, 2}, 2) == Tokens{3, 9});  // a longer run
    CHECK(look_up(Tokens{1, 2, 3, 1, 2}, 7) == Tokens{3, 1, 2, 3, 1, 2, 3});           // beyond the end
    CHECK(look_up(Tokens{4, 6, 6, 6}, 3) == Tokens{6, 6, 6});
    Tokens twice(40);
    std::iota(twice.begin(), twice.end(), 0);
    twice.insert(twice.end(), twice.begin(), twice.begin() + 30);
    CHECK(look_up(twice, 3) == Tokens{30, 31, 32});
}

TEST_CASE("guesses change no token", "[decoding][decoder][lookup]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE("llama_gqa_odd", "gemma3", "mistral_window", "gpt2", "qwen3_moe");
    const float temperature = GENERATE(0.0f, 0.7f);
    const std::uint32_t guesses = GENERATE(3u, 8u);
    if (!takes_case(backend, 3)) return;
    CAPTURE(backend.name(), name, temperature, guesses);
    const models::Decoder model = load_decoder_case(name);
    const std::uint32_t context = model.config().max_positions;
    const Sequence sequence = repeating(name, 24);
    DecoderSessionOptions options = {.context = context, .sample = {.temperature = temperature, .top_k = 2}};
    options.penalties.bias = {{3, -2.0f}};
    options.penalties.rules.banned = {5};
    TimedSession plain(backend, model, options);
    const Tokens expected = plain.run(sequence).tokens;
    REQUIRE(expected.size() == 24);
    CHECK(plain.checks == 0);

    options.guesses = guesses;
    TimedSession guessing(backend, model, options);
    CHECK(guessing.run(sequence).tokens == expected);
    CHECK(guessing.checks > 0);
    const decoding::DecoderTimings& timings = guessing.script.timings();
    CHECK(timings.decode_steps + timings.accepted_tokens == expected.size());
    CHECK(timings.guessed_tokens >= timings.accepted_tokens);
    // What the caches hold of wrong guesses is never looked at.
    const decoding::SequenceResult again = guessing.run(sequence);
    CHECK(again.tokens == expected);
    CHECK(again.reused == sequence.prompt.size() - 1);
    // Other numbers of guesses with the same caches.
    for (const std::uint32_t lookup : {1u, 5u}) {
        must(guessing.script.set_sampling(options.sample, options.penalties, lookup));
        CHECK(guessing.run(sequence).tokens == expected);
        CHECK(guessing.checks > 0);
    }
}

TEST_CASE("a sequence with guesses ends where it is told to", "[decoding][decoder][lookup]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const models::Decoder model = load_decoder_case("phi3");
    TimedSession plain(backend, model, {.context = 96});
    TimedSession guessing(backend, model, {.context = 96, .guesses = 6});
    Sequence sequence = repeating("phi3", 0);

    SECTION("when the context is full") {
        const auto expected = plain.run(sequence), result = guessing.run(sequence);
        CHECK(result.finish == FinishReason::context);
        CHECK(result.tokens == expected.tokens);
    }
    SECTION("after any number of tokens") {
        for (std::uint32_t count = 1; count <= 10; ++count) {
            sequence.max_tokens = count;
            const auto expected = plain.run(sequence), result = guessing.run(sequence);
            CHECK(result.finish == FinishReason::length);
            CHECK(result.tokens == expected.tokens);
        }
    }
    SECTION("at any token that ends it") {
        const auto whole = plain.run(sequence);
        for (std::size_t i = 0; i < 10; ++i) {
            sequence.stop_tokens = {whole.tokens[i]};
            const auto expected = plain.run(sequence), result = guessing.run(sequence);
            CHECK(result.finish == FinishReason::stop);
            CHECK(result.tokens == expected.tokens);
            const decoding::DecoderTimings& timings = guessing.script.timings();
            CHECK(timings.decode_steps + timings.accepted_tokens == result.tokens.size());
        }
    }
    SECTION("when the caller says so, and goes on from there") {
        for (std::size_t count = 1; count <= 10; ++count) {
            std::size_t seen = 0;
            const auto result = guessing.run(sequence, [&](std::size_t, std::int32_t) { return ++seen < count; });
            CHECK(result.finish == FinishReason::caller);
            CHECK(result.tokens.size() == count);
            Sequence onward = sequence;
            onward.prompt.insert(onward.prompt.end(), result.tokens.begin(), result.tokens.end());
            CHECK(guessing.run(onward).tokens == plain.run(onward).tokens);
        }
    }
}

TEST_CASE("a check that was stopped leaves nothing behind", "[decoding][decoder][lookup]") {
    graph::Backend& backend = *test_backends().front();
    const models::Decoder model = load_decoder_case("llama_gqa_odd");
    const Sequence sequence = repeating("llama_gqa_odd", 24);
    TimedSession plain(backend, model, {.context = model.config().max_positions});
    TimedSession guessing(backend, model, {.context = model.config().max_positions, .guesses = 3});
    guessing.stops = true;
    CHECK(guessing.run(sequence).tokens.size() < 24);
    guessing.stops = false;
    const Sequence another = {.prompt = {3, 1, 4}, .max_tokens = 12};  // of which nothing is guessed at first
    CHECK(guessing.run(another).tokens == plain.run(another).tokens);
    CHECK(guessing.run(sequence).tokens == plain.run(sequence).tokens);
}

TEST_CASE("guesses that cost too much end, and the text stays", "[decoding][decoder][lookup]") {
    graph::Backend& backend = *test_backends().front();
    const models::Decoder model = load_decoder_case("llama_gqa_odd");
    TimedSession guessing(backend, model, {.context = model.config().max_positions, .guesses = 3});
    guessing.check_seconds = 1000;
    const auto result = guessing.run(repeating("llama_gqa_odd", 24));
    CHECK(guessing.checks == 2);  // one that is not counted, and one that was too long
    TimedSession plain(backend, model, {.context = model.config().max_positions});
    CHECK(result.tokens == plain.run(repeating("llama_gqa_odd", 24)).tokens);
}

TEST_CASE("what guesses cannot go with is refused by name", "[decoding][lookup][errors]") {
    const models::Decoder model = load_decoder_case("llama_gqa_odd");
    const auto message = [&](const DecoderSessionOptions& options) {
        const auto checked = decoding::checked_options(model, options);
        REQUIRE_FALSE(checked);
        CHECK(checked.error().code == ErrorCode::InvalidArgument);
        return checked.error().message;
    };
    DecoderSessionOptions options = {.guesses = 65};
    CHECK(message(options).find("at most 64") != std::string::npos);
    options.guesses = 4;
    CHECK(decoding::checked_options(model, options));
    options.rows = 2;
    CHECK(message(options).find("one sequence at a time") != std::string::npos);
    options.rows = 1;
    const auto with = [&](auto change) {
        DecoderSessionOptions changed = options;
        change(changed.penalties);
        return message(changed);
    };
    CHECK(with([](auto& p) { p.repetition = 1.1f; }).find("repetition") != std::string::npos);
    CHECK(with([](auto& p) { p.no_repeat_ngram = 2; }).find("n-grams") != std::string::npos);
    CHECK(with([](auto& p) {
              p.min_tokens = 2;
              p.ends = {1};
          }).find("least number") != std::string::npos);
    CHECK(with([](auto& p) { p.rules.banned_words = {{1, 2}}; }).find("several tokens") != std::string::npos);
    CHECK(with([](auto& p) { p.rules.forced_last = 2; }).find("forced last") != std::string::npos);

    const auto hybrid = decoding::checked_options(load_decoder_case("qwen3_5"), options);
    REQUIRE_FALSE(hybrid);
    CHECK(hybrid.error().message.find("keep a state of the sequence") != std::string::npos);

    const std::vector<Tokens> prompts = {{1, 2, 3}};
    auto generator = must(Generator::load(goldens_dir() / "decoders/llama_gqa_odd", {.device = "cpu"}));
    CHECK(generator.generate_tokens(prompts, {.max_tokens = 3, .prompt_lookup = 4}));
    const auto refused = [&](GenerateOptions asked) {
        const auto made = generator.generate_tokens(prompts, asked);
        REQUIRE_FALSE(made);
        return made.error().message;
    };
    CHECK(refused({.sampling = Sampling{.presence_penalty = 1}, .prompt_lookup = 4}).find("presence") !=
          std::string::npos);
    auto search =
        must(Generator::load(goldens_dir() / "decoders/llama_gqa_odd", {.device = "cpu", .beam_search = {.beams = 2}}));
    CHECK(search.generate_tokens(prompts, {.prompt_lookup = 4}).error().message.find("beam search") !=
          std::string::npos);
}

}  // namespace vkformer::tests
