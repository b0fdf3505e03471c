// SPDX-License-Identifier: MIT
// Norms over the rows of activations.
#include "cases/families.hpp"
#include "core/try.hpp"

namespace vkformer::cases {
namespace {

using graph::Value;

/// x + residual in place of x, and that sum as a result: what the passes make of an add and a norm.
enum class Form : std::uint8_t { plain, with_sum };

template <Form kForm>
Result<Case> layer_norm_case(const Family::Dims& shape, const Types& types) {
    const DType dtype = types.x;
    const double elements = static_cast<double>(shape[0] * shape[1]), rows = kForm == Form::with_sum ? 2 : 1;
    return Case{.op = kForm == Form::with_sum ? "layer_norm_sum" : "layer_norm",
                .shape = to_text(shape),
                .dtype = types.name(),
                // sum; difference, square, sum; difference, two products, sum
                .work = {.flops = 8 * elements,
                         .read = bytes_of(dtype, rows * elements + 2 * static_cast<double>(shape[1])),
                         .written = bytes_of(dtype, rows * elements)},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    graph::LayerNorm op{.eps = 1e-5f};
                    VKFORMER_TRY(op.x, b.input("x", dtype, {shape[0], shape[1]}));
                    VKFORMER_TRY(op.gain, b.weight("gain", dtype, {shape[1]}));
                    VKFORMER_TRY(op.bias, b.weight("bias", dtype, {shape[1]}));
                    if (kForm == Form::with_sum) {
                        VKFORMER_TRY(op.residual, b.input("residual", dtype, {shape[0], shape[1]}));
                        VKFORMER_TRY(op.sum, b.graph.activation("sum", dtype, {shape[0], shape[1]}));
                        b.result(op.sum);
                    }
                    VKFORMER_TRY(op.y, b.graph.activation("layer_norm", dtype, {shape[0], shape[1]}));
                    b.graph.add_node(op);
                    b.result(op.y);
                    return {};
                }};
}

template <Form kForm>
Result<Case> rms_norm_case(const Family::Dims& shape, const Types& types) {
    const DType dtype = types.x;
    const double elements = static_cast<double>(shape[0] * shape[1]), rows = kForm == Form::with_sum ? 2 : 1;
    return Case{.op = kForm == Form::with_sum ? "rms_norm_sum" : "rms_norm",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = 4 * elements,  // square, sum; two products
                         .read = bytes_of(dtype, rows * elements + static_cast<double>(shape[1])),
                         .written = bytes_of(dtype, rows * elements)},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    graph::RmsNorm op{.eps = 1e-5f};
                    VKFORMER_TRY(op.x, b.input("x", dtype, {shape[0], shape[1]}));
                    VKFORMER_TRY(op.gain, b.weight("gain", dtype, {shape[1]}));
                    if (kForm == Form::with_sum) {
                        VKFORMER_TRY(op.residual, b.input("residual", dtype, {shape[0], shape[1]}));
                        VKFORMER_TRY(op.sum, b.graph.activation("sum", dtype, {shape[0], shape[1]}));
                        b.result(op.sum);
                    }
                    VKFORMER_TRY(op.y, b.graph.activation("rms_norm", dtype, {shape[0], shape[1]}));
                    b.graph.add_node(op);
                    b.result(op.y);
                    return {};
                }};
}

template <bool kHasLike>
Result<Case> row_moments_case(const Family::Dims& shape, const Types& types) {
    const DType dtype = types.x;
    const double elements = static_cast<double>(shape[0] * shape[1]);
    return Case{.op = kHasLike ? "match_magnitude" : "gaussian_top_k",
                .shape = to_text(shape),
                .dtype = types.name(),
                // two squares, two sums, a product; or sum; difference, square, sum; difference, maximum
                .work = {.flops = (kHasLike ? 5 : 6) * elements,
                         .read = bytes_of(dtype, (kHasLike ? 2 : 1) * elements),
                         .written = bytes_of(dtype, elements)},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto x, b.input("x", dtype, {shape[0], shape[1]}));
                    Value y;
                    if (kHasLike) {
                        VKFORMER_TRY(const auto like, b.input("like", dtype, {shape[0], shape[1]}, 3));
                        VKFORMER_TRY(y, graph::match_magnitude(b.graph, x, like, 1e-5f));
                    } else {
                        VKFORMER_TRY(y, graph::gaussian_top_k(b.graph, x, 0.5f));
                    }
                    b.result(y);
                    return {};
                }};
}

}  // namespace

void add_norm_cases(std::vector<Family>& families) {
    const std::vector<Types> floats = {DType::f32, DType::f16};
    families.push_back({.name = "layer_norm",
                        .op = "layer_norm",
                        .dims = "rows x width",
                        .types = floats,
                        .shapes = {{1, 576}, {512, 576}},
                        .gpu_shapes = {{4096, 4096}},
                        .compiled = {{{512, 333}, floats}},
                        .make = layer_norm_case<Form::plain>});
    families.push_back({.name = "layer_norm_sum",
                        .op = "layer_norm",
                        .dims = "rows x width",
                        .types = floats,
                        .compiled = {{{512, 1024}, floats}},
                        .make = layer_norm_case<Form::with_sum>});
    families.push_back({.name = "rms_norm",
                        .op = "rms_norm",
                        .dims = "rows x width",
                        .types = floats,
                        .shapes = {{1, 576}, {512, 576}},
                        .gpu_shapes = {{4096, 4096}},
                        .compiled = {{{512, 333}, floats}},
                        .make = rms_norm_case<Form::plain>});
    families.push_back({.name = "rms_norm_sum",
                        .op = "rms_norm",
                        .dims = "rows x width",
                        .types = floats,
                        .compiled = {{{512, 4096}, floats}},
                        .make = rms_norm_case<Form::with_sum>});
    families.push_back({.name = "gaussian_top_k",
                        .op = "row_moments",
                        .dims = "rows x width",
                        .types = floats,
                        .shapes = {{1, 8192}, {512, 8192}},
                        .gpu_shapes = {{4096, 16384}},
                        .make = row_moments_case<false>});
    families.push_back({.name = "match_magnitude",
                        .op = "row_moments",
                        .dims = "rows x width",
                        .types = floats,
                        .shapes = {{512, 2048}},
                        .gpu_shapes = {{4096, 2048}},
                        .make = row_moments_case<true>});
}

}  // namespace vkformer::cases
