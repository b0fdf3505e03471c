// SPDX-License-Identifier: MIT
#include "vkformer/generation_engine.hpp"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <future>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <regex>
#include <thread>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "constraints/schema_validator.hpp"
#include "support/backends.hpp"
#include "support/catch.h"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/refused.hpp"

namespace vkformer::tests {
namespace {

GenerationEngine load_engine(const std::string& device, EngineOptions options = {}) {
    options.generator.device = device;
    options.generator.plain_shaders = true;
    return must(GenerationEngine::load(goldens_dir() / "decoder_text", options));
}

/// What comes of a request, and its text as it came.
struct Answer {
    std::string streamed;
    std::promise<Result<Generation>> end;
    std::future<Result<Generation>> future = end.get_future();

    GenerationEngine::OnText on_text() {
        return [this](std::string_view text, std::int32_t) {
            streamed += text;
            return true;
        };
    }
    GenerationEngine::OnEnd on_end() {
        return [this](Result<Generation> result) { end.set_value(std::move(result)); };
    }
};

/// Holds the engine's thread at a request's first token until it is opened, at the latest when it is destroyed: before its engine.
class Gate {
public:
    ~Gate() { open(); }
    void open() { is_open_ = true; }
    void wait_for_first_token() { begun_.get_future().wait(); }
    GenerationEngine::OnText on_text() {
        return [this](std::string_view, std::int32_t) {
            if (std::exchange(is_first_, false)) begun_.set_value();
            while (!is_open_) std::this_thread::yield();
            return true;
        };
    }

private:
    std::promise<void> begun_;
    std::atomic<bool> is_open_ = false;
    bool is_first_ = true;
};

std::vector<std::string> texts() {
    return {"the cat", "a", "it was the best of times, it was the worst of times", "one two three four five six seven"};
}

}  // namespace

TEST_CASE("an engine answers many callers as a generator answers one", "[api][engine]") {
    const std::string device = GENERATE(from_range(device_names()));
    CAPTURE(device);
    if (!takes_case(device, 2)) return;
    Generator generator =
        must(Generator::load(goldens_dir() / "decoder_text", {.device = device, .plain_shaders = true}));
    std::vector<GenerateOptions> options(4, {.max_tokens = 24});
    options[1].sampling = Sampling{.temperature = 0.9f, .top_k = 30};
    options[1].seed = 11;
    options[2].sampling = Sampling{.repetition_penalty = 1.3f, .frequency_penalty = 0.2f};
    options[3].stop = {"e"};
    std::vector<Generation> expected;
    for (const auto& option : options)
        for (const std::string& text : texts()) expected.push_back(must(generator.generate({&text, 1}, option))[0]);

    GenerationEngine engine = load_engine(device, {.generator = {.batch = 3}});
    std::vector<Answer> answers(expected.size());
    std::vector<std::thread> callers;
    for (std::size_t k = 0; k < options.size(); ++k)
        callers.emplace_back([&, k] {
            for (std::size_t i = 0; i < texts().size(); ++i) {
                Answer& answer = answers[k * texts().size() + i];
                must(engine.submit({.prompt = must(engine.tokenize(texts()[i])), .options = options[k]},
                                   answer.on_text(), answer.on_end()));
            }
        });
    for (std::thread& caller : callers) caller.join();
    for (std::size_t i = 0; i < answers.size(); ++i) {
        CAPTURE(i);
        const Generation found = must(answers[i].future.get());
        CHECK(found.text == expected[i].text);
        CHECK(found.tokens == expected[i].tokens);
        CHECK(found.finish == expected[i].finish);
        CHECK(found.prompt_tokens == expected[i].prompt_tokens);
        CHECK(answers[i].streamed == found.text);
    }
    const EngineStats stats = engine.stats();
    CHECK((stats.requests == 16 && stats.finished == 16 && stats.running == 0 && stats.waiting == 0));
    CHECK((stats.used_pages == 0 && stats.tokens > 0 && stats.steps > 0));
}

TEST_CASE("an engine tells how likely a token was before its text", "[api][engine][log_probs]") {
    GenerationEngine engine = load_engine("cpu", {.generator = {.batch = 2}});
    const GenerationRequest request = {.prompt = must(engine.tokenize("the cat")),
                                       .options = {.max_tokens = 12, .ignore_end = true, .log_probs = 2}};
    std::vector<StepLogProbs> told;
    std::vector<std::int32_t> behind;  // tokens whose text came with their log-probabilities told
    std::promise<Result<Generation>> end;
    must(engine.submit(
        request,
        [&](std::string_view, std::int32_t token) {
            if (token >= 0 && told.size() == behind.size() + 1 && told.back().chosen.token == token)
                behind.push_back(token);
            return true;
        },
        [&](Result<Generation> result) { end.set_value(std::move(result)); },
        [&](const StepLogProbs& step) { told.push_back(step); }));
    const Generation found = must(end.get_future().get());
    CHECK(found.tokens.size() == 12);
    CHECK(behind == found.tokens);
    REQUIRE(found.log_probs.size() == told.size());
    for (std::size_t i = 0; i < told.size(); ++i) {
        CHECK(found.log_probs[i].chosen.log_prob == told[i].chosen.log_prob);
        REQUIRE(told[i].likeliest.size() == 2);
        CHECK(told[i].likeliest[0].token == found.tokens[i]);
        CHECK(told[i].likeliest[0].log_prob == Approx(told[i].chosen.log_prob));
    }
    Answer without;
    GenerationRequest plain = request;
    plain.options.log_probs = {};
    must(engine.submit(plain, {}, without.on_end()));
    const Generation same = must(without.future.get());
    CHECK((same.tokens == found.tokens && same.log_probs.empty()));
    plain.options.log_probs = 21;
    CHECK(engine.submit(plain, {}, {}).error().code == ErrorCode::InvalidArgument);
}

TEST_CASE("a generator tells how likely tokens were as an engine does", "[api][engine][log_probs]") {
    const std::string device = GENERATE(from_range(device_names()));
    const auto likeliest = GENERATE(0u, 3u, 20u);
    CAPTURE(device, likeliest);
    if (!takes_case(device, 2)) return;
    GenerateOptions options = {.max_tokens = 20, .ignore_end = true, .log_probs = likeliest};
    std::vector<GenerateOptions> asked(3, options);
    asked[1].sampling = Sampling{.temperature = 1.2f, .frequency_penalty = 0.5f};
    asked[2].ignore_end = false;
    asked[2].constraint = must(Constraint::regex("[a-z ]{30}"));
    Generator generator =
        must(Generator::load(goldens_dir() / "decoder_text", {.device = device, .batch = 3, .plain_shaders = true}));
    GenerationEngine engine = load_engine(device);
    for (std::size_t k = 0; k < asked.size(); ++k) {
        const auto found = must(generator.generate(texts(), asked[k]));
        for (std::size_t i = 0; i < texts().size(); ++i) {
            CAPTURE(k, i);
            Answer answer;
            GenerationRequest request = {.prompt = must(engine.tokenize(texts()[i])), .options = asked[k]};
            request.options.seed += i;
            must(engine.submit(request, {}, answer.on_end()));
            const Generation expected = must(answer.future.get());
            REQUIRE((found[i].tokens == expected.tokens && found[i].log_probs.size() == expected.tokens.size()));
            for (std::size_t t = 0; t < expected.tokens.size(); ++t) {
                const StepLogProbs &one = found[i].log_probs[t], &other = expected.log_probs[t];
                CHECK(one.chosen.token == expected.tokens[t]);
                CHECK(std::abs(one.chosen.log_prob - other.chosen.log_prob) < 2e-4);
                REQUIRE((one.likeliest.size() == likeliest && other.likeliest.size() == likeliest));
                for (std::size_t n = 0; n < likeliest; ++n)
                    CHECK(std::abs(one.likeliest[n].log_prob - other.likeliest[n].log_prob) < 2e-4);
            }
        }
    }
    options.log_probs = {};
    CHECK(must(generator.generate(texts(), options))[0].log_probs.empty());
    options.log_probs = 21;
    check_refused(generator.generate(texts(), options), ErrorCode::InvalidArgument, "0 to 20");
}

TEST_CASE("log-probabilities are not those of beams", "[api][log_probs][errors]") {
    Generator generator = must(Generator::load(goldens_dir() / "decoder_text",
                                               {.device = "cpu", .beam_search = {.beams = 2}, .plain_shaders = true}));
    check_refused(generator.generate(std::vector<std::string>{"a"}, {.max_tokens = 2, .log_probs = 0}),
                  ErrorCode::InvalidArgument, "or the beams");
}

TEST_CASE("an engine tells how likely a prompt is, before its answer or alone", "[api][engine][log_probs]") {
    const std::string device = GENERATE(from_range(device_names()));
    CAPTURE(device);
    GenerationEngine engine = load_engine(device);
    GenerationRequest request = {.prompt = must(engine.tokenize("the cat and the dog and the cat")),
                                 .options = {.max_tokens = 3, .ignore_end = true},
                                 .prompt_log_probs = 2};
    const auto ask = [&](std::vector<StepLogProbs>& told) {
        Answer answer;
        bool has_begun = false;
        must(engine.submit(
            request, [&](std::string_view, std::int32_t) { return has_begun = true; }, answer.on_end(), {},
            [&](std::span<const StepLogProbs> prompt) {
                CHECK((!has_begun && told.empty()));
                told.assign(prompt.begin(), prompt.end());
            }));
        return must(answer.future.get());
    };
    std::vector<StepLogProbs> before, alone;
    CHECK(ask(before).tokens.size() == 3);
    request.is_prompt_alone = true;
    const Generation nothing = ask(alone);
    CHECK((nothing.tokens.empty() && nothing.text.empty() && nothing.finish == Finish::length));
    REQUIRE((before.size() + 1 == request.prompt.size() && alone.size() == before.size()));
    for (std::size_t i = 0; i < before.size(); ++i) {
        CHECK(before[i].chosen.token == request.prompt[i + 1]);
        CHECK(before[i].chosen.log_prob == Approx(alone[i].chosen.log_prob));
        CHECK(before[i].likeliest.size() == 2);
    }
    Answer unused;
    request.options = {.constraint = must(Constraint::regex("[a-z]"))};
    check_refused(engine.submit(request, {}, unused.on_end()), ErrorCode::InvalidArgument, "is_prompt_alone");
    request.prompt_log_probs = {};
    request.options = {};
    check_refused(engine.submit(request, {}, unused.on_end()), ErrorCode::InvalidArgument, "set prompt_log_probs");
}

TEST_CASE("a prompt's tokens are told where its constraint leaves nothing to generate", "[api][engine][constraints]") {
    GenerationEngine engine = load_engine("cpu");
    for (const std::size_t tokens : {1u, 5u}) {
        CAPTURE(tokens);
        GenerationRequest request = {.prompt = std::vector<std::int32_t>(tokens, 7),
                                     .options = {.constraint = must(Constraint::regex(""))},
                                     .prompt_log_probs = 0};
        Answer answer;
        std::vector<std::size_t> told;
        must(engine.submit(request, {}, answer.on_end(), {},
                           [&](std::span<const StepLogProbs> prompt) { told.push_back(prompt.size()); }));
        const Generation made = must(answer.future.get());
        CHECK((made.tokens.empty() && made.finish == Finish::end_token));
        CHECK(told == std::vector{tokens - 1});
    }
}

// Who could make one of nothing had a null pointer followed where it was asked for.
static_assert(!std::is_constructible_v<Constraint, std::nullptr_t>);
static_assert(!std::is_constructible_v<Constraint, std::shared_ptr<const Constraint::Impl>>);

TEST_CASE("an engine says what memory it has", "[api][engine][memory]") {
    const std::string device = GENERATE(from_range(device_names()));
    CAPTURE(device);
    GenerationEngine engine = load_engine(device, {.cache_tokens = 640});
    const DeviceMemory before = engine.memory();
    CHECK((before.weights == 0 && before.caches == 0));
    Answer answer;
    must(
        engine.submit({.prompt = must(engine.tokenize("the cat")), .options = {.max_tokens = 2}}, {}, answer.on_end()));
    must(answer.future.get());
    const DeviceMemory after = engine.memory();
    // Two layers of 2 heads of 8 numbers, keys and values, float32, of 11 pages; the states of a step are small beside them.
    const std::uint64_t caches = 11 * 64 * 2 * 2 * 8 * 2 * 4;
    CHECK((after.caches >= caches && after.caches < caches + (64 << 10)));
    const auto file = std::filesystem::file_size(goldens_dir() / "decoder_text" / "model.safetensors");
    CHECK((after.weights > file / 2 && after.weights < 3 * file));
    CHECK((device == "cpu" || after.other > 0));
    if (after.budget) CHECK(*after.budget > after.weights + after.caches + after.other);
}

TEST_CASE("a conversation is put into words with what else its template knows", "[api][engine][chat]") {
    GenerationEngine engine = load_engine("cpu");
    const std::vector<Message> messages = {{"user", "the cat"}, {"assistant", "sat "}};
    const auto words = [&](const ChatOptions& options) {
        return must(engine.detokenize(must(engine.tokenize_chat(messages, options))));
    };
    const std::vector<std::int32_t> begun = must(engine.tokenize_chat(messages, {.continues_last = true}));
    const std::vector<std::int32_t> whole = must(engine.tokenize_chat(messages));
    CHECK(begun.size() < whole.size());
    CHECK(words({.continues_last = true}).ends_with("sat "));
    CHECK_FALSE(words({}).ends_with("sat "));
    CHECK(words({.answer_prefix = "the cat"}) == words({}) + "the cat");
    CHECK(engine.tokenize_chat(messages, {.continues_last = true, .answer_prefix = "a"}).error().code ==
          ErrorCode::InvalidArgument);
    CHECK(engine.tokenize_chat(messages, {.variables = "{\"tools\": []}"}));
    for (const char* const wrong : {"[]", "{", "1", "{\"a\": 18446744073709551615}"})
        CHECK(engine.tokenize_chat(messages, {.variables = wrong}).error().code == ErrorCode::InvalidArgument);
    const std::vector<Message> broken = {{"user", "the cat", "[]"}};
    CHECK(engine.tokenize_chat(broken).error().code == ErrorCode::InvalidArgument);
    CHECK(engine.chat_template().find("message") != std::string_view::npos);
    std::string bytes;
    for (const std::int32_t token : must(engine.tokenize("the cat"))) bytes += engine.token_bytes(token);
    CHECK(bytes.ends_with("the cat"));
}

TEST_CASE("requests of an engine can be cancelled, and end with it", "[api][engine]") {
    Answer running, waiting, left;
    {
        GenerationEngine engine = load_engine("cpu", {.generator = {.batch = 1}});
        const std::vector<std::int32_t> prompt = must(engine.tokenize("the"));
        const GenerationRequest endless = {.prompt = prompt, .options = {.ignore_end = true}};
        Gate gate;
        const auto first = must(engine.submit(endless, gate.on_text(), running.on_end()));
        gate.wait_for_first_token();
        const auto second = must(engine.submit(endless, {}, waiting.on_end()));
        engine.cancel(second);
        engine.cancel(first);
        gate.open();
        CHECK(must(running.future.get()).finish == Finish::caller);
        const Generation never = must(waiting.future.get());
        CHECK((never.finish == Finish::caller && never.tokens.empty()));
        must(engine.submit(endless, {}, left.on_end()));
    }
    const Result<Generation> end = left.future.get();
    if (end)
        CHECK(end->finish == Finish::context);  // it was faster
    else
        CHECK(end.error().code == ErrorCode::Cancelled);
}

TEST_CASE("an engine that guesses answers as one that does not", "[api][engine][lookup]") {
    const std::string device = GENERATE(from_range(device_names()));
    CAPTURE(device);
    if (!takes_case(device, 2)) return;
    GenerationEngine plain = load_engine(device, {.generator = {.batch = 3}});
    GenerationEngine guessing = load_engine(device, {.generator = {.batch = 3}, .prompt_lookup = 7});
    std::vector<GenerateOptions> options(6, {.max_tokens = 100, .ignore_end = true});
    options[1].sampling = Sampling{.temperature = 0.5f, .top_k = 5};
    options[1].seed = 11;
    options[2].sampling = Sampling{.repetition_penalty = 1.1f, .frequency_penalty = 0.2f};
    options[3].stop = {"e"};
    options[4].constraint = must(Constraint::regex("[a-z ]{60}"));
    options[4].ignore_end = false;
    options[5].log_probs = 1;
    const std::vector<std::int32_t> prompt =
        must(plain.tokenize("the cat sat and the cat sat and the cat sat and the cat sat and the cat"));
    const auto ask = [&](GenerationEngine& engine) {
        std::vector<Answer> answers(options.size());
        std::vector<Generation> made;
        for (std::size_t i = 0; i < options.size(); ++i)
            must(engine.submit({.prompt = prompt, .options = options[i]}, answers[i].on_text(), answers[i].on_end()));
        for (Answer& answer : answers) {
            made.push_back(must(answer.future.get()));
            CHECK(answer.streamed == made.back().text);
        }
        return made;
    };
    const std::vector<Generation> expected = ask(plain);
    std::vector<Generation> found = ask(guessing);
    CHECK(guessing.stats().tokens == plain.stats().tokens);
    // Whether there is a check hangs on how long steps take: a busy machine may need more of them.
    for (int i = 0; i < 20 && guessing.stats().guessed_tokens == 0; ++i) found = ask(guessing);
    for (std::size_t i = 0; i < options.size(); ++i) {
        CAPTURE(i);
        CHECK((found[i].text == expected[i].text && found[i].tokens == expected[i].tokens));
        CHECK(found[i].finish == expected[i].finish);
        CHECK(found[i].log_probs.size() == expected[i].log_probs.size());
    }
    const EngineStats stats = guessing.stats(), none = plain.stats();
    CHECK((none.guessed_tokens == 0 && none.accepted_tokens == 0));
    CHECK(stats.guessed_tokens > 0);
    CHECK(stats.accepted_tokens <= stats.guessed_tokens);
}

TEST_CASE("a full queue and what an engine cannot do are refused", "[api][engine]") {
    GenerationEngine engine = load_engine("cpu", {.generator = {.batch = 1}, .queue = 2});
    const std::vector<std::int32_t> prompt = must(engine.tokenize("the"));
    const auto refused = [&](GenerationRequest request) {
        return engine.submit(std::move(request), {}, [](Result<Generation>) { FAIL("it was refused"); }).error();
    };
    CHECK(refused({.prompt = {}}).code == ErrorCode::InvalidArgument);
    CHECK(refused({.prompt = {1 << 30}}).code == ErrorCode::InvalidArgument);
    CHECK(refused({.prompt = prompt, .options = {.sampling = Sampling{.temperature = -1}}}).code ==
          ErrorCode::InvalidArgument);
    CHECK(refused({.prompt = prompt, .options = {.sampling = Sampling{.no_repeat_ngram = 2}}}).code ==
          ErrorCode::InvalidArgument);
    CHECK(refused({.prompt = std::vector<std::int32_t>(engine.context() + 1, 1)}).code == ErrorCode::InvalidArgument);
    CHECK(engine.detokenize(std::vector<std::int32_t>{-1}).error().code == ErrorCode::InvalidArgument);

    std::vector<Answer> answers(3);
    Gate gate;
    const GenerationRequest request = {.prompt = prompt, .options = {.max_tokens = 2, .ignore_end = true}};
    must(engine.submit(request, gate.on_text(), answers[0].on_end()));
    gate.wait_for_first_token();
    must(engine.submit(request, {}, answers[1].on_end()));
    must(engine.submit(request, {}, answers[2].on_end()));
    const Error full = refused(request);
    CHECK((full.code == ErrorCode::Cancelled && full.message.find("queue is full") != std::string::npos));
    gate.open();
    for (Answer& answer : answers) CHECK(must(answer.future.get()).tokens.size() == 2);

    const auto options_refused = [](EngineOptions options) {
        options.generator.device = "cpu";
        return GenerationEngine::load(goldens_dir() / "decoder_text", options).error().code;
    };
    CHECK(options_refused({.generator = {.batch = 65}}) == ErrorCode::InvalidArgument);
    CHECK(options_refused({.queue = 0}) == ErrorCode::InvalidArgument);
    CHECK(options_refused({.prompt_chunk = 1}) == ErrorCode::InvalidArgument);
    CHECK(options_refused({.generator = {.beam_search = {.beams = 2}}}) == ErrorCode::InvalidArgument);
    CHECK(options_refused({.generator = {.should_stop = [] { return false; }}}) == ErrorCode::InvalidArgument);
    CHECK(options_refused({.cache_tokens = 64}) == ErrorCode::InvalidArgument);
    CHECK(options_refused({.prompt_lookup = 65}) == ErrorCode::InvalidArgument);
    check_refused(engine.submit({.prompt = prompt, .options = {.prompt_lookup = 4}}, {}, {}),
                  ErrorCode::InvalidArgument, "EngineOptions::prompt_lookup");
}

TEST_CASE("what callbacks ask of their engine does not lock it", "[api][engine]") {
    GenerationEngine engine = load_engine("cpu", {.generator = {.batch = 2}});
    const GenerationRequest request = {.prompt = must(engine.tokenize("the")),
                                       .options = {.max_tokens = 3, .ignore_end = true}};
    Answer next;
    std::promise<void> ended;
    must(engine.submit(
        request,
        [&](std::string_view, std::int32_t) {
            engine.cancel(12345);
            return engine.stats().requests > 0;
        },
        [&](Result<Generation>) {
            must(engine.submit(request, {}, next.on_end()));
            ended.set_value();
        }));
    ended.get_future().wait();
    CHECK(must(next.future.get()).tokens.size() == 3);
}

TEST_CASE("an engine may be asked while it generates", "[api][engine]") {
    GenerationEngine engine = load_engine("cpu", {.generator = {.batch = 1}});
    Answer answer;
    const auto id =
        must(engine.submit({.prompt = must(engine.tokenize("the")), .options = {.max_tokens = 100, .ignore_end = true}},
                           {}, answer.on_end()));
    std::uint64_t tokens = 0;
    std::size_t failures = 0;
    while (answer.future.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
        engine.cancel(id + 1);  // which is none
        const EngineStats stats = engine.stats();
        failures += stats.tokens < tokens || stats.requests != 1;
        tokens = stats.tokens;
    }
    CHECK(failures == 0);
    CHECK(must(answer.future.get()).tokens.size() == 100);
}

TEST_CASE("an engine may be asked while it takes what was asked before", "[api][engine]") {
    GenerationEngine engine = load_engine("cpu", {.generator = {.batch = 1}});
    GenerationRequest request = {.prompt = must(engine.tokenize("the")),
                                 .options = {.max_tokens = 100, .ignore_end = true}};
    Answer whole, cut;
    must(engine.submit(request, {}, whole.on_end()));
    // It is held back as long as it may become this, and told when the engine takes that the request was cancelled.
    request.options.stop = {must(whole.future.get()).text + "~"};
    std::promise<void> has_begun;
    bool is_first = true;
    std::atomic<bool> may_go_on = false, is_taking = false,
                      was_asked = false;  // relaxed: the lock alone makes an order
    const auto wait_for = [](const std::atomic<bool>& flag) {
        while (!flag.load(std::memory_order_relaxed)) std::this_thread::yield();
    };
    const auto on_text = [&](std::string_view, std::int32_t token) {
        if (std::exchange(is_first, false)) {
            has_begun.set_value();
            wait_for(may_go_on);
        }
        if (token < 0) {
            is_taking.store(true, std::memory_order_relaxed);
            wait_for(was_asked);
        }
        return true;
    };
    const auto id = must(engine.submit(request, on_text, cut.on_end()));
    has_begun.get_future().wait();
    engine.cancel(id);
    may_go_on.store(true, std::memory_order_relaxed);
    wait_for(is_taking);
    engine.cancel(id + 1);  // which is none
    was_asked.store(true, std::memory_order_relaxed);
    const Generation told = must(cut.future.get());
    CHECK(told.finish == Finish::caller);
    CHECK((!told.text.empty() && request.options.stop[0].starts_with(told.text)));
}

TEST_CASE("an engine that fails tells all callers, those of other threads too", "[api][engine][errors]") {
    std::atomic<int> submitted = 0, told = 0, knew = 0;
    {
        GenerationEngine engine = load_engine("cpu", {.generator = {.batch = 1}});
        const GenerationRequest request = {.prompt = must(engine.tokenize("the")),
                                           .options = {.max_tokens = 2, .ignore_end = true}};
        const auto on_end = [&](const Result<Generation>& result) {
            ++told;
            knew += !result && engine.failure() && engine.failure()->code == result.error().code;
        };
        CHECK_FALSE(engine.failure());
        std::promise<void> may_fail;
        must(engine.submit(
            request,
            [&](std::string_view, std::int32_t) -> bool {
                may_fail.get_future().wait();
                throw std::bad_alloc();
            },
            on_end));
        ++submitted;
        std::optional<Error> refused;
        for (int i = 0; !refused || refused->code == ErrorCode::Cancelled; ++i) {  // Cancelled: the queue is full
            if (const auto id = engine.submit(request, {}, on_end); !id)
                refused = id.error();
            else
                ++submitted;
            if (i == 0) may_fail.set_value();
        }
        CHECK(refused->code == ErrorCode::OutOfHostMemory);
        CHECK((engine.failure() && engine.failure()->message == refused->message));
        while (told != submitted) std::this_thread::yield();  // who is told asks the engine
        const EngineStats stats = engine.stats();
        CHECK((stats.finished == stats.requests && stats.running == 0 && stats.waiting == 0));
    }
    CHECK((told == submitted && knew == submitted));
}

namespace {

constexpr const char* kPersonSchema =
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":6},"age":{"type":"integer","minimum":0,"maximum":130},
        "tags":{"type":"array","items":{"enum":["red","green"]},"maxItems":2}},"required":["name","age"]})";

std::vector<Constraint> test_constraints() {
    const std::vector<std::string> choices = {"a frog", "a cat", "nothing"};
    return {must(Constraint::json_schema(kPersonSchema)),
            must(Constraint::regex("[0-9]{4}-[a-f]{2}( and| or)? \\w{3}")), must(Constraint::choice(choices))};
}

/// Whether it is what the constraint of that number asks for.
bool fits_constraint(std::size_t number, const std::string& text) {
    if (number == 1) return std::regex_match(text, std::regex("[0-9]{4}-[a-f]{2}( and| or)? \\w{3}"));
    if (number == 2) return text == "a frog" || text == "a cat" || text == "nothing";
    const auto value = nlohmann::json::parse(text, nullptr, false);
    return !value.is_discarded() && SchemaValidator(nlohmann::json::parse(kPersonSchema)).is_valid(value);
}

}  // namespace

TEST_CASE("constrained and free sequences share a batch", "[api][engine][constraints]") {
    const std::string device = GENERATE(from_range(device_names()));
    CAPTURE(device);
    std::vector<GenerateOptions> asked(8,
                                       {.max_tokens = 100});  // two free ones, then each constraint greedily and drawn
    for (std::size_t i = 0; i < asked.size(); ++i) {
        if (i >= 2) asked[i].constraint = test_constraints()[i / 2 - 1];
        if (i % 2 == 0) continue;
        asked[i].sampling = Sampling{.temperature = 1, .frequency_penalty = 0.1f};
        asked[i].seed = i;
    }
    const std::string prompt = texts()[0];
    std::vector<Generation> found;
    {
        GenerationEngine engine = load_engine(device, {.generator = {.batch = 6}});
        std::vector<Answer> answers(asked.size());
        const auto submit = [&](std::size_t first) {  // of each constraint one
            for (std::size_t i = first; i < asked.size(); i += 2)
                must(engine.submit({.prompt = must(engine.tokenize(prompt)), .options = asked[i]}, answers[i].on_text(),
                                   answers[i].on_end()));
        };
        std::thread other(submit, 1);
        submit(0);
        other.join();
        for (Answer& answer : answers) {
            found.push_back(must(answer.future.get()));
            CHECK(answer.streamed == found.back().text);
        }
    }
    Generator generator =
        must(Generator::load(goldens_dir() / "decoder_text", {.device = device, .plain_shaders = true}));
    for (const std::size_t i : {0, 2, 4, 6, 1, 3, 5, 7}) {  // a generator's step is made anew for other rules
        CAPTURE(i, found[i].text);
        if (i >= 2) {
            CHECK(found[i].finish == Finish::end_token);
            CHECK(fits_constraint(i / 2 - 1, found[i].text));
        }
        const Generation alone = must(generator.generate({&prompt, 1}, asked[i]))[0];
        CHECK(alone.tokens == found[i].tokens);
        CHECK((alone.text == found[i].text && alone.finish == found[i].finish));
    }
}

TEST_CASE("a constrained text ends where it is whole, is cut by its limits, or fails", "[api][engine][constraints]") {
    GenerationEngine engine = load_engine("cpu");
    const auto generate = [&](GenerateOptions options) {
        Answer answer;
        auto id =
            engine.submit({.prompt = must(engine.tokenize("the")), .options = std::move(options)}, {}, answer.on_end());
        return id ? answer.future.get() : Result<Generation>(id.error());
    };
    const Constraint word = must(Constraint::regex("abc"));
    const Generation whole = must(generate({.constraint = word}));
    CHECK((whole.text == "abc" && whole.finish == Finish::end_token));
    const Generation exact =
        must(generate({.max_tokens = static_cast<std::uint32_t>(whole.tokens.size()), .constraint = word}));
    CHECK((exact.text == "abc" && exact.finish == Finish::end_token));
    const Generation cut = must(generate({.max_tokens = 1, .constraint = word}));
    CHECK((cut.finish == Finish::length && cut.tokens.size() == 1));
    const Generation stopped = must(generate({.stop = {"b"}, .constraint = word}));
    CHECK((stopped.text == "a" && stopped.finish == Finish::stop_string));
    const Generation none = must(generate({.constraint = must(Constraint::regex(""))}));
    CHECK((none.text.empty() && none.tokens.empty() && none.finish == Finish::end_token));
    // Rules that leave nothing of what the constraint does.
    Sampling biased;
    for (const std::int32_t token : must(engine.tokenize("abc")))
        biased.logit_bias[token] = -std::numeric_limits<float>::infinity();
    for (const char* const text : {"a", "ab", "bc", "b", "c"})
        for (const std::int32_t token : must(engine.tokenize(text)))
            biased.logit_bias[token] = -std::numeric_limits<float>::infinity();
    check_refused(generate({.sampling = biased, .constraint = word}), ErrorCode::InvalidArgument, "does not allow");
    check_refused(generate({.ignore_end = true, .constraint = word}), ErrorCode::InvalidArgument, "ignore_end");
    check_refused(generate({.min_tokens = 3, .constraint = word}), ErrorCode::InvalidArgument, "min_tokens");
}

TEST_CASE("a generator takes constraints for prompts side by side, and not with beams", "[api][constraints]") {
    Generator generator =
        must(Generator::load(goldens_dir() / "decoder_text", {.device = "cpu", .batch = 2, .plain_shaders = true}));
    for (std::size_t number = 0; number < test_constraints().size(); ++number) {
        const auto found =
            must(generator.generate(texts(), {.max_tokens = 120, .constraint = test_constraints()[number]}));
        REQUIRE(found.size() == texts().size());
        for (std::size_t i = 0; i < found.size(); ++i) {
            CAPTURE(number, i, found[i].text);
            CHECK(fits_constraint(number, found[i].text));
            const auto alone = must(generator.generate(std::vector{texts()[i]},
                                                       {.max_tokens = 120, .constraint = test_constraints()[number]}));
            CHECK(alone[0].tokens == found[i].tokens);
        }
    }
    Generator beams = must(Generator::load(goldens_dir() / "decoder_text",
                                           {.device = "cpu", .beam_search = {.beams = 2}, .plain_shaders = true}));
    check_refused(beams.generate(texts(), {.max_tokens = 4, .constraint = test_constraints()[1]}),
                  ErrorCode::InvalidArgument, "cannot be constrained");
}

}  // namespace vkformer::tests
