// SPDX-License-Identifier: MIT
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/must.hpp"
#include "support/op_case.hpp"

namespace vkformer::tests {
namespace {

using graph::Direction;
using graph::RecurrentUnit;
using graph::Value;

struct LayerSizes {
    std::uint64_t batch, len, hidden;
};

struct LayerOptions {
    RecurrentUnit unit = RecurrentUnit::lstm;
    Direction direction = Direction::forward;
    bool has_start = false, has_bias = true;
    std::vector<std::int32_t> lengths{};
};

/// A layer with random operands; its weight is scaled so that the gates neither saturate nor sleep.
graph::RecurrentResult layer(OpCase& c, DType dtype, const LayerSizes& s, const LayerOptions& options) {
    const std::uint64_t directions = directions_of(options.direction), parts = gates_of(options.unit);
    const Value gates = c.floats("gates", dtype, {s.batch, s.len, directions * parts * s.hidden}, 2);
    const float scale = 3.0f / std::sqrt(static_cast<float>(s.hidden));
    const Value weight = c.floats("weight", dtype, {directions * s.hidden, parts * s.hidden}, scale);
    const Value bias = options.has_bias ? c.floats("bias", dtype, {directions * parts * s.hidden}) : Value{};
    graph::RecurrentStart start;
    if (options.has_start) {
        start.hidden = c.floats("initial_hidden", dtype, {s.batch, directions * s.hidden});
        if (options.unit == RecurrentUnit::lstm)
            start.cell = c.floats("initial_cell", DType::f32, {s.batch, directions * s.hidden}, 2);
    }
    if (!options.lengths.empty()) start.lengths = c.ints("lengths", {s.batch}, options.lengths);
    const auto make = options.unit == RecurrentUnit::lstm ? &graph::lstm_layer : &graph::gru_layer;
    const graph::RecurrentResult result = must(make(c.graph, gates, weight, bias, options.direction, start));
    c.expect(result.y);
    c.expect(result.hidden);
    if (result.cell) c.expect(result.cell);
    return result;
}

auto units() { return GENERATE(RecurrentUnit::lstm, RecurrentUnit::gru); }
auto directions() { return GENERATE(Direction::forward, Direction::backward, Direction::both); }

// A workgroup owns up to 4 sequences of one direction; it has 32, 64 or 128 invocations.
TEST_CASE("recurrent_layer agrees with double precision", "[op][recurrent]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const RecurrentUnit unit = units();
    const Direction direction = directions();
    for (const LayerSizes& s : {LayerSizes{1, 1, 1}, {2, 3, 31}, {5, 4, 33}, {4, 9, 7}, {9, 2, 64}, {3, 3, 131}}) {
        for (const bool has_start : {false, true}) {
            CAPTURE(backend.name(), to_string(dtype), static_cast<int>(unit), static_cast<int>(direction));
            CAPTURE(s.batch, s.len, s.hidden, has_start);
            OpCase c;
            layer(c, dtype, s, {.unit = unit, .direction = direction, .has_start = has_start, .has_bias = !has_start});
            c.check(backend);
        }
    }
}

TEST_CASE("recurrent_layer takes the largest hidden_dim", "[op][recurrent]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const RecurrentUnit unit = units();
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), static_cast<int>(unit), to_string(dtype));
    OpCase c;
    layer(c, dtype, {3, 2, 1024}, {.unit = unit, .direction = Direction::both, .has_start = true});
    c.check(backend);
}

TEST_CASE("a recurrent layer stops at each sequence's length, whatever it is", "[op][recurrent]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const RecurrentUnit unit = units();
    const Direction direction = directions();
    const bool has_start = GENERATE(false, true);
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), static_cast<int>(unit), static_cast<int>(direction), has_start, to_string(dtype));
    constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
    constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();
    OpCase c;
    const auto result = layer(
        c, DType::f32, {7, 6, 5},
        {.unit = unit, .direction = direction, .has_start = has_start, .lengths = {0, 1, 6, kLowest, kHighest, 4, -1}});
    c.check(backend);
    const std::vector<float> y = c.run(backend, result.y), hidden = c.run(backend, result.hidden);
    const std::size_t width = c.graph.shape(result.hidden)[1], half = 5;
    const auto y_at = [&](std::size_t b, std::size_t t, std::size_t k) { return y[(b * 6 + t) * width + k]; };
    for (std::size_t k = 0; k < width; ++k) {
        CHECK(y_at(5, 4, k) == 0);
        CHECK(y_at(0, 0, k) == 0);
        const bool is_backward = direction == Direction::backward || k >= half;
        CHECK(hidden[5 * width + k] == y_at(5, is_backward ? 0 : 3, k));
    }
}

TEST_CASE("a backward layer is a forward one over the reversed sequence", "[op][recurrent]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    constexpr std::uint64_t kLen = 5, kHidden = 6, kWidth = 4 * kHidden;
    OpCase forward, backward;
    const std::vector<float> gates = forward.random_floats(kLen * kWidth, 2),
                             weight = forward.random_floats(kHidden * kWidth);
    std::vector<float> reversed;
    for (std::size_t t = kLen; t-- > 0;)
        reversed.insert(reversed.end(), gates.begin() + static_cast<std::ptrdiff_t>(t * kWidth),
                        gates.begin() + static_cast<std::ptrdiff_t>((t + 1) * kWidth));
    const auto run = [&](OpCase& c, const std::vector<float>& x, Direction direction) {
        const auto result =
            must(graph::lstm_layer(c.graph, c.floats("gates", DType::f32, {1, kLen, kWidth}, x),
                                   c.floats("weight", DType::f32, {kHidden, kWidth}, weight), {}, direction));
        c.expect(result.y);
        return c.run(backend, c.expect(result.hidden));
    };
    const auto a = run(forward, gates, Direction::forward), b = run(backward, reversed, Direction::backward);
    CHECK(a == b);
}

TEST_CASE("recurrent_layer bears huge gates and shows a NaN from its step on", "[op][recurrent]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const RecurrentUnit unit = units();
    CAPTURE(backend.name(), static_cast<int>(unit));
    const std::uint64_t width = gates_of(unit) * 3;
    OpCase c;
    std::vector<float> values = c.random_floats(2 * 4 * width, 3e38f);
    values[(4 + 2) * width] = std::numeric_limits<float>::quiet_NaN();  // sequence 1, step 2
    const Value gates = c.floats("gates", DType::f32, {2, 4, width}, values);
    const Value weight = c.floats("weight", DType::f32, {3, width});
    const auto make = unit == RecurrentUnit::lstm ? &graph::lstm_layer : &graph::gru_layer;
    const auto result = must(make(c.graph, gates, weight, {}, Direction::forward, {}));
    c.expect(result.y);
    c.expect(result.hidden);
    c.check(backend);
}

TEST_CASE("recurrent_cell agrees with double precision", "[op][recurrent]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const RecurrentUnit unit = units();
    for (const auto& [rows, hidden] :
         {std::pair<std::uint64_t, std::uint64_t>{1, 1}, {3, 21}, {1, 64}, {5, 13}, {2, 1500}}) {
        CAPTURE(backend.name(), to_string(dtype), static_cast<int>(unit), rows, hidden);
        OpCase c;
        const Shape gates{rows, gates_of(unit) * hidden}, state{rows, hidden};
        const Value x = c.floats("input_gates", dtype, gates, 3), h = c.floats("hidden_gates", dtype, gates, 3);
        const bool is_lstm = unit == RecurrentUnit::lstm;
        graph::RecurrentState from{.hidden = c.state("hidden", dtype, state, c.random_floats(rows * hidden))};
        if (is_lstm) from.cell = c.state("cell", DType::f32, state, c.random_floats(rows * hidden, 2));
        const auto make = is_lstm ? &graph::lstm_cell : &graph::gru_cell;
        const auto next = must(make(c.graph, x, h, from, {}));
        c.expect(next.hidden);
        if (is_lstm) c.expect(next.cell);
        must(make(c.graph, x, h, from, from));  // in place, after the other has read
        c.check(backend);
    }
}

}  // namespace
}  // namespace vkformer::tests
