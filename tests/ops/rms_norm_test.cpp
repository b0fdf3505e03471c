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

TEST_CASE("rms_norm with and without gain, offset, residual and sum", "[op][rms_norm]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const auto [has_gain, has_residual, has_sum] = GENERATE(table<bool, bool, bool>(
        {{false, false, false}, {true, false, false}, {false, true, false}, {false, true, true}, {true, true, true}}));
    const float gain_offset = GENERATE(0.0f, 1.0f);
    const auto width = GENERATE(values<std::uint64_t>({131, 132, 1300}));
    CAPTURE(backend.name(), to_string(dtype), has_gain, has_residual, has_sum, gain_offset, width);

    const Shape shape{2, 5, width};
    OpCase c;
    const Value x = c.floats("x", dtype, shape);
    const Value residual = has_residual ? c.floats("residual", dtype, shape, 3) : Value{};
    const Value gain = has_gain ? c.floats("gain", dtype, {width}) : Value{};
    const Value sum = has_sum ? c.expect(c.graph.activation("sum", dtype, shape)) : Value{};
    const Value y = c.expect(c.graph.activation("rms_norm", dtype, shape));
    c.graph.add_node(graph::RmsNorm{
        .x = x, .residual = residual, .gain = gain, .sum = sum, .y = y, .eps = 1e-3f, .gain_offset = gain_offset});
    c.check(backend);
}

TEST_CASE("rms_norm with gains of groups", "[op][rms_norm]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const auto width = GENERATE(values<std::uint64_t>({131, 132, 1300}));
    CAPTURE(backend.name(), to_string(dtype), width);
    OpCase c;
    const Value x = c.floats("x", dtype, {2, 5, 3, width}), gain = c.floats("gain", dtype, {3, width});
    c.expect(must(rms_norm(c.graph, x, gain, 1e-3f)));
    c.check(backend);
    CHECK_FALSE(rms_norm(c.graph, x, c.floats("two", dtype, {2, width}), 1e-3f));
    CHECK_FALSE(rms_norm(c.graph, x, c.floats("stack", dtype, {1, 3, width}), 1e-3f));
}

TEST_CASE("rms_norm keeps NaN in its row; a row of zeros stays one", "[op][rms_norm]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto width = GENERATE(values<std::uint64_t>({200, 1999}));
    CAPTURE(backend.name(), width);

    OpCase c;
    std::vector<float> rows = c.random_floats(3 * width);
    rows[width + 77] = std::numeric_limits<float>::quiet_NaN();
    std::fill_n(rows.begin() + static_cast<std::ptrdiff_t>(2 * width), width, 0.0f);
    const Value x = c.floats("x", DType::f32, {3, width}, rows);
    const Value y = c.expect(rms_norm(c.graph, x, c.floats("gain", DType::f32, {width}), 1e-6f));
    c.check(backend);
    const std::vector<float> found = c.run(backend, y);
    for (std::size_t i = 0; i < width; ++i) {
        CHECK(std::isfinite(found[i]));
        CHECK(std::isnan(found[width + i]));
        CHECK(found[2 * width + i] == 0);
    }
}

}  // namespace
}  // namespace vkformer::tests
