// SPDX-License-Identifier: MIT
#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"

namespace vkformer::tests {
namespace {

using graph::Value;

TEST_CASE("add takes one tensor twice", "[op][add]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    constexpr std::uint64_t rows = 7, width = 73;
    CAPTURE(backend.name(), to_string(dtype));

    OpCase c;
    const Value a = c.floats("a", dtype, {rows, width});
    const Value b = c.floats("b", dtype, {rows, width}, 3);
    c.expect(add(c.graph, a, b));
    c.expect(add(c.graph, a, a));
    c.check(backend);
}

}  // namespace
}  // namespace vkformer::tests
