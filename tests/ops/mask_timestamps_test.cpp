// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"
#include "support/special_floats.hpp"

namespace vkformer::tests {
namespace {

using graph::Value;

constexpr std::int32_t kFirstTimestamp = 300, kTimestampEos = 280;

/// Rows of tokens behind two that are given, of which begins says that they are.
struct Rows {
    std::vector<std::vector<std::int32_t>> tokens;

    Value sequences(OpCase& c, std::uint64_t capacity) const {
        std::vector<std::int32_t> all;
        for (const auto& row : tokens) {
            all.insert(all.end(), {kFirstTimestamp + 7, kFirstTimestamp + 8});  // times that are not the row's own
            all.insert(all.end(), row.begin(), row.end());
            all.resize(all.size() + capacity - 2 - row.size(), kFirstTimestamp);
        }
        return c.ints("sequences", {tokens.size(), capacity}, all);
    }
    Value starts(OpCase& c) const {
        std::vector<std::int32_t> starts;
        for (const auto& row : tokens) starts.push_back(static_cast<std::int32_t>(row.size()) + 1);
        return c.ints("starts", {tokens.size()}, starts);
    }
    Value begins(OpCase& c) const {
        return c.ints("begins", {tokens.size()}, std::vector<std::int32_t>(tokens.size(), 2));
    }
};

const Rows kTimedRows = {{{},
                          {kFirstTimestamp},
                          {kFirstTimestamp + 3, 5},
                          {kFirstTimestamp, 5, 6, kFirstTimestamp + 9},
                          {kFirstTimestamp, 5, kFirstTimestamp + 9, kFirstTimestamp + 9},
                          {kFirstTimestamp, 5, kFirstTimestamp + 9, kFirstTimestamp + 9, 7},
                          {5, 6, 7},
                          {kFirstTimestamp, kFirstTimestamp + 4},
                          {5, 6, kFirstTimestamp + 2}}};

std::vector<bool> allowed(const std::vector<float>& y, std::size_t row, std::size_t width) {
    std::vector<bool> result;
    for (std::size_t i = 0; i < width; ++i) result.push_back(!std::isinf(y[row * width + i]));
    return result;
}

}  // namespace

// The shader's workgroup has 128 invocations and handles a row.
TEST_CASE("mask_timestamps agrees with double precision", "[op][mask_timestamps]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto width = GENERATE(values<std::uint64_t>({301, 310, 427, 428, 429, 3001}));
    const std::int32_t latest = GENERATE(-1, 0, 5, 1 << 20);
    const float magnitude = GENERATE(0.1f, 20.0f);
    CAPTURE(backend.name(), width, latest, magnitude);

    OpCase c;
    const Value x = c.floats("x", DType::f32, {kTimedRows.tokens.size(), width}, magnitude);
    c.expect(mask_timestamps(c.graph, x, kTimedRows.starts(c), kTimedRows.begins(c), kTimedRows.sequences(c, 9),
                             {.first = kFirstTimestamp, .eos = kTimestampEos, .latest_initial = latest}));
    c.check(backend);
}

TEST_CASE("mask_timestamps leaves what Whisper's rules allow", "[op][mask_timestamps]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());

    constexpr std::size_t kWidth = 340;
    OpCase c;
    // Text that is likelier than all times together, so that nothing is forced.
    std::vector<float> logits = c.random_floats(kTimedRows.tokens.size() * kWidth);
    for (std::size_t i = 0; i < logits.size(); ++i) logits[i] += i % kWidth < kFirstTimestamp ? 20.0f : 0.0f;
    const Value x = c.floats("x", DType::f32, {kTimedRows.tokens.size(), kWidth}, logits);
    const Value y =
        c.expect(mask_timestamps(c.graph, x, kTimedRows.starts(c), kTimedRows.begins(c), kTimedRows.sequences(c, 9),
                                 {.first = kFirstTimestamp, .eos = kTimestampEos, .latest_initial = 10}));
    c.check(backend);
    const auto found = c.run(backend, y);
    const auto check = [&](std::size_t row, std::size_t text_from, std::size_t time_from, std::size_t time_end) {
        CAPTURE(row);
        std::vector<bool> expected(kWidth, false);
        for (std::size_t i = text_from; i < kFirstTimestamp - 1; ++i) expected[i] = true;
        for (std::size_t i = time_from; i < time_end; ++i) expected[i] = true;
        CHECK(allowed(found, row, kWidth) == expected);
    };
    check(0, kFirstTimestamp, kFirstTimestamp, kFirstTimestamp + 11);  // nothing yet: a time, not too late
    check(1, 0, kFirstTimestamp, kFirstTimestamp);                     // its only token is a time: text
    check(2, 0, kFirstTimestamp + 4, kWidth);                          // text: any, or a later time
    check(3, kTimestampEos, kFirstTimestamp + 9, kWidth);  // the first time of a pair: the end, or the second
    check(4, 0, kFirstTimestamp, kFirstTimestamp);         // a pair: text
    check(5, 0, kFirstTimestamp + 10, kWidth);             // text behind a pair
    check(6, 0, kFirstTimestamp, kWidth);                  // text and no time yet
    check(7, 0, kFirstTimestamp, kFirstTimestamp);
    check(8, kTimestampEos, kFirstTimestamp + 2, kWidth);
}

TEST_CASE("mask_timestamps forces a time where times are likelier together", "[op][mask_timestamps]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const bool forces = GENERATE(false, true);
    CAPTURE(backend.name(), forces);

    constexpr std::size_t kWidth = 340;
    OpCase c;
    std::vector<float> logits(kWidth, -30.0f);
    logits[17] = 5.0f;
    // 30 times are left: each has a 29th or a 31st of what the text has.
    for (std::size_t i = kFirstTimestamp + 10; i < kWidth; ++i) logits[i] = 5.0f - std::log(forces ? 29.0f : 31.0f);
    const Value x = c.floats("x", DType::f32, {1, kWidth}, logits);
    const Value y = c.expect(mask_timestamps(c.graph, x, c.ints("starts", {1}, {2}), c.ints("begins", {1}, {1}),
                                             c.ints("sequences", {1, 4}, {3, kFirstTimestamp + 9, 4, 0}),
                                             {.first = kFirstTimestamp, .eos = kTimestampEos}));
    c.check(backend);
    const auto left = allowed(c.run(backend, y), 0, kWidth);
    CHECK(left[17] == !forces);
    CHECK(std::ranges::count(left, true) == (forces ? 30 : 30 + kFirstTimestamp - 1));
}

TEST_CASE("mask_timestamps meets infinities, NaN and positions that are none", "[op][mask_timestamps]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());

    constexpr std::uint64_t kWidth = 340, kCount = 6;
    OpCase c;
    std::vector<float> logits = c.random_floats(kCount * kWidth);
    std::fill_n(logits.begin() + kFirstTimestamp, kWidth - kFirstTimestamp, -kInfinity);  // no times left
    std::fill_n(logits.begin() + kWidth, kFirstTimestamp, -kInfinity);                    // no text left
    logits[2 * kWidth + 12] = std::numeric_limits<float>::quiet_NaN();
    logits[3 * kWidth + kFirstTimestamp + 12] = std::numeric_limits<float>::quiet_NaN();
    const Value x = c.floats("x", DType::f32, {kCount, kWidth}, logits);
    c.expect(mask_timestamps(c.graph, x, c.ints("starts", {kCount}, {2, 2, 2, 2, 1 << 30, -5}),
                             c.ints("begins", {kCount}, {1, 1, 1, 1, -7, 1 << 30}),
                             c.ints("sequences", {kCount, 3}, c.random_ints(kCount * 3, 0, 339)),
                             {.first = kFirstTimestamp, .eos = kTimestampEos}));
    c.check(backend);
}

}  // namespace vkformer::tests
