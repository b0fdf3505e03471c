// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"
#include "support/special_floats.hpp"

namespace vkformer::tests {
namespace {

using graph::Value;

TEST_CASE("concat joins the last dimension", "[op][concat]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    struct Sizes {
        std::uint64_t rows, a, b;
    };
    // a workgroup writes 512 elements
    for (const Sizes& s :
         {Sizes{1, 1, 1}, {1, 511, 1}, {1, 511, 2}, {7, 3, 5}, {513, 1, 1}, {31, 64, 33}, {3, 1, 1021}}) {
        CAPTURE(backend.name(), to_string(dtype), s.rows, s.a, s.b);
        OpCase c;
        const Value a = c.floats("a", dtype, {1, s.rows, s.a}), b = c.floats("b", dtype, {1, s.rows, s.b});
        c.expect(concat(c.graph, a, b));
        c.check(backend);
    }
}

TEST_CASE("concat puts a before b in every row", "[op][concat]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    const Value a = c.floats("a", DType::f32, {2, 2}, {1, 2, 3, 4});
    const Value b = c.floats("b", DType::f32, {2, 1}, {5, 6});
    const Value y = c.expect(concat(c.graph, a, b)), twice = c.expect(concat(c.graph, a, a));
    CHECK(c.run(backend, y) == std::vector<float>{1, 2, 5, 3, 4, 6});
    CHECK(c.run(backend, twice) == std::vector<float>{1, 2, 1, 2, 3, 4, 3, 4});
}

TEST_CASE("concat leaves a NaN in its place", "[op][concat]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), to_string(dtype));
    OpCase c;
    const Value a = c.floats("a", dtype, {2, 3}, {1, kNaN, 3, 4, 5, 6});
    const Value b = c.floats("b", dtype, {2, 2}, {7, 8, kNaN, 10});
    const std::vector<float> found = c.run(backend, c.expect(concat(c.graph, a, b)));
    const std::vector<float> expected = {1, kNaN, 3, 7, 8, 4, 5, 6, kNaN, 10};
    for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        CHECK((std::isnan(expected[i]) ? std::isnan(found[i]) : found[i] == expected[i]));
    }
}

}  // namespace
}  // namespace vkformer::tests
