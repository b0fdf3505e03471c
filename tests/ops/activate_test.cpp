// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>

#include "cpu/backend.hpp"
#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"
#include "support/special_floats.hpp"

namespace vkformer::tests {
namespace {

using graph::Activation;
using graph::Value;

auto activations() {
    return GENERATE(values({Activation::relu, Activation::gelu_erf, Activation::gelu_tanh, Activation::silu,
                            Activation::tanh, Activation::sigmoid, Activation::gelu_quick, Activation::relu_squared}));
}

TEST_CASE("activate agrees with double precision", "[op][activate]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const Activation activation = activations();
    constexpr std::uint64_t count = 513;
    CAPTURE(backend.name(), to_string(dtype), static_cast<int>(activation), count);

    OpCase c;
    const Value x = c.floats("x", dtype, {count}, 6);
    c.expect(activate(c.graph, x, activation));
    c.check(backend);
}

// One element at a time, relative to itself: the tails must not hide behind larger elements.
TEST_CASE("activate is accurate near zero and in the tails", "[op][activate]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const Activation activation = activations();
    CAPTURE(backend.name(), static_cast<int>(activation));
    // 1 + tanh cancels in the lower tail; the CPU keeps to the formula, and in double precision it does not matter
    if (backend.name() == "CPU (float)" && activation == Activation::gelu_tanh) return;

    OpCase c;
    std::vector<float> points;
    for (int i = -300; i <= 300; ++i) points.push_back(static_cast<float>(i) / 100);
    const float tiniest = activation == Activation::relu_squared ? 1e-15f : 1e-30f;  // whose result is a normal number
    for (const float tiny : {tiniest, 1e-10f, 1e-5f}) points.insert(points.end(), {tiny, -tiny});
    const Value x = c.floats("x", DType::f32, {points.size()}, points);
    const Value y = c.expect(activate(c.graph, x, activation));
    const std::vector<double> found = c.run_doubles(backend, y);
    const std::vector<double> expected = c.run_doubles(*cpu::make_cpu_backend<double>(), y);
    for (std::size_t i = 0; i < points.size(); ++i) {
        // Vulkan lets e^−v be off by 3 + 2v units of 2^-24, with v up to 4.5 here; 2e-6 is 34 of them
        CAPTURE(points[i], found[i], expected[i]);
        REQUIRE(std::abs(found[i] - expected[i]) <= 2e-6 * std::abs(expected[i]));
    }
}

TEST_CASE("activate meets infinities, NaN and huge values", "[op][activate]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const Activation activation = activations();
    CAPTURE(backend.name(), static_cast<int>(activation));

    const bool squares = activation == Activation::relu_squared;
    const float huge = squares ? 1e19f : 3e38f, huge_half = squares ? 200.0f : 6e4f;  // whose results are numbers
    OpCase c;
    c.expect(activate(
        c.graph,
        c.floats("x", DType::f32, {9}, {kNaN, kInfinity, -kInfinity, 1e18f, -1e20f, huge, -3e38f, 0.0f, -0.0f}),
        activation));
    // no infinities in f16: SwiftShader makes NaN of them when it packs and unpacks halves
    c.expect(activate(c.graph, c.floats("half", DType::f16, {5}, {kNaN, huge_half, -6e4f, 0.0f, -0.0f}), activation));
    c.check(backend);
}

}  // namespace
}  // namespace vkformer::tests
