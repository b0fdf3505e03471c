// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "core/block_format.hpp"
#include "cpu/backend.hpp"
#include "support/backends.hpp"
#include "support/builder_case.hpp"
#include "support/catch.h"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/op_case.hpp"
#include "support/quantized.hpp"

namespace vkformer::tests {
namespace {

using graph::Activation;
using graph::Value;

struct QuantizedLinearCase {
    DType format;
    std::uint64_t rows, in, out;
    DType dtype = DType::f32, result = DType::f32;
    bool bias = true, residual = true;
    Activation activation = Activation::none;
    bool gated = false;
};

void add_quantized_linear(OpCase& c, const QuantizedLinearCase& s) {
    const Value x = c.floats("x", s.dtype, {s.rows, s.in});
    const Value weight = random_weight(c, s.format, s.out, s.in);
    const Value bias = s.bias ? c.floats("bias", s.dtype, {s.out}) : Value{};
    const Value residual = s.residual ? c.floats("residual", s.result, {s.rows, s.out}) : Value{};
    const Value y = c.expect(c.graph.activation("linear", s.result, {s.rows, s.gated ? s.out / 2 : s.out}));
    auto epilogue = graph::Epilogue{.bias = bias, .activation = s.activation}.plus(residual);
    if (s.gated) epilogue.end = graph::Epilogue::End::gate;
    c.graph.add_node(graph::Linear{.x = x, .weight = weight, .y = y, .epilogue = epilogue});
}

// Every format; the sizes are those of the kernels' edges (edges_test.cpp).
TEST_CASE("linear with quantised weights agrees with double precision", "[op][linear][quantized]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto [format, rows, blocks, out] = GENERATE(table<DType, std::uint64_t, std::uint64_t, std::uint64_t>({
        {DType::bf16, 3, 3, 67},
        {DType::f16, 3, 3, 67},
        {DType::f16, 9, 2, 70},
        {DType::q8_0, 3, 3, 67},
        {DType::q4_0, 3, 3, 67},
        {DType::q4_k, 3, 3, 67},
        {DType::q5_k, 3, 3, 67},
        {DType::q6_k, 3, 3, 67},
        {DType::q4_1, 3, 3, 67},
        {DType::q5_0, 3, 3, 67},
        {DType::q5_1, 3, 3, 67},
        {DType::iq4_nl, 3, 3, 67},
        {DType::mxfp4, 3, 3, 67},
        {DType::mxfp4, 12, 2, 35},
        {DType::iq4_xs, 3, 3, 67},
        {DType::q2_k, 3, 3, 67},
        {DType::q3_k, 3, 3, 67},
        // one row takes strips
        {DType::bf16, 1, 3, 37},
        {DType::f16, 1, 3, 37},
        {DType::q8_0, 1, 3, 37},
        {DType::q4_0, 1, 3, 37},
        {DType::q4_k, 1, 3, 37},
        {DType::q5_k, 1, 3, 37},
        {DType::q6_k, 1, 3, 37},
        {DType::q4_1, 1, 3, 37},
        {DType::q5_0, 1, 3, 37},
        {DType::q5_1, 1, 3, 37},
        {DType::iq4_nl, 1, 3, 37},
        {DType::mxfp4, 1, 3, 37},
        {DType::iq4_xs, 1, 3, 37},
        {DType::q2_k, 1, 3, 37},
        {DType::q3_k, 1, 3, 37},
    }));
    CAPTURE(backend.name(), to_string(format), rows, blocks, out);
    if (!takes_case(backend, 2)) return;
    OpCase c;
    add_quantized_linear(c, {.format = format, .rows = rows, .in = width_of(format, blocks), .out = out});
    c.check(backend);
}

TEST_CASE("linear with quantised weights takes float16 activations", "[op][linear][quantized]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto [format, rows, result] = GENERATE(table<DType, std::uint64_t, DType>({{DType::q4_0, 3, DType::f16},
                                                                                     {DType::q4_0, 3, DType::f32},
                                                                                     {DType::bf16, 9, DType::f16},
                                                                                     {DType::q8_0, 17, DType::f16},
                                                                                     {DType::q6_k, 9, DType::f32},
                                                                                     {DType::q5_0, 3, DType::f16},
                                                                                     {DType::iq4_nl, 9, DType::f32},
                                                                                     {DType::mxfp4, 3, DType::f16},
                                                                                     {DType::mxfp4, 17, DType::f32}}));
    CAPTURE(backend.name(), to_string(format), to_string(result), rows);
    if (!takes_case(backend, 2)) return;
    OpCase c;
    add_quantized_linear(c, {.format = format,
                             .rows = rows,
                             .in = width_of(format, 2),
                             .out = 19,
                             .dtype = DType::f16,
                             .result = result,
                             .activation = Activation::relu});
    c.check(backend);
}

TEST_CASE("linear with quantised weights computes every epilogue", "[op][linear][quantized]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto [rows, activation, bias, residual] =
        GENERATE(table<std::uint64_t, Activation, bool, bool>({{9, Activation::none, false, false},
                                                               {2, Activation::gelu_erf, true, false},
                                                               {2, Activation::silu, false, true}}));
    CAPTURE(backend.name(), rows, static_cast<int>(activation), bias, residual);
    OpCase c;
    add_quantized_linear(c, {.format = DType::q4_0,
                             .rows = rows,
                             .in = 64,
                             .out = 9,
                             .bias = bias,
                             .residual = residual,
                             .activation = activation});
    c.check(backend);
}

TEST_CASE("linear with quantised weights and a gate agrees with double precision", "[op][linear][quantized][gated]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto [format, rows, blocks, out, dtype, result] =
        GENERATE(table<DType, std::uint64_t, std::uint64_t, std::uint64_t, DType, DType>({
            {DType::q4_0, 1, 3, 2, DType::f32, DType::f32},
            {DType::q4_0, 2, 2, 70, DType::f32, DType::f32},
            {DType::q8_0, 1, 4, 36, DType::f32, DType::f32},
            {DType::q8_0, 1, 5, 70, DType::f16, DType::f16},
            {DType::bf16, 6, 2, 34, DType::f32, DType::f32},
            {DType::q4_k, 3, 2, 66, DType::f16, DType::f32},
            {DType::q6_k, 8, 1, 40, DType::f32, DType::f32},
            {DType::q5_k, 9, 1, 98, DType::f32, DType::f32},
            {DType::q8_0, 70, 3, 300, DType::f32, DType::f32},
            {DType::q4_0, 40, 2, 66, DType::f16, DType::f16},
            {DType::q4_k, 20, 1, 140, DType::f16, DType::f32},
            {DType::f16, 33, 2, 70, DType::f32, DType::f32},
            {DType::q5_1, 2, 3, 70, DType::f32, DType::f32},
            {DType::q5_0, 33, 2, 70, DType::f32, DType::f32},
            {DType::mxfp4, 2, 3, 70, DType::f32, DType::f32},
            {DType::q8_0, 2, 9, 22, DType::f32, DType::f32},  // the depth in parts
            {DType::q4_0, 20, 7, 30, DType::f32, DType::f32},
            {DType::q4_0, 20, 5, 22, DType::f16, DType::f32},
        }));
    CAPTURE(backend.name(), to_string(format), rows, blocks, out, to_string(dtype), to_string(result));
    if (!takes_case(backend, 2)) return;
    OpCase c;
    add_quantized_linear(c, {.format = format,
                             .rows = rows,
                             .in = width_of(format, blocks),
                             .out = out,
                             .dtype = dtype,
                             .result = result,
                             .bias = rows != 3,
                             .residual = false,
                             .activation = Activation::silu,
                             .gated = true});
    c.check(backend);
}

/// Writes a half into the bytes of a block.
void put_half(std::vector<std::byte>& blocks, std::size_t offset, std::uint16_t half) {
    blocks[offset] = static_cast<std::byte>(half & 0xFF);
    blocks[offset + 1] = static_cast<std::byte>(half >> 8);
}

TEST_CASE("a scale that is not finite stays visible in its column", "[op][linear][quantized]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto [format, half] = GENERATE(table<DType, std::uint16_t>({{DType::q8_0, 0x7C00},
                                                                      {DType::q5_k, 0x7C00},
                                                                      {DType::q6_k, 0x7E00},
                                                                      {DType::q5_0, 0x7C00},
                                                                      {DType::q3_k, 0x7E00}}));  // infinity, NaN
    CAPTURE(backend.name(), to_string(format));
    if (!takes_case(backend, 2)) return;
    constexpr std::uint64_t kRows = 2, kOut = 5, kPoisoned = 3;
    const std::uint64_t in = width_of(format, 2);

    OpCase c;
    const TensorData data = must(quantized(owned(c.random_floats(kOut * in), {kOut, in}), format));
    auto blocks = std::make_shared<std::vector<std::byte>>(data.bytes.begin(), data.bytes.end());
    put_half(*blocks, (2 * kPoisoned + 1) * block_bytes(format) + block_scales(format).d, half);
    const Value weight = must(c.graph.weight(
        "weight", {.dtype = format, .shape = {kOut, in}, .bytes = std::span<const std::byte>(*blocks), .owner = blocks},
        format));
    const Value y = c.expect(linear(c.graph, c.floats("x", DType::f32, {kRows, in}), weight));
    c.each_variant(backend, y, [&](const std::vector<float>& found) {
        for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::isfinite(found[i]) == (i % kOut != kPoisoned));
    });
}

TEST_CASE("an activation that is not finite stays visible in its row", "[op][linear][quantized]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType format = DType::q4_0;
    const float poison = GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity());
    const std::uint64_t rows = GENERATE(3, 11);
    CAPTURE(backend.name(), poison, rows);
    constexpr std::uint64_t kOut = 5;
    const std::uint64_t in = width_of(format, 2);

    OpCase c;
    std::vector<float> poisoned = c.random_floats(rows * in);
    poisoned[in + 21] = poison;
    const Value x = c.floats("x", DType::f32, {rows, in}, poisoned);
    const Value y = c.expect(linear(c.graph, x, random_weight(c, format, kOut, in)));
    c.each_variant(backend, y, [&](const std::vector<float>& found) {
        for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::isfinite(found[i]) == (i / kOut != 1));
    });
}

// Variants that round activations, to 8 bits or to halves, have a scale for some of a row: every row is as right as the others.
TEST_CASE("linear with quantised weights takes rows of all sizes", "[op][linear][quantized]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType format = GENERATE(DType::q8_0, DType::q4_k);
    CAPTURE(backend.name(), to_string(format));
    constexpr float kSizes[] = {1, 0, 1e-20f, 1e-8f, 1e-4f, 1e3f, 7e4f, 1e6f, 1e20f, 3e33f};
    constexpr std::size_t kRows = std::size(kSizes), kOut = 11;
    const std::uint64_t in = width_of(format, 2);
    OpCase c;
    std::vector<float> values = c.random_floats(kRows * in);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] *= kSizes[i / in];
    const Value y = c.expect(
        linear(c.graph, c.floats("x", DType::f32, {kRows, in}, std::move(values)), random_weight(c, format, kOut, in)));
    const auto expected = c.run_doubles(*cpu::make_cpu_backend<double>(), y);
    c.each_variant(backend, y, [&](const std::vector<float>& found) {
        for (std::size_t row = 0; row < kRows; ++row) {
            CAPTURE(row);
            double largest = 0, worst = 0;
            for (std::size_t i = row * kOut; i < (row + 1) * kOut; ++i) {
                largest = std::max(largest, std::abs(expected[i]));
                worst = std::max(worst, std::abs(found[i] - expected[i]));
            }
            CHECK(worst <= 0x1p-5 * largest);
        }
    });
}

TEST_CASE("blocks of llama.cpp multiply as what they hold", "[golden][linear][quantized]") {
    const auto floats_on_cpu = cpu::make_cpu_backend<float>(cpu::QuantizedProducts::floats);
    graph::Backend* const tested = GENERATE(from_range(test_backends()));
    graph::Backend& backend = tested == test_backends()[0] ? *floats_on_cpu : *tested;
    const DType format = GENERATE(from_range(kBlockFormats));
    CAPTURE(backend.name(), to_string(format));
    if (!takes_case(*tested, 2)) return;
    const Golden golden("quantized/" + std::string(to_string(format)) + ".safetensors");
    const Shape shape = golden.shape("dequantized");
    OpCase c;
    const Value weight = must(c.graph.weight(
        "weight", {.dtype = format, .shape = shape, .bytes = golden.tensor("blocks").bytes, .owner = {}}, format));
    const Value x = c.floats("x", DType::f32, {3, shape[1]});
    const Value y = c.expect(linear(c.graph, x, weight));
    // as if the weight were what numpy has made of the blocks
    OpCase plain;
    const Value same_x = plain.floats("x", DType::f32, {3, shape[1]});
    const Value floats = plain.floats("weight", DType::f32, shape, golden.floats("dequantized"));
    const Value expected = plain.expect(linear(plain.graph, same_x, floats));
    const auto found = c.run_doubles(backend, y), wanted = plain.run_doubles(*test_backends()[1], expected);
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::abs(found[i] - wanted[i]) < 1e-5);
}

TEST_CASE("linear takes weights of whole blocks only", "[builders][quantized]") {
    Inputs in;
    const auto weight = [&](DType format, const Shape& shape) {
        const std::vector<float> values(shape.element_count());
        TensorData data = owned(values, shape);
        if (is_quantized(format)) data = must(quantized(data, format));
        return must(in.graph.weight("weight" + std::to_string(in.count++), std::move(data), format));
    };
    const Value bf16 = weight(DType::bf16, {7, 48}), q4_0 = weight(DType::q4_0, {7, 64}),
                q8_0 = weight(DType::q8_0, {7, 64});
    const Value y = must(linear(in.graph, in(f16, {2, 5, 64}), q8_0, in(f16, {7}), f32));
    CHECK(to_string(in.graph.shape(y)) == "[2, 5, 7]");
    CHECK_REFUSED(in, linear(in.graph, in(f32, {4, 48}), bf16), kShape,
                  "linear: weight is bf16 and has rows of 48 elements, expected a multiple of 32");
    const Value halves = weight(DType::f16, {7, 48});
    CHECK_REFUSED(in, linear(in.graph, in(f32, {4, 48}), halves), kShape,
                  "linear: weight is f16 and has rows of 48 elements, expected a multiple of 32");
    CHECK(linear(in.graph, in(f16, {4, 48}), halves));
    CHECK_REFUSED(in, linear(in.graph, in(f32, {4, 32}), q4_0), kShape,
                  "linear: weight has shape [7, 64], expected [7, 32] (in of x)");
    CHECK_REFUSED(in, add(in.graph, q8_0, q8_0), kDtype, "add: a has dtype q8_0, expected f32 or f16");

    const Value view = weight(DType::q4_k, {2, 512});
    CHECK(in.graph.reshape(view, {4, 256}));
    CHECK(in.graph.reshape(view, {8, 128}).error().message ==
          "reshape: weight" + std::to_string(in.count - 1) + " is q4_k, the rows of [8, 128] are no whole blocks");
}

TEST_CASE("a graph takes blocks as they are, whole and complete", "[graph][quantized]") {
    const std::vector<float> values(2 * 512);
    const TensorData data = must(quantized(owned(values, {2, 512}), DType::q4_k));
    const auto refused = [](TensorData tensor, DType stored_as) {
        graph::Graph graph;
        return graph.weight("w", std::move(tensor), stored_as).error().message;
    };
    TensorData truncated = data;
    truncated.bytes = truncated.bytes.first(truncated.bytes.size() - 1);
    CHECK(refused(truncated, DType::q4_k) == "w: 575 bytes do not fit the shape [2, 512]");
    TensorData narrow = data;
    narrow.shape = {8, 128};
    CHECK(refused(narrow, DType::q4_k) == "w: rows of 128 elements are no multiple of the 256 of a q4_k block");
    CHECK(refused(owned(values, {2, 512}), DType::q4_k) == "w: cannot store f32 as q4_k");
    CHECK(refused(data, DType::q8_0) == "w: cannot store q4_k as q8_0");
    CHECK(refused(data, DType::i32) == "w: cannot store q4_k as i32");
    graph::Graph graph;
    CHECK(graph.weight("floats", data, DType::f16));  // dequantised when it is uploaded
    CHECK(graph.input("x", DType::q8_0, {2, 32}).error().message ==
          "x: a graph computes in f32, f16 and i32, not q8_0");
}

}  // namespace
}  // namespace vkformer::tests
