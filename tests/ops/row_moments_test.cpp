// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"

namespace vkformer::tests {
namespace {

using graph::Value;

TEST_CASE("gaussian_top_k leaves what is far enough above a row's mean", "[op][row_moments]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), to_string(dtype));
    constexpr std::uint64_t kWidth = 1000;
    OpCase c;
    const Value x = c.floats("x", dtype, {2, 3, kWidth}, 4);
    const Value y = c.expect(gaussian_top_k(c.graph, x, 1.2f));
    c.expect(gaussian_top_k(c.graph, x, -0.7f));
    c.check(backend);
    // Of numbers spread evenly over ±√3 deviations.
    const std::vector<float> found = c.run(backend, y);
    const double part = static_cast<double>(std::ranges::count_if(found, [](float v) { return v > 0; })) / 6000;
    CHECK(std::abs(part - (1 - 1.2 / std::sqrt(3)) / 2) < 0.02);
}

TEST_CASE("match_magnitude gives rows the magnitude of others, if they have one", "[op][row_moments]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    constexpr std::uint64_t kWidth = 200;
    OpCase c;
    std::vector<float> rows = c.random_floats(4 * kWidth);
    std::fill_n(rows.begin(), kWidth, 0.0f);
    std::fill_n(rows.begin() + kWidth, kWidth, 1e-3f);  // 1e-6 in the mean of squares: less than the least
    rows[2 * kWidth + 77] = std::numeric_limits<float>::quiet_NaN();
    const Value x = c.floats("x", DType::f32, {4, kWidth}, rows);
    const Value like = c.floats("like", DType::f32, {4, kWidth}, std::vector<float>(4 * kWidth, 3.0f));
    const Value y = c.expect(match_magnitude(c.graph, x, like, 1e-4f));
    c.check(backend);
    const std::vector<float> found = c.run(backend, y);
    double squares = 0;
    for (std::size_t i = 0; i < kWidth; ++i) {
        CHECK(found[i] == 0);
        CHECK(std::abs(found[kWidth + i] - 0.3f) < 1e-5f);
        CHECK(std::isnan(found[2 * kWidth + i]));
        squares += found[3 * kWidth + i] * found[3 * kWidth + i];
    }
    CHECK(std::abs(squares / kWidth - 9) < 1e-4);
}

TEST_CASE("gaussian_top_k keeps NaN in its row", "[op][row_moments]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    std::vector<float> rows = c.random_floats(2 * 130);
    rows[7] = std::numeric_limits<float>::quiet_NaN();
    const Value y = c.expect(gaussian_top_k(c.graph, c.floats("x", DType::f32, {2, 130}, rows), 1));
    c.check(backend);
    const std::vector<float> found = c.run(backend, y);
    for (std::size_t i = 0; i < 130; ++i) CHECK((std::isnan(found[i]) && !std::isnan(found[130 + i])));
}

}  // namespace
}  // namespace vkformer::tests
