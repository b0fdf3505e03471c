// SPDX-License-Identifier: MIT
/// The shipped model, through tokenizer and generation, on the inputs that it was not trained on.
#include <cmath>
#include <fstream>
#include <set>

#include <nlohmann/json.hpp>

#include "decoding/session.hpp"
#include "models/marian_case.hpp"
#include "support/backends.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "text/tokenizer.hpp"

namespace vkformer::tests {
namespace {

const std::filesystem::path kNormalizer = std::filesystem::path(VKFORMER_SOURCE_DIR) / "samples/models/date-normalizer";

struct Line {
    std::string text, date;
};

/// Every `stride`-th line of eval.tsv.
std::vector<Line> eval_lines(std::size_t stride) {
    std::ifstream file(kNormalizer / "eval.tsv");
    std::vector<Line> lines;
    std::string line;
    for (std::size_t i = 0; std::getline(file, line); ++i) {
        const auto tab = line.rfind('\t');
        REQUIRE(tab != line.npos);
        if (i % stride == 0) lines.push_back({line.substr(0, tab), line.substr(tab + 1)});
    }
    return lines;
}

struct Normalizer {
    models::Seq2Seq model = load_marian_folder(kNormalizer);
    models::GenerationConfig generation =
        must(models::load_generation_config(kNormalizer, model.limits().target_len, model.limits().target_vocab));
    std::unique_ptr<text::Tokenizer> tokenizer = must(text::load_tokenizer(kNormalizer));

    std::vector<std::string> run(graph::Backend& backend, const std::vector<std::string>& texts,
                                 std::uint32_t batch) const {
        auto session = must(decoding::Session::create(backend, model, {.generation = generation, .batch = batch}));
        std::vector<std::vector<std::int32_t>> ids;
        for (const std::string& text : texts) ids.push_back(must(tokenizer->encode(text)));
        std::vector<decoding::Source> sources;
        for (const auto& tokens : ids) sources.push_back({.tokens = tokens});
        std::vector<std::string> results;
        for (const auto& hypothesis : must(session.generate(sources)))
            results.push_back(tokenizer->decode(hypothesis.tokens));
        return results;
    }
};

double exact_match(const Normalizer& normalizer, graph::Backend& backend, const std::vector<Line>& lines) {
    std::vector<std::string> texts;
    for (const Line& line : lines) texts.push_back(line.text);
    const auto results = normalizer.run(backend, texts, 50);
    std::size_t right = 0;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        right += results[i] == lines[i].date;
        if (results[i] != lines[i].date)
            UNSCOPED_INFO(lines[i].text << " → " << results[i] << ", not " << lines[i].date);
    }
    return static_cast<double>(right) / static_cast<double>(lines.size());
}

}  // namespace

TEST_CASE("the shipped model normalises 99.5 % of the unseen dates", "[decoding][date]") {
    const Normalizer normalizer;
    graph::Backend& cpu = *test_backends().front();
    const auto lines = eval_lines(1);
    REQUIRE(lines.size() == 2000);
    CHECK(exact_match(normalizer, cpu, lines) >= 0.995);
}

TEST_CASE("the shipped model does so on every backend", "[decoding][date]") {
    const Normalizer normalizer;
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    if (takes_case(backend, 2)) CHECK(exact_match(normalizer, backend, eval_lines(40)) >= 0.97);  // 50 lines
}

TEST_CASE("batching and order change no result", "[decoding][date]") {
    const Normalizer normalizer;
    graph::Backend& cpu = *test_backends().front();
    std::vector<std::string> texts;
    for (const Line& line : eval_lines(100)) texts.push_back(line.text);
    const auto one_by_one = normalizer.run(cpu, texts, 1);
    CHECK(normalizer.run(cpu, texts, 7) == one_by_one);
    CHECK(normalizer.run(cpu, texts, 64) == one_by_one);
}

namespace {

/// Σ log p of the tokens behind the first, by one forward pass over all of them.
double log_probability(const models::Seq2Seq& model, std::span<const std::int32_t> source,
                       std::span<const std::int32_t> tokens) {
    graph::Backend& cpu = *test_backends().front();
    const auto read = tokens.first(tokens.size() - 1);
    auto f = must(model.forward({.source_len = static_cast<std::uint32_t>(source.size()),
                                 .target_len = static_cast<std::uint32_t>(read.size())}));
    const auto program =
        must(cpu.compile(graph::make_plan_for(cpu, std::move(f.graph)), cpu.make_store(), cpu.make_store()));
    must(program->write(f.source_tokens, source));
    must(program->write(f.target_tokens, read));
    must(program->submit());
    must(program->wait());
    const std::size_t vocab = program->plan().graph.shape(f.logits).back();
    std::vector<float> logits(read.size() * vocab);
    must(program->read(f.logits, std::span<float>(logits)));
    double sum = 0;
    for (std::size_t i = 0; i < read.size(); ++i) {
        const auto row = std::span(logits).subspan(i * vocab, vocab);
        double total = 0;
        for (const float logit : row) total += std::exp(static_cast<double>(logit));
        sum += static_cast<double>(row[static_cast<std::size_t>(tokens[i + 1])]) - std::log(total);
    }
    return sum;
}

}  // namespace

TEST_CASE("every hypothesis of a search has the score that the model gives it, in falling order", "[decoding][date]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const Normalizer normalizer;
    models::GenerationConfig generation = normalizer.generation;
    generation.beams = 4;
    const auto make = [&](std::uint32_t hypotheses) {
        return decoding::Session::create(backend, normalizer.model,
                                         {.generation = generation, .batch = 2, .hypotheses = hypotheses});
    };
    std::vector<std::vector<std::int32_t>> ids;
    for (const Line& line : eval_lines(500)) ids.push_back(must(normalizer.tokenizer->encode(line.text)));
    std::vector<decoding::Source> sources;
    for (const auto& tokens : ids) sources.push_back({.tokens = tokens});
    auto ranked = must(make(4)), one = must(make(1)), two = must(make(2));
    const auto found = must(ranked.generate(sources));
    const auto best = must(one.generate(sources)), pairs = must(two.generate(sources));
    for (std::size_t i = 0; i < sources.size(); ++i) {
        CHECK(found[i].tokens == best[i].tokens);
        CHECK(best[i].further.empty());
        REQUIRE(pairs[i].further.size() == 1);
        REQUIRE(found[i].further.size() == 3);
        CHECK(pairs[i].further[0].tokens == found[i].further[0].tokens);
        std::set<std::vector<std::int32_t>> seen = {found[i].tokens};
        float before = *found[i].score;
        for (const decoding::Hypothesis& next : found[i].further) {
            CHECK(seen.insert(next.tokens).second);
            CHECK(*next.score <= before);
            before = *next.score;
            const double length = static_cast<double>(next.tokens.size() - 1);
            const double expected =
                log_probability(normalizer.model, ids[i], next.tokens) / std::pow(length, generation.length_penalty);
            CHECK(static_cast<double>(*next.score) == Approx(expected).epsilon(1e-3));
        }
    }
    CHECK(make(0).error().message == "0 hypotheses are asked for, a search with 4 beams has 1 to as many");
    CHECK(make(5).error().message == "5 hypotheses are asked for, a search with 4 beams has 1 to as many");
}

TEST_CASE("the shipped model gives what Hugging Face gives", "[decoding][date][golden]") {
    std::ifstream file(goldens_dir() / "date_normalizer.json");
    REQUIRE(file);
    const auto golden = nlohmann::json::parse(file);
    REQUIRE(golden["cases"].size() >= 16);
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const Normalizer normalizer;

    for (const bool greedy : {true, false}) {
        models::GenerationConfig generation = normalizer.generation;
        generation.beams = greedy ? 1 : golden["num_beams"].get<std::uint32_t>();
        auto session =
            must(decoding::Session::create(backend, normalizer.model, {.generation = generation, .batch = 16}));
        const std::size_t count = backend.name().starts_with("CPU (") ? golden["cases"].size() : 16;
        std::vector<std::vector<std::int32_t>> ids;
        for (std::size_t i = 0; i < count; ++i) {
            const auto& entry = golden["cases"][i];
            ids.push_back(must(normalizer.tokenizer->encode(entry["input"].get<std::string>())));
            CHECK(ids.back() == entry["input_ids"].get<std::vector<std::int32_t>>());
        }
        std::vector<decoding::Source> sources;
        for (const auto& tokens : ids) sources.push_back({.tokens = tokens});
        const auto found = must(session.generate(sources));
        for (std::size_t i = 0; i < found.size(); ++i) {
            const auto& entry = golden["cases"][i];
            CAPTURE(greedy, entry["input"].get<std::string>());
            CHECK(found[i].tokens == entry[greedy ? "greedy_ids" : "beam_ids"].get<std::vector<std::int32_t>>());
            if (greedy) CHECK(normalizer.tokenizer->decode(found[i].tokens) == entry["text"].get<std::string>());
            if (!greedy) CHECK(*found[i].score == Approx(entry["beam_score"].get<double>()).margin(1e-4));
        }
    }
}

}  // namespace vkformer::tests
