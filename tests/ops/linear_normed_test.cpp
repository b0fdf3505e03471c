// SPDX-License-Identifier: MIT
// A product that norms its input itself: the node that graph/plan.hpp makes of an RMS norm and a product of few rows.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/block_format.hpp"
#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"
#include "support/quantized.hpp"

namespace vkformer::tests {
namespace {

using graph::Activation;
using graph::Value;

struct NormedCase {
    std::uint64_t rows, in, out;
    DType dtype = DType::f32, result = DType::f32, format = DType::f32;  ///< format: of the weight, if not that of x
    bool gain = true, bias = true, gated = false;
    Activation activation = Activation::none;
    float gain_offset = 0, eps = 1e-3f;
};

Value add_normed(OpCase& c, Value x, const NormedCase& s) {
    const Value gain = s.gain ? c.floats("gain", s.dtype, {s.in}) : Value{};
    const Value weight =
        is_weight_only(s.format) ? random_weight(c, s.format, s.out, s.in) : c.floats("weight", s.dtype, {s.out, s.in});
    const Value bias = s.bias ? c.floats("bias", s.dtype, {s.out}) : Value{};
    const Value y = c.expect(c.graph.activation("linear", s.result, {s.rows, s.gated ? s.out / 2 : s.out}));
    c.graph.add_node(graph::Linear{
        .x = x,
        .weight = weight,
        .y = y,
        .prologue = {.kind = graph::Prologue::Kind::rms_norm, .gain = gain, .eps = s.eps, .gain_offset = s.gain_offset},
        .epilogue = {.bias = bias,
                     .activation = s.activation,
                     .end = s.gated ? graph::Epilogue::End::gate : graph::Epilogue::End::none}});
    return y;
}

// linear/row.comp has no room for the squares of 7 and 8 rows, linear/row_vec4.comp for those of 4 to 8, which then are normed before.
TEST_CASE("a product of a norm adds an offset to the gains", "[op][linear][normed]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto [dtype, result] =
        GENERATE(table<DType, DType>({{DType::f32, DType::f32}, {DType::f16, DType::f16}, {DType::f16, DType::f32}}));
    const auto [rows, in, out, gain_offset] = GENERATE(table<std::uint64_t, std::uint64_t, std::uint64_t, float>({
        {2, 129, 5, 1.0f},
        {1, 96, 37, 1.0f},
        {8, 40, 33, 1.0f},
    }));
    CAPTURE(backend.name(), to_string(dtype), to_string(result), rows, in, out, gain_offset);
    OpCase c;
    add_normed(c, c.floats("x", dtype, {rows, in}, 3),
               {.rows = rows, .in = in, .out = out, .dtype = dtype, .result = result, .gain_offset = gain_offset});
    c.check(backend);
}

TEST_CASE("a product of a norm has gain, bias, activation and gate or not", "[op][linear][normed]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto [gain, bias, gated, activation] = GENERATE(table<bool, bool, bool, Activation>({
        {false, false, false, Activation::none},
        {false, true, true, Activation::silu},
        {true, false, true, Activation::gelu_tanh},
        {true, true, false, Activation::gelu_erf},
    }));
    const auto [dtype, rows, in] = GENERATE(table<DType, std::uint64_t, std::uint64_t>(
        {{DType::f32, 1, 64}, {DType::f32, 3, 33}, {DType::f16, 2, 64}, {DType::f32, 6, 48}}));
    CAPTURE(backend.name(), gain, bias, gated, static_cast<int>(activation), to_string(dtype), rows, in);
    OpCase c;
    add_normed(c, c.floats("x", dtype, {rows, in}),
               {.rows = rows,
                .in = in,
                .out = 50,
                .dtype = dtype,
                .result = dtype,
                .gain = gain,
                .bias = bias,
                .gated = gated,
                .activation = activation});
    c.check(backend);
}

TEST_CASE("a product of a norm takes quantised weights", "[op][linear][normed][quantized]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto [format, dtype, rows, blocks, out, gated] =
        GENERATE(table<DType, DType, std::uint64_t, std::uint64_t, std::uint64_t, bool>({
            {DType::q8_0, DType::f32, 1, 18, 50, false},
            {DType::q8_0, DType::f32, 3, 2, 34, true},
            {DType::q4_0, DType::f32, 1, 18, 50, true},
            {DType::q4_0, DType::f32, 4, 4, 33, false},
            {DType::q4_0, DType::f32, 1, 3, 5, false},
            {DType::q8_0, DType::f16, 2, 5, 20, true},
            {DType::q4_k, DType::f32, 2, 2, 18, false},
            {DType::q6_k, DType::f32, 2, 1, 10, true},
            {DType::q5_0, DType::f32, 1, 18, 50, true},
            {DType::iq4_nl, DType::f32, 3, 2, 34, false},
            {DType::mxfp4, DType::f32, 3, 5, 34, false},
            {DType::bf16, DType::f32, 1, 3, 20, false},
        }));
    CAPTURE(backend.name(), to_string(format), to_string(dtype), rows, blocks, out, gated);
    if (!takes_case(backend, 2)) return;
    OpCase c;
    const std::uint64_t in = width_of(format, blocks);
    add_normed(c, c.floats("x", dtype, {rows, in}, 2),
               {.rows = rows,
                .in = in,
                .out = out,
                .dtype = dtype,
                .result = dtype,
                .format = format,
                .gated = gated,
                .activation = gated ? Activation::silu : Activation::none,
                .gain_offset = rows == 1 ? 0.0f : 1.0f});
    c.check(backend);
}

TEST_CASE("a product of a norm keeps NaN in its row; a row of zeros stays one", "[op][linear][normed]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto [format, in] = GENERATE(
        table<DType, std::uint64_t>({{DType::f32, 64}, {DType::f32, 37}, {DType::q8_0, 128}, {DType::q4_0, 128}}));
    CAPTURE(backend.name(), to_string(format), in);
    constexpr std::uint64_t kOut = 19;
    OpCase c;
    std::vector<float> rows = c.random_floats(3 * in);
    rows[in + 21] = std::numeric_limits<float>::quiet_NaN();
    std::fill_n(rows.begin() + static_cast<std::ptrdiff_t>(2 * in), in, 0.0f);
    const Value y = add_normed(c, c.floats("x", DType::f32, {3, in}, rows),
                               {.rows = 3, .in = in, .out = kOut, .format = format, .bias = false, .eps = 1e-6f});
    c.each_variant(backend, y, [&](const std::vector<float>& found) {
        for (std::size_t i = 0; i < kOut; ++i) {
            CHECK(std::isfinite(found[i]));
            CHECK(std::isnan(found[kOut + i]));
            CHECK(found[2 * kOut + i] == 0);
        }
    });
}

// What the sums are multiplied by comes last: they must not leave the range of float32 before.
TEST_CASE("a product of a norm is right at any magnitude", "[op][linear][normed]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const float magnitude = GENERATE(1e-12f, 1e12f);
    const DType format = GENERATE(DType::f32, DType::q8_0);
    CAPTURE(backend.name(), magnitude, to_string(format));
    OpCase c;
    add_normed(c, c.floats("x", DType::f32, {2, 128}, magnitude),
               {.rows = 2, .in = 128, .out = 20, .format = format, .bias = false, .eps = 0});
    c.check(backend);
}

}  // namespace
}  // namespace vkformer::tests
