// SPDX-License-Identifier: MIT
// Norms over the rows of activations.
#include "bench/cases/cases.hpp"
#include "core/try.hpp"

namespace vkformer::bench {
namespace {

Result<Case> layer_norm_case(const Family::Dims& shape, std::string_view dtype_name) {
    const DType dtype = dtype_of(dtype_name);
    const double elements = static_cast<double>(shape[0] * shape[1]);
    return Case{.op = "layer_norm",
                .shape = to_text(shape),
                .dtype = std::string(dtype_name),
                // sum; difference, square, sum; difference, two products, sum
                .work = {.flops = 8 * elements,
                         .read = bytes_of(dtype, elements + 2 * static_cast<double>(shape[1])),
                         .written = bytes_of(dtype, elements)},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto x, b.input("x", dtype, {shape[0], shape[1]}));
                    VKFORMER_TRY(const auto gain, b.weight("gain", dtype, {shape[1]}));
                    VKFORMER_TRY(const auto bias, b.weight("bias", dtype, {shape[1]}));
                    VKFORMER_TRY(const auto y, graph::layer_norm(b.graph, x, gain, bias, 1e-5f));
                    b.result(y);
                    return {};
                }};
}

Result<Case> rms_norm_case(const Family::Dims& shape, std::string_view dtype_name) {
    const DType dtype = dtype_of(dtype_name);
    const double elements = static_cast<double>(shape[0] * shape[1]);
    return Case{.op = "rms_norm",
                .shape = to_text(shape),
                .dtype = std::string(dtype_name),
                .work = {.flops = 4 * elements,  // square, sum; two products
                         .read = bytes_of(dtype, elements + static_cast<double>(shape[1])),
                         .written = bytes_of(dtype, elements)},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto x, b.input("x", dtype, {shape[0], shape[1]}));
                    VKFORMER_TRY(const auto gain, b.weight("gain", dtype, {shape[1]}));
                    VKFORMER_TRY(const auto y, graph::rms_norm(b.graph, x, gain, 1e-5f));
                    b.result(y);
                    return {};
                }};
}

}  // namespace

void add_norm_cases(std::vector<Family>& families) {
    families.push_back({.op = "layer_norm",
                        .dims = "rows x width",
                        .dtypes = {"f32", "f16"},
                        .shapes = {{1, 576}, {512, 576}},
                        .gpu_shapes = {{4096, 4096}},
                        .make = layer_norm_case});
    families.push_back({.op = "rms_norm",
                        .dims = "rows x width",
                        .dtypes = {"f32", "f16"},
                        .shapes = {{1, 576}, {512, 576}},
                        .gpu_shapes = {{4096, 4096}},
                        .make = rms_norm_case});
}

}  // namespace vkformer::bench
