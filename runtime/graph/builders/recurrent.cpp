// SPDX-License-Identifier: MIT
#include "graph/builders.hpp"
#include "graph/builders/check.hpp"

namespace vkformer::graph {
namespace {

constexpr std::uint64_t kMaxHiddenDim = 1024;  // three rows of it in 16 KiB of shared memory

/// [… , gates · hidden_dim] → hidden_dim.
Result<std::uint64_t> hidden_dim_of(const OperandCheck& check, const Graph& graph, std::string_view name, Value gates,
                                    std::uint64_t parts) {
    const std::uint64_t width = graph.shape(gates).back();
    if (width % parts == 0) return width / parts;
    return check.error(ErrorCode::ShapeMismatch, std::string(name) + " is " + std::to_string(width) +
                                                     " wide, expected a multiple of " + std::to_string(parts) +
                                                     " (gates and directions)");
}

Result<RecurrentResult> recurrent_layer(Graph& graph, Value gates, Value weight, Value bias, Direction direction,
                                        const RecurrentStart& start, RecurrentUnit unit) {
    const OperandCheck check(graph, RecurrentLayer::kName);
    VKFORMER_CHECK(check.floats("gates", gates));
    VKFORMER_CHECK(check.rank("gates", gates, "[batch, len, directions * gates * hidden_dim]"));
    const std::uint64_t directions = directions_of(direction), per_unit = gates_of(unit);
    VKFORMER_TRY(const std::uint64_t hidden, hidden_dim_of(check, graph, "gates", gates, directions * per_unit));
    VKFORMER_CHECK(check.range("hidden_dim", hidden, 1, kMaxHiddenDim));
    const std::uint64_t batch = graph.shape(gates)[0], len = graph.shape(gates)[1];
    const DType dtype = graph.dtype(gates);
    VKFORMER_CHECK(check_like(check, graph, "weight", weight, "gates", gates));
    VKFORMER_CHECK(check.shape("weight", weight, {directions * hidden, per_unit * hidden}, "hidden_dim of gates"));
    if (bias) {
        VKFORMER_CHECK(check_like(check, graph, "bias", bias, "gates", gates));
        VKFORMER_CHECK(check.shape("bias", bias, {directions * per_unit * hidden}, "hidden_dim of gates"));
    }
    const Shape state{batch, directions * hidden};
    if (start.hidden) {
        VKFORMER_CHECK(check_like(check, graph, "initial hidden", start.hidden, "gates", gates));
        VKFORMER_CHECK(check.shape("initial hidden", start.hidden, state, "batch and hidden_dim of gates"));
    }
    if (start.cell && unit == RecurrentUnit::gru)
        return check.error(ErrorCode::InvalidArgument, "a GRU has no cell, but an initial one is given");
    if (start.cell) {
        VKFORMER_CHECK(check.dtype("initial cell", start.cell, DType::f32));
        VKFORMER_CHECK(check.shape("initial cell", start.cell, state, "batch and hidden_dim of gates"));
    }
    if (start.lengths) {
        VKFORMER_CHECK(check.dtype("lengths", start.lengths, DType::i32));
        VKFORMER_CHECK(check.shape("lengths", start.lengths, {batch}, "batch of gates"));
    }

    RecurrentResult result;
    VKFORMER_TRY(result.y, graph.activation(RecurrentLayer::kName, dtype, {batch, len, directions * hidden}));
    VKFORMER_TRY(result.hidden, graph.activation("hidden", dtype, state));
    if (unit == RecurrentUnit::lstm) {
        VKFORMER_TRY(result.cell, graph.activation("cell", DType::f32, state));
    }
    graph.add_node(RecurrentLayer{.gates = gates,
                                  .weight = weight,
                                  .bias = bias,
                                  .initial_hidden = start.hidden,
                                  .initial_cell = start.cell,
                                  .lengths = start.lengths,
                                  .y = result.y,
                                  .hidden = result.hidden,
                                  .cell = result.cell,
                                  .unit = unit,
                                  .direction = direction});
    return result;
}

Result<void> check_state(const OperandCheck& check, const RecurrentState& state, RecurrentUnit unit, DType dtype,
                         const Shape& shape, const std::string& prefix) {
    VKFORMER_CHECK(check.dtype(prefix + "hidden", state.hidden, dtype, "as input_gates"));
    VKFORMER_CHECK(check.shape(prefix + "hidden", state.hidden, shape, "rows and hidden_dim of input_gates"));
    if (unit == RecurrentUnit::gru) return {};
    VKFORMER_CHECK(check.dtype(prefix + "cell", state.cell, DType::f32));
    VKFORMER_CHECK(check.shape(prefix + "cell", state.cell, shape, "rows and hidden_dim of input_gates"));
    return check.distinct({{prefix + "hidden", state.hidden}, {prefix + "cell", state.cell}});
}

Result<RecurrentState> recurrent_cell(Graph& graph, Value input_gates, Value hidden_gates, const RecurrentState& from,
                                      const RecurrentState& into, RecurrentUnit unit) {
    const OperandCheck check(graph, RecurrentCell::kName);
    VKFORMER_CHECK(check.floats("input_gates", input_gates));
    VKFORMER_CHECK(check.rank("input_gates", input_gates, "[rows, gates * hidden_dim]"));
    VKFORMER_TRY(const std::uint64_t hidden_dim,
                 hidden_dim_of(check, graph, "input_gates", input_gates, gates_of(unit)));
    VKFORMER_CHECK(check_like(check, graph, "hidden_gates", hidden_gates, "input_gates", input_gates));
    VKFORMER_CHECK(check.shape("hidden_gates", hidden_gates, graph.shape(input_gates), "as input_gates"));
    const DType dtype = graph.dtype(input_gates);
    const Shape shape{graph.shape(input_gates)[0], hidden_dim};
    VKFORMER_CHECK(check_state(check, from, unit, dtype, shape, ""));
    if (unit == RecurrentUnit::gru && (from.cell || into.cell))
        return check.error(ErrorCode::InvalidArgument, "a GRU has no cell, but one is given");

    RecurrentState next = into;
    if (into.hidden) {
        VKFORMER_CHECK(check_state(check, into, unit, dtype, shape, "next "));
        VKFORMER_CHECK(check.state("next hidden", into.hidden));
        if (into.cell) VKFORMER_CHECK(check.state("next cell", into.cell));
        VKFORMER_CHECK(check.distinct({{"input_gates", input_gates}, {"next hidden", into.hidden}}));
        VKFORMER_CHECK(check.distinct({{"hidden_gates", hidden_gates}, {"next hidden", into.hidden}}));
        if (into.cell) {
            VKFORMER_CHECK(check.distinct({{"hidden", from.hidden}, {"next cell", into.cell}}));
            VKFORMER_CHECK(check.distinct({{"cell", from.cell}, {"next hidden", into.hidden}}));
        }
    } else {
        VKFORMER_TRY(next.hidden, graph.activation(RecurrentCell::kName, dtype, shape));
        if (unit == RecurrentUnit::lstm) {
            VKFORMER_TRY(next.cell, graph.activation("cell", DType::f32, shape));
        }
    }
    graph.add_node(RecurrentCell{.input_gates = input_gates,
                                 .hidden_gates = hidden_gates,
                                 .hidden = from.hidden,
                                 .cell = from.cell,
                                 .next_hidden = next.hidden,
                                 .next_cell = next.cell,
                                 .unit = unit});
    return next;
}

}  // namespace

Result<RecurrentResult> lstm_layer(Graph& graph, Value gates, Value weight, Value bias, Direction direction,
                                   const RecurrentStart& start) {
    return recurrent_layer(graph, gates, weight, bias, direction, start, RecurrentUnit::lstm);
}

Result<RecurrentResult> gru_layer(Graph& graph, Value gates, Value weight, Value bias, Direction direction,
                                  const RecurrentStart& start) {
    return recurrent_layer(graph, gates, weight, bias, direction, start, RecurrentUnit::gru);
}

Result<RecurrentState> lstm_cell(Graph& graph, Value input_gates, Value hidden_gates, const RecurrentState& from,
                                 const RecurrentState& into) {
    return recurrent_cell(graph, input_gates, hidden_gates, from, into, RecurrentUnit::lstm);
}

Result<RecurrentState> gru_cell(Graph& graph, Value input_gates, Value hidden_gates, const RecurrentState& from,
                                const RecurrentState& into) {
    return recurrent_cell(graph, input_gates, hidden_gates, from, into, RecurrentUnit::gru);
}

}  // namespace vkformer::graph
