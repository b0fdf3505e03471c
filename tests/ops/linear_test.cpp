// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/dtype.hpp"
#include "graph/builders.hpp"
#include "support/backends.hpp"
#include "support/catch.h"
#include "support/must.hpp"
#include "support/op_case.hpp"
#include "vulkan/backend.hpp"

namespace vkformer::tests {
namespace {

using graph::Activation;
using graph::Value;

struct LinearCase {
    std::uint64_t rows, in, out;
    bool bias = true, residual = true;
    Activation activation = Activation::none;
    DType dtype = DType::f32, result = DType::f32;
    bool gated = false;
};

/// The fused node, made by hand: the builder makes no epilogue but the bias, the rest comes from a pass.
void add_linear(OpCase& c, const LinearCase& s) {
    const Value x = c.floats("x", s.dtype, {s.rows, s.in});
    const Value weight = c.floats("weight", s.dtype, {s.out, s.in});
    const Value bias = s.bias ? c.floats("bias", s.dtype, {s.out}) : Value{};
    const Value residual = s.residual ? c.floats("residual", s.result, {s.rows, s.out}) : Value{};
    const Value y = c.expect(c.graph.activation("linear", s.result, {s.rows, s.gated ? s.out / 2 : s.out}));
    auto epilogue = graph::Epilogue{.bias = bias, .activation = s.activation}.plus(residual);
    if (s.gated) epilogue.end = graph::Epilogue::End::gate;
    c.graph.add_node(graph::Linear{.x = x, .weight = weight, .y = y, .epilogue = epilogue});
}

TEST_CASE("linear computes every epilogue", "[op][linear]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const Activation activation = GENERATE(
        values({Activation::none, Activation::relu, Activation::gelu_erf, Activation::gelu_tanh, Activation::silu,
                Activation::tanh, Activation::sigmoid, Activation::gelu_quick, Activation::relu_squared}));
    const auto [bias, residual] =
        GENERATE(table<bool, bool>({{false, false}, {true, false}, {false, true}, {true, true}}));
    CAPTURE(backend.name(), static_cast<int>(activation), bias, residual);

    OpCase c;  // a single row: a pipeline for each case, and this one compiles fastest
    add_linear(c, {.rows = 1, .in = 19, .out = 6, .bias = bias, .residual = residual, .activation = activation});
    c.check(backend);
}

TEST_CASE("linear has the same epilogue in all its shaders", "[op][linear]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto in = GENERATE(values<std::uint64_t>({21, 20}));  // linear, linear_direct
    const auto [activation, bias, residual] = GENERATE(table<Activation, bool, bool>(
        {{Activation::none, false, false}, {Activation::gelu_erf, true, false}, {Activation::silu, false, true}}));
    CAPTURE(backend.name(), in, static_cast<int>(activation), bias, residual);

    OpCase c;
    add_linear(c, {.rows = 9, .in = in, .out = 7, .bias = bias, .residual = residual, .activation = activation});
    c.check(backend);
}

TEST_CASE("linear with its depth in parts has the same epilogue", "[op][linear]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto [dtype, rows] = GENERATE(table<DType, std::uint64_t>({{DType::f32, 9}, {DType::f16, 1}}));
    const auto [activation, bias, residual] =
        GENERATE(table<Activation, bool, bool>({{Activation::gelu_erf, true, true}, {Activation::none, false, false}}));
    CAPTURE(backend.name(), to_string(dtype), rows, static_cast<int>(activation), bias, residual);

    OpCase c;
    add_linear(c, {.rows = rows,
                   .in = 200,
                   .out = 7,
                   .bias = bias,
                   .residual = residual,
                   .activation = activation,
                   .dtype = dtype,
                   .result = dtype});
    c.check(backend);
}

// A product's rows and columns do not fill its last tiles, which the next product's lie behind.
TEST_CASE("linear computes a batch of products", "[op][linear]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto [dtype, result] =
        GENERATE(table<DType, DType>({{DType::f32, DType::f32}, {DType::f16, DType::f16}, {DType::f16, DType::f32}}));
    const auto [batch, rows, in, out] = GENERATE(table<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>({
        {2, 1, 1, 1},
        {3, 1, 40, 5},
        {5, 3, 7, 3},
        {2, 9, 19, 13},
        {3, 17, 32, 33},
        {2, 65, 64, 67},
    }));
    const bool shares_x = GENERATE(false, true);
    CAPTURE(backend.name(), to_string(dtype), to_string(result), batch, rows, in, out, shares_x);
    if (!takes_case(backend, 5)) return;

    OpCase c;
    const Value x = c.floats("x", dtype, {shares_x ? 1 : batch, rows, in});
    const Value weight = c.floats("weight", dtype, {batch, out, in});
    const Value bias = c.floats("bias", dtype, {out}), residual = c.floats("residual", result, {batch, rows, out});
    const Value y = c.expect(c.graph.activation("linear", result, {batch, rows, out}));
    c.graph.add_node(
        graph::Linear{.x = x,
                      .weight = weight,
                      .y = y,
                      .epilogue = graph::Epilogue{.bias = bias, .activation = Activation::relu}.plus(residual)});
    c.check(backend);
}

TEST_CASE("the products of a batch are those of its parts", "[op][linear]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    constexpr std::uint64_t kBatch = 3, kRows = 2, kIn = 5, kOut = 4;
    OpCase c;
    const std::vector<float> xs = c.random_floats(kBatch * kRows * kIn), weights = c.random_floats(kBatch * kOut * kIn);
    const Value y = c.expect(linear(c.graph, c.floats("x", DType::f32, {kBatch, kRows, kIn}, xs),
                                    c.floats("weight", DType::f32, {kBatch, kOut, kIn}, weights)));
    CHECK(c.graph.shape(y) == Shape{kBatch, kRows, kOut});
    const std::vector<float> found = c.run(backend, y);
    for (std::uint64_t b = 0; b < kBatch; ++b)
        for (std::uint64_t row = 0; row < kRows; ++row)
            for (std::uint64_t column = 0; column < kOut; ++column) {
                double sum = 0;
                for (std::uint64_t k = 0; k < kIn; ++k)
                    sum += double{xs[(b * kRows + row) * kIn + k]} * weights[(b * kOut + column) * kIn + k];
                CHECK(found[(b * kRows + row) * kOut + column] == Approx(sum).margin(1e-5));
            }
}

// The gate and the other half of an element lie in one invocation: 1, 8 or 16 columns of each in turns, or as many as a cooperative matrix has.
TEST_CASE("linear with a gate computes every activation", "[op][linear][gated]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto [dtype, result] =
        GENERATE(table<DType, DType>({{DType::f32, DType::f32}, {DType::f16, DType::f16}, {DType::f16, DType::f32}}));
    // One activation for many rows: older compilers take ten seconds for some of their shaders.
    const auto [rows, in, out, activation] = GENERATE(table<std::uint64_t, std::uint64_t, std::uint64_t, Activation>({
        {1, 1, 2, Activation::none},
        {3, 63, 70, Activation::gelu_tanh},
        {5, 2048, 30, Activation::gelu_erf},
        {6, 128, 66, Activation::silu},  // 5 columns of a row shader's workgroup would be no pairs
        {8, 40, 130, Activation::relu},
        {40, 64, 66, Activation::silu},  // an odd half
    }));
    CAPTURE(backend.name(), to_string(dtype), to_string(result), rows, in, out);
    OpCase c;
    add_linear(c, {.rows = rows,
                   .in = in,
                   .out = out,
                   .bias = rows != 3,
                   .residual = false,
                   .activation = activation,
                   .dtype = dtype,
                   .result = result,
                   .gated = true});
    c.check(backend);
}

/// Values of 1 to 2 times the magnitude, all of one sign.
std::vector<float> positive_floats(OpCase& c, std::size_t count, float magnitude) {
    std::vector<float> values = c.random_floats(count, magnitude / 2);
    for (float& value : values) value += 1.5f * magnitude;
    return values;
}

// linear/tile_half.comp adds up eight products in float16: long sums, products that end beyond its range or below it, and sums of one sign.
TEST_CASE("linear of float16 is right at any scale and depth", "[op][linear][halves]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    constexpr std::uint64_t kRows = 70, kIn = 4100, kOut = 9;
    const DType result = GENERATE(DType::f16, DType::f32);
    OpCase c;
    std::vector<float> x, weight;
    SECTION("random signs") { x = c.random_floats(kRows * kIn), weight = c.random_floats(kOut * kIn, 0.02f); }
    SECTION("one sign") { x = positive_floats(c, kRows * kIn, 0.3f), weight = positive_floats(c, kOut * kIn, 0.01f); }
    SECTION("all the same, so that every sum is rounded the same way") {
        x.assign(kRows * kIn, 0.7f), weight.assign(kOut * kIn, 0.011f);
    }
    SECTION("small products") {
        x = c.random_floats(kRows * kIn, 0.004f), weight = c.random_floats(kOut * kIn, 0.004f);
    }
    SECTION("one channel a thousand times the others, its products beyond a half") {
        x = c.random_floats(kRows * kIn), weight = c.random_floats(kOut * kIn, 0.02f);
        for (std::uint64_t row = 3; row < kRows; row += 7) x[row * kIn + 1234] = 5000;
    }
    SECTION("sums of eight beyond a half, which cancel") {
        x = c.random_floats(kRows * kIn, 40), weight = c.random_floats(kOut * kIn, 200);
        for (std::size_t i = 0; i < weight.size(); i += 2) weight[i + 1] = -weight[i];
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 2 == 0 ? 40.0f : 39.0f + x[i] / 40;
    }
    CAPTURE(backend.name(), to_string(result));
    const Value a = c.floats("x", DType::f16, {kRows, kIn}, x), b = c.floats("weight", DType::f16, {kOut, kIn}, weight);
    const Value y = c.expect(c.graph.activation("linear", result, {kRows, kOut}));
    c.graph.add_node(graph::Linear{.x = a, .weight = b, .y = y});
    c.check(backend);
}

TEST_CASE("linear takes more leading dimensions, and no bias", "[op][linear]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    const Value x = c.floats("x", DType::f32, {2, 3, 5, 7});
    const Value weight = c.floats("weight", DType::f32, {11, 7});
    c.expect(linear(c.graph, x, weight));
    c.check(backend);
}

TEST_CASE("linear keeps NaN in its row, through ReLU as well", "[op][linear]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto [rows, in] = GENERATE(table<std::uint64_t, std::uint64_t>({{3, 19}, {70, 19}, {9, 20}}));
    const bool cancels = GENERATE(false, true);  // the sums are ∞ − ∞, which some processors make a NaN with a sign
    CAPTURE(backend.name(), rows, in, cancels);

    constexpr std::uint64_t kOut = 5;
    const float infinity = std::numeric_limits<float>::infinity();
    OpCase c;
    std::vector<float> poisoned = c.random_floats(rows * in), weights = c.random_floats(kOut * in);
    poisoned[in + 2] = cancels ? infinity : std::numeric_limits<float>::quiet_NaN();
    if (cancels) poisoned[in + 14] = -infinity;
    for (std::uint64_t column = 0; column < kOut; ++column) weights[column * in + 2] = weights[column * in + 14] = 0.5F;
    const Value x = c.floats("x", DType::f32, {rows, in}, poisoned);
    const Value weight = c.floats("weight", DType::f32, {kOut, in}, weights);
    const Value y = c.expect(c.graph.activation("linear", DType::f32, {rows, kOut}));
    c.graph.add_node(graph::Linear{.x = x, .weight = weight, .y = y, .epilogue = {.activation = Activation::relu}});
    c.check(backend);
    const std::vector<float> found = c.run(backend, y);
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::isnan(found[i]) == (i / kOut == 1));
}

// lib/halves.glsl rounds by integer arithmetic. y[r, c] = a[r] + b[r] · w[c], with sums that are floats, next to every limit of halves.
TEST_CASE("linear rounds to the next half where shaders do it themselves", "[op][linear][vulkan]") {
    constexpr std::uint64_t kIn = 8;
    const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    const std::vector<std::pair<float, float>> rows = {{1, 1},
                                                       {-1, 1},
                                                       {1.0009765625F, 1},
                                                       {0, 1},
                                                       {0, 0x1p-10F},
                                                       {0x1p-14F, 0x1p-10F},
                                                       {0x1p-24F, 0x1p-10F},
                                                       {-0x1p-24F, 0x1p-10F},
                                                       {65504, 1},
                                                       {65504, 1024},
                                                       {-65504, 32768},
                                                       {infinity, 1},
                                                       {-infinity, 1},
                                                       {nan, 1},
                                                       {2048, 1},
                                                       {2050, 1},
                                                       {0x1.ff8p-15F, 0x1p-10F}};
    for (const std::uint64_t columns : {34, 33})
        for (vulkan::VulkanBackend* const backend : vulkan_backends())
            for (const std::string variant : {"cpu_columns_shuffled", "cpu_columns_vectors", "cpu_columns"}) {
                CAPTURE(backend->name(), variant, columns);
                graph::Graph graph;
                const Value x = must(graph.input("x", DType::f16, {rows.size(), kIn}));
                const Value weight = must(graph.input("weight", DType::f16, {columns, kIn}));
                const Value y = must(linear(graph, x, weight));
                graph.mark_output(y);
                const auto kernels =
                    vulkan::fitting_kernels(graph.nodes()[0].op, {.graph = graph, .device = backend->capabilities()});
                if (!vulkan::find_kernel(kernels, variant) || !backend->capabilities().int64) continue;
                std::vector<float> a(rows.size() * kIn), w(columns * kIn), found(rows.size() * columns);
                for (std::size_t r = 0; r < rows.size(); ++r) {
                    a[r * kIn] = rows[r].first;
                    a[r * kIn + 5] = rows[r].second;
                }
                for (std::size_t c = 0; c < columns; ++c) {
                    w[c * kIn] = 1;
                    w[c * kIn + 5] = std::ldexp(static_cast<float>(c % 4), -static_cast<int>(c / 2));
                }
                const vulkan::ProgramOptions options{.variants = {variant}};
                const auto program = must(
                    backend->compile_program(make_plan(graph), backend->make_store(), backend->make_store(), options));
                must(program->write(x, std::span<const float>(a)));
                must(program->write(weight, std::span<const float>(w)));
                must(program->submit());
                must(program->wait());
                must(program->read(y, std::span(found)));
                for (std::size_t r = 0; r < rows.size(); ++r)
                    for (std::size_t c = 0; c < columns; ++c) {
                        const float exact = std::fma(rows[r].second, w[c * kIn + 5], rows[r].first);
                        const float expected = half_to_float(float_to_half(exact)), is = found[r * columns + c];
                        CAPTURE(rows[r].first, rows[r].second, w[c * kIn + 5], is, expected);
                        CHECK((std::isnan(expected) ? std::isnan(is) : is == expected));
                    }
            }
}

}  // namespace
}  // namespace vkformer::tests
