// SPDX-License-Identifier: MIT
// Beam search against Hugging Face generate: models whose logits are a table of the last token (tests/goldens/make_beam.py), so
// that embedding, log_softmax, top_k and beam_step are the whole decoder.
#include <nlohmann/json.hpp>

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>

#include "graph/builders.hpp"
#include "support/backends.hpp"
#include "support/catch.h"
#include "support/goldens.hpp"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

using graph::Value;
using nlohmann::json;

struct Hypothesis {
    std::vector<std::int32_t> tokens;
    float score = 0;
};

/// The decoder of a bigram table for `batch` sequences, and its program.
class BeamSearch {
public:
    BeamSearch(graph::Backend& backend, const std::vector<float>& table, std::uint64_t batch,
               const graph::BeamOptions& options)
        : batch_(batch), rows_(batch * options.beams), options_(options) {
        const auto vocab = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(table.size())));
        graph::Graph g;
        const auto ints = [&](const char* name, const Shape& shape) { return must(g.state(name, DType::i32, shape)); };
        const auto floats = [&](const char* name) { return must(g.state(name, DType::f32, {rows_})); };
        states = {.tokens = ints("tokens", {rows_, 1}),
                  .starts = ints("starts", {rows_}),
                  .parents = ints("parents", {rows_}),
                  .running_scores = floats("running_scores"),
                  .token_history = ints("token_history", {options.max_steps, rows_}),
                  .parent_history = ints("parent_history", {options.max_steps, rows_}),
                  .final_scores = floats("final_scores"),
                  .final_steps = ints("final_steps", {rows_}),
                  .final_rows = ints("final_rows", {rows_}),
                  .final_tokens = ints("final_tokens", {rows_}),
                  .state = ints("state", {batch + 3})};
        const TensorData weights{
            .dtype = DType::f32, .shape = {vocab, vocab}, .bytes = std::as_bytes(std::span(table)), .owner = nullptr};
        const Value logits = must(graph::embedding(g, states.tokens, must(g.weight("table", weights, DType::f32))));
        const Value scores = must(graph::log_softmax(g, must(g.reshape(logits, {rows_, vocab}))));
        const auto k = static_cast<std::uint32_t>(std::min<std::uint64_t>(2 * options.beams, vocab));
        const auto best = must(graph::top_k(g, scores, k));
        must(graph::beam_step(g, best.values, best.indices, states, options));
        program = must(backend.compile(graph::make_plan(std::move(g)), backend.make_store(), backend.make_store()));
    }

    /// One start token per sequence; the sequences from `used` on are left out.
    void start(const std::vector<std::int32_t>& start_tokens, std::size_t used) {
        std::vector<std::int32_t> tokens(rows_), flags(batch_ + 3, 0);
        std::vector<float> running(rows_, -1e9f);
        for (std::size_t row = 0; row < rows_; ++row) {
            tokens[row] = start_tokens[row / options_.beams];
            if (row % options_.beams == 0) running[row] = 0;
        }
        std::fill_n(flags.begin(), used, 1);
        flags.back() = static_cast<std::int32_t>(options_.max_steps);
        must(program->write(states.tokens, tokens));
        must(program->write(states.running_scores, running));
        must(program->write(states.final_scores, std::vector<float>(rows_, -1e9f)));
        must(program->write(states.state, flags));
    }

    std::vector<std::int32_t> ints(Value value) {
        std::vector<std::int32_t> values(program->plan().graph.shape(value).element_count());
        must(program->read(value, std::span(values)));
        return values;
    }
    std::vector<float> floats(Value value) {
        std::vector<float> values(program->plan().graph.shape(value).element_count());
        must(program->read(value, std::span(values)));
        return values;
    }

    /// The best finished hypothesis of sequence b.
    Hypothesis best(std::size_t b) {
        const std::size_t first = b * options_.beams;
        const auto tokens = ints(states.token_history), parents = ints(states.parent_history);
        const std::int32_t steps = ints(states.final_steps)[first];
        REQUIRE(steps >= 1);
        Hypothesis result{.tokens = std::vector<std::int32_t>(static_cast<std::size_t>(steps)),
                          .score = floats(states.final_scores)[first]};
        result.tokens.back() = ints(states.final_tokens)[first];
        auto row = static_cast<std::size_t>(ints(states.final_rows)[first]);
        for (auto t = static_cast<std::size_t>(steps) - 1; t-- > 0;) {
            REQUIRE(row / options_.beams == b);
            result.tokens[t] = tokens[t * rows_ + row];
            row = static_cast<std::size_t>(parents[t * rows_ + row]);
        }
        return result;
    }

    graph::BeamStates states;
    std::unique_ptr<graph::Program> program;

private:
    std::uint64_t batch_, rows_;
    graph::BeamOptions options_;
};

json load_bigrams() {
    std::ifstream file(goldens_dir() / "beam" / "bigrams.json");
    REQUIRE(file);
    return json::parse(file);
}

std::vector<float> table_of(const json& bigrams, std::size_t index) {
    std::vector<float> table;
    for (const json& row : bigrams.at("tables").at(index))
        for (const json& logit : row) table.push_back(logit.get<float>());
    return table;
}

graph::BeamOptions options_of(const json& bigrams, const json& example) {
    const json& early = example.at("early_stopping");
    return {.beams = example.at("beams").get<std::uint32_t>(),
            .max_steps = example.at("max_steps").get<std::uint32_t>(),
            .eos = bigrams.at("eos").get<std::int32_t>(),
            .length_penalty = example.at("length_penalty").get<float>(),
            .early_stopping = early.is_string()   ? graph::EarlyStopping::never
                              : early.get<bool>() ? graph::EarlyStopping::always
                                                  : graph::EarlyStopping::heuristic};
}

TEST_CASE("beam search gives what Hugging Face generate gives", "[golden][beam_step]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const json bigrams = load_bigrams();
    // every case is a program of its own; a device, which compiles pipelines for each, gets a fifth of them
    const std::size_t stride = backend.name().starts_with("CPU (") ? 1 : 5;
    for (std::size_t i = 0; i < bigrams.at("cases").size(); i += stride) {
        const json& example = bigrams.at("cases").at(i);
        CAPTURE(backend.name(), example.at("table").get<int>(), example.at("beams").get<int>(),
                example.at("max_steps").get<int>(), example.at("length_penalty").get<double>(),
                example.at("early_stopping").dump());
        const graph::BeamOptions options = options_of(bigrams, example);
        const std::vector<float> table = table_of(bigrams, example.at("table").get<std::size_t>());
        const auto starts = example.at("starts").get<std::vector<std::int32_t>>();
        BeamSearch search(backend, table, starts.size(), options);
        search.start(starts, starts.size());
        must(search.program->submit(options.max_steps));  // those after `done` must change nothing
        must(search.program->wait());
        CHECK(search.ints(search.states.state)[starts.size()] == 1);
        for (std::size_t b = 0; b < starts.size(); ++b) {
            CAPTURE(b);
            const Hypothesis found = search.best(b);
            CHECK(found.tokens == example.at("sequences").at(b).get<std::vector<std::int32_t>>());
            CHECK(found.score == Approx(example.at("scores").at(b).get<double>()).epsilon(1e-5));
        }
    }
}

/// Everything that beam_step may write, but for starts and the step counter.
std::vector<std::vector<std::int32_t>> snapshot(BeamSearch& search) {
    const graph::BeamStates& s = search.states;
    std::vector<std::vector<std::int32_t>> all;
    for (const Value value :
         {s.tokens, s.parents, s.token_history, s.parent_history, s.final_steps, s.final_rows, s.final_tokens})
        all.push_back(search.ints(value));
    for (const Value value : {s.running_scores, s.final_scores}) {
        const std::vector<float> floats = search.floats(value);
        std::vector<std::int32_t> bits;
        for (const float x : floats) bits.push_back(std::bit_cast<std::int32_t>(x));
        all.push_back(bits);
    }
    return all;
}

TEST_CASE("a beam search that is done changes nothing any more", "[beam_step]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const bool at_the_last_step = GENERATE(false, true);
    CAPTURE(backend.name(), at_the_last_step);
    const json bigrams = load_bigrams();
    // table 2 favours the end token: all hypotheses are finished long before the 24th step
    const std::int32_t max_steps = at_the_last_step ? 2 : 24;
    BeamSearch search(backend, table_of(bigrams, 2), 2,
                      {.beams = 3,
                       .max_steps = static_cast<std::uint32_t>(max_steps),
                       .eos = 1,
                       .early_stopping = graph::EarlyStopping::always});
    search.start({3, 4}, 2);
    std::int32_t steps = 0;
    while (search.ints(search.states.state)[2] == 0) {
        REQUIRE(steps < max_steps);
        CHECK(search.ints(search.states.starts) == std::vector<std::int32_t>(6, steps));
        must(search.program->submit());
        must(search.program->wait());
        ++steps;
    }
    CHECK((steps == max_steps) == at_the_last_step);
    const auto state = search.ints(search.states.state);
    CHECK(state[3] == steps);
    const auto before = snapshot(search);
    must(search.program->submit(3));
    must(search.program->wait());
    CHECK(snapshot(search) == before);
    CHECK(search.ints(search.states.starts) == std::vector<std::int32_t>(6, steps));
    CHECK(search.ints(search.states.state) == state);
}

TEST_CASE("unused sequences stay as they are and change no other", "[beam_step]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const json bigrams = load_bigrams();
    const std::vector<float> table = table_of(bigrams, 2);
    const graph::BeamOptions options{
        .beams = 4, .max_steps = 9, .eos = 1, .early_stopping = graph::EarlyStopping::always};
    BeamSearch alone(backend, table, 1, options), padded(backend, table, 3, options);
    alone.start({3}, 1);
    padded.start({3, 0, 4}, 1);
    for (BeamSearch* search : {&alone, &padded}) {
        must(search->program->submit(options.max_steps));
        must(search->program->wait());
    }
    CHECK(alone.best(0).tokens == padded.best(0).tokens);
    CHECK(alone.ints(alone.states.state)[1] == 1);
    CHECK(padded.ints(padded.states.state)[3] == 1);
    CHECK(alone.ints(alone.states.state)[2] == padded.ints(padded.states.state)[4]);  // as many steps
    const auto tokens = padded.ints(padded.states.tokens), steps = padded.ints(padded.states.final_steps);
    for (std::size_t row = 4; row < 12; ++row) {
        CHECK(tokens[row] == (row < 8 ? 0 : 4));
        CHECK(steps[row] == 0);
    }
}

TEST_CASE("a NaN among the scores wins and stays visible", "[beam_step]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    std::vector<float> table(25, 0.0f);
    table[3 * 5 + 2] = std::numeric_limits<float>::quiet_NaN();
    BeamSearch search(backend, table, 1, {.beams = 2, .max_steps = 2, .eos = 1});
    search.start({3}, 1);
    must(search.program->submit());
    must(search.program->wait());
    CHECK(std::isnan(search.floats(search.states.running_scores)[0]));
}

}  // namespace
}  // namespace vkformer::tests
