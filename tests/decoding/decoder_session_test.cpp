// SPDX-License-Identifier: MIT
#include "decoding/decoder_session.hpp"

#include <cstdlib>
#include <fstream>

#include <nlohmann/json.hpp>

#include "cpu/backend.hpp"
#include "decoding/prompt_chunks.hpp"
#include "graph/fusion.hpp"
#include "models/decoder_case.hpp"
#include "support/backends.hpp"

namespace vkformer::tests {
namespace {

using decoding::DecoderSession;
using decoding::DecoderSessionOptions;
using decoding::FinishReason;
using decoding::Request;

/// All on the CPU; on a device the beginning, or all with VKFORMER_TEST_THOROUGH=1.
std::size_t tokens_to_check(const graph::Backend& backend, const Greedy& greedy) {
    constexpr std::size_t kOnDevices = 24;
    const bool is_cpu = cast_to<const vulkan::VulkanBackend>(&backend) == nullptr;
    return is_cpu || std::getenv("VKFORMER_TEST_THOROUGH") ? greedy.continuation.size() : kOnDevices;
}

Request request_of(const Greedy& greedy, std::size_t tokens) {
    return {.prompt = greedy.prompt, .max_tokens = static_cast<std::uint32_t>(tokens)};
}

}  // namespace

// The sequences are longer than the original context from some token on, and every token is what a forward pass over all that are
// before it gives: short factors up to there, long ones at all positions from then on.
TEST_CASE("sequences beyond LongRoPE's original context have its long factors", "[decoding][decoder][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const char* const path =
        GENERATE("decoders/phi3_longrope", "gguf_decoders/phi3_longrope.gguf", "decoders/phimoe_longrope");
    CAPTURE(backend.name(), path);
    const models::Decoder model = must(models::load_decoder(goldens_dir() / path));
    const auto folder = goldens_dir() / "decoders" / std::filesystem::path(path).stem();
    CHECK(model.config().max_positions == 96);
    CHECK(model.config().extended_positions == 128);
    std::ifstream file(folder / "crossing.json");
    const auto entries = nlohmann::json::parse(file);
    auto session = must(DecoderSession::create(backend, model, {.context = 128}));
    for (const std::size_t i : {0u, 2u, 1u, 0u}) {  // short to long, long, short to long at the first token, and again
        CAPTURE(i);
        const auto continuation = entries[i]["continuation"].get<std::vector<std::int32_t>>();
        const Request request = {.prompt = entries[i]["prompt"].get<std::vector<std::int32_t>>(),
                                 .max_tokens = static_cast<std::uint32_t>(continuation.size())};
        CHECK(must(session.run({&request, 1}))[0].tokens == continuation);
    }
    auto within = must(DecoderSession::create(backend, model, {}));
    CHECK(within.options().context == 96);
    const auto several = DecoderSession::create(backend, model, {.rows = 2, .context = 97});
    REQUIRE_FALSE(several);
    CHECK(several.error().message.find("one by one") != std::string::npos);
    CHECK_FALSE(DecoderSession::create(backend, model, {.context = 129}));
}

TEST_CASE("greedy continuations are those of Hugging Face, token for token", "[decoding][decoder][golden]") {
    const auto floats_on_cpu = cpu::make_cpu_backend<float>(cpu::QuantizedProducts::floats);
    graph::Backend* const known = GENERATE(from_range(test_backends()));
    // Activations of 8 bits, which the CPU backend multiplies quantised weights with, choose other tokens now and then.
    graph::Backend& backend = known == test_backends().front() ? *floats_on_cpu : *known;
    const std::string name = GENERATE(from_range(decoder_cases()));
    if (!takes_case(*known, 2)) return;
    CAPTURE(backend.name(), name);
    const models::Decoder model = load_decoder_case(name);
    const Greedy greedy = greedy_golden(name);
    auto session = must(DecoderSession::create(backend, model, {.context = 80}));
    const std::size_t count = tokens_to_check(backend, greedy);
    const Request request = request_of(greedy, count);
    const auto results = must(session.run({&request, 1}));
    CHECK(results[0].tokens ==
          std::vector(greedy.continuation.begin(), greedy.continuation.begin() + static_cast<std::ptrdiff_t>(count)));
    CHECK(results[0].finish == FinishReason::length);
}

TEST_CASE("a prompt is cut by the time its pieces take, which changes no token", "[decoding][decoder]") {
    graph::Backend& backend = *test_backends().front();
    const models::Decoder model = load_decoder_case("qwen3");
    const Greedy greedy = greedy_golden("qwen3");
    Request request = request_of(greedy, 4);
    for (int round = 0; round < 2; ++round)
        request.prompt.insert(request.prompt.end(), greedy.continuation.begin(), greedy.continuation.begin() + 46);
    REQUIRE(request.prompt.size() == 101);  // the last one belongs to the first step
    const auto run = [&](double seconds, std::uint64_t chunks) {
        CAPTURE(seconds);
        auto session = must(DecoderSession::create(
            backend, model,
            {.context = 120, .chunk = 64, .chunk_seconds = seconds, .run_tokens = seconds > 0 ? 256u : 16u}));
        const auto results = must(session.run({&request, 1}));
        CHECK(session.timings().prompt_chunks == chunks);
        return results[0].tokens;
    };
    const auto unbounded = run(0, 2);   // 64 and 36
    CHECK(run(1e9, 3) == unbounded);    // 16, as nothing is known yet; 64, 20
    CHECK(run(1e-12, 7) == unbounded);  // all of 16
    // What a chunk has beyond the prompt is computed as well: of 20 tokens two of 16, of 40 one of 64, but all at once where a run is dear.
    request.prompt.resize(21);
    const auto of_two = run(0, 2);
    CHECK(run(1e9, 2) == of_two);
    request.prompt.resize(37 + 16);
    CHECK(run(1e9, 2) == run(0, 1));  // 16, then 36
    request.prompt.resize(41);
    run(0, 1);
}

TEST_CASE("chunks follow what those took that were as long as they might be", "[decoding][decoder]") {
    const models::Decoder model = load_decoder_case("qwen3");
    decoding::PromptChunks chunks(model, {16, 64, 100});
    DecoderSessionOptions options = {.context = 120, .chunk_seconds = 0.1, .run_tokens = 256};
    const std::vector<std::int32_t> tokens(100, 1);
    const auto next = [&](std::size_t left) {
        const std::size_t begun = 0;
        const auto rest = std::span(tokens).first(left);
        return must(chunks.job(options, false, {&begun, 1}, {&rest, 1}, graph::stepwise_fusions()));
    };
    const auto took = [&](const decoding::Job& job, double seconds) {
        chunks.took(job, options.chunk_seconds, seconds);
    };
    CHECK(next(100).len == 16);  // nothing is known yet
    took(next(100), 0.01);
    CHECK(next(100).len == 100);
    took(next(100), 0.2);  // the device was busy, or the context is long
    CHECK(next(100).len == 16);
    took(next(100), 0.005);
    CHECK(next(100).len == 100);
    CHECK(next(20).len == 64);
    took(next(20), 10);  // says nothing of longer ones
    CHECK(next(100).len == 100);
    options.run_tokens = 16;
    CHECK(next(20).len == 16);
}

TEST_CASE("sequences that run together continue as they do alone", "[decoding][decoder]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE("qwen3", "lfm2", "qwen3_5");
    CAPTURE(backend.name(), name);
    if (!takes_case(backend, 2)) return;
    const models::Decoder model = load_decoder_case(name);
    const Greedy greedy = greedy_golden(name);
    // Prompts that are the golden's, cut within its continuation: what follows is known for each.
    std::vector<Request> requests;
    std::vector<std::vector<std::int32_t>> expected;
    for (const std::size_t given : {0u, 1u, 30u, 7u, 20u}) {
        Request request = request_of(greedy, 5 + given % 4);
        request.prompt.insert(request.prompt.end(), greedy.continuation.begin(),
                              greedy.continuation.begin() + static_cast<std::ptrdiff_t>(given));
        requests.push_back(request);
        expected.emplace_back(greedy.continuation.begin() + static_cast<std::ptrdiff_t>(given),
                              greedy.continuation.begin() + static_cast<std::ptrdiff_t>(given + request.max_tokens));
    }
    for (const std::uint32_t rows : {1u, 2u, 3u}) {
        CAPTURE(rows);
        auto session = must(DecoderSession::create(backend, model, {.rows = rows, .context = 64}));
        const auto results = must(session.run(requests));
        for (std::size_t i = 0; i < requests.size(); ++i) {
            CAPTURE(i);
            CHECK(results[i].tokens == expected[i]);
        }
    }
}

TEST_CASE("what the caches hold of a prompt is not computed again", "[decoding][decoder]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE("gpt2", "lfm2", "qwen3_next");
    CAPTURE(backend.name(), name);
    if (!takes_case(backend, 2)) return;
    const models::Decoder model = load_decoder_case(name);
    const Greedy greedy = greedy_golden(name);
    auto session = must(DecoderSession::create(backend, model, {.context = 80}));
    const Request first = request_of(greedy, 20);
    CHECK(must(session.run({&first, 1}))[0].reused == 0);

    Request second = first;
    second.prompt.insert(second.prompt.end(), greedy.continuation.begin(), greedy.continuation.begin() + 30);
    const auto results = must(session.run({&second, 1}));
    CHECK(results[0].reused == first.prompt.size() + 19);  // the token chosen last was not read
    CHECK(session.timings().prompt_tokens == 10);
    CHECK(std::equal(results[0].tokens.begin(), results[0].tokens.end(), greedy.continuation.begin() + 30));

    Request third = first;  // another beginning
    third.prompt.front() = (third.prompt.front() + 1) % static_cast<std::int32_t>(model.config().vocab_size);
    CHECK(must(session.run({&third, 1}))[0].reused == 0);
    const auto again = must(session.run({&first, 1}));
    CHECK(again[0].reused == 0);
    CHECK(std::equal(again[0].tokens.begin(), again[0].tokens.end(), greedy.continuation.begin()));
}

TEST_CASE("a state that has seen more than a text has is not gone on from", "[decoding][decoder]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE("lfm2", "qwen3_5");
    CAPTURE(backend.name(), name);
    const models::Decoder model = load_decoder_case(name);
    const Greedy greedy = greedy_golden(name);
    auto session = must(DecoderSession::create(backend, model, {.context = 80}));
    Request first = request_of(greedy, 30);
    first.stop_tokens = {greedy.continuation[9]};
    const auto ended = must(session.run({&first, 1}));
    const auto stop = static_cast<std::size_t>(std::ranges::find(greedy.continuation, greedy.continuation[9]) -
                                               greedy.continuation.begin());
    CHECK(ended[0].tokens.size() == stop + 1);  // steps beyond it may have run

    Request second = request_of(greedy, 12);
    second.prompt.insert(second.prompt.end(), greedy.continuation.begin(), greedy.continuation.begin() + 20);
    const auto results = must(session.run({&second, 1}));
    CHECK((results[0].reused == 0 || results[0].reused == first.prompt.size() + stop));
    CHECK(std::equal(results[0].tokens.begin(), results[0].tokens.end(), greedy.continuation.begin() + 20));

    Request shorter = request_of(greedy, 12);  // the beginning of what was read
    const auto again = must(session.run({&shorter, 1}));
    CHECK(again[0].reused == 0);
    CHECK(std::equal(again[0].tokens.begin(), again[0].tokens.end(), greedy.continuation.begin()));
}

TEST_CASE("a conversation goes on from the state that a long prompt had before its end", "[decoding][decoder]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE("lfm2", "qwen3_5");
    CAPTURE(backend.name(), name);
    if (!takes_case(backend, 2)) return;
    const models::Decoder model = load_decoder_case(name);
    const DecoderSessionOptions options = {.context = 120, .chunk = 64};
    auto session = must(DecoderSession::create(backend, model, options));
    const auto vocab = static_cast<std::int32_t>(model.config().vocab_size);
    std::vector<std::int32_t> prompt;
    for (std::int32_t i = 0; i < 81; ++i) prompt.push_back((7 * i + 3) % vocab);

    // Each differs from what was read and generated before from some token on, and ends in so many others.
    struct Turn {
        std::size_t alike, more, reused;
    };
    for (const auto& [alike, more, reused] : {
             Turn{81, 0, 0},    // its state stays what it was 16 tokens before the last one, which the first step reads
             Turn{70, 20, 64},  // from there, and again 16 before the end
             Turn{85, 25, 73},
             Turn{90, 3, 0},  // of 93 more was read, and the one of 73 went on to there
             Turn{80, 5, 76},
             Turn{60, 40, 0},
             Turn{60, 41, 0},
             Turn{85, 0, 84},  // exactly what was kept: nothing is read, and nothing else is kept
             Turn{85, 0, 0},
         }) {
        CAPTURE(alike, more);
        prompt.resize(alike);
        for (std::size_t i = 0; i < more; ++i)
            prompt.push_back((prompt.back() + 1 + static_cast<std::int32_t>(more)) % vocab);
        const Request request{.prompt = prompt, .max_tokens = 8};
        const auto found = must(session.run({&request, 1}))[0];
        auto alone = must(DecoderSession::create(backend, model, options));
        CHECK(found.tokens == must(alone.run({&request, 1}))[0].tokens);
        CHECK(found.reused == reused);
    }
}

TEST_CASE("a sequence ends where it is told to", "[decoding][decoder]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const models::Decoder model = load_decoder_case("phi3");
    const Greedy greedy = greedy_golden("phi3");
    auto session = must(DecoderSession::create(backend, model, {.context = 24}));
    Request request = request_of(greedy, 0);

    SECTION("when the context is full") {
        const auto result = must(session.run({&request, 1}))[0];
        CHECK(result.finish == FinishReason::context);
        CHECK(result.tokens.size() == 24 - request.prompt.size() + 1);
        CHECK(std::equal(result.tokens.begin(), result.tokens.end(), greedy.continuation.begin()));
    }
    SECTION("with a stop token, which is delivered") {
        request.stop_tokens = {greedy.continuation[5], greedy.continuation[9]};
        const auto result = must(session.run({&request, 1}))[0];
        const auto first =
            std::ranges::find_first_of(greedy.continuation, request.stop_tokens) - greedy.continuation.begin();
        CHECK(result.finish == FinishReason::stop);
        CHECK(result.tokens.size() == static_cast<std::size_t>(first) + 1);
    }
    SECTION("when the caller says so") {
        std::vector<std::int32_t> seen;
        const auto result = must(session.run({&request, 1}, [&](std::size_t, std::int32_t token) {
            seen.push_back(token);
            return seen.size() < 3;
        }))[0];
        CHECK(result.finish == FinishReason::caller);
        CHECK(seen == result.tokens);
        CHECK(seen.size() == 3);
    }
    SECTION("a prompt as long as the context gives one token") {
        request.prompt.assign(24, 1);
        const auto result = must(session.run({&request, 1}))[0];
        CHECK(result.tokens.size() == 1);
        CHECK(result.finish == FinishReason::context);
    }
    SECTION("and what cannot run is refused") {
        request.prompt.assign(25, 1);
        CHECK(session.run({&request, 1}).error().message == "prompt 1 has 25 tokens, the context holds 24");
        request.prompt = {-1};
        CHECK(session.run({&request, 1}).error().code == ErrorCode::InvalidArgument);
        request.prompt = {static_cast<std::int32_t>(model.config().vocab_size)};
        CHECK(session.run({&request, 1}).error().code == ErrorCode::InvalidArgument);
        request.prompt.clear();
        CHECK(session.run({&request, 1}).error().code == ErrorCode::InvalidArgument);
        CHECK(DecoderSession::create(backend, model, {.context = 1u << 20}).error().code == ErrorCode::InvalidArgument);
        CHECK(DecoderSession::create(backend, model, {.rows = 0}).error().code == ErrorCode::InvalidArgument);
    }
}

TEST_CASE("what an answer has said counts where it goes on, and what was asked does not", "[decoding][decoder]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const models::Decoder model = load_decoder_case("llama_gqa_odd");
    auto session = must(DecoderSession::create(
        backend, model, {.context = model.config().max_positions, .penalties = {.frequency = 0.7f}}));
    const auto answer = [&](const decoding::Sequence& sequence) { return must(session.run({&sequence, 1}))[0].tokens; };
    const decoding::Sequence whole = {.prompt = greedy_golden("llama_gqa_odd").prompt, .max_tokens = 24};
    const auto expected = answer(whole);
    decoding::Sequence rest = whole;
    rest.prompt.insert(rest.prompt.end(), expected.begin(), expected.begin() + 9);
    rest.max_tokens = 15;
    rest.answered = 9;
    CHECK(answer(rest) == std::vector(expected.begin() + 9, expected.end()));
    rest.answered = 0;
    CHECK(answer(rest) != std::vector(expected.begin() + 9, expected.end()));
}

TEST_CASE("draws depend on the seed and on nothing else", "[decoding][decoder]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const models::Decoder model = load_decoder_case("llama_gqa_odd");
    const Greedy greedy = greedy_golden("llama_gqa_odd");
    const graph::SampleOptions sample = {.temperature = 1.5f, .top_k = 30, .top_p = 0.95f};
    std::vector<Request> requests(3, request_of(greedy, 12));
    requests[1].seed = 7;
    auto alone = must(DecoderSession::create(backend, model, {.context = 40, .sample = sample}));
    auto together = must(DecoderSession::create(backend, model, {.rows = 2, .context = 40, .sample = sample}));
    const auto a = must(alone.run(requests)), b = must(together.run(requests));
    CHECK(a[0].tokens == a[2].tokens);
    CHECK(a[0].tokens != a[1].tokens);
    for (std::size_t i = 0; i < requests.size(); ++i) CHECK(a[i].tokens == b[i].tokens);
}

}  // namespace vkformer::tests
