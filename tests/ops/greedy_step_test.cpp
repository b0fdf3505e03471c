// SPDX-License-Identifier: MIT
#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"

namespace vkformer::tests {
namespace {

using graph::Value;

constexpr std::int32_t kEos = 2, kPad = 5;

graph::GreedyStates make_states(OpCase& c, std::uint64_t rows, std::uint64_t capacity, std::vector<std::int32_t> starts,
                                std::vector<std::int32_t> finished) {
    return {
        .tokens = c.state("tokens", {rows, 1}, std::vector<std::int32_t>(rows, 9)),
        .starts = c.state("starts", {rows}, std::move(starts)),
        .finished = c.state("finished", {rows}, std::move(finished)),
        .history = c.state("history", {capacity, rows}, std::vector<std::int32_t>(capacity * rows, -9)),
    };
}

// The shader's workgroup handles 64 rows.
TEST_CASE("greedy_step appends, finishes at eos and pads from then on", "[op][greedy_step]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto rows = GENERATE(values<std::uint64_t>({1, 63, 64, 65, 311}));
    CAPTURE(backend.name(), rows);

    constexpr std::uint64_t kSteps = 9;
    OpCase c;
    const auto states =
        make_states(c, rows, kSteps, std::vector<std::int32_t>(rows, 0), std::vector<std::int32_t>(rows, 0));
    for (std::uint64_t step = 0; step < kSteps; ++step) {
        const Value next = c.ints("next " + std::to_string(step), {rows}, c.random_ints(rows, 0, 12));
        REQUIRE(greedy_step(c.graph, next, states, kEos, kPad));
    }
    c.check(backend);
}

TEST_CASE("greedy_step writes no history outside its capacity", "[op][greedy_step]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());

    OpCase c;
    const auto states = make_states(c, 6, 4, {3, 4, -1, 1 << 30, -(1 << 30), 0}, {0, 0, 0, 1, 7, 1});
    const Value next = c.ints("next", {6}, {kEos, kEos, 1, 3, 4, kEos});
    REQUIRE(greedy_step(c.graph, next, states, kEos, kPad));
    c.check(backend, 2);
    CHECK(c.run_ints(backend, states.tokens) == std::vector<std::int32_t>{kEos, kEos, 1, kPad, kPad, kPad});
}

TEST_CASE("greedy_step takes what is given, and keeps scores", "[op][greedy_step]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());

    constexpr std::uint64_t kRows = 5, kSteps = 4, kVocab = 7;
    OpCase c;
    const auto states = make_states(c, kRows, kSteps, {0, 0, 1, -1, 3}, {0, 1, 0, 0, 0});
    const Value given = c.ints("given", {kRows, 3}, {0, kEos, -1, 0, -1, -1, 0, 1, 6, 4, -1, -1, 0, 0, 0});
    const Value log_probs = c.floats("log_probs", DType::f32, {kRows, kVocab});
    const Value scores = c.state("scores", DType::f32, {kSteps, kRows}, std::vector<float>(kSteps * kRows, -9.0f));
    for (int step = 0; step < 3; ++step) {
        const Value next = c.ints("next " + std::to_string(step), {kRows}, {1, 1, 3, step == 1 ? kEos : 0, 4});
        REQUIRE(
            greedy_step(c.graph, next, states, kEos, kPad, {.given = given, .log_probs = log_probs, .scores = scores}));
    }
    c.check(backend);
    // What is given finishes nothing, even if it is the end token; a padded step has no score, as a given one.
    CHECK(c.run_ints(backend, states.history) == std::vector<std::int32_t>{kEos, kPad, -9, kEos, -9,   1, kPad,
                                                                           6,    kPad, -9, 1,    kPad, 3, -9,
                                                                           -9,   -9,   -9, 3,    -9,   4});
    CHECK(c.run_ints(backend, states.finished) == std::vector<std::int32_t>{0, 1, 0, 1, 0});
}

}  // namespace
}  // namespace vkformer::tests
