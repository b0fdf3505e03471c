// SPDX-License-Identifier: MIT
// Layers with a state, over whole sequences: their steps follow each other, so that little of a device is busy.
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

/// As Qwen 3.5 has it: SiLU behind it, four taps.
template <bool kIsGated>
Result<Case> convolution_case(const Family::Dims& shape, const Types& types) {
    const DType dtype = types.x;
    const std::uint64_t batch = shape[0], len = shape[1], width = shape[2], taps = kIsGated ? 3 : 4;
    const double elements = static_cast<double>(batch * len * width), parts = kIsGated ? 3 : 1;
    return Case{.op = kIsGated ? "short_convolution_gated" : "short_convolution",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = elements * (2 * static_cast<double>(taps) + 2),
                         .read = bytes_of(dtype, parts * elements),
                         .written = bytes_of(dtype, elements)},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto x, b.input("x", dtype, {batch, len, kIsGated ? 3 * width : width}));
                    VKFORMER_TRY(const auto weight, b.weight("weight", dtype, {width, taps}));
                    VKFORMER_TRY(const auto state, b.state("state", DType::f32, {batch, taps - 1, width}));
                    const auto activation = kIsGated ? graph::Activation::none : graph::Activation::silu;
                    VKFORMER_TRY(const auto starts, b.ints("starts", {batch}, std::vector<std::int32_t>(batch, 7)));
                    VKFORMER_TRY(const auto y, graph::short_convolution(b.graph, x, weight, {}, state,
                                                                        {.starts = starts}, activation, kIsGated));
                    b.result(y);
                    b.result(state);
                    return {};
                }};
}

Result<Case> delta_case(const Family::Dims& shape, const Types& types) {
    const DType dtype = types.x;
    const std::uint64_t batch = shape[0], len = shape[1], key_heads = shape[2], heads = key_heads * shape[3],
                        key_dim = shape[4], value_dim = shape[5], width = 2 * key_heads * key_dim + heads * value_dim;
    if (key_heads > 1024) return Error{ErrorCode::InvalidArgument, "gated_delta_rule: at most 1024 key heads"};
    const double tokens = static_cast<double>(batch * len), values = static_cast<double>(heads * value_dim),
                 matrices = static_cast<double>(batch * heads * key_dim * value_dim);
    return Case{
        .op = "gated_delta_rule",
        .shape = to_text(shape),
        .dtype = types.name(),
        .work = {.flops = 7 * tokens * values * static_cast<double>(key_dim),
                 .read = 4 * (tokens * static_cast<double>(width) + matrices),
                 .written = bytes_of(dtype, tokens * values) + 4 * matrices},
        .build = [=](CaseBuilder& b) -> Result<void> {
            VKFORMER_TRY(const auto qkv, b.input("qkv", DType::f32, {batch, len, width}));
            VKFORMER_TRY(const auto gates, b.input("gates", DType::f32, {batch, len, 2 * heads}));
            VKFORMER_TRY(const auto decay, b.weight("decay", DType::f32, {2, heads}));
            VKFORMER_TRY(const auto state, b.state("state", DType::f32, {batch, heads, key_dim, value_dim}, 0.3f));
            VKFORMER_TRY(const auto starts, b.ints("starts", {batch}, std::vector<std::int32_t>(batch, 7)));
            VKFORMER_TRY(const auto y, graph::gated_delta_rule(
                                           b.graph, qkv, gates, decay, state, {.starts = starts},
                                           {.key_heads = static_cast<std::uint32_t>(key_heads), .result = dtype}));
            b.result(y);
            b.result(state);
            return {};
        }};
}

Result<Case> scan_case(const Family::Dims& shape, const Types& types) {
    const DType dtype = types.x;
    const std::uint64_t batch = shape[0], len = shape[1], groups = shape[2], heads = groups * shape[3],
                        state_dim = shape[4], head_dim = shape[5], width = heads * head_dim + 2 * groups * state_dim;
    if (groups > 1024) return Error{ErrorCode::InvalidArgument, "selective_scan: at most 1024 groups"};
    const double tokens = static_cast<double>(batch * len), values = static_cast<double>(heads * head_dim),
                 matrices = static_cast<double>(batch * heads * state_dim * head_dim);
    return Case{
        .op = "selective_scan",
        .shape = to_text(shape),
        .dtype = types.name(),
        .work = {.flops = 5 * tokens * values * static_cast<double>(state_dim),
                 .read = 4 * (tokens * static_cast<double>(width + heads) + matrices),
                 .written = bytes_of(dtype, tokens * values) + 4 * matrices},
        .build = [=](CaseBuilder& b) -> Result<void> {
            VKFORMER_TRY(const auto xbc, b.input("xbc", DType::f32, {batch, len, width}));
            VKFORMER_TRY(const auto steps, b.input("steps", DType::f32, {batch, len, heads}));
            VKFORMER_TRY(const auto rates, b.weight("rates", DType::f32, {3, heads}));
            VKFORMER_TRY(const auto state, b.state("state", DType::f32, {batch, heads, state_dim, head_dim}, 0.3f));
            VKFORMER_TRY(const auto starts, b.ints("starts", {batch}, std::vector<std::int32_t>(batch, 7)));
            VKFORMER_TRY(const auto y,
                         graph::selective_scan(b.graph, xbc, steps, rates, state, {.starts = starts},
                                               {.groups = static_cast<std::uint32_t>(groups), .result = dtype}));
            b.result(y);
            b.result(state);
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
    families.push_back({.name = "short_convolution",
                        .op = "short_convolution",
                        .dims = "sequences x len x width",
                        .types = floats,
                        .shapes = {{1, 1, 6144}, {1, 256, 6144}},
                        .make = convolution_case<false>});
    families.push_back({.name = "short_convolution_gated",
                        .op = "short_convolution",
                        .dims = "sequences x len x width",
                        .types = floats,
                        .shapes = {{1, 1, 2048}, {1, 256, 2048}},
                        .make = convolution_case<true>});
    families.push_back({.name = "gated_delta_rule",
                        .op = "gated_delta_rule",
                        .dims = "sequences x len x key heads x heads of each x key_dim x value_dim",
                        .types = floats,
                        .shapes = {{1, 1, 16, 1, 128, 128}, {1, 256, 16, 1, 128, 128}},
                        .make = delta_case});
    families.push_back({.name = "selective_scan",
                        .op = "selective_scan",
                        .dims = "sequences x len x groups x heads of each x state_dim x head_dim",
                        .types = floats,
                        .shapes = {{1, 1, 1, 48, 128, 64}, {1, 256, 1, 48, 128, 64}},
                        .compiled = {{{1, 256, 1, 48, 128, 64}, floats}},
                        .make = scan_case});
}

}  // namespace vkformer::cases
