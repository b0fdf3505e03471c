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

using graph::Value;

TEST_CASE("soft_cap agrees with double precision", "[op][soft_cap]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const float cap = GENERATE(0.5f, 30.0f);
    constexpr std::uint64_t count = 513;
    CAPTURE(backend.name(), to_string(dtype), cap, count);

    OpCase c;
    c.expect(soft_cap(c.graph, c.floats("x", dtype, {1, count}, 60), cap));
    c.check(backend);
}

// One element at a time, relative to itself: what is small against the cap must not lose its digits.
TEST_CASE("soft_cap is accurate for small values", "[op][soft_cap]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    std::vector<float> points;
    for (float x = 1e-6f; x < 200; x *= 1.5f) points.insert(points.end(), {x, -x});
    const Value y = c.expect(soft_cap(c.graph, c.floats("x", DType::f32, {points.size()}, points), 30));
    const std::vector<double> found = c.run_doubles(backend, y);
    for (std::size_t i = 0; i < points.size(); ++i) {
        const double expected = 30 * std::tanh(static_cast<double>(points[i]) / 30);
        CAPTURE(points[i], found[i], expected);
        REQUIRE(std::abs(found[i] - expected) <= 2e-6 * std::abs(expected));
    }
}

TEST_CASE("soft_cap meets infinities, NaN and huge values", "[op][soft_cap]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    const Value x = c.floats("x", DType::f32, {8}, {kNaN, kInfinity, -kInfinity, 1e20f, -1e20f, 3e38f, -3e38f, 0.0f});
    const Value y = c.expect(soft_cap(c.graph, x, 50));
    c.check(backend);
    const std::vector<float> found = c.run(backend, y);
    CHECK(found[1] == 50);
    CHECK(found[6] == -50);
}

}  // namespace
}  // namespace vkformer::tests
