// SPDX-License-Identifier: MIT
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/must.hpp"
#include "support/op_case.hpp"
#include "support/special_floats.hpp"

namespace vkformer::tests {
namespace {

using graph::kInPrompt;
using graph::PenalizeOptions;
using graph::TokenOrigin;
using graph::Value;

/// Some tokens never seen, some in the prompt, some generated, some both.
std::vector<std::int32_t> random_counts(OpCase& c, std::size_t count) {
    std::vector<std::int32_t> counts = c.random_ints(count, -2, 3);
    for (std::size_t i = 0; i < count; ++i) counts[i] = std::max(counts[i], 0) | (i % 3 == 1 ? kInPrompt : 0);
    return counts;
}

// The shader's workgroup has 512 elements.
TEST_CASE("penalize agrees with double precision", "[op][penalize]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto vocab = GENERATE(values<std::uint64_t>({1, 170, 171, 5003}));
    const bool has_bias = GENERATE(false, true);
    const auto options = GENERATE(values<PenalizeOptions>({
        {},
        {.repetition = 1.3f},
        {.repetition = 0.5f},
        {.presence = 0.7f},
        {.frequency = 0.25f},
        {.repetition = 1.1f, .presence = -0.5f, .frequency = 0.125f},
    }));
    CAPTURE(backend.name(), vocab, has_bias, options.repetition, options.presence, options.frequency);

    OpCase c;
    constexpr std::uint64_t kRows = 3;
    PenalizeOptions o = options;
    const Value x = c.floats("x", DType::f32, {kRows, vocab}, 8);
    o.counts = c.ints("counts", {kRows, vocab}, random_counts(c, kRows * vocab));
    if (has_bias) o.bias = c.floats("bias", DType::f32, {vocab}, 3);
    c.expect(penalize(c.graph, x, o));
    c.check(backend);
}

TEST_CASE("penalize takes each row's own settings and biases", "[op][penalize]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto vocab = GENERATE(values<std::uint64_t>({5, 701}));
    const bool counts = GENERATE(false, true);
    CAPTURE(backend.name(), vocab, counts);
    const std::vector<PenalizeOptions> rows = {
        {}, {.repetition = 1.5f}, {.presence = 0.75f, .frequency = 0.25f}, {.repetition = 0.5f, .frequency = -1}};
    OpCase all;
    const std::vector<float> logits = all.random_floats(rows.size() * vocab, 8);
    const std::vector<float> biases = all.random_floats(rows.size() * vocab, 3);
    const std::vector<std::int32_t> counted = random_counts(all, rows.size() * vocab);
    std::vector<float> settings;
    for (const PenalizeOptions& o : rows) settings.insert(settings.end(), {o.repetition, o.presence, o.frequency});
    const Shape shape = {rows.size(), vocab};
    PenalizeOptions options = {.bias = all.floats("bias", DType::f32, shape, biases)};
    if (counts) {
        options.counts = all.ints("counts", shape, counted);
        options.settings = all.floats("settings", DType::f32, {rows.size(), graph::kPenalizeSettings}, settings);
    }
    const Value x = all.floats("x", DType::f32, shape, logits);
    const auto together = all.run(backend, all.expect(penalize(all.graph, x, options)));
    for (std::size_t r = 0; r < rows.size(); ++r) {
        CAPTURE(r);
        const auto row = [&](const auto& values) {
            const auto first = values.begin() + static_cast<std::ptrdiff_t>(r * vocab);
            return std::vector(first, first + static_cast<std::ptrdiff_t>(vocab));
        };
        OpCase one;
        PenalizeOptions alone = counts ? rows[r] : PenalizeOptions{};
        alone.bias = one.floats("bias", DType::f32, {vocab}, row(biases));
        if (counts) alone.counts = one.ints("counts", {1, vocab}, row(counted));
        const Value y = one.expect(penalize(one.graph, one.floats("x", DType::f32, {1, vocab}, row(logits)), alone));
        CHECK(one.run(backend, y) == row(together));
    }
}

TEST_CASE("penalize refuses settings that say a thing twice or of nothing", "[op][penalize]") {
    OpCase c;
    const Value x = c.floats("x", DType::f32, {2, 5}, 1);
    const Value settings = c.floats("settings", DType::f32, {2, 3}, 1);
    const Value counts = c.ints("counts", {2, 5}, std::vector<std::int32_t>(10));
    CHECK(penalize(c.graph, x, {.settings = settings}).error().code == ErrorCode::InvalidArgument);
    CHECK(penalize(c.graph, x, {.presence = 1, .counts = counts, .settings = settings}).error().code ==
          ErrorCode::InvalidArgument);
    CHECK(penalize(c.graph, x, {.counts = counts, .settings = counts}).error().code == ErrorCode::UnsupportedDtype);
    CHECK(penalize(c.graph, x, {.allowed = settings}).error().code == ErrorCode::UnsupportedDtype);
    CHECK(penalize(c.graph, x, {.allowed = counts}).error().code == ErrorCode::ShapeMismatch);
}

TEST_CASE("penalize takes its steps in order", "[op][penalize]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    // By hand: bias, then repetition by the sign of the sum, then presence and frequency of generated tokens.
    OpCase c;
    const Value x = c.floats("x", DType::f32, {1, 6}, {2, 2, -2, 1, 1, 0});
    const Value y =
        c.expect(penalize(c.graph, x,
                          {.repetition = 2,
                           .presence = 0.5f,
                           .frequency = 0.25f,
                           .counts = c.ints("counts", {1, 6}, {0, kInPrompt, kInPrompt, 3, kInPrompt | 1, 2}),
                           .bias = c.floats("bias", DType::f32, {6}, {1, 0, 0, -2, 3, 0})}));
    CHECK(c.run(backend, y) == std::vector<float>{3, 1, -4, -2 - 0.5f - 0.75f, 2 - 0.75f, -1});
}

TEST_CASE("penalize leaves each row the tokens that it may have", "[op][penalize]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto vocab = GENERATE(values<std::uint64_t>({1, 31, 32, 33, 701, 5003}));
    const bool has_others = GENERATE(false, true);
    CAPTURE(backend.name(), vocab, has_others);
    constexpr std::uint64_t kRows = 3;
    const std::uint64_t words = graph::allowed_words(vocab);
    OpCase c;
    std::vector<std::int32_t> bits(kRows * words);
    for (std::int32_t& word : bits) {
        const auto halves = c.random_ints(2, 0, 0xFFFF);
        word = static_cast<std::int32_t>(static_cast<std::uint32_t>(halves[0]) << 16 |
                                         static_cast<std::uint32_t>(halves[1]));
    }
    for (std::size_t i = 0; i < words; ++i) bits[words + i] = -1;  // the second row may have all
    const std::vector<float> logits = c.random_floats(kRows * vocab, 8);
    PenalizeOptions options;
    if (has_others) {
        options.presence = 0.5f;
        options.counts = c.ints("counts", {kRows, vocab}, random_counts(c, kRows * vocab));
        options.bias = c.floats("bias", DType::f32, {vocab}, 3);
    }
    options.allowed = c.ints("allowed", {kRows, words}, bits);
    const Value y = c.expect(penalize(c.graph, c.floats("x", DType::f32, {kRows, vocab}, logits), options));
    c.check(backend);
    const std::vector<float> found = c.run(backend, y);
    for (std::size_t i = 0; i < found.size(); ++i) {
        const std::size_t row = i / vocab, token = i % vocab;
        const bool may = (static_cast<std::uint32_t>(bits[row * words + token / 32]) >> (token % 32) & 1) == 1;
        CAPTURE(row, token);
        CHECK((found[i] == -kInfinity) == !may);
        if (may && !has_others) CHECK(found[i] == logits[i]);
    }
}

TEST_CASE("penalize leaves infinities and NaN", "[op][penalize]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    const Value x = c.floats("x", DType::f32, {1, 5}, {-kInfinity, -kInfinity, kNaN, kNaN, 1});
    const Value counts = c.ints("counts", {1, 5}, {1, kInPrompt, 0, 4, 0});
    c.expect(penalize(c.graph, x,
                      {.repetition = 1.5f,
                       .frequency = 2,
                       .counts = counts,
                       .bias = c.floats("bias", DType::f32, {5}, {0, 0, 0, 0, -kInfinity})}));
    c.check(backend);
}

TEST_CASE("count_tokens counts what was generated and marks the prompt", "[op][count_tokens]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();
    OpCase c;
    const Value prompt = c.ints("prompt", {2, 4}, {4, 0, 4, 1, 2, -1, 5, kHighest});
    const Value next = c.ints("next", {2}, {0, 3});
    const Value counts = c.state("counts", {2, 5}, {0, 0, 0, 7, 0, 0, 0, 0, 0, 0});
    SECTION("whole prompts") { must(count_tokens(c.graph, prompt, counts, TokenOrigin::prompt)); }
    SECTION("as far as they go") {
        const Value lengths = c.ints("lengths", {2}, {3, -4});
        must(count_tokens(c.graph, prompt, counts, TokenOrigin::prompt, lengths));
    }
    SECTION("one token each") { must(count_tokens(c.graph, next, counts, TokenOrigin::generated)); }
    SECTION("both") {
        must(count_tokens(c.graph, prompt, counts, TokenOrigin::prompt, c.ints("lengths", {2}, {2, 9})));
        must(count_tokens(c.graph, prompt, counts, TokenOrigin::generated));
        must(count_tokens(c.graph, next, counts, TokenOrigin::generated));
        const std::vector<std::int32_t> found = c.run_ints(backend, c.expect(counts));
        CHECK(found == std::vector<std::int32_t>{2 | kInPrompt, 1, 0, 7, 2 | kInPrompt, 0, 0, 1 | kInPrompt, 1, 0});
    }
    c.check(backend, 2);
}

TEST_CASE("many tokens are counted at once", "[op][count_tokens]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    const Value tokens = c.ints("tokens", {3, 700}, c.random_ints(3 * 700, -1, 11));
    const Value counts = c.state("counts", {3, 11}, std::vector<std::int32_t>(33));
    must(count_tokens(c.graph, tokens, counts, TokenOrigin::generated));
    c.check(backend);
}

}  // namespace
}  // namespace vkformer::tests
