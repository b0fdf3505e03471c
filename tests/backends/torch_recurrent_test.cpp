// SPDX-License-Identifier: MIT
// nn.LSTM and nn.GRU, and the attentions of Bahdanau and Luong, against PyTorch (tests/goldens/make_recurrent.py).
#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/catch.h"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/op_case.hpp"

namespace vkformer::tests {
namespace {

using graph::Direction;
using graph::RecurrentUnit;
using graph::Value;

/// What the project promises for these ops.
double recurrent_bound(const graph::Backend& backend, DType dtype) {
    if (dtype == DType::f16) return 3e-3;
    return is_double(backend) ? kDoubleBound : 1e-5;
}

void check_result(graph::Backend& backend, const OpCase& c, Value value, const std::vector<double>& expected,
                  double bound) {
    CAPTURE(c.graph.tensor(value).name);
    const std::vector<double> found = c.run_doubles(backend, value);
    REQUIRE(found.size() == expected.size());
    CHECK(relative_error<double, double>(found, expected) < bound);
}

void append(std::vector<float>& to, const std::vector<float>& values) {
    to.insert(to.end(), values.begin(), values.end());
}

/// [directions, batch, hidden] of one layer in PyTorch's [layers · directions, batch, hidden] → [batch, directions · hidden].
template <class T>
std::vector<T> layer_state(const std::vector<T>& states, const Shape& shape, std::size_t layer,
                           std::size_t directions) {
    const std::size_t batch = shape[1], hidden = shape[2];
    std::vector<T> result;
    for (std::size_t b = 0; b < batch; ++b)
        for (std::size_t d = 0; d < directions; ++d)
            for (std::size_t k = 0; k < hidden; ++k)
                result.push_back(states[((layer * directions + d) * batch + b) * hidden + k]);
    return result;
}

TEST_CASE("LSTM and GRU layers are PyTorch's", "[golden][recurrent]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const std::string name =
        GENERATE("lstm", "gru", "lstm_start", "gru_start", "lstm_bidirectional_packed", "gru_bidirectional_packed",
                 "lstm_two_layers_bidirectional_packed", "gru_two_layers_packed");
    CAPTURE(backend.name(), to_string(dtype), name);
    const Golden golden("recurrent/rnn_" + name + ".safetensors");
    const RecurrentUnit unit = name.starts_with("lstm") ? RecurrentUnit::lstm : RecurrentUnit::gru;
    const bool is_bidirectional = golden.has("weight_ih_l0_reverse");
    const std::size_t directions = is_bidirectional ? 2 : 1;
    const Shape states = golden.shape("hidden");
    const std::uint64_t batch = states[1], hidden = states[2], parts = gates_of(unit);

    OpCase c;
    Value x = c.floats("x", dtype, golden.shape("x"), golden.floats("x"));
    const Value lengths = golden.has("lengths") ? c.ints("lengths", {batch}, golden.ints("lengths")) : Value{};
    std::vector<graph::RecurrentResult> layers;
    for (std::size_t layer = 0; layer < states[0] / directions; ++layer) {
        const std::string suffix = "_l" + std::to_string(layer);
        std::vector<float> weight_ih, weight_hh, bias_ih, bias_hh;
        for (std::size_t d = 0; d < directions; ++d) {
            const std::string own = suffix + (d == 1 ? "_reverse" : "");
            append(weight_ih, golden.floats("weight_ih" + own));
            append(weight_hh, transposed(golden.floats("weight_hh" + own), hidden));
            append(bias_ih, golden.floats("bias_ih" + own));
            append(bias_hh, golden.floats("bias_hh" + own));
        }
        const std::uint64_t rows = directions * parts * hidden;
        const Value gates = must(
            graph::linear(c.graph, x, c.floats("weight_ih" + suffix, dtype, {rows, weight_ih.size() / rows}, weight_ih),
                          c.floats("bias_ih" + suffix, dtype, {rows}, bias_ih)));
        graph::RecurrentStart start{.lengths = lengths};
        const Shape state{batch, directions * hidden};
        if (golden.has("initial_hidden"))
            start.hidden = c.floats("initial_hidden" + suffix, dtype, state,
                                    layer_state(golden.floats("initial_hidden"), states, layer, directions));
        if (golden.has("initial_cell"))
            start.cell = c.floats("initial_cell" + suffix, DType::f32, state,
                                  layer_state(golden.floats("initial_cell"), states, layer, directions));
        const auto make = unit == RecurrentUnit::lstm ? &graph::lstm_layer : &graph::gru_layer;
        layers.push_back(must(make(
            c.graph, gates, c.floats("weight_hh" + suffix, dtype, {directions * hidden, parts * hidden}, weight_hh),
            c.floats("bias_hh" + suffix, dtype, {rows}, bias_hh),
            is_bidirectional ? Direction::both : Direction::forward, start)));
        c.expect(layers.back().hidden);
        if (layers.back().cell) c.expect(layers.back().cell);
        x = layers.back().y;
    }
    c.expect(x);
    const double bound = recurrent_bound(backend, dtype);
    check_result(backend, c, x, golden.doubles("output"), bound);
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
        check_result(backend, c, layers[layer].hidden, layer_state(golden.doubles("hidden"), states, layer, directions),
                     bound);
        if (layers[layer].cell)
            check_result(backend, c, layers[layer].cell, layer_state(golden.doubles("cell"), states, layer, directions),
                         bound);
    }
}

TEST_CASE("additive, multiplicative and local attention are the papers'", "[golden][additive_scores][local_softmax]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const std::string name =
        GENERATE("dot", "general", "additive", "concat", "general_monotonic", "dot_predictive", "concat_predictive");
    CAPTURE(backend.name(), to_string(dtype), name);
    const Golden golden("recurrent/attention_" + name + ".safetensors");
    const std::uint64_t batch = golden.shape("query")[0], query_len = golden.shape("query")[1],
                        key_len = golden.shape("key")[1], key_width = golden.shape("key")[2];
    OpCase c;
    const auto input = [&](const std::string& tensor) {
        return c.floats(tensor, dtype, golden.shape(tensor), golden.floats(tensor));
    };
    const auto one_head = [&](Value x) {
        const Shape& shape = c.graph.shape(x);
        return must(c.graph.reshape(x, {shape[0], shape[1], 1, shape[2]}));
    };
    const Value query = input("query"), key = input("key");
    const Value asked = golden.has("w_query") ? must(graph::linear(c.graph, query, input("w_query"))) : query;
    const Value lengths = c.ints("lengths", {batch}, golden.ints("lengths"));
    Value scores;
    if (golden.has("w_key")) {
        const Value keys = must(graph::linear(c.graph, key, input("w_key")));
        const Value weight = c.floats("w_score", dtype, {1, golden.shape("w_score")[0]}, golden.floats("w_score"));
        scores = c.expect(graph::additive_scores(c.graph, one_head(asked), one_head(keys), weight));
    } else {
        scores = c.expect(graph::attention_scores(c.graph, one_head(asked), one_head(key), 1));
    }
    Value weights;
    if (golden.has("half_width")) {
        graph::LocalWindow window{.half_width = static_cast<std::uint32_t>(golden.ints("half_width")[0]),
                                  .key_lengths = lengths};
        if (golden.has("positions")) {
            std::vector<std::int32_t> positions;
            for (std::uint64_t b = 0; b < batch; ++b)
                for (const std::int32_t p : golden.ints("positions")) positions.push_back(p);
            window.positions = c.ints("positions", {batch, query_len}, positions);
        } else {
            const Value inner = must(graph::activate(c.graph, must(graph::linear(c.graph, query, input("w_position"))),
                                                     graph::Activation::tanh));
            const std::uint64_t width = golden.shape("v_position")[0];
            const Value v = c.floats("v_position", dtype, {1, width}, golden.floats("v_position"));
            const Value score = must(graph::linear(c.graph, inner, v, {}, DType::f32));
            const Value relative = must(graph::activate(c.graph, score, graph::Activation::sigmoid));
            window.relative = must(c.graph.reshape(relative, {batch, query_len}));
        }
        weights = c.expect(graph::local_softmax(c.graph, scores, window));
    } else {
        weights = c.expect(graph::masked_softmax(c.graph, scores, {.key_lengths = lengths}));
    }
    const Value context = c.expect(graph::weighted_sum(c.graph, weights, one_head(key)));
    REQUIRE(c.graph.shape(weights) == Shape{batch, 1, query_len, key_len});
    REQUIRE(c.graph.shape(context) == Shape{batch, query_len, 1, key_width});

    const double bound = recurrent_bound(backend, dtype);
    check_result(backend, c, scores, golden.doubles("scores"), bound);
    check_result(backend, c, weights, golden.doubles("weights"), bound);
    check_result(backend, c, context, golden.doubles("context"), bound);
}

}  // namespace
}  // namespace vkformer::tests
