// SPDX-License-Identifier: MIT
#include "decoding/prompt_lookup.hpp"

#include <numeric>

#include "decoding/decoder_script.hpp"
#include "decoding/run_script.hpp"
#include "models/decoder_case.hpp"
#include "support/backends.hpp"
#include "vkformer/generator.hpp"

namespace vkformer::tests {
namespace {

using decoding::DecoderScript;
using decoding::DecoderSessionOptions;
using decoding::FinishReason;
using decoding::GuessLedger;
using decoding::Job;
using decoding::look_up;
using decoding::Sequence;
using Tokens = std::vector<std::int32_t>;

/// A decoder's script with a clock of the test's own, so that no test depends on what a machine is busy with.
class TimedScript final : public decoding::Script {
public:
    TimedScript(DecoderScript& script, double check_seconds, bool stops)
        : script_(script), check_seconds_(check_seconds), stops_(stops) {}

    Result<std::optional<Job>> next(std::uint32_t most) override { return script_.next(most); }
    Result<decoding::Part*> meanwhile(const Job& job) override { return script_.meanwhile(job); }
    std::vector<decoding::Read> reads(std::uint32_t step) const override { return script_.reads(step); }
    Result<void> take(const Job& job, decoding::Records& records) override {
        if (job.kind == Job::Kind::check && stops_) return Error{ErrorCode::Cancelled, "stopped"};
        return script_.take(job, records);
    }
    void took(const Job& job, double, double) override {
        const double seconds = job.kind == Job::Kind::check ? check_seconds_ : job.runs;
        if (job.kind == Job::Kind::check) ++checks;
        script_.took(job, seconds, seconds);
    }

    std::size_t checks = 0;

private:
    DecoderScript& script_;
    double check_seconds_;  // a step takes a second
    bool stops_;            // at the first check
};

/// A session whose checks take so long.
struct Session {
    graph::Backend& backend;
    DecoderScript script;
    decoding::SessionStores stores;
    double check_seconds = 0;
    bool stops = false;
    std::size_t checks = 0;

    Session(graph::Backend& on, const models::Decoder& model, DecoderSessionOptions options)
        : backend(on), script(model, must(decoding::checked_options(model, options)), {16, 64}), stores(on) {}

    decoding::SequenceResult run(Sequence sequence, const DecoderScript::OnToken& on_token = {}) {
        script.begin({std::move(sequence)}, on_token);
        script.plan_for(backend.fusions());
        TimedScript timed(script, check_seconds, stops);
        decoding::StepQueue queue(decoding::StepQueue::Growth::by_time);
        REQUIRE(static_cast<bool>(decoding::run_script(timed, backend, stores, queue)) == !stops);
        checks = timed.checks;
        return script.results()[0];
    }
};

/// A prompt that says the golden's text twice and then begins it again: what follows it is in the prompt, though the model may see it
/// otherwise.
Sequence repeating(const std::string& name, std::uint32_t max_tokens) {
    const Greedy greedy = greedy_golden(name);
    Sequence sequence = {.prompt = greedy.prompt, .max_tokens = max_tokens, .seed = 5};
    for (const std::ptrdiff_t count : {24, 24, 8})
        sequence.prompt.insert(sequence.prompt.end(), greedy.continuation.begin(), greedy.continuation.begin() + count);
    return sequence;
}

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

TEST_CASE("wrong guesses take a hundredth of the time at most", "[decoding][lookup]") {
    const double check = GENERATE(1.0, 1.3, 4.0, 30.0);  // in steps
    CAPTURE(check);
    GuessLedger ledger;
    CHECK_FALSE(ledger.allows());  // nothing is known yet
    double time = 0;
    std::size_t checks = 0, tokens = 0;
    for (; tokens < 5000; ++tokens) {
        const bool checks_now = ledger.allows();
        const double seconds = checks_now ? check : 1.0;
        time += seconds;
        checks += checks_now;
        checks_now ? ledger.took_check(1, seconds) : ledger.took_steps(1, seconds);
    }
    // The first check is not counted, and the last may be lost.
    CHECK(0.99 * time <= static_cast<double>(tokens) + 2 * (check - 1) + 1e-6);
    CHECK(checks >= 2);
}

TEST_CASE("right guesses pay for wrong ones, for one check", "[decoding][lookup]") {
    GuessLedger ledger;
    ledger.took_steps(1, 1.0);
    ledger.took_check(1, 2.0);  // the first
    for (int i = 0; i < 10; ++i) ledger.took_check(8, 2.0);
    CHECK(ledger.allows());
    ledger.took_check(1, 2.0);
    CHECK(ledger.allows());
    ledger.took_check(1, 2.0);
    CHECK(ledger.allows());
    ledger.took_check(1, 2.0);
    CHECK_FALSE(ledger.allows());
    ledger.begin();
    CHECK(ledger.allows());
}

TEST_CASE("steps between two looks take a hundredth of a second", "[decoding][lookup]") {
    GuessLedger ledger;
    CHECK(ledger.steps_between() == 1);
    ledger.took_steps(1, 0.1);
    CHECK(ledger.steps_between() == 1);
    GuessLedger quick;
    quick.took_steps(4, 0.004);
    CHECK(quick.steps_between() == 10);
}

TEST_CASE("guesses change no token", "[decoding][decoder][lookup]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE("llama_gqa_odd", "gemma3", "mistral_window", "gpt2", "qwen3_moe");
    const float temperature = GENERATE(0.0f, 0.7f);
    CAPTURE(backend.name(), name, temperature);
    const models::Decoder model = load_decoder_case(name);
    const std::uint32_t context = model.config().max_positions;
    const Sequence sequence = repeating(name, 24);
    DecoderSessionOptions options = {.context = context, .sample = {.temperature = temperature, .top_k = 2}};
    options.penalties.bias = {{3, -2.0f}};
    options.penalties.rules.banned = {5};
    Session plain(backend, model, options);
    const Tokens expected = plain.run(sequence).tokens;
    REQUIRE(expected.size() == 24);
    CHECK(plain.checks == 0);

    options.lookup = GENERATE(3u, 8u);
    Session guessing(backend, model, options);
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
    Session plain(backend, model, {.context = 96});
    Session guessing(backend, model, {.context = 96, .lookup = 6});
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
    Session plain(backend, model, {.context = model.config().max_positions});
    Session guessing(backend, model, {.context = model.config().max_positions, .lookup = 3});
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
    Session guessing(backend, model, {.context = model.config().max_positions, .lookup = 3});
    guessing.check_seconds = 1000;
    const auto result = guessing.run(repeating("llama_gqa_odd", 24));
    CHECK(guessing.checks == 2);  // one that is not counted, and one that was too long
    Session plain(backend, model, {.context = model.config().max_positions});
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
    DecoderSessionOptions options = {.lookup = 65};
    CHECK(message(options).find("at most 64") != std::string::npos);
    options.lookup = 4;
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
