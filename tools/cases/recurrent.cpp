// SPDX-License-Identifier: MIT
// A recurrent layer over whole sequences: its steps follow each other, so that little of a device is busy.
#include "cases/families.hpp"
#include "core/try.hpp"

namespace vkformer::cases {
namespace {

using graph::RecurrentUnit;

template <RecurrentUnit kUnit>
Result<Case> layer_case(const Family::Dims& shape, const Types& types) {
    const DType dtype = types.x;
    const std::uint64_t batch = shape[0], len = shape[1], hidden = shape[2], gates = graph::gates_of(kUnit);
    const double units = static_cast<double>(batch * len * hidden), width = static_cast<double>(hidden),
                 count = static_cast<double>(gates);
    return Case{.op = kUnit == RecurrentUnit::lstm ? "recurrent_layer" : "recurrent_layer_gru",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = units * count * (2 * width + 4),  // gates of `width` terms, then the cell
                         .read = bytes_of(dtype, count * units + count * width * width),
                         .written = bytes_of(dtype, units)},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto x, b.input("gates", dtype, {batch, len, gates * hidden}));
                    VKFORMER_TRY(const auto weight, b.weight("weight", dtype, {hidden, gates * hidden}, 0.1f));
                    VKFORMER_TRY(const auto bias, b.weight("bias", dtype, {gates * hidden}));
                    const auto make = kUnit == RecurrentUnit::lstm ? &graph::lstm_layer : &graph::gru_layer;
                    VKFORMER_TRY(const auto layer, make(b.graph, x, weight, bias, graph::Direction::forward, {}));
                    b.result(layer.y);
                    return {};
                }};
}

template <RecurrentUnit kUnit>
Result<Case> cell_case(const Family::Dims& shape, const Types& types) {
    constexpr bool kIsLstm = kUnit == RecurrentUnit::lstm;
    const DType dtype = types.x;
    const std::uint64_t rows = shape[0], hidden = shape[1], gates = graph::gates_of(kUnit);
    const double units = static_cast<double>(rows * hidden), count = static_cast<double>(gates),
                 cells = kIsLstm ? 4 * units : 0;
    return Case{.op = kIsLstm ? "recurrent_cell" : "recurrent_cell_gru",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = 4 * count * units,  // as recurrent_layer, without the products
                         .read = bytes_of(dtype, (2 * count + 1) * units) + cells,
                         .written = bytes_of(dtype, units) + cells},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto input_gates, b.input("input_gates", dtype, {rows, gates * hidden}));
                    VKFORMER_TRY(const auto hidden_gates, b.input("hidden_gates", dtype, {rows, gates * hidden}));
                    graph::RecurrentState from;
                    VKFORMER_TRY(from.hidden, b.input("from", dtype, {rows, hidden}));
                    if (kIsLstm) {
                        VKFORMER_TRY(from.cell, b.input("cell", DType::f32, {rows, hidden}));
                    }
                    const auto make = kIsLstm ? &graph::lstm_cell : &graph::gru_cell;
                    VKFORMER_TRY(const auto to, make(b.graph, input_gates, hidden_gates, from, {}));
                    b.result(to.hidden);
                    if (kIsLstm) b.result(to.cell);
                    return {};
                }};
}

}  // namespace

void add_recurrent_cases(std::vector<Family>& families) {
    const std::vector<Types> floats = {DType::f32, DType::f16};
    families.push_back({.name = "recurrent_layer",
                        .op = "recurrent_layer",
                        .dims = "sequences x steps x hidden",
                        .types = floats,
                        .shapes = {{1, 32, 64}, {32, 32, 64}},
                        .gpu_shapes = {{32, 32, 256}},
                        .compiled = {{{32, 64, 512}, floats}},
                        .make = layer_case<RecurrentUnit::lstm>});
    families.push_back({.name = "recurrent_layer_gru",
                        .op = "recurrent_layer",
                        .dims = "sequences x steps x hidden",
                        .types = floats,
                        .compiled = {{{32, 64, 512}, floats}},
                        .make = layer_case<RecurrentUnit::gru>});
    families.push_back({.name = "recurrent_cell",
                        .op = "recurrent_cell",
                        .dims = "rows x hidden",
                        .types = floats,
                        .shapes = {{32, 512}},
                        .make = cell_case<RecurrentUnit::lstm>});
    families.push_back({.name = "recurrent_cell_gru",
                        .op = "recurrent_cell",
                        .dims = "rows x hidden",
                        .types = floats,
                        .compiled = {{{32, 512}, floats}},
                        .make = cell_case<RecurrentUnit::gru>});
}

}  // namespace vkformer::cases
