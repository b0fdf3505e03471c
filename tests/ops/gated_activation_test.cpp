// SPDX-License-Identifier: MIT
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"
#include "support/special_floats.hpp"

namespace vkformer::tests {
namespace {

using graph::Activation;
using graph::Value;

auto gate_activations() {
    return GENERATE(values({Activation::none, Activation::relu, Activation::gelu_erf, Activation::gelu_tanh,
                            Activation::silu, Activation::tanh, Activation::sigmoid, Activation::gelu_quick}));
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

TEST_CASE("gated_activation keeps NaN and infinities visible", "[op][gated_activation]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const Activation activation = gate_activations();
    CAPTURE(backend.name(), static_cast<int>(activation));

    OpCase c;
    const Value gate = c.floats("gate", DType::f32, {7}, {kNaN, 1, kInfinity, -kInfinity, 0, 3e38f, 2});
    const Value up = c.floats("up", DType::f32, {7}, {1, kNaN, 2, 2, kInfinity, 0, -kInfinity});
    c.expect(gated_activation(c.graph, gate, up, activation));
    c.check(backend);
}

}  // namespace
}  // namespace vkformer::tests
