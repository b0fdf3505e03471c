// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"

namespace vkformer::tests {
namespace {

using graph::MaskLogitsOptions;
using graph::Value;

// The shader's workgroup handles 4096 elements of a row.
TEST_CASE("mask_logits forbids and forces", "[op][mask_logits]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto vocab = GENERATE(values<std::uint64_t>({1, 31, 4095, 4096, 4097, 9001}));
    const auto last = static_cast<std::int32_t>(vocab) - 1;
    const auto options = GENERATE_COPY(values<MaskLogitsOptions>({
        {},
        {.banned = {last}},
        {.banned = {0, last / 2, last, 0}},
        {.banned = {last}, .forced_first = last},
        {.banned = {0}, .forced_last = last / 2, .last_start = 7},
        {.banned = {}, .forced_first = 0, .forced_last = last, .last_start = 0},
        {.banned = {}, .forced_first = 0, .forced_last = -1, .last_start = 0},
    }));
    CAPTURE(backend.name(), vocab, options.banned, options.forced_first, options.forced_last, options.last_start);

    OpCase c;
    constexpr std::uint64_t kRows = 5;
    const Value x = c.floats("x", DType::f32, {kRows, vocab});
    const Value starts = c.ints("starts", {kRows}, {0, 7, 3, std::numeric_limits<std::int32_t>::max(), -1});
    c.expect(mask_logits(c.graph, x, starts, options));
    c.check(backend);
}

// 40 tokens of a small alphabet, so that every run comes again; the workgroup's 128 invocations take positions in turns.
TEST_CASE("mask_logits forbids runs to come twice, and an early end", "[op][mask_logits]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto ngram = GENERATE(values<std::uint32_t>({1, 2, 3, 7, 41, 1u << 20}));
    const auto capacity = GENERATE(values<std::uint64_t>({1, 40, 300}));
    CAPTURE(backend.name(), ngram, capacity);

    OpCase c;
    constexpr std::uint64_t kRows = 6, kVocab = 4200;
    const Value x = c.floats("x", DType::f32, {kRows, kVocab});
    const auto last = static_cast<std::int32_t>(capacity) - 1;
    constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();
    const Value starts = c.ints("starts", {kRows}, {0, last / 2, last, kHighest, -1, 5});
    auto tokens = c.random_ints(kRows * capacity, 4094, 4098);
    tokens.front() = -7;  // no tokens, as a row of a batch may hold that nobody asked for
    tokens.back() = 1 << 30;
    const Value sequences = c.ints("sequences", {kRows, capacity}, tokens);
    c.expect(
        mask_logits(c.graph, x, starts, {.late = {4095}, .late_steps = 5, .ngram = ngram, .sequences = sequences}));
    c.check(backend);
}

TEST_CASE("mask_logits counts a row's steps from where it begins", "[op][mask_logits]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());

    OpCase c;
    constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
    const Value x = c.floats("x", DType::f32, {7, 4200});
    const Value starts = c.ints("starts", {7}, {4, 5, 6, 7, 0, std::numeric_limits<std::int32_t>::max(), 3});
    const Value begins = c.ints("begins", {7}, {5, 5, 5, 5, 1, 0, kLowest + 1});
    const Value y = c.expect(
        mask_logits(c.graph, x, starts, {.banned = {7}, .late = {0, 4199}, .late_steps = 2, .begins = begins}));
    c.check(backend);
    const auto found = c.run(backend, y);
    const auto is_late = [&](std::size_t row) { return std::isinf(found[row * 4200 + 4199]); };
    CHECK((is_late(0) && is_late(1) && !is_late(2) && !is_late(3) && is_late(4) && !is_late(5) && !is_late(6)));
}

// The workgroup's 128 invocations take the places of the source in turns.
TEST_CASE("mask_logits forbids runs that the source has", "[op][mask_logits]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto ngram = GENERATE(values<std::uint32_t>({1, 2, 3, 9, 1u << 20}));
    const auto [sources, len] = GENERATE(table<std::uint64_t, std::uint64_t>({{1, 1}, {2, 40}, {6, 300}}));
    const auto own = GENERATE(values<std::uint32_t>({0, 2}));
    CAPTURE(backend.name(), ngram, sources, len, own);

    OpCase c;
    constexpr std::uint64_t kRows = 6, kVocab = 4200, kCapacity = 20;
    const Value x = c.floats("x", DType::f32, {kRows, kVocab});
    const Value starts = c.ints("starts", {kRows}, {0, 1, 19, std::numeric_limits<std::int32_t>::max(), -1, 5});
    auto tokens = c.random_ints(sources * len, 4094, 4097);
    for (std::uint64_t i = 0; i < sources; ++i) tokens[i * len + len - 1] = -1;  // behind the end
    const Value source = c.ints("source", {sources, len}, tokens);
    const Value sequences = c.ints("sequences", {kRows, kCapacity}, c.random_ints(kRows * kCapacity, 4094, 4097));
    c.expect(mask_logits(c.graph, x, starts,
                         {.ngram = own, .source_ngram = ngram, .sequences = sequences, .source = source}));
    c.check(backend);
}

TEST_CASE("mask_logits takes a long list, and keeps NaN", "[op][mask_logits]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());

    constexpr std::int32_t kVocab = 12'345;
    OpCase c;
    std::vector<float> logits = c.random_floats(2 * kVocab);
    logits[17] = std::numeric_limits<float>::quiet_NaN();
    MaskLogitsOptions options{.banned = c.random_ints(1000, 18, kVocab - 1)};
    const Value x = c.floats("x", DType::f32, {2, kVocab}, logits);
    c.expect(mask_logits(c.graph, x, c.ints("starts", {2}, {0, 1}), options));
    c.check(backend);
}

}  // namespace
}  // namespace vkformer::tests
