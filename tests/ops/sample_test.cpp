// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/must.hpp"
#include "support/op_case.hpp"
#include "support/special_floats.hpp"

namespace vkformer::tests {
namespace {

using graph::SampleOptions;
using graph::Value;

/// Random seeds, and numbers of draws that wrap around for one row in five.
Value random_states(OpCase& c, std::uint64_t rows) {
    constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
    constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();
    std::vector<std::int32_t> random = c.random_ints(3 * rows, kLowest, kHighest);
    for (std::size_t row = 0; row < rows; row += 5) random[3 * row + 2] = -1;
    return c.state("random", {rows, 3}, random);
}

// A workgroup of 8 to 256 handles a row, four elements per invocation and turn.
TEST_CASE("sample draws what the double oracle draws", "[op][sample]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto [rows, vocab] = GENERATE(table<std::uint64_t, std::uint64_t>(
        {{1, 1}, {5, 2}, {7, 3}, {9, 127}, {3, 1023}, {3, 1025}, {2, 58'101}, {70'000, 5}}));
    const auto options =
        GENERATE(values<SampleOptions>({{},
                                        {.temperature = 0},
                                        {.temperature = 0.3f},
                                        {.temperature = 5, .top_k = 1},
                                        {.top_k = 40},
                                        {.top_p = 0.9f},
                                        {.top_p = 0},
                                        {.min_p = 0.05f},
                                        {.min_p = 1},
                                        {.temperature = 2, .top_k = 30, .top_p = 0.7f, .min_p = 0.01f}}));
    if (rows == 70'000 && options.temperature != 0) return;  // for the grid that is folded; the rest would take minutes
    CAPTURE(backend.name(), rows, vocab, options.temperature, options.top_k, options.top_p, options.min_p);

    OpCase c;
    const Value x = c.floats("x", DType::f32, {rows, vocab}, 10);
    SampleOptions fitting = options;
    fitting.top_k = std::min(options.top_k, static_cast<std::uint32_t>(vocab));
    c.expect(graph::sample(c.graph, x, random_states(c, rows), fitting));
    c.check(backend, 2);
}

TEST_CASE("sample takes each row's own settings as it takes those of all", "[op][sample]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto vocab = GENERATE(values<std::uint64_t>({5, 1025}));
    CAPTURE(backend.name(), vocab);
    const std::vector<SampleOptions> rows = {{},
                                             {.temperature = 0},
                                             {.temperature = 0.25f},
                                             {.top_k = 3},
                                             {.top_p = 0.75f},
                                             {.top_p = 0},
                                             {.min_p = 0.125f},
                                             {.temperature = 2, .top_k = 4, .top_p = 0.5f, .min_p = 0.015625f}};
    OpCase all;
    const std::vector<float> logits = all.random_floats(rows.size() * vocab, 10);
    std::vector<float> settings;
    std::vector<std::int32_t> random;
    for (std::size_t r = 0; r < rows.size(); ++r) {
        const SampleOptions& o = rows[r];
        settings.insert(settings.end(), {o.temperature, static_cast<float>(o.top_k), o.top_p, o.min_p});
        random.insert(random.end(), {static_cast<std::int32_t>(r), 7, 3});
    }
    const Value x = all.floats("x", DType::f32, {rows.size(), vocab}, logits);
    const Value state = all.state("random", {rows.size(), 3}, random);
    const Value of_rows = all.floats("settings", DType::f32, {rows.size(), graph::kSampleSettings}, settings);
    const auto together = all.run_ints(backend, all.expect(graph::sample(all.graph, x, state, {}, of_rows)));
    for (std::size_t r = 0; r < rows.size(); ++r) {
        CAPTURE(r);
        OpCase one;
        const auto first = logits.begin() + static_cast<std::ptrdiff_t>(r * vocab);
        const Value row = one.floats("x", DType::f32, {1, vocab}, {first, first + static_cast<std::ptrdiff_t>(vocab)});
        const Value alone = one.expect(
            graph::sample(one.graph, row, one.state("random", {1, 3}, {static_cast<std::int32_t>(r), 7, 3}), rows[r]));
        CHECK(one.run_ints(backend, alone)[0] == together[r]);
    }
}

TEST_CASE("settings that nobody checked choose a token of their row", "[op][sample]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const std::vector<float> settings = {-1,        0,    1,    0,     //
                                         1,         -3,   2,    0,     //
                                         1,         1e9f, 1,    0,     //
                                         1,         kNaN, -1,   0,     //
                                         kNaN,      0,    1,    0,     //
                                         kInfinity, 0,    kNaN, kNaN,  //
                                         1,         0,    1,    9};
    const std::uint64_t rows = settings.size() / graph::kSampleSettings, vocab = 37;
    OpCase c;
    const Value x = c.floats("x", DType::f32, {rows, vocab}, 10);
    const Value of_rows = c.floats("settings", DType::f32, {rows, graph::kSampleSettings}, settings);
    const Value y = c.expect(graph::sample(c.graph, x, random_states(c, rows), {}, of_rows));
    for (const std::int32_t token : c.run_ints(backend, y)) CHECK((token >= 0 && token < 37));
}

TEST_CASE("sample at temperature 0 is arg_max, ties and NaN included", "[op][sample]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());

    constexpr std::uint64_t kRows = 50, kVocab = 400;
    OpCase c;
    std::vector<float> logits = c.random_floats(kRows * kVocab, 10);
    for (float& logit : logits) logit = std::round(logit / 4);
    logits[3 * kVocab + 5] = std::numeric_limits<float>::quiet_NaN();
    const Value x = c.floats("x", DType::f32, {kRows, kVocab}, logits);
    const Value drawn = c.expect(graph::sample(c.graph, x, random_states(c, kRows), {.temperature = 0, .top_p = 0.5f}));
    const Value best = c.expect(arg_max(c.graph, x));
    CHECK(c.run_ints(backend, drawn) == c.run_ints(backend, best));
}

TEST_CASE("sample meets NaN, infinities, level rows and logits far apart", "[op][sample]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto options = GENERATE(values<SampleOptions>(
        {{}, {.top_k = 2}, {.top_p = 0.6f}, {.min_p = 0.5f}, {.temperature = 1e-4f}, {.temperature = 1e4f}}));
    CAPTURE(backend.name(), options.temperature, options.top_k, options.top_p, options.min_p);

    OpCase c;
    // clang-format off
    const Value x = c.floats("x", DType::f32, {7, 6}, {
        1, kNaN, 3, kInfinity, kNaN, 2,
        1, kInfinity, 3, -kInfinity, kInfinity, 2,
        -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity,
        -kInfinity, -kInfinity, 5, -kInfinity, -kInfinity, -kInfinity,
        2, 2, 2, 2, 2, 2,
        3e38f, -3e38f, 0.0f, -0.0f, -1e9f, 1e9f,
        0.0f, -0.0f, 0.0f, -0.0f, -1e-3f, -2e-3f,
    });
    // clang-format on
    const Value drawn = c.expect(graph::sample(c.graph, x, random_states(c, 7), options));
    c.check(backend, 3);
    const std::vector<std::int32_t> found = c.run_ints(backend, drawn);
    CHECK(found[0] == -1);
    CHECK((found[1] == 1 || found[1] == 4));
    CHECK(found[2] == 0);
    CHECK(found[3] == 2);
    CHECK(found[5] == 0);
}

/// How often each of `kept` tokens should be drawn: softmax(logits / temperature) over the first so many.
std::vector<double> softmax(std::span<const float> logits, double temperature, std::size_t kept) {
    std::vector<double> shares(logits.size(), 0.0);
    for (std::size_t i = 0; i < kept; ++i) shares[i] = std::exp(static_cast<double>(logits[i]) / temperature);
    const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (double& share : shares) share /= total;
    return shares;
}

// Falling logits, so that what is kept is a number of leading ones. With temperature 1 their shares are 0.36, 0.24, 0.16, 0.11, …
TEST_CASE("sample draws tokens as often as their probabilities say", "[op][sample]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    struct Case {
        SampleOptions options;
        std::size_t kept;
    };
    const auto [options, kept] = GENERATE(values<Case>({
        {{}, 9},
        {{.temperature = 3}, 9},
        {{.top_k = 4}, 4},
        {{.top_p = 0.7f}, 3},
        {{.min_p = 0.4f}, 3},
        {{.temperature = 2, .top_k = 7, .top_p = 0.8f, .min_p = 0.1f}, 5},
    }));
    CAPTURE(backend.name(), options.temperature, options.top_k, options.top_p, options.min_p);

    constexpr std::uint64_t kRows = 2'000, kVocab = 9;
    std::vector<float> row(kVocab), logits;
    for (std::size_t i = 0; i < kVocab; ++i) row[i] = 3 - 0.4f * static_cast<float>(i);
    for (std::size_t i = 0; i < kRows; ++i) logits.insert(logits.end(), row.begin(), row.end());
    std::vector<std::int32_t> seeds(3 * kRows, 0);
    for (std::size_t i = 0; i < kRows; ++i)
        seeds[3 * i] = static_cast<std::int32_t>(i);  // neighbouring seeds, on purpose

    OpCase c;
    const Value x = c.floats("x", DType::f32, {kRows, kVocab}, logits);
    const Value drawn = c.expect(graph::sample(c.graph, x, c.state("random", {kRows, 3}, seeds), options));
    std::vector<double> counts(kVocab, 0.0);
    for (const std::int32_t token : c.run_ints(backend, drawn)) ++counts.at(static_cast<std::size_t>(token));

    const std::vector<double> shares = softmax(row, static_cast<double>(options.temperature), kept);
    double chi_square = 0;
    for (std::size_t i = 0; i < kVocab; ++i) {
        CAPTURE(i, counts[i], shares[i]);
        if (i >= kept) {
            CHECK(counts[i] == 0);
            continue;
        }
        const double expected = shares[i] * kRows;
        chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    CHECK(chi_square < 40);  // 8 degrees of freedom at most: a fair draw passes 40 once in 300 000 times
}

TEST_CASE("draws of one row do not depend on the others, and go on from run to run", "[op][sample]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());

    constexpr std::uint64_t kVocab = 1000, kSteps = 20;
    OpCase c;
    const std::vector<float> row = c.random_floats(kVocab);
    // one row that starts at draw 7, and beside it in another place
    std::vector<std::int32_t> found[2];
    for (const std::size_t place : {0u, 2u}) {
        OpCase one;
        std::vector<float> logits = one.random_floats((place + 1) * kVocab, 3);
        std::ranges::copy(row, logits.end() - kVocab);
        std::vector<std::int32_t> random(3 * (place + 1), 99);
        random[3 * place] = 5, random[3 * place + 1] = 6, random[3 * place + 2] = 7;
        const Value x = one.floats("x", DType::f32, {place + 1, kVocab}, logits);
        const Value state = one.state("random", {place + 1, 3}, random);
        for (std::uint64_t step = 0; step < kSteps; ++step) {
            const Value drawn = one.expect(graph::sample(one.graph, x, state));
            found[place / 2].push_back(one.run_ints(backend, drawn)[place]);
        }
        CHECK(one.run_ints(backend, state)[3 * place + 2] == 7 + static_cast<std::int32_t>(kSteps));
    }
    CHECK(found[0] == found[1]);
    std::ranges::sort(found[0]);
    CHECK(std::ranges::unique(found[0]).begin() - found[0].begin() > 15);  // of 1000 nearly level tokens
}

}  // namespace
}  // namespace vkformer::tests
