// SPDX-License-Identifier: MIT
// The builders of recurrent layers and cells.
#include "support/builder_case.hpp"

namespace vkformer::tests {
namespace {

using graph::Direction;
using graph::Graph;
using graph::Value;

void check_tensor(const Graph& g, Value value, DType dtype, const Shape& shape) {
    REQUIRE(value);
    CHECK(to_string(g.shape(value)) == to_string(shape));
    CHECK(g.dtype(value) == dtype);
}

TEST_CASE("recurrent layers infer shapes and dtypes", "[builders][recurrent]") {
    Inputs in;
    Graph& g = in.graph;
    const auto one = must(lstm_layer(g, in(f16, {2, 5, 28}), in(f16, {7, 28}), in(f16, {28}), Direction::backward));
    check_tensor(g, one.y, f16, {2, 5, 7});
    check_tensor(g, one.hidden, f16, {2, 7});
    check_tensor(g, one.cell, f32, {2, 7});
    const auto two = must(gru_layer(g, in(f32, {2, 5, 42}), in(f32, {14, 21}), {}, Direction::both,
                                    {.hidden = in(f32, {2, 14}), .lengths = in(i32, {2})}));
    check_tensor(g, two.y, f32, {2, 5, 14});
    check_tensor(g, two.hidden, f32, {2, 14});
    CHECK_FALSE(two.cell);
    const auto widest = must(lstm_layer(g, in(f32, {1, 1, 4096}), in(f32, {1024, 4096}), {}, Direction::forward));
    check_tensor(g, widest.y, f32, {1, 1, 1024});
}

TEST_CASE("recurrent layers refuse what does not fit", "[builders][recurrent]") {
    Inputs in;
    Graph& g = in.graph;
    const Value gates = in(f32, {2, 5, 24}), weight = in(f32, {6, 24}), bias = in(f32, {24});
    const auto lstm = [&](Value x, Value w, Value b, Direction direction = Direction::forward,
                          const graph::RecurrentStart& start = {}) { return lstm_layer(g, x, w, b, direction, start); };
    CHECK_REFUSED(in, lstm({}, weight, bias), kInvalid, "recurrent_layer: gates is absent");
    CHECK_REFUSED(in, lstm(in(i32, {2, 5, 24}), weight, bias), kDtype,
                  "recurrent_layer: gates has dtype i32, expected f32 or f16");
    CHECK_REFUSED(in, lstm(in(f32, {5, 24}), weight, bias), kShape,
                  "recurrent_layer: gates has shape [5, 24], expected 3 dimensions [batch, len, directions * gates * "
                  "hidden_dim]");
    CHECK_REFUSED(in, lstm(in(f32, {2, 5, 26}), weight, bias), kShape,
                  "recurrent_layer: gates is 26 wide, expected a multiple of 4 (gates and directions)");
    CHECK_REFUSED(in, lstm(in(f32, {1, 1, 4100}), weight, bias), kInvalid,
                  "recurrent_layer: hidden_dim is 1025, expected 1 to 1024");
    CHECK_REFUSED(in, lstm(gates, in(f32, {24, 6}), bias), kShape,
                  "recurrent_layer: weight has shape [24, 6], expected [6, 24] (hidden_dim of gates)");
    CHECK_REFUSED(in, lstm(gates, in(f16, {6, 24}), bias), kDtype,
                  "recurrent_layer: weight has dtype f16, expected f32 (as gates)");
    CHECK_REFUSED(in, lstm(gates, weight, in(f32, {6})), kShape,
                  "recurrent_layer: bias has shape [6], expected [24] (hidden_dim of gates)");
    CHECK_REFUSED(in, lstm(gates, weight, bias, Direction::both), kShape,
                  "recurrent_layer: weight has shape [6, 24], expected [6, 12] (hidden_dim of gates)");
    CHECK_REFUSED(in, lstm(gates, weight, bias, Direction::forward, {.hidden = in(f32, {2, 5})}), kShape,
                  "recurrent_layer: initial hidden has shape [2, 5], expected [2, 6] (batch and hidden_dim of gates)");
    CHECK_REFUSED(in, lstm(gates, weight, bias, Direction::forward, {.cell = in(f16, {2, 6})}), kDtype,
                  "recurrent_layer: initial cell has dtype f16, expected f32");
    CHECK_REFUSED(in, lstm(gates, weight, bias, Direction::forward, {.lengths = in(i32, {3})}), kShape,
                  "recurrent_layer: lengths has shape [3], expected [2] (batch of gates)");
    CHECK_REFUSED(in, lstm(gates, weight, bias, Direction::forward, {.lengths = in(f32, {2})}), kDtype,
                  "recurrent_layer: lengths has dtype f32, expected i32");
    CHECK_REFUSED(in, gru_layer(g, gates, in(f32, {8, 24}), {}, Direction::forward, {.cell = in(f32, {2, 8})}),
                  kInvalid, "recurrent_layer: a GRU has no cell, but an initial one is given");
}

TEST_CASE("recurrent cells refuse what does not fit, and write into states only", "[builders][recurrent]") {
    Inputs in;
    Graph& g = in.graph;
    const Value x = in(f16, {3, 8}), h = in(f16, {3, 8}), hidden = in(f16, {3, 2}), cell = in(f32, {3, 2});
    const Value hidden_state = in.state(f16, {3, 2}), cell_state = in.state(f32, {3, 2});
    const auto next = must(lstm_cell(g, x, h, {hidden, cell}));
    check_tensor(g, next.hidden, f16, {3, 2});
    check_tensor(g, next.cell, f32, {3, 2});
    const graph::RecurrentState states{hidden_state, cell_state};
    CHECK(must(lstm_cell(g, x, h, states, states)).hidden == hidden_state);
    check_tensor(g, must(gru_cell(g, in(f32, {3, 6}), in(f32, {3, 6}), {in(f32, {3, 2}), {}})).hidden, f32, {3, 2});

    CHECK_REFUSED(in, lstm_cell(g, x, in(f16, {3, 4}), {hidden, cell}), kShape,
                  "recurrent_cell: hidden_gates has shape [3, 4], expected [3, 8] (as input_gates)");
    CHECK_REFUSED(in, lstm_cell(g, x, h, {in(f16, {3, 3}), cell}), kShape,
                  "recurrent_cell: hidden has shape [3, 3], expected [3, 2] (rows and hidden_dim of input_gates)");
    CHECK_REFUSED(in, lstm_cell(g, x, h, {hidden, hidden}), kDtype, "recurrent_cell: cell has dtype f16, expected f32");
    CHECK_REFUSED(in, lstm_cell(g, x, h, {hidden, {}}), kInvalid, "recurrent_cell: cell is absent");
    CHECK_REFUSED(in, lstm_cell(g, x, h, {hidden, cell}, {hidden, cell_state}), kInvalid,
                  "recurrent_cell: next hidden (" + g.tensor(hidden).name + ") is no state, but the op updates it");
    CHECK_REFUSED(in, gru_cell(g, in(f32, {3, 6}), in(f32, {3, 6}), {in(f32, {3, 2}), cell}), kInvalid,
                  "recurrent_cell: a GRU has no cell, but one is given");
    const Value f = in.state(f32, {3, 2}), gates = in(f32, {3, 8});
    CHECK_REFUSED(in, lstm_cell(g, gates, gates, {in(f32, {3, 2}), f}, {f, cell_state}), kInvalid,
                  "recurrent_cell: cell and next hidden are the same tensor (" + g.tensor(f).name + ")");
}

}  // namespace
}  // namespace vkformer::tests
