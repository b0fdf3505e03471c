// SPDX-License-Identifier: MIT
#include "decoding/draft_session.hpp"

#include <filesystem>

#include "decoding/timed_session.hpp"
#include "vkformer/generation_engine.hpp"
#include "vkformer/generator.hpp"

namespace vkformer::tests {
namespace {

using decoding::DecoderSessionOptions;
using decoding::DraftSession;
using Tokens = std::vector<std::int32_t>;

std::string llama() { return (goldens_dir() / "decoders/llama_gqa_odd").string(); }

}  // namespace

TEST_CASE("a draft model changes no token", "[decoding][decoder][draft]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    // The last one knows but some of the others' tokens.
    const std::string name = GENERATE("llama_gqa_odd", "gemma3", "gpt2_inner_relu");
    const std::string draft_name = GENERATE("llama_gqa_odd", "qwen3", "gpt2_inner_relu");
    const float temperature = GENERATE(0.0f, 0.8f);
    const std::uint32_t guesses = GENERATE(1u, 5u);
    if (!takes_case(backend, 5)) return;
    CAPTURE(backend.name(), name, draft_name, temperature, guesses);
    const models::Decoder model = load_decoder_case(name), draft_model = load_decoder_case(draft_name);
    const Greedy greedy = greedy_golden(name);
    const decoding::Sequence sequence = {.prompt = greedy.prompt, .max_tokens = 24, .seed = 11};
    DecoderSessionOptions options = {.context = model.config().max_positions, .sample = {.temperature = temperature}};
    TimedSession plain(backend, model, options);
    const Tokens expected = plain.run(sequence).tokens;
    REQUIRE(expected.size() == 24);

    options.guesses = guesses;
    TimedSession checking(backend, model, options);
    const auto draft = must(DraftSession::create(backend, draft_model, options));
    must(draft->set_sample(options.sample));
    checking.script.guess_by(&draft->guesser());
    checking.check_seconds = 0.5;  // long beside guesses
    for (int i = 0; i < 2; ++i) {
        CHECK(checking.run(sequence).tokens == expected);
        const decoding::DecoderTimings& timings = checking.script.timings();
        CHECK(timings.decode_steps + timings.accepted_tokens == expected.size());
        CHECK((timings.guessed_tokens > 0 || draft_model.config().vocab_size != model.config().vocab_size));
    }
    // The answer goes on: what was chosen, the draws counted, is the beginning of another sequence's prompt.
    decoding::Sequence onward = sequence;
    onward.prompt.insert(onward.prompt.end(), expected.begin(), expected.begin() + 9);
    onward.answered = 9;
    onward.max_tokens = 15;
    CHECK(checking.run(onward).tokens == Tokens(expected.begin() + 9, expected.end()));
}

// Where both models are the same, so are their draws.
TEST_CASE("a draft model draws by the numbers that its guesses are checked with", "[decoding][decoder][draft]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const float temperature = GENERATE(0.0f, 1.0f);
    CAPTURE(backend.name(), temperature);
    const models::Decoder model = load_decoder_case("llama_gqa_odd");
    DecoderSessionOptions options = {.context = model.config().max_positions,
                                     .sample = {.temperature = temperature, .top_k = 20, .top_p = 0.9f},
                                     .guesses = 4};
    TimedSession checking(backend, model, options);
    const auto draft = must(DraftSession::create(backend, model, options));
    must(draft->set_sample(options.sample));
    checking.script.guess_by(&draft->guesser());
    checking.check_seconds = 0.5;  // long beside guesses
    for (const std::uint64_t seed : {3u, 4u}) {
        checking.run({.prompt = greedy_golden("llama_gqa_odd").prompt, .max_tokens = 30, .seed = seed});
        const decoding::DecoderTimings& timings = checking.script.timings();
        CHECK(timings.guessed_tokens > 20);
        CHECK(timings.accepted_tokens == timings.guessed_tokens);
    }
}

TEST_CASE("a draft model guesses as far as it can read", "[decoding][decoder][draft]") {
    graph::Backend& backend = *test_backends().front();
    const models::Decoder model = load_decoder_case("llama_gqa_odd");
    const Greedy greedy = greedy_golden("llama_gqa_odd");
    const decoding::Sequence sequence = {.prompt = greedy.prompt, .max_tokens = 24};
    DecoderSessionOptions options = {.context = model.config().max_positions, .guesses = 3};
    TimedSession plain(backend, model, {.context = options.context});
    const Tokens expected = plain.run(sequence).tokens;
    TimedSession checking(backend, model, options);
    DecoderSessionOptions shorter = options;
    shorter.context = static_cast<std::uint32_t>(greedy.prompt.size()) + 6;
    const auto draft = must(DraftSession::create(backend, model, shorter));
    checking.script.guess_by(&draft->guesser());
    CHECK(checking.run(sequence).tokens == expected);
    CHECK(checking.script.timings().guessed_tokens >= 3);
    CHECK(checking.script.timings().guessed_tokens <= 9);
}

TEST_CASE("a draft model that says no to a cancelled session leaves nothing behind", "[decoding][decoder][draft]") {
    graph::Backend& backend = *test_backends().front();
    const models::Decoder model = load_decoder_case("llama_gqa_odd");
    DecoderSessionOptions options = {.context = model.config().max_positions, .guesses = 3};
    TimedSession plain(backend, model, {.context = options.context}), checking(backend, model, options);
    const decoding::Guesser refusing = [](decoding::Sequence, std::size_t) -> Result<decoding::Guess> {
        return Error{ErrorCode::Cancelled, "stopped"};
    };
    checking.script.guess_by(&refusing);
    checking.stops = true;
    const decoding::Sequence sequence = {.prompt = {3, 1, 4}, .max_tokens = 12};
    CHECK(checking.run(sequence).tokens.size() == 2);
    checking.stops = false;
    const auto draft = must(DraftSession::create(backend, model, options));
    checking.script.guess_by(&draft->guesser());
    CHECK(checking.run(sequence).tokens == plain.run(sequence).tokens);
    CHECK(checking.script.timings().accepted_tokens > 0);
}

TEST_CASE("a draft model that finds nothing is asked no longer", "[decoding][decoder][draft]") {
    graph::Backend& backend = *test_backends().front();
    const models::Decoder model = load_decoder_case("llama_gqa_odd");
    TimedSession checking(backend, model, {.context = model.config().max_positions, .guesses = 3});
    int asked = 0;
    const decoding::Guesser lost = [&](decoding::Sequence, std::size_t) -> Result<decoding::Guess> {
        ++asked;
        return decoding::Guess{.seconds = 5};
    };
    checking.script.guess_by(&lost);
    CHECK(checking.run({.prompt = {3, 1, 4}, .max_tokens = 24}).tokens.size() == 24);
    CHECK(asked == 1);
}

TEST_CASE("tokens that the model has not are no guesses, nor is what follows them", "[decoding][decoder][draft]") {
    graph::Backend& backend = *test_backends().front();
    const models::Decoder model = load_decoder_case("llama_gqa_odd");
    const decoding::Sequence sequence = {.prompt = {3, 1, 4}, .max_tokens = 12};
    const DecoderSessionOptions options = {.context = model.config().max_positions};
    TimedSession plain(backend, model, options);
    const Tokens expected = plain.run(sequence).tokens;
    for (const std::int32_t unknown : {static_cast<std::int32_t>(model.config().vocab_size), -1}) {
        CAPTURE(unknown);
        const decoding::Guesser guessing = [&](decoding::Sequence, std::size_t) -> Result<decoding::Guess> {
            return decoding::Guess{.tokens = {unknown, 1}};
        };
        TimedSession checking(backend, model, {.context = options.context, .guesses = 3});
        checking.script.guess_by(&guessing);
        CHECK(checking.run(sequence).tokens == expected);
        CHECK(checking.checks == 0);
        CHECK(checking.script.timings().guessed_tokens == 0);
    }
}

TEST_CASE("generators take a draft model", "[generator][draft]") {
    const std::vector<Tokens> prompts = {greedy_golden("llama_gqa_odd").prompt, {1, 2, 3}};
    auto plain = must(Generator::load(llama(), {.device = "cpu"}));
    auto drafting = must(Generator::load(llama(), {.device = "cpu", .draft = llama()}));
    const GenerateOptions drawn = {.max_tokens = 40, .sampling = Sampling{.temperature = 0.9f}, .seed = 5};
    for (GenerateOptions asked : {GenerateOptions{.max_tokens = 40}, drawn}) {
        const auto expected = must(plain.generate_tokens(prompts, asked));
        CHECK(plain.timings().guessed_tokens == 0);
        const auto found = must(drafting.generate_tokens(prompts, asked));
        for (std::size_t i = 0; i < prompts.size(); ++i) CHECK(found[i].tokens == expected[i].tokens);
        CHECK(drafting.timings().guessed_tokens > 0);
        asked.draft_tokens = 2;
        CHECK(must(drafting.generate_tokens(prompts, asked))[0].tokens == expected[0].tokens);
        asked.draft_tokens = 0;
        CHECK(must(drafting.generate_tokens(prompts, asked))[0].tokens == expected[0].tokens);
        CHECK(drafting.timings().guessed_tokens == 0);
    }
    // What guesses do not go with has none, unless they are asked for.
    for (GenerateOptions asked : {GenerateOptions{.max_tokens = 8, .log_probs = 2},
                                  GenerateOptions{.max_tokens = 8, .sampling = Sampling{.repetition_penalty = 1.3f}}}) {
        const auto expected = must(plain.generate_tokens(prompts, asked));
        CHECK(must(drafting.generate_tokens(prompts, asked))[0].tokens == expected[0].tokens);
        CHECK(drafting.timings().guessed_tokens == 0);
        asked.draft_tokens = 3;
        const auto refused = drafting.generate_tokens(prompts, asked);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().message.find("guessed tokens (of prompt look-up or a draft model)") != std::string::npos);
    }
}

TEST_CASE("what a draft model cannot go with is refused by name", "[generator][draft][errors]") {
    const auto message = [](const auto& result) {
        REQUIRE_FALSE(result);
        CHECK(result.error().code == ErrorCode::InvalidArgument);
        return result.error().message;
    };
    const auto refused = [&](const std::string& model, GeneratorOptions options) {
        options.device = "cpu";
        if (options.draft.empty()) options.draft = llama();
        return message(Generator::load(model, options));
    };
    CHECK(refused(llama(), {.batch = 2}).find("one sequence at a time") != std::string::npos);
    CHECK(refused(llama(), {.beam_search = {.beams = 2}}).find("one sequence at a time") != std::string::npos);
    const std::string hybrid = (goldens_dir() / "decoders/qwen3_5").string();
    CHECK(refused(hybrid, {}).find("keep a state") != std::string::npos);
    CHECK(refused(llama(), {.draft = hybrid}).find("name another draft model") != std::string::npos);
    CHECK(Generator::load(llama(), {.device = "cpu", .draft = "nowhere"}).error().code == ErrorCode::FileNotFound);

    const std::vector<Tokens> prompts = {{1, 2, 3}};
    auto plain = must(Generator::load(llama(), {.device = "cpu"}));
    CHECK(message(plain.generate_tokens(prompts, {.draft_tokens = 3})).find("none was named") != std::string::npos);
    auto drafting = must(Generator::load(llama(), {.device = "cpu", .draft = llama()}));
    CHECK(message(drafting.generate_tokens(prompts, {.prompt_lookup = 2, .draft_tokens = 3})).find("one of the two") !=
          std::string::npos);
    CHECK(message(drafting.generate_tokens(prompts, {.draft_tokens = 65})).find("at most 64") != std::string::npos);
    CHECK(must(drafting.generate_tokens(prompts, {.max_tokens = 9, .prompt_lookup = 2})).size() == 1);
    CHECK(message(GenerationEngine::load(llama(), {.generator = {.device = "cpu", .draft = llama()}}))
              .find("one text at a time") != std::string::npos);
}

}  // namespace vkformer::tests
