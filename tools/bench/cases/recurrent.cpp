// SPDX-License-Identifier: MIT
// A recurrent layer over whole sequences: its steps follow each other, so that little of a device is busy.
#include "bench/cases/cases.hpp"
#include "core/try.hpp"

namespace vkformer::bench {
namespace {

Result<Case> lstm_case(const Family::Dims& shape, std::string_view dtype_name) {
    const DType dtype = dtype_of(dtype_name);
    const std::uint64_t batch = shape[0], len = shape[1], hidden = shape[2];
    const double units = static_cast<double>(batch * len * hidden), width = static_cast<double>(hidden);
    return Case{.op = "recurrent_layer",
                .shape = to_text(shape),
                .dtype = std::string(dtype_name),
                .work = {.flops = units * (8 * width + 16),  // four gates of `width` terms, then the cell
                         .read = bytes_of(dtype, 4 * units + 4 * width * width),
                         .written = bytes_of(dtype, units)},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto gates, b.input("gates", dtype, {batch, len, 4 * hidden}));
                    VKFORMER_TRY(const auto weight, b.weight("weight", dtype, {hidden, 4 * hidden}, 0.1f));
                    VKFORMER_TRY(const auto layer,
                                 graph::lstm_layer(b.graph, gates, weight, {}, graph::Direction::forward));
                    b.result(layer.y);
                    return {};
                }};
}

Result<Case> cell_case(const Family::Dims& shape, std::string_view dtype_name) {
    const DType dtype = dtype_of(dtype_name);
    const std::uint64_t rows = shape[0], hidden = shape[1];
    const double units = static_cast<double>(rows * hidden);
    return Case{.op = "recurrent_cell",
                .shape = to_text(shape),
                .dtype = std::string(dtype_name),
                .work = {.flops = 16 * units,  // as recurrent_layer, without the products
                         .read = bytes_of(dtype, 9 * units) + 4 * units,
                         .written = bytes_of(dtype, units) + 4 * units},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto input_gates, b.input("input_gates", dtype, {rows, 4 * hidden}));
                    VKFORMER_TRY(const auto hidden_gates, b.input("hidden_gates", dtype, {rows, 4 * hidden}));
                    VKFORMER_TRY(const auto from, b.input("from", dtype, {rows, hidden}));
                    VKFORMER_TRY(const auto cell, b.input("cell", DType::f32, {rows, hidden}));
                    VKFORMER_TRY(const auto to,
                                 graph::lstm_cell(b.graph, input_gates, hidden_gates, {.hidden = from, .cell = cell}));
                    b.result(to.hidden);
                    b.result(to.cell);
                    return {};
                }};
}

}  // namespace

void add_recurrent_cases(std::vector<Family>& families) {
    families.push_back({.op = "recurrent_layer",
                        .dims = "sequences x steps x hidden",
                        .dtypes = {"f32", "f16"},
                        .shapes = {{1, 32, 64}, {32, 32, 64}},
                        .gpu_shapes = {{32, 32, 256}},
                        .make = lstm_case});
    families.push_back({.op = "recurrent_cell",
                        .dims = "rows x hidden",
                        .dtypes = {"f32", "f16"},
                        .shapes = {{32, 512}},
                        .gpu_shapes = {},
                        .make = cell_case});
}

}  // namespace vkformer::bench
