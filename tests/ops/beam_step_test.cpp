// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "cpu/backend.hpp"
#include "support/backends.hpp"
#include "support/catch.h"
#include "support/must.hpp"
#include "support/op_bits.hpp"
#include "support/op_case.hpp"
#include "vulkan/backend.hpp"

namespace vkformer::tests {
namespace {

using graph::BeamOptions;
using graph::BeamStates;
using graph::EarlyStopping;
using graph::Value;

BeamStates make_states(OpCase& c, std::uint64_t batch, const BeamOptions& options,
                       const std::vector<std::int32_t>& more_ends = {}, std::optional<std::int32_t> limit = {}) {
    const std::uint64_t rows = batch * options.beams;
    const std::vector<std::int32_t> zeros(rows, 0), unused((options.max_steps + more_ends.size()) * rows, -9);
    std::vector<float> scores(rows, -1e9f);
    for (std::uint64_t first = 0; first < rows; first += options.beams) scores[first] = 0;
    std::vector<std::int32_t> flags(batch + 3, 1);
    flags[batch] = flags[batch + 1] = 0;
    flags[batch + 2] = limit ? *limit : static_cast<std::int32_t>(options.max_steps);
    flags.insert(flags.end(), more_ends.begin(), more_ends.end());
    const std::uint64_t history = options.max_steps + more_ends.size();  // may be longer than the search
    return {
        .tokens = c.state("tokens", {rows, 1}, zeros),
        .starts = c.state("starts", {rows}, zeros),
        .parents = c.state("parents", {rows}, zeros),
        .running_scores = c.state("running_scores", DType::f32, {rows}, scores),
        .token_history = c.state("token_history", {history, rows}, unused),
        .parent_history = c.state("parent_history", {history, rows}, unused),
        .final_scores = c.state("final_scores", DType::f32, {rows}, std::vector<float>(rows, -1e9f)),
        .final_steps = c.state("final_steps", {rows}, zeros),
        .final_rows = c.state("final_rows", {rows}, zeros),
        .final_tokens = c.state("final_tokens", {rows}, zeros),
        .state = c.state("state", {batch + 3 + more_ends.size()}, flags),
    };
}

/// Log-probabilities of a vocabulary: quarters from −6 to 0, so that many are level and all sums are exact in float32.
/// `tokens_per_eos`: eos gets a good score in one of so many rows.
Value random_scores(OpCase& c, const std::string& name, std::uint64_t rows, std::uint64_t vocab,
                    const BeamOptions& options, std::int32_t rows_per_eos) {
    std::vector<float> scores = c.random_floats(rows * vocab, 3);
    for (float& score : scores) score = std::round(4 * (score - 3)) / 4;
    const auto eos_rows = c.random_ints(rows, 1, rows_per_eos);
    for (std::size_t row = 0; row < rows; ++row)
        scores[row * vocab + static_cast<std::size_t>(options.eos)] = eos_rows[row] == 1 ? -0.25f : -20.0f;
    return c.floats(name, DType::f32, {rows, vocab}, std::move(scores));
}

BeamStates add_steps(OpCase& c, std::uint64_t batch, std::uint64_t vocab, const BeamOptions& options,
                     std::uint32_t steps, std::int32_t rows_per_eos, const std::vector<std::int32_t>& more_ends = {},
                     std::optional<std::int32_t> limit = {}) {
    const BeamStates states = make_states(c, batch, options, more_ends, limit);
    const auto k = static_cast<std::uint32_t>(std::min<std::uint64_t>((2 + more_ends.size()) * options.beams, vocab));
    for (std::uint32_t step = 0; step < steps; ++step) {
        const Value scores =
            random_scores(c, "scores " + std::to_string(step), batch * options.beams, vocab, options, rows_per_eos);
        const auto best = top_k(c.graph, scores, k);
        REQUIRE(best);
        const auto built = beam_step(c.graph, best->values, best->indices, states, options);
        if (!built) FAIL(built.error().message);
    }
    return states;
}

TEST_CASE("beam_step follows the double oracle through a whole search", "[op][beam_step]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto [batch, beams, vocab] = GENERATE(table<std::uint64_t, std::uint32_t, std::uint64_t>(
        {{1, 1, 5}, {1, 4, 40}, {3, 2, 3}, {5, 3, 200}, {33, 5, 17}}));
    const auto [early_stopping, length_penalty] =
        GENERATE(table<EarlyStopping, float>({{EarlyStopping::heuristic, 1.0f},
                                              {EarlyStopping::heuristic, 0.0f},
                                              {EarlyStopping::always, 1.0f},
                                              {EarlyStopping::always, -1.0f},
                                              {EarlyStopping::never, 2.0f}}));
    CAPTURE(backend.name(), batch, beams, vocab, static_cast<int>(early_stopping), length_penalty);
    if (!takes_case(backend, 2)) return;

    const BeamOptions options{
        .beams = beams, .max_steps = 8, .eos = 1, .length_penalty = length_penalty, .early_stopping = early_stopping};
    OpCase c;
    const BeamStates states = add_steps(c, batch, vocab, options, 10, 4);  // two more than are allowed
    c.check(backend);

    // The norm of the whole tensor is that of the empty slots' −1e9; the finished hypotheses must be right by themselves.
    const std::vector<float> found = c.run(backend, states.final_scores);
    const std::vector<float> expected = c.run(*cpu::make_cpu_backend<double>(), states.final_scores);
    for (std::size_t row = 0; row < found.size(); ++row)
        if (expected[row] > -1e8f) CHECK(std::abs(found[row] - expected[row]) <= 1e-5f * std::abs(expected[row]));
}

TEST_CASE("beam_step ends a search at its own limit", "[op][beam_step]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto limit = GENERATE(1, 4, 7);
    const auto early_stopping = GENERATE(values({EarlyStopping::heuristic, EarlyStopping::never}));
    CAPTURE(backend.name(), limit, static_cast<int>(early_stopping));
    const BeamOptions options{.beams = 3, .max_steps = 6, .eos = 1, .early_stopping = early_stopping};
    OpCase c;
    const BeamStates states = add_steps(c, 2, 30, options, 6, 3, {}, limit);
    c.check(backend);
    OpCase same;
    BeamOptions shorter = options;
    shorter.max_steps = static_cast<std::uint32_t>(std::min(limit, 6));
    const BeamStates expected = add_steps(same, 2, 30, shorter, 6, 3);
    CHECK(c.run(backend, states.final_scores) == same.run(backend, expected.final_scores));
    CHECK(c.run_ints(backend, states.final_steps) == same.run_ints(backend, expected.final_steps));
}

TEST_CASE("beam_step takes 32 beams", "[op][beam_step]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    add_steps(c, 1, 67, {.beams = graph::kMaxBeams, .max_steps = 3, .eos = 5}, 3, 4);
    c.check(backend);
}

TEST_CASE("beam_step ends at any of several tokens", "[op][beam_step]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto [batch, beams, vocab] =
        GENERATE(table<std::uint64_t, std::uint32_t, std::uint64_t>({{1, 4, 40}, {3, 2, 4}, {33, 3, 17}, {1, 32, 90}}));
    CAPTURE(backend.name(), batch, beams, vocab);
    const BeamOptions options{.beams = beams, .max_steps = 6, .eos = 1};
    OpCase c;
    const BeamStates states = add_steps(c, batch, vocab, options, 5, 4, {3, 0});  // one less than are allowed
    c.check(backend);
    const std::vector<std::int32_t> tokens = c.run_ints(*cpu::make_cpu_backend<double>(), states.final_tokens);
    CHECK(std::ranges::find(tokens, 3) != tokens.end());
}

TEST_CASE("beam_step after each number of steps", "[op][beam_step]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto steps = GENERATE(range(1u, 7u));
    const auto early_stopping = GENERATE(values({EarlyStopping::heuristic, EarlyStopping::always}));
    CAPTURE(backend.name(), steps, static_cast<int>(early_stopping));

    OpCase c;
    add_steps(c, 4, 30,
              {.beams = 3, .max_steps = 6, .eos = 7, .length_penalty = 0.6f, .early_stopping = early_stopping}, steps,
              2);
    c.check(backend);
}

/// Log-probabilities of all sizes, some of them NaN or infinite.
Value hostile_scores(OpCase& c, const std::string& name, std::uint64_t rows, std::uint64_t vocab) {
    std::vector<float> scores = c.random_floats(rows * vocab, 10);
    const auto kinds = c.random_ints(scores.size(), 0, 60);
    for (std::size_t i = 0; i < scores.size(); ++i) {
        if (kinds[i] == 0) scores[i] = -std::numeric_limits<float>::infinity();
        if (kinds[i] == 1) scores[i] = -3e38f;
        if (kinds[i] == 2 && i % 7 == 0) scores[i] = std::numeric_limits<float>::quiet_NaN();
    }
    return c.floats(name, DType::f32, {rows, vocab}, std::move(scores));
}

/// The bits of all states behind the case's steps, which that kernel does.
std::vector<std::uint32_t> bits_by(const std::string& kernel, vulkan::VulkanBackend& device, const OpCase& c,
                                   const BeamStates& s) {
    const auto backend = must(vulkan::VulkanBackend::on(
        device.device(), {.check_memory = true,
                          .cache_folder = {},
                          .chooser = must(vulkan::NamedVariants::create({{"beam_step", kernel}}, nullptr))}));
    std::vector<std::uint32_t> bits;
    for (const Value value : {s.running_scores, s.final_scores})
        for (const std::uint32_t word : bits_of(c.run(*backend, value))) bits.push_back(word);
    for (const Value value : {s.tokens, s.starts, s.parents, s.token_history, s.parent_history, s.final_steps,
                              s.final_rows, s.final_tokens, s.state})
        for (const std::int32_t word : c.run_ints(*backend, value)) bits.push_back(static_cast<std::uint32_t>(word));
    return bits;
}

TEST_CASE("beam_step in two dispatches gives the bits of the one", "[op][beam_step]") {
    if (vulkan_backends().empty()) return;
    vulkan::VulkanBackend& device = *GENERATE(from_range(vulkan_backends()));
    const auto [batch, beams, vocab, early_stopping, length_penalty] =
        GENERATE(table<std::uint64_t, std::uint32_t, std::uint64_t, EarlyStopping, float>(
            {{1, 1, 5, EarlyStopping::always, 1.0f},
             {33, 3, 17, EarlyStopping::heuristic, 0.7f},
             {2, 32, 70, EarlyStopping::never, 2.0f}}));
    CAPTURE(device.name(), batch, beams, vocab, static_cast<int>(early_stopping));
    if (!takes_case(device, 2)) return;
    REQUIRE(device.capabilities().max_storage_buffers >= 13);
    const BeamOptions options{
        .beams = beams, .max_steps = 5, .eos = 1, .length_penalty = length_penalty, .early_stopping = early_stopping};
    for (const std::uint32_t steps : {1u, 6u}) {
        CAPTURE(steps);
        OpCase c(steps);
        BeamStates states = make_states(c, batch, options, {3});
        if (batch > 1) {  // a sequence that is not searched
            std::vector<std::int32_t> flags(batch + 4, 1);
            flags[1] = flags[batch] = flags[batch + 1] = 0;
            flags[batch + 2] = 4;  // the limit, below max_steps
            flags[batch + 3] = 3;
            states.state = c.state("flags", {batch + 4}, flags);
        }
        for (std::uint32_t step = 0; step < steps; ++step) {
            const auto best =
                must(top_k(c.graph, hostile_scores(c, "scores " + std::to_string(step), batch * beams, vocab),
                           static_cast<std::uint32_t>(std::min<std::uint64_t>(3 * beams, vocab))));
            must(beam_step(c.graph, best.values, best.indices, states, options));
        }
        CHECK(bits_by("passes", device, c, states) == bits_by("sequences", device, c, states));
    }
}

TEST_CASE("beam_step leaves unused sequences and whatever is done alone", "[op][beam_step]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto flags = GENERATE(values<std::vector<std::int32_t>>({
        {1, 0, 1, 0, 0, 6},   // the second sequence is unused
        {1, 1, 1, 1, 2, 6},   // done
        {1, 1, 1, 0, 6, 6},   // no step left
        {1, 1, 1, 0, 3, 3},   // nor here
        {1, 1, 1, 0, 0, 0},   // nor here
        {1, 1, 1, 0, -1, 6},  // hostile
        {1, 1, 1, 0, 5, -1},  // likewise: max_steps is the limit
        {1, 1, 1, 0, 6, 7},
    }));
    CAPTURE(backend.name(), flags);

    const BeamOptions options{.beams = 2, .max_steps = 6, .eos = 0};
    OpCase c;
    BeamStates states = make_states(c, 3, options);
    states.state = c.state("other flags", {6}, flags);
    const auto best = top_k(c.graph, random_scores(c, "scores", 6, 11, options, 2), 4);
    REQUIRE(best);
    REQUIRE(beam_step(c.graph, best->values, best->indices, states, options));
    c.check(backend);
}

}  // namespace
}  // namespace vkformer::tests
