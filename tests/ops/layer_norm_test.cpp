// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/must.hpp"
#include "support/op_case.hpp"

namespace vkformer::tests {
namespace {

using graph::Value;

TEST_CASE("layer_norm with and without bias, residual and sum", "[op][layer_norm]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const auto [has_bias, has_residual, has_sum] = GENERATE(table<bool, bool, bool>(
        {{false, false, false}, {true, false, false}, {false, true, false}, {false, true, true}, {true, true, true}}));
    CAPTURE(backend.name(), to_string(dtype), has_bias, has_residual, has_sum);

    const Shape shape{2, 5, 131};
    OpCase c;
    const Value x = c.floats("x", dtype, shape);
    const Value residual = has_residual ? c.floats("residual", dtype, shape, 3) : Value{};
    const Value gain = c.floats("gain", dtype, {131});
    const Value bias = has_bias ? c.floats("bias", dtype, {131}) : Value{};
    const Value sum = has_sum ? c.expect(c.graph.activation("sum", dtype, shape)) : Value{};
    const Value y = c.expect(c.graph.activation("layer_norm", dtype, shape));
    c.graph.add_node(
        graph::LayerNorm{.x = x, .residual = residual, .gain = gain, .bias = bias, .sum = sum, .y = y, .eps = 1e-3f});
    c.check(backend);
}

TEST_CASE("layer_norm with gains of groups", "[op][layer_norm]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const auto width = GENERATE(values<std::uint64_t>({131, 132, 1300}));
    CAPTURE(backend.name(), to_string(dtype), width);
    OpCase c;
    const Value x = c.floats("x", dtype, {2, 5, 3, width}), gain = c.floats("gain", dtype, {3, width});
    c.expect(must(layer_norm(c.graph, x, gain, {}, 1e-3f)));
    c.check(backend);
    CHECK_FALSE(layer_norm(c.graph, x, c.floats("two", dtype, {2, width}), {}, 1e-3f));
    CHECK_FALSE(layer_norm(c.graph, x, c.floats("stack", dtype, {1, 3, width}), {}, 1e-3f));
}

TEST_CASE("layer_norm keeps NaN in its row; a constant row gives the bias", "[op][layer_norm]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());

    constexpr std::uint64_t kWidth = 200;
    OpCase c;
    std::vector<float> rows = c.random_floats(3 * kWidth);
    rows[kWidth + 77] = std::numeric_limits<float>::quiet_NaN();
    std::fill(rows.begin() + 2 * kWidth, rows.end(), 0.375f);
    const Value x = c.floats("x", DType::f32, {3, kWidth}, rows);
    const Value gain = c.floats("gain", DType::f32, {kWidth});
    const std::vector<float> bias_values = c.random_floats(kWidth);
    const Value bias = c.floats("bias", DType::f32, {kWidth}, bias_values);
    const Value y = c.expect(layer_norm(c.graph, x, gain, bias, 1e-5f));
    c.check(backend);
    const std::vector<float> found = c.run(backend, y);
    for (std::size_t i = 0; i < kWidth; ++i) {
        CHECK(std::isfinite(found[i]));
        CHECK(std::isnan(found[kWidth + i]));
        CHECK(std::abs(found[2 * kWidth + i] - bias_values[i]) < 1e-4f);  // mean off by an ulp of 0.375, times 1/√eps
    }
}

}  // namespace
}  // namespace vkformer::tests
