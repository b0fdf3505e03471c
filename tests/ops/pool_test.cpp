// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"
#include "support/special_floats.hpp"

namespace vkformer::tests {
namespace {

using graph::Pooling;
using graph::Value;

constexpr Pooling kPoolings[] = {Pooling::first,     Pooling::last,          Pooling::mean,
                                 Pooling::root_mean, Pooling::weighted_mean, Pooling::max};

TEST_CASE("pool agrees with double precision", "[op][pool]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const bool has_lengths = GENERATE(false, true);
    const auto [batch, len, dim] = GENERATE(table<std::uint64_t, std::uint64_t, std::uint64_t>(
        {{1, 1, 1}, {2, 3, 63}, {5, 1, 64}, {3, 17, 65}, {2, 131, 129}}));
    CAPTURE(backend.name(), to_string(dtype), has_lengths, batch, len, dim);

    OpCase c;
    const Value x = c.floats("x", dtype, {batch, len, dim});
    Value lengths;
    if (has_lengths) lengths = c.ints("lengths", {batch}, c.random_ints(batch, 0, static_cast<std::int32_t>(len) + 1));
    for (const Pooling pooling : kPoolings) c.expect(pool(c.graph, x, lengths, pooling));
    c.check(backend);
}

// By hand, for two tokens of three: (1, −4), (3, −2).
TEST_CASE("pool follows its formulas and does not read padding", "[op][pool]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const std::pair<Pooling, std::pair<double, double>> expected[] = {
        {Pooling::first, {1, -4}},
        {Pooling::last, {3, -2}},
        {Pooling::mean, {2, -3}},
        {Pooling::root_mean, {4 / std::sqrt(2.0), -6 / std::sqrt(2.0)}},
        {Pooling::weighted_mean, {7.0 / 3, -8.0 / 3}},
        {Pooling::max, {3, -2}},
    };
    for (const auto& [pooling, row] : expected) {
        CAPTURE(static_cast<int>(pooling));
        OpCase c;
        const Value x = c.floats("x", DType::f32, {1, 3, 2}, std::vector<float>{1, -4, 3, -2, kNaN, kNaN});
        const Value y = c.expect(pool(c.graph, x, c.ints("lengths", {1}, {2}), pooling));
        const std::vector<float> found = c.run(backend, y);
        CHECK(found[0] == Approx(row.first).epsilon(1e-6));
        CHECK(found[1] == Approx(row.second).epsilon(1e-6));
    }
}

TEST_CASE("pool bears any lengths, and keeps NaN", "[op][pool]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
    constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();
    OpCase c;
    std::vector<float> values = c.random_floats(5 * 4 * 33);
    values[4 * 4 * 33 + 2 * 33 + 7] = kNaN;  // sequence 4, token 2
    const Value x = c.floats("x", DType::f32, {5, 4, 33}, values);
    const Value lengths = c.ints("lengths", {5}, {kLowest, kHighest, 0, -1, 4});
    for (const Pooling pooling : kPoolings) c.expect(pool(c.graph, x, lengths, pooling));
    const Value largest = c.expect(pool(c.graph, x, lengths, Pooling::max));
    c.check(backend);
    const std::vector<float> rows = c.run(backend, largest);
    CHECK(std::isnan(rows[4 * 33 + 7]));
    CHECK(std::isfinite(rows[4 * 33 + 8]));
    for (std::size_t d = 0; d < 33; ++d) CHECK(rows[2 * 33 + d] == 0);
}

TEST_CASE("l2_normalize makes vectors of length 1, and keeps zeros", "[op][pool]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const std::uint64_t dim = GENERATE(1u, 33u, 384u);
    OpCase c;
    std::vector<float> values = c.random_floats(3 * dim, 1e-4f);
    for (std::size_t d = 0; d < dim; ++d) values[dim + d] = 0;
    const Value y = c.expect(l2_normalize(c.graph, c.floats("x", DType::f32, {3, dim}, values)));
    c.check(backend);
    const std::vector<float> found = c.run(backend, y);
    for (std::size_t row = 0; row < 3; ++row) {
        double squares = 0;
        for (std::size_t d = 0; d < dim; ++d) squares += double{found[row * dim + d]} * double{found[row * dim + d]};
        CHECK(squares == Approx(row == 1 ? 0 : 1).epsilon(1e-5));
    }
}

}  // namespace
}  // namespace vkformer::tests
