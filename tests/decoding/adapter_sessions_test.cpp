// SPDX-License-Identifier: MIT
/// Adapters of sequences: sessions, guesses, beams, states and batches.
#include <algorithm>
#include <limits>
#include <map>

#include "decoding/batch_script.hpp"
#include "decoding/beam_session.hpp"
#include "decoding/decoder_session.hpp"
#include "decoding/run_script.hpp"
#include "models/adapter_case.hpp"
#include "models/decoder_case.hpp"
#include "support/backends.hpp"
#include "support/refused.hpp"

namespace vkformer::tests {
namespace {

std::vector<std::int32_t> generated(decoding::DecoderSession& session, const Greedy& greedy,
                                    std::vector<float> adapters) {
    const decoding::Request request = {.prompt = greedy.prompt, .max_tokens = 24, .adapters = std::move(adapters)};
    return must(session.run({&request, 1}))[0].tokens;
}

Greedy greedy_of_adapter(const std::string& name) {
    const nlohmann::json golden = read_json(adapter_folder(name) / "greedy.json");
    return {golden["prompt"].get<std::vector<std::int32_t>>(), golden["continuation"].get<std::vector<std::int32_t>>()};
}

std::vector<std::int32_t> first_of(const std::vector<std::int32_t>& tokens, std::size_t count) {
    return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(std::min(count, tokens.size()))};
}

}  // namespace

TEST_CASE("a session goes from one adapter to another, and keeps nothing of the one before",
          "[models][adapter][decoding]") {
    graph::Backend& backend = exact_backend(GENERATE(from_range(test_backends())));
    CAPTURE(backend.name());
    const models::Decoder model = two_adapters();
    auto session = must(decoding::DecoderSession::create(backend, model, {.context = 96}));
    const Greedy none = greedy_golden("llama_gqa_odd"), first = greedy_of_adapter("llama_gqa_odd"),
                 second = greedy_of_adapter("llama_gqa_odd_second");
    for (int round = 0; round < 2; ++round) {
        CHECK(generated(session, first, {1, 0}) == first_of(first.continuation, 24));
        CHECK(generated(session, none, {}) == first_of(none.continuation, 24));
        CHECK(generated(session, second, {0, 1}) == first_of(second.continuation, 24));
    }
    // The same prompt, whose keys are other ones.
    const Greedy same = {prompt_of(20), {}};
    const std::vector<std::int32_t> with = generated(session, same, {1, 1}), without = generated(session, same, {});
    CHECK(generated(session, same, {1, 1}) == with);
    auto fresh = must(decoding::DecoderSession::create(backend, model, {.context = 96}));
    CHECK(generated(fresh, same, {}) == without);
    CHECK(with != without);

    const decoding::Request wrong = {.prompt = {1}, .max_tokens = 1, .adapters = {1}};
    check_refused(session.run({&wrong, 1}), ErrorCode::InvalidArgument, "2 adapters are loaded");
    const decoding::Request endless = {
        .prompt = {1}, .max_tokens = 1, .adapters = {1, std::numeric_limits<float>::quiet_NaN()}};
    check_refused(session.run({&endless, 1}), ErrorCode::InvalidArgument, "−1000 to 1000");
}

TEST_CASE("rows of a session have adapters of their own", "[models][adapter][decoding]") {
    graph::Backend& backend = exact_backend(GENERATE(from_range(test_backends())));
    CAPTURE(backend.name());
    const models::Decoder model = two_adapters();
    auto session = must(decoding::DecoderSession::create(backend, model, {.rows = 2, .context = 96}));
    std::vector<decoding::Request> requests;
    std::vector<std::vector<std::int32_t>> expected;
    const auto add = [&](const Greedy& greedy, std::vector<float> adapters, std::uint32_t tokens) {
        requests.push_back({.prompt = greedy.prompt, .max_tokens = tokens, .adapters = std::move(adapters)});
        expected.push_back(first_of(greedy.continuation, tokens));
    };
    add(greedy_of_adapter("llama_gqa_odd"), {1, 0}, 20);
    add(greedy_golden("llama_gqa_odd"), {}, 6);
    add(greedy_of_adapter("llama_gqa_odd_second"), {0, 1}, 9);
    add(greedy_golden("llama_gqa_odd"), {}, 20);
    const auto results = must(session.run(requests));
    for (std::size_t i = 0; i < results.size(); ++i) CHECK(results[i].tokens == expected[i]);
}

TEST_CASE("guesses are checked with the sequence's adapters", "[models][adapter][decoding][lookup]") {
    graph::Backend& backend = exact_backend(GENERATE(from_range(test_backends())));
    CAPTURE(backend.name());
    const models::Decoder model = two_adapters();
    const Greedy second = greedy_of_adapter("llama_gqa_odd_second"), none = greedy_golden("llama_gqa_odd");
    auto session = must(decoding::DecoderSession::create(backend, model, {.context = 128, .guesses = 4}));
    std::vector<std::int32_t> twice = second.prompt;  // what comes has been there before
    twice.insert(twice.end(), second.continuation.begin(), second.continuation.begin() + 20);
    twice.insert(twice.end(), second.prompt.begin(), second.prompt.end());
    auto plain = must(decoding::DecoderSession::create(backend, model, {.context = 128}));
    for (const std::vector<float>& scales : {std::vector<float>{0, 1}, {}, {1, 0}}) {
        CAPTURE(scales);
        CHECK(generated(session, {twice, {}}, scales) == generated(plain, {twice, {}}, scales));
    }
}

TEST_CASE("beams have the sequence's adapters", "[models][adapter][decoding][beam]") {
    graph::Backend& backend = exact_backend(GENERATE(from_range(test_backends())));
    CAPTURE(backend.name());
    const models::Decoder both = two_adapters(),
                          one = must(
                              with_adapters(base_folder("llama_gqa_odd"), {adapter_folder("llama_gqa_odd_second")})),
                          bare = load_decoder_case("llama_gqa_odd");
    const std::vector<std::int32_t> prompt = prompt_of(9);
    const auto search = [&](decoding::BeamSession& session, std::vector<float> adapters) {
        const decoding::Request request = {.prompt = prompt, .max_tokens = 12, .adapters = std::move(adapters)};
        return must(session.run({&request, 1}))[0].best;
    };
    const decoding::DecoderSessionOptions options = {.context = 64};
    auto session = must(decoding::BeamSession::create(backend, both, options, {.beams = 3}));
    auto alone = must(decoding::BeamSession::create(backend, one, options, {.beams = 3}));
    auto without = must(decoding::BeamSession::create(backend, bare, options, {.beams = 3}));
    const auto expected = search(without, {}), adapted = search(alone, {1});
    for (int round = 0; round < 2; ++round) {
        const auto with = search(session, {0, 1});
        CHECK(with.tokens == adapted.tokens);
        CHECK(with.score == Approx(adapted.score).epsilon(1e-4));
        CHECK(search(session, {}).tokens == expected.tokens);
    }
    CHECK(adapted.score != Approx(expected.score).epsilon(1e-3));
}

TEST_CASE("sequences of a batch have adapters of their own, and share beginnings with those of the same alone",
          "[models][adapter][decoding][batch]") {
    graph::Backend& backend = exact_backend(GENERATE(from_range(test_backends())));
    CAPTURE(backend.name());
    const models::Decoder model = two_adapters();
    const decoding::BatchOptions options =
        must(decoding::checked_batch_options(model, {.rows = 4, .context = 128, .chunk = 64}));
    std::map<decoding::BatchScript::Id, decoding::SequenceResult> ended;
    decoding::BatchScript script(
        model, options, [](auto, auto, auto*) { return true; },
        [&](auto id, decoding::SequenceResult result) { ended[id] = std::move(result); }, [](auto, auto) {});
    script.plan_for(backend.fusions());
    decoding::SessionStores stores(backend);
    const auto run_all = [&] {
        while (!script.is_idle()) must(decoding::run_job(script, *must(script.next(3)), backend, stores));
    };
    const std::vector<std::vector<float>> scales = {{}, {1, 0}, {0, 1}, {1, 0.5f}};
    const std::vector<std::int32_t> prompt = prompt_of(80);
    const auto asked = [&](const std::vector<float>& adapters) {
        return decoding::BatchSequence{.sequence = {.prompt = prompt, .max_tokens = 7, .adapters = adapters}};
    };
    // All at a time, then each once more, which finds its own beginning and no other's.
    for (int round = 0; round < 2; ++round) {
        ended.clear();
        for (std::size_t i = 0; i < scales.size(); ++i) {
            must(script.check(asked(scales[i])));
            script.add(i, asked(scales[i]));
            if (round == 1) run_all();
        }
        run_all();
        for (std::size_t i = 0; i < scales.size(); ++i) {
            CAPTURE(round, i);
            auto session = must(decoding::DecoderSession::create(backend, model, {.context = 128}));
            const decoding::Request alone = asked(scales[i]).sequence;
            CHECK(ended[i].tokens == must(session.run({&alone, 1}))[0].tokens);
            CHECK(ended[i].reused == (round == 0 ? 0 : 64));
        }
    }
    CHECK(ended[0].tokens != ended[1].tokens);
    CHECK(ended[1].tokens != ended[2].tokens);
    check_refused(script.check(asked({1})), ErrorCode::InvalidArgument, "2 adapters are loaded");

    // What a prompt's tokens are like depends on them too.
    std::map<decoding::BatchScript::Id, std::vector<StepLogProbs>> told;
    decoding::BatchScript scoring(
        model, options, [](auto, auto, auto*) { return true; }, [](auto, auto) {},
        [&](auto id, std::vector<StepLogProbs> prompt_scores) { told[id] = std::move(prompt_scores); });
    scoring.plan_for(backend.fusions());
    for (std::size_t i = 0; i < 2; ++i) {
        auto sequence = asked(scales[i]);
        sequence.prompt_log_probs = 0;
        sequence.is_prompt_alone = true;
        scoring.add(i, sequence);
    }
    while (!scoring.is_idle()) must(decoding::run_job(scoring, *must(scoring.next(3)), backend, stores));
    REQUIRE(told.size() == 2);
    CHECK(told[0].back().chosen.log_prob != Approx(told[1].back().chosen.log_prob).epsilon(1e-3));
}

TEST_CASE("states of layers are those of the adapters that read them", "[models][adapter][decoding]") {
    graph::Backend& backend = exact_backend(GENERATE(from_range(test_backends())));
    const std::string name = GENERATE("qwen3_next", "granite_hybrid", "lfm2");
    CAPTURE(backend.name(), name);
    if (!takes_case(backend, 2)) return;
    const models::Decoder model = must(with_adapters(base_folder(name), {adapter_folder(name)}));
    const Greedy prompt = {prompt_of(75), {}};  // long enough for a state that is kept
    const decoding::DecoderSessionOptions options = {.context = 110, .chunk = 32};
    const auto fresh = [&](std::vector<float> adapters) {
        auto session = must(decoding::DecoderSession::create(backend, model, options));
        return generated(session, prompt, std::move(adapters));
    };
    const std::vector<std::int32_t> with = fresh({1}), without = fresh({});
    auto session = must(decoding::DecoderSession::create(backend, model, options));
    for (int round = 0; round < 2; ++round) {
        CHECK(generated(session, prompt, {1}) == with);
        CHECK(generated(session, prompt, {}) == without);
    }
}

TEST_CASE("a sequence that gave its pages away is read again with its adapters", "[models][adapter][decoding][batch]") {
    graph::Backend& backend = exact_backend(GENERATE(from_range(test_backends())));
    CAPTURE(backend.name());
    const models::Decoder model = two_adapters();
    const decoding::BatchOptions options =
        must(decoding::checked_batch_options(model, {.rows = 3, .context = 128, .pages = 4, .chunk = 64}));
    std::map<decoding::BatchScript::Id, decoding::SequenceResult> ended;
    decoding::BatchScript script(
        model, options, [](auto, auto, auto*) { return true; },
        [&](auto id, decoding::SequenceResult result) { ended[id] = std::move(result); }, [](auto, auto) {});
    script.plan_for(backend.fusions());
    decoding::SessionStores stores(backend);
    const std::vector<std::vector<float>> scales = {{1, 0}, {0, 1}, {}};
    const auto asked = [&](std::size_t i) {
        return decoding::BatchSequence{.sequence = {.prompt = prompt_of(60, static_cast<std::int32_t>(i) + 3),
                                                    .max_tokens = 20,
                                                    .adapters = scales[i]}};
    };
    for (std::size_t i = 0; i < scales.size(); ++i) script.add(i, asked(i));
    while (!script.is_idle()) must(decoding::run_job(script, *must(script.next(3)), backend, stores));
    CHECK(script.counts().preempted > 0);
    for (std::size_t i = 0; i < scales.size(); ++i) {
        CAPTURE(i);
        auto session = must(decoding::DecoderSession::create(backend, model, {.context = 128}));
        const decoding::Request alone = asked(i).sequence;
        CHECK(ended[i].tokens == must(session.run({&alone, 1}))[0].tokens);
    }
}

}  // namespace vkformer::tests
