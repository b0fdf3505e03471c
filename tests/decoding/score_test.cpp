// SPDX-License-Identifier: MIT
/// How likely models find what is given: translations, by the scores of transformers' generate(), and texts, by the logits in double
/// precision.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "decoding/generate_case.hpp"
#include "decoding/log_probs_case.hpp"
#include "decoding/score_session.hpp"
#include "decoding/target_scorer.hpp"
#include "models/decoder_case.hpp"
#include "models/open_model.hpp"
#include "support/backends.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/refused.hpp"

namespace vkformer::tests {
namespace {

/// The folders with a generate.json, of all families.
std::vector<std::string> translating_models() {
    std::vector<std::string> names;
    for (const char* const family : {"marian", "encoder_decoders", "seq2seq"})
        for (const auto& entry : std::filesystem::directory_iterator(goldens_dir() / family))
            if (std::filesystem::exists(entry.path() / "generate.json"))
                names.push_back(std::string(family) + "/" + entry.path().filename().string());
    std::ranges::sort(names);
    return names;
}

/// An answer of generate() whose score says what its tokens' log-probabilities add up to.
struct ScoredAnswer {
    std::vector<std::int32_t> source, target;
    double sum = 0;
    std::set<std::size_t> forced;  // places in the target whose tokens count nothing in it
};

std::vector<ScoredAnswer> scored_answers(const std::string& name, const models::EncoderDecoder& model) {
    const auto folder = goldens_dir() / name;
    const json folder_config = read_json(folder / "generation_config.json");
    std::vector<ScoredAnswer> answers;
    for (const json& entry_json : read_json(folder / "generate.json")) {
        const Entry entry =
            read_entry(entry_json, folder_config, model.limits().target_len, model.limits().target_vocab);
        const models::GenerationConfig& g = entry.generation;
        if (entry.scores.empty() || g.renormalize || !entry.is_padded_on_the_right) continue;
        const auto sources = sources_of(entry);
        for (std::size_t b = 0; b < sources.size(); ++b) {
            std::vector<std::int32_t> target = entry.sequences[b];
            const auto end = std::find(target.begin() + 1, target.end(), g.eos);
            if (end != target.end()) target.erase(end + 1, target.end());
            const auto length = static_cast<double>(target.size() - 1);
            ScoredAnswer answer = {.source = {sources[b].tokens.begin(), sources[b].tokens.end()},
                                   .target = target,
                                   .sum = entry.scores[b] * std::pow(length, g.length_penalty),
                                   .forced = {}};
            if (g.rules.forced_first >= 0) answer.forced.insert(1);
            if (g.rules.forced_last >= 0 && target.size() == g.max_steps + 1) answer.forced.insert(g.max_steps);
            answers.push_back(std::move(answer));
        }
    }
    return answers;
}

double sum_of(const std::vector<StepLogProbs>& steps) { return TextScores{.tokens = {}, .log_probs = steps}.sum(); }

}  // namespace

TEST_CASE("the scores of generate() are what its answers' tokens add up to", "[decoding][score][golden]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE(from_range(translating_models()));
    CAPTURE(backend.name(), name);
    if (!takes_case(backend, 2)) return;
    const bool is_cpu = backend.name().starts_with("CPU (");
    const auto model = must(models::load_encoder_decoder(goldens_dir() / name));
    std::vector<ScoredAnswer> answers = scored_answers(name, *model);
    // Renormalised, or with sources that are masked elsewhere than behind their ends: all of them.
    constexpr std::array<std::string_view, 4> kOthers = {"marian/swish_d64_h4_opus", "marian/relu_d16_h1_h2_holes",
                                                         "encoder_decoders/pegasus_d15_untied_computed",
                                                         "encoder_decoders/bart_d24_scaled_relu_untied"};
    if (std::ranges::count(kOthers, name) > 0) return;
    REQUIRE(answers.size() >= 4);
    if (!is_cpu && answers.size() > 12) answers.resize(12);
    std::vector<decoding::ScoredTarget> given;
    for (const ScoredAnswer& answer : answers) given.push_back({.source = answer.source, .target = answer.target});
    decoding::TargetScorer scorer(backend, *model, DType::f32, models::WeightFormat::as_filed, backend.make_store());
    std::vector<std::size_t> told;
    const auto found = must(scorer.run(given, 3, [&](std::size_t done, std::size_t total) {
        CHECK(total == given.size());
        told.push_back(done);
    }));
    CHECK(std::ranges::is_sorted(told));
    CHECK(told.back() == given.size());
    for (std::size_t i = 0; i < answers.size(); ++i) {
        CAPTURE(i);
        const std::vector<std::int32_t>& target = answers[i].target;
        REQUIRE(found[i].size() + 1 == target.size());
        double sum = 0;
        for (std::size_t t = 0; t < found[i].size(); ++t) {
            CHECK(found[i][t].chosen.token == target[t + 1]);
            if (!answers[i].forced.contains(t + 1)) sum += double{found[i][t].chosen.log_prob};
            REQUIRE(found[i][t].likeliest.size() == 3);
            CHECK(found[i][t].likeliest[0].log_prob >= found[i][t].likeliest[1].log_prob);
            for (const TokenLogProb& other : found[i][t].likeliest)
                if (other.token == target[t + 1]) CHECK(other.log_prob == found[i][t].chosen.log_prob);
        }
        CHECK(sum == Approx(answers[i].sum).epsilon(2e-4).margin(2e-4));
    }
    // One by one, with others of the likeliest: as together.
    for (const std::size_t i : {std::size_t{0}, answers.size() - 1}) {
        const auto alone = must(scorer.run({&given[i], 1}, 0));
        CHECK(sum_of(alone[0]) == Approx(sum_of(found[i])).epsilon(1e-5).margin(1e-5));
        CHECK(alone[0][0].likeliest.empty());
    }
}

TEST_CASE("passes of other lengths have constants of their own", "[decoding][score]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name =
        GENERATE("seq2seq/gru_dot_local_p", "seq2seq/lstm_general_bidirectional", "marian/relu_d30_h5_h3");
    CAPTURE(backend.name(), name);
    const auto model = must(models::load_encoder_decoder(goldens_dir() / name));
    const auto tokens = [](std::size_t count, std::int32_t first) {
        std::vector<std::int32_t> made;
        for (std::size_t i = 0; i < count; ++i) made.push_back(first + static_cast<std::int32_t>(i % 7));
        return made;
    };
    const auto weights = backend.make_store();
    const auto score = [&](std::size_t len, const std::shared_ptr<graph::TensorStore>& store) {
        const std::vector<std::int32_t> sources[] = {tokens(len, 3), tokens(len - 1, 5)},
                                        targets[] = {tokens(len, 4), tokens(len, 6)};
        const decoding::ScoredTarget given[] = {{.source = sources[0], .target = targets[0]},
                                                {.source = sources[1], .target = targets[1]}};
        decoding::TargetScorer scorer(backend, *model, DType::f32, models::WeightFormat::as_filed, store);
        const auto found = must(scorer.run(given, 0));
        return std::pair(sum_of(found[0]), sum_of(found[1]));
    };
    for (const std::size_t len : {6u, 12u, 7u}) {
        CAPTURE(len);
        const auto [first, second] = score(len, weights);
        const auto [first_alone, second_alone] = score(len, backend.make_store());
        CHECK(first == Approx(first_alone).epsilon(1e-6));
        CHECK(second == Approx(second_alone).epsilon(1e-6));
    }
}

TEST_CASE("a target of its beginning alone has nothing to be told of", "[decoding][score]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto model = must(models::load_encoder_decoder(goldens_dir() / "marian/relu_d30_h5_h3"));
    decoding::TargetScorer scorer(backend, *model, DType::f32, models::WeightFormat::as_filed, backend.make_store());
    const std::vector<std::int32_t> source = {5, 6, 7}, start = {52};
    const decoding::ScoredTarget given = {.source = source, .target = start};
    CHECK(must(scorer.run({&given, 1}, 2))[0].empty());
    CHECK(must(scorer.run({}, 2)).empty());
    check_refused(scorer.run({&given, 1}, 21), ErrorCode::InvalidArgument, "0 to 20");
}

TEST_CASE("texts are as likely as the model's logits say, together and in any order", "[decoding][score]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE("decoders/qwen3", "decoders/gemma2", "decoders/lfm2");
    CAPTURE(backend.name(), name);
    const models::Decoder model = must(models::load_decoder(goldens_dir() / name));
    const std::uint32_t context = std::min(96u, model.config().max_positions);
    auto session =
        must(decoding::ScoreSession::create(backend, model, {.rows = 4, .context = context, .chunk = 32}, {}));
    const std::vector<std::size_t> lengths = {5, 2, 31, 5, 1, 40, context - 1, 9, 3, 3, context};
    std::vector<decoding::ScoredSequence> texts;
    for (std::size_t i = 0; i < lengths.size(); ++i)
        texts.push_back({.tokens = prompt_of(lengths[i], static_cast<std::uint32_t>(i + 1)), .text = i});
    std::vector<std::size_t> told;
    for (int round = 0; round < 2; ++round) {
        const std::uint32_t likeliest = round == 0 ? 2 : 0;
        const auto found = must(session->run(
            texts.size(), [&](std::size_t i) { return texts[i]; }, likeliest,
            [&](std::size_t done, std::size_t total) {
                CHECK(total == texts.size());
                told.push_back(done);
            }));
        for (std::size_t i = 0; i < texts.size(); ++i) {
            CAPTURE(round, i);
            const auto& tokens = texts[i].tokens;
            REQUIRE(found[i].size() + 1 == tokens.size());
            if (found[i].empty()) continue;
            const auto expected = log_probs_of(model, {tokens.begin(), tokens.end() - 1}, found[i].size());
            for (std::size_t t = 0; t < found[i].size(); ++t) {
                const StepLogProbs& step = found[i][t];
                CHECK(step.chosen.token == tokens[t + 1]);
                CHECK(std::abs(step.chosen.log_prob - expected[t][static_cast<std::size_t>(tokens[t + 1])]) < 2e-4);
                REQUIRE(step.likeliest.size() == likeliest);
                if (likeliest > 0)
                    CHECK(std::abs(step.likeliest[0].log_prob - *std::ranges::max_element(expected[t])) < 2e-4);
            }
        }
    }
    CHECK(told.size() == 2 * texts.size());
    CHECK(must(session->run(
                   0, [](std::size_t) { return decoding::ScoredSequence(); }, 0))
              .empty());
    // From a token on.
    const auto tail = [&](std::size_t) { return decoding::ScoredSequence{.tokens = texts[5].tokens, .first = 38}; };
    const auto last = must(session->run(1, tail, 0))[0];
    REQUIRE(last.size() == 2);
    CHECK(last[0].chosen.token == texts[5].tokens[38]);
}

TEST_CASE("many short texts are read together", "[decoding][score]") {
    graph::Backend& backend = *test_backends().front();
    const models::Decoder model = must(models::load_decoder(goldens_dir() / "decoders" / "qwen3"));
    std::size_t scored = 0, jobs = 0;
    decoding::BatchScript script(
        model, must(decoding::checked_batch_options(model, {.rows = 16, .context = 64, .chunk = 64})),
        [](auto, auto, auto*) { return false; }, [](auto, auto) {}, [&](auto, auto) { ++scored; });
    script.plan_for(backend.fusions());
    decoding::SessionStores stores(backend);
    for (std::size_t i = 0; i < 16; ++i)
        script.add(i, {.sequence = {.prompt = prompt_of(9)}, .prompt_log_probs = 0, .is_prompt_alone = true});
    while (!script.is_idle()) {
        must(decoding::run_job(script, *must(script.next(1)), backend, stores));
        ++jobs;
    }
    CHECK(scored == 16);
    CHECK(jobs == 4);  // of four rows of 16 tokens each
}

TEST_CASE("texts that cannot be scored are named, and nothing has run", "[decoding][score][errors]") {
    graph::Backend& backend = *test_backends().front();
    const models::Decoder model = must(models::load_decoder(goldens_dir() / "decoders" / "qwen3"));
    auto session = must(decoding::ScoreSession::create(backend, model, {.rows = 2, .context = 32}, {}));
    const auto refuse = [&](const std::vector<std::int32_t>& tokens, std::uint32_t likeliest,
                            const std::string& words) {
        const auto text = [&](std::size_t i) {
            return decoding::ScoredSequence{.tokens = i == 0 ? prompt_of(4) : tokens, .text = i};
        };
        check_refused(session->run(2, text, likeliest), ErrorCode::InvalidArgument, words);
    };
    refuse({}, 0, "text 2: ");
    refuse({1, 1 << 20}, 0, "text 2: ");
    refuse(prompt_of(33), 0, "text 2: the prompt has 33 tokens, the context holds 32");
    refuse(prompt_of(3), 21, "0 to 20");
    CHECK(must(session->run(
              1, [](std::size_t) { return decoding::ScoredSequence{.tokens = prompt_of(4)}; }, 0))[0]
              .size() == 3);
}

}  // namespace vkformer::tests
