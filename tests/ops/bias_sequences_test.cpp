// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"
#include "support/special_floats.hpp"

namespace vkformer::tests {
namespace {

using graph::SequenceBias;
using graph::Value;
using Ints = std::vector<std::int32_t>;

TEST_CASE("bias_sequences adds to the tokens that complete a phrase", "[op][bias_sequences]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    const Value x = c.floats("x", DType::f32, {4, 5}, std::vector<float>(20, 1.0f));
    // What the rows have said: 1 2 | 2 | 3 1 2 | nothing.
    const Value starts = c.ints("starts", {4}, {1, 0, 2, -1});
    const Value sequences = c.ints("sequences", {4, 3}, {1, 2, 4, 2, 1, 2, 3, 1, 2, 2, 2, 2});
    const std::vector<SequenceBias> phrases = {
        {.tokens = {2, 3}, .bias = 10},         // behind 1 2 and 3 1 2; a 2 alone is the whole text
        {.tokens = {1, 2, 3}, .bias = 100},     // behind 3 1 2; 1 2 is the whole text
        {.tokens = {3, 1, 2, 3}, .bias = 1e3},  // nowhere: as long as the text would become
        {.tokens = {3}, .bias = 0.5f},
        {.tokens = {4, 0}, .bias = 1},  // behind the 4 that is not said yet
        {.tokens = {1, 2, 4}, .bias = -kInfinity},
        {.tokens = {4}, .bias = 2},
    };
    const Value y = c.expect(bias_sequences(c.graph, x, starts, phrases, sequences));
    CHECK(c.run(backend, y) == std::vector<float>{1, 1, 1, 11.5f,  3,           //
                                                  1, 1, 1, 1.5f,   3,           //
                                                  1, 1, 1, 111.5f, -kInfinity,  //
                                                  1, 1, 1, 1.5f,   3});
    c.check(backend);
}

// The shader's workgroup handles 4096 elements of a row with 128 invocations.
TEST_CASE("bias_sequences agrees with double precision", "[op][bias_sequences]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto vocab = GENERATE(values<std::uint64_t>({1, 127, 4095, 4096, 4097, 9001}));
    const auto count = GENERATE(values<std::size_t>({1, 40, 700}));
    CAPTURE(backend.name(), vocab, count);

    OpCase c;
    constexpr std::uint64_t kRows = 6, kCapacity = 30;
    constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();
    const auto last = static_cast<std::int32_t>(vocab) - 1, low = std::max(last - 2, 0);
    const Ints words = c.random_ints(4 * count, low, last), lengths = c.random_ints(count, 1, 4);
    const Ints ends = c.random_ints(count, 0, last), any = c.random_ints(count, 0, 3);
    const auto biases = c.random_floats(count, 5);
    std::vector<SequenceBias>
        phrases;  // of few words, so that many come and many end alike; every fourth ends anywhere
    for (std::size_t k = 0; k < count; ++k) {
        Ints tokens(words.begin() + static_cast<std::ptrdiff_t>(4 * k),
                    words.begin() + static_cast<std::ptrdiff_t>(4 * k) + lengths[k]);
        if (any[k] == 0) tokens.back() = ends[k];
        phrases.push_back({.tokens = std::move(tokens), .bias = biases[k]});
    }
    const Value x = c.floats("x", DType::f32, {kRows, vocab});
    const Value starts = c.ints("starts", {kRows}, {0, 1, 2, kCapacity - 1, kHighest, -1});
    const Value sequences = c.ints("sequences", {kRows, kCapacity}, c.random_ints(kRows * kCapacity, low, last));
    c.expect(bias_sequences(c.graph, x, starts, phrases, sequences));
    c.check(backend);
}

TEST_CASE("bias_sequences of single tokens asks for no sequences, and keeps infinities and NaN",
          "[op][bias_sequences]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    const Value x = c.floats("x", DType::f32, {1, 6}, {-kInfinity, kNaN, kNaN, 2, 1, 3});
    const std::vector<SequenceBias> phrases = {
        {.tokens = {5}, .bias = -kInfinity}, {.tokens = {0}, .bias = 2}, {.tokens = {2}, .bias = 1}, {{3}, 0.25f}};
    const Value y = c.expect(bias_sequences(c.graph, x, c.ints("starts", {1}, {-1}), phrases));
    c.check(backend);
    const auto found = c.run(backend, y);
    CHECK((found[0] == -kInfinity && found[3] == 2.25f && found[4] == 1 && found[5] == -kInfinity));
}

}  // namespace
}  // namespace vkformer::tests
