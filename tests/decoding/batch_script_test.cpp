// SPDX-License-Identifier: MIT
#include "decoding/batch_script.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "decoding/batch_case.hpp"
#include "decoding/log_probs_case.hpp"

namespace vkformer::tests {

TEST_CASE("sequences that come and go continue as they do alone", "[decoding][batch]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name =
        GENERATE("qwen3", "gemma2", "gpt2", "mistral_window", "lfm2", "qwen3_5", "qwen3_next", "deepseek_v3");
    CAPTURE(backend.name(), name);
    if (!takes_case(backend, 2)) return;
    const models::Decoder model = load_decoder_case(name);
    BatchOptions options = batch_options_of(3, 12);
    options.context = most_positions(model);
    Batch batch(backend, model, options);
    std::map<BatchScript::Id, BatchSequence> asked;
    const auto add = [&](BatchScript::Id id, std::size_t prompt, std::uint32_t tokens) {
        asked[id] = greedy_sequence(prompt_of(prompt, static_cast<std::int32_t>(id) + 3), tokens);
        must(batch.script.check(asked[id]));
        batch.script.add(id, asked[id]);
    };
    add(1, 1, 9);
    add(2, 20, 4);
    for (int i = 0; i < 3; ++i) batch.run();
    add(3, 63, 5);
    add(4, 64, 2);
    for (int i = 0; i < 2; ++i) batch.run();
    add(5, 2, 12);
    add(6, 17, 1);
    batch.run_all();
    for (const auto& [id, sequence] : asked) {
        CAPTURE(id);
        REQUIRE(batch.ended.contains(id));
        check_alike(batch.ended.at(id), answer_alone(backend, model, sequence, options.context));
        CHECK(batch.streamed[id] == batch.ended.at(id).tokens);
    }
    CHECK(batch.script.pages().used() == 0);
}

TEST_CASE("little of a prompt's chunks is computed in vain", "[decoding][batch]") {
    graph::Backend& backend = *test_backends().front();
    const models::Decoder model = long_model();
    using Lens = std::vector<std::uint32_t>;
    const auto [prompt, expected] = GENERATE(table<std::size_t, Lens>(
        {{1, {}}, {2, {16}}, {18, {32}}, {41, {32, 16}}, {57, {64}}, {65, {64}}, {66, {64, 16}}, {150, {64, 64, 32}}}));
    CAPTURE(prompt);
    Batch batch(backend, model, batch_options_of(2, 8));
    batch.script.add(1, greedy_sequence(prompt_of(prompt), 1));
    Lens lens;
    while (!batch.script.is_idle()) {
        const auto job = must(batch.script.next(1));
        REQUIRE(job);
        if (job->kind == decoding::Job::Kind::prompt) lens.push_back(job->len);
        must(decoding::run_job(batch.script, *job, backend, batch.stores));
    }
    CHECK(lens == expected);
}

TEST_CASE("a page that sequences begin with is computed once", "[decoding][batch]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const models::Decoder model = long_model();
    Batch batch(backend, model, batch_options_of(4, 12));
    std::vector<std::int32_t> common = prompt_of(130);
    std::map<BatchScript::Id, BatchSequence> asked;
    const auto add = [&](BatchScript::Id id, std::size_t of_common, std::vector<std::int32_t> own) {
        own.insert(own.begin(), common.begin(), common.begin() + static_cast<std::ptrdiff_t>(of_common));
        batch.script.add(id, asked[id] = greedy_sequence(std::move(own), 6));
    };
    add(1, 130, {});
    while (!batch.ended.contains(1)) batch.run();
    CHECK(batch.ended.at(1).reused == 0);
    CHECK(batch.script.pages().kept() == 2);
    add(2, 130, {5});        // two pages
    add(3, 100, {1, 2, 3});  // one
    add(4, 64, {});          // none: the last token is computed in any case
    add(5, 65, {});          // one
    batch.run_all();
    CHECK(batch.ended.at(2).reused == 128);
    CHECK(batch.ended.at(3).reused == 64);
    CHECK(batch.ended.at(4).reused == 0);
    CHECK(batch.ended.at(5).reused == 64);
    for (const auto& [id, sequence] : asked) {
        CAPTURE(id);
        check_alike(batch.ended.at(id), answer_alone(backend, model, sequence, kBatchContext));
    }
}

TEST_CASE("of a sequence that has ended the beginning is kept longest", "[decoding][batch]") {
    graph::Backend& backend = *test_backends().front();
    const models::Decoder model = long_model();
    Batch batch(backend, model, batch_options_of(1, 3));
    const auto run = [&](BatchScript::Id id, std::vector<std::int32_t> prompt) {
        batch.script.add(id, greedy_sequence(std::move(prompt), 1));
        batch.run_all();
        return batch.ended.at(id).reused;
    };
    CHECK(run(1, prompt_of(130)) == 0);    // keeps two pages of three
    CHECK(run(2, prompt_of(70, 5)) == 0);  // needs two, of which one was kept
    CHECK(run(3, prompt_of(130)) == 64);
}

TEST_CASE("where pages run out, who came last waits, and loses nothing", "[decoding][batch]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const models::Decoder model = long_model();
    Batch batch(backend, model, batch_options_of(4, 4));
    std::map<BatchScript::Id, BatchSequence> asked;
    for (BatchScript::Id id = 1; id <= 5; ++id) {
        // Drawn, so that a sequence that began anew with another number of draws would be another.
        asked[id] =
            greedy_sequence(prompt_of(50, static_cast<std::int32_t>(id)), 90 + 3 * static_cast<std::uint32_t>(id));
        asked[id].sequence.seed = id;
        asked[id].sample = {.temperature = 0.8f, .top_k = 20};
        asked[id].frequency = 0.5f;
        batch.script.add(id, asked[id]);
    }
    batch.run_all();
    CHECK(batch.script.counts().preempted > 0);
    for (const auto& [id, sequence] : asked) {
        CAPTURE(id);
        check_alike(batch.ended.at(id), answer_alone(backend, model, sequence, kBatchContext));
    }
    CHECK((batch.script.pages().used() == 0 && batch.script.waiting() == 0));
}

TEST_CASE("sequences of a model that keeps states have their own, and share nothing", "[decoding][batch]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE("lfm2", "qwen3_5");
    CAPTURE(backend.name(), name);
    if (!takes_case(backend, 2)) return;
    const models::Decoder model = load_decoder_case(name);
    BatchOptions options = batch_options_of(3, 3);  // too few for two of the longest
    options.context = 128;
    Batch batch(backend, model, options);
    std::map<BatchScript::Id, BatchSequence> asked;
    for (BatchScript::Id id = 1; id <= 6; ++id) {
        asked[id] = greedy_sequence(prompt_of(50), 30 + 6 * static_cast<std::uint32_t>(id));  // all begin alike
        asked[id].sequence.seed = id;
        asked[id].sample = {.temperature = 0.8f, .top_k = 20};
        if (id == 4) asked[id].prompt_log_probs = 0;
        if (id == 5) asked[id].sequence.prompt.resize(1);
        batch.script.add(id, asked[id]);
    }
    batch.run_all();
    CHECK(batch.script.counts().preempted > 0);
    CHECK(batch.script.counts().reused_tokens == 0);
    CHECK(batch.prompts.at(4).size() == 49);
    for (const auto& [id, sequence] : asked) {
        CAPTURE(id);
        check_alike(batch.ended.at(id), answer_alone(backend, model, sequence, options.context));
        CHECK(batch.ended.at(id).reused == 0);
    }
}

TEST_CASE("each sequence of a batch has its own rules", "[decoding][batch]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const bool ruled = GENERATE(false, true);
    CAPTURE(backend.name(), ruled);
    const models::Decoder model = long_model();
    BatchOptions options = batch_options_of(8, 24);
    // What would end an answer at its third token, did it not wait.
    options.ends = {answer_alone(backend, model, greedy_sequence(prompt_of(9), 3), kBatchContext).tokens.back()};
    if (ruled) options.rules = {.banned = {3, 20}, .banned_first = {5}, .biases = {{{9}, 1.5f}}, .forced_last = 2};
    Batch batch(backend, model, options);
    std::vector<BatchSequence> asked(8, greedy_sequence(prompt_of(9), 14));
    asked[1].sample = {.temperature = 1.2f};
    asked[2].sample = {.temperature = 0.7f, .top_p = 0.8f, .min_p = 0.01f};
    asked[3].repetition = 1.4f;
    asked[4].presence = 0.6f;
    asked[4].sample = {.temperature = 0.9f, .top_k = 5};
    asked[5].bias = {{4, 3.0f}, {6, -100.0f}};
    asked[6].min_tokens = 8;
    asked[6].sequence.stop_tokens = options.ends;
    asked[7].sequence.stop_tokens = options.ends;
    asked[7].sample = {.temperature = 2};
    for (std::size_t i = 0; i < asked.size(); ++i) {
        asked[i].sequence.seed = (std::uint64_t{5} << 40) + i;
        batch.script.add(i, asked[i]);
    }
    batch.run_all();
    for (std::size_t i = 0; i < asked.size(); ++i) {
        CAPTURE(i);
        check_alike(batch.ended.at(i),
                    answer_alone(backend, model, asked[i], kBatchContext, options.rules, options.ends));
    }
}

TEST_CASE("log-probabilities are those of the model's logits, whatever chooses", "[decoding][batch][log_probs]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const bool ruled = GENERATE(false, true);
    CAPTURE(backend.name(), ruled);
    const models::Decoder model = long_model();
    BatchOptions options = batch_options_of(4, 12);
    if (ruled) options.rules = {.banned = {3, 20}, .biases = {{{9}, 1.5f}}, .forced_last = 2};
    Batch batch(backend, model, options);
    std::vector<BatchSequence> asked(6, greedy_sequence(prompt_of(9), 22));
    asked[0].log_probs = 3;
    asked[1].log_probs = 0;
    asked[2].log_probs = 20;  // which the others then find, too
    asked[2].sample = {.temperature = 1.4f};
    asked[2].repetition = 1.3f;
    asked[2].bias = {{4, 3.0f}, {6, -100.0f}};
    asked[3].sample = {.temperature = 0.8f};
    asked[4].log_probs = 5;  // alone with another one, later
    asked[4].sequence.prompt = prompt_of(40, 3);
    for (std::size_t i = 0; i < asked.size(); ++i) {
        asked[i].sequence.seed = i;
        asked[i].sequence.max_tokens += static_cast<std::uint32_t>(i);
        batch.script.add(i, asked[i]);
    }
    while (!batch.script.is_idle()) REQUIRE(batch.run(40));  // more than are kept
    for (std::size_t i = 0; i < asked.size(); ++i) {
        CAPTURE(i);
        const auto& tokens = batch.ended.at(i).tokens;
        const auto& told = batch.told[i];
        REQUIRE(told.size() == (asked[i].log_probs ? tokens.size() : 0));
        if (told.empty()) continue;
        std::vector<std::int32_t> all = asked[i].sequence.prompt;
        all.insert(all.end(), tokens.begin(), tokens.end() - 1);
        const auto expected = log_probs_of(model, all, tokens.size());
        for (std::size_t t = 0; t < tokens.size(); ++t) {
            CAPTURE(t);
            const double bound = 2e-4;  // of sums of some hundred float32 logits
            const auto near = [&](const TokenLogProb& found) {
                return std::abs(found.log_prob - expected[t][static_cast<std::size_t>(found.token)]) < bound;
            };
            CHECK(told[t].chosen.token == tokens[t]);
            CHECK(near(told[t].chosen));
            const auto& likeliest = told[t].likeliest;
            REQUIRE(likeliest.size() == *asked[i].log_probs);
            std::vector<double> sorted = expected[t];
            std::ranges::sort(sorted, std::greater());
            for (std::size_t k = 0; k < likeliest.size(); ++k) {
                CHECK(near(likeliest[k]));
                CHECK(std::abs(likeliest[k].log_prob - sorted[k]) < bound);
                CHECK((k == 0 || likeliest[k].log_prob <= likeliest[k - 1].log_prob));
            }
        }
    }
}

TEST_CASE("a prompt's tokens are as likely as the model's logits say", "[decoding][batch][log_probs]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const models::Decoder model = long_model();
    Batch batch(backend, model, batch_options_of(3, 4));
    std::vector<BatchSequence> asked = {
        greedy_sequence(prompt_of(70), 4),      // keeps a page that others begin with
        greedy_sequence(prompt_of(70), 3),      // of more than a chunk
        greedy_sequence(prompt_of(1, 5), 2),    // nothing to tell
        greedy_sequence(prompt_of(100, 9), 0),  // nothing but its prompt
        greedy_sequence(prompt_of(1, 7), 0),    // not even that
        greedy_sequence(prompt_of(90, 3), 60),  // for which there are too few pages while others run
        greedy_sequence(prompt_of(33, 2), 80),
    };
    const std::vector<std::optional<std::uint32_t>> likeliest = {{}, 3, 0, 20, 2, 0, 5};
    for (std::size_t i = 0; i < asked.size(); ++i) {
        asked[i].prompt_log_probs = likeliest[i];
        asked[i].is_prompt_alone = i == 3 || i == 4;
        must(batch.script.check(asked[i]));
        batch.script.add(i, asked[i]);
    }
    batch.run_all();
    CHECK(batch.script.counts().preempted > 0);
    CHECK(batch.script.pages().used() == 0);
    CHECK_FALSE(batch.prompts.contains(0));
    for (std::size_t i = 1; i < asked.size(); ++i) {
        CAPTURE(i);
        const auto& prompt = asked[i].sequence.prompt;
        const SequenceResult& result = batch.ended.at(i);
        if (asked[i].is_prompt_alone) {
            CHECK((result.tokens.empty() && result.finish == FinishReason::length));
        } else {
            check_alike(result, answer_alone(backend, model, asked[i], kBatchContext));
            CHECK(result.reused == 0);
        }
        const auto& told = batch.prompts.at(i);
        REQUIRE(told.size() + 1 == prompt.size());
        if (told.empty()) continue;
        const auto expected = log_probs_of(model, {prompt.begin(), prompt.end() - 1}, told.size());
        for (std::size_t t = 0; t < told.size(); ++t) {
            CAPTURE(t);
            const auto is_near = [&](const TokenLogProb& found) {
                return std::abs(found.log_prob - expected[t][static_cast<std::size_t>(found.token)]) < 2e-4;
            };
            CHECK(told[t].chosen.token == prompt[t + 1]);
            CHECK(is_near(told[t].chosen));
            REQUIRE(told[t].likeliest.size() == *likeliest[i]);
            for (const TokenLogProb& found : told[t].likeliest) CHECK(is_near(found));
            if (!told[t].likeliest.empty())
                CHECK(std::abs(told[t].likeliest[0].log_prob - *std::ranges::max_element(expected[t])) < 2e-4);
        }
    }
    BatchSequence wrong = asked[1];
    wrong.prompt_log_probs = 21;
    CHECK_FALSE(batch.script.check(wrong));
}

TEST_CASE("sequences of a batch end where they are told to", "[decoding][batch]") {
    graph::Backend& backend = *test_backends().front();
    const models::Decoder model = long_model();
    Batch batch(backend, model, batch_options_of(2, 8));
    batch.wanted[1] = 3;
    for (BatchScript::Id id = 1; id <= 4; ++id) batch.script.add(id, greedy_sequence(prompt_of(kBatchContext - 10), 0));
    batch.script.cancel(4);  // while it waits
    CHECK(batch.ended.at(4).finish == FinishReason::caller);
    while (batch.streamed[2].size() < 2) batch.run(1);
    batch.script.cancel(2);
    batch.script.cancel(99);  // nobody's
    CHECK(batch.ended.at(2).finish == FinishReason::caller);
    CHECK(batch.ended.at(2).tokens == batch.streamed[2]);
    batch.run_all();
    CHECK(batch.ended.at(1).finish == FinishReason::caller);
    CHECK(batch.ended.at(1).tokens.size() == 3);
    CHECK(batch.ended.at(3).finish == FinishReason::context);
    CHECK(batch.ended.at(3).tokens.size() == 11);
    CHECK(batch.script.pages().used() == 0);
}

TEST_CASE("what a batch cannot run is refused", "[decoding][batch]") {
    graph::Backend& backend = *test_backends().front();
    const models::Decoder model = long_model();
    Batch batch(backend, model, batch_options_of(2, 8));
    const auto refused = [&](BatchSequence asked) { return batch.script.check(asked).error().code; };
    CHECK(refused(greedy_sequence({}, 1)) == ErrorCode::InvalidArgument);
    CHECK(refused(greedy_sequence({-1}, 1)) == ErrorCode::InvalidArgument);
    CHECK(refused(greedy_sequence(prompt_of(kBatchContext + 1), 1)) == ErrorCode::InvalidArgument);
    BatchSequence asked = greedy_sequence({1}, 1);
    asked.sample.temperature = -1;
    CHECK(refused(asked) == ErrorCode::InvalidArgument);
    asked = greedy_sequence({1}, 1);
    asked.repetition = 0;
    CHECK(refused(asked) == ErrorCode::InvalidArgument);
    asked = greedy_sequence({1}, 1);
    asked.bias = {{1 << 20, 1.0f}};
    CHECK(refused(asked) == ErrorCode::InvalidArgument);
    asked = greedy_sequence({1}, 1);
    asked.log_probs = 21;
    CHECK(refused(asked) == ErrorCode::InvalidArgument);

    const auto options_refused = [&](BatchOptions options) {
        return decoding::checked_batch_options(model, options).error().code;
    };
    CHECK(options_refused(batch_options_of(0, 8)) == ErrorCode::InvalidArgument);
    CHECK(options_refused(batch_options_of(65, 8)) == ErrorCode::InvalidArgument);
    CHECK(options_refused(batch_options_of(2, 2)) == ErrorCode::InvalidArgument);  // 160 tokens have three pages
    BatchOptions usual = batch_options_of(2, 8);
    usual.pages = 0;
    CHECK(must(decoding::checked_batch_options(model, usual)).pages == 2 * kBatchContext / 64 + 1);
    BatchOptions looks_back = batch_options_of(2, 8);
    looks_back.rules.banned_words = {{1, 2}};
    CHECK(options_refused(looks_back) == ErrorCode::UnsupportedConfig);
}

}  // namespace vkformer::tests
