// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>

#include "support/backends.hpp"
#include "support/builder_case.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"
#include "support/special_floats.hpp"

namespace vkformer::tests {
namespace {

using graph::Activation;
using graph::Value;

auto gate_activations() {
    return GENERATE(
        values({Activation::none, Activation::relu, Activation::gelu_erf, Activation::gelu_tanh, Activation::silu,
                Activation::tanh, Activation::sigmoid, Activation::gelu_quick, Activation::relu_squared}));
}

TEST_CASE("gated_activation of two tensors agrees with double precision", "[op][gated_activation]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const Activation activation = gate_activations();
    constexpr std::uint64_t count = 513;
    CAPTURE(backend.name(), to_string(dtype), static_cast<int>(activation), count);

    OpCase c;
    const Value gate = c.floats("gate", dtype, {count}, 6);
    const Value up = c.floats("up", dtype, {count}, 3);
    c.expect(gated_activation(c.graph, gate, up, activation));
    c.check(backend);
}

TEST_CASE("gated_activation of the halves of one tensor agrees with double precision", "[op][gated_activation]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const Activation activation = gate_activations();
    const auto [rows, width] = GENERATE(table<std::uint64_t, std::uint64_t>({{7, 3}, {3, 1088}, {70'000, 1}}));
    CAPTURE(backend.name(), to_string(dtype), static_cast<int>(activation), rows, width);

    OpCase c;
    c.expect(gated_activation(c.graph, c.floats("gate", dtype, {rows, 2 * width}, 4), {}, activation));
    c.check(backend);
}

TEST_CASE("gated_activation clamps its operands", "[op][gated_activation]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const Activation activation = GENERATE(Activation::gelu_quick, Activation::none);
    const std::uint64_t width = GENERATE(7, 1088);
    CAPTURE(backend.name(), to_string(dtype), static_cast<int>(activation), width);
    OpCase c;
    const Value both = c.floats("both", dtype, {3, 2 * width}, 12);
    c.expect(gated_activation(c.graph, both, {}, activation, {.limit = 7, .up_shift = 1}));
    c.check(backend);
}

// An activation of its own shows what is clamped: min(gate, 2) · (clamp(up, ±2) + 1).
TEST_CASE("a clamp keeps what is no number, and infinities within it", "[op][gated_activation]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    const Value gate = c.floats("gate", DType::f32, {8}, {kNaN, 1, kInfinity, -5, 1, 1, -kInfinity, 3});
    const Value up = c.floats("up", DType::f32, {8}, {1, kNaN, 0, 1, kInfinity, -kInfinity, 1, -3});
    const Value y = c.expect(gated_activation(c.graph, gate, up, Activation::none, {.limit = 2, .up_shift = 1}));
    constexpr float kExpected[] = {kNaN, kNaN, 2, -10, 3, -1, -kInfinity, -2};
    c.each_variant(backend, y, [&](const std::vector<float>& found) {
        for (std::size_t i = 0; i < std::size(kExpected); ++i) {
            CAPTURE(i, found[i]);
            CHECK((std::isnan(kExpected[i]) ? std::isnan(found[i]) : found[i] == kExpected[i]));
        }
    });
}

TEST_CASE("gated_activation refuses a clamp that is none", "[builders]") {
    Inputs in;
    const Value x = in(DType::f32, {2, 6});
    const auto refused = [&](const graph::GateClamp& clamp) {
        return gated_activation(in.graph, x, {}, Activation::silu, clamp).error().message;
    };
    using Catch::Matchers::ContainsSubstring;
    CHECK_THAT(refused({.limit = -1}), ContainsSubstring("gated_activation: the clamp is -1.0"));
    CHECK_THAT(refused({.limit = kNaN}), ContainsSubstring("expected a positive number"));
    CHECK_THAT(refused({.limit = 1, .up_shift = kInfinity}), ContainsSubstring("a shift of inf"));
}

TEST_CASE("gated_activation keeps NaN and infinities visible", "[op][gated_activation]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const Activation activation = gate_activations();
    CAPTURE(backend.name(), static_cast<int>(activation));

    OpCase c;
    const float huge = activation == Activation::relu_squared ? 1e19f : 3e38f;  // whose result is a number
    const Value gate = c.floats("gate", DType::f32, {7}, {kNaN, 1, kInfinity, -kInfinity, 0, huge, 2});
    const Value up = c.floats("up", DType::f32, {7}, {1, kNaN, 2, 2, kInfinity, 0, -kInfinity});
    c.expect(gated_activation(c.graph, gate, up, activation));
    c.check(backend);
}

}  // namespace
}  // namespace vkformer::tests
