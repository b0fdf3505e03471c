// SPDX-License-Identifier: MIT
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"

namespace vkformer::tests {
namespace {

using graph::Value;

struct AppendSizes {
    std::uint64_t batch, len, capacity, heads, dim;
};

void run_case(graph::Backend& backend, DType dtype, const AppendSizes& s, std::vector<std::int32_t> starts) {
    OpCase c;
    const Value x = c.floats("x", dtype, {s.batch, s.len, s.heads, s.dim});
    const Shape cache_shape{s.batch, s.capacity, s.heads, s.dim};
    const Value cache = c.state("cache", dtype, cache_shape, c.random_floats(cache_shape.element_count()));
    const Value start = starts.empty() ? Value{} : c.ints("starts", {s.batch}, std::move(starts));
    REQUIRE(cache_append(c.graph, x, start, cache));
    c.check(backend);
}

TEST_CASE("cache_append writes its positions and no others", "[op][cache_append]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const AppendSizes s = GENERATE(values<AppendSizes>({
        {1, 1, 1, 1, 1},
        {2, 1, 5, 3, 1},
        {3, 1, 7, 1, 127},
        {2, 4, 9, 2, 64},
        {1, 5, 33, 3, 43},
        {7, 3, 40, 8, 64},
    }));
    CAPTURE(backend.name(), to_string(dtype), s.batch, s.len, s.capacity, s.heads, s.dim);

    run_case(backend, dtype, s, {});
    std::vector<std::int32_t> starts;
    for (std::uint64_t b = 0; b < s.batch; ++b)
        starts.push_back(static_cast<std::int32_t>(b * 5 % (s.capacity - s.len + 1)));
    run_case(backend, dtype, s, starts);
}

TEST_CASE("cache_append leaves out what lies outside the cache", "[op][cache_append]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), to_string(dtype));
    constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
    constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();
    run_case(backend, dtype, {8, 4, 6, 1, 3}, {-2, 5, 6, -4, kLowest, kHighest, -1, 1 << 30});
}

TEST_CASE("cache_append keeps tokens too", "[op][cache_append]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    const Value x = c.ints("x", {3, 5}, c.random_ints(15, -9, 100'000));
    const Value cache = c.state("cache", {3, 11}, c.random_ints(33, 0, 1 << 30));
    REQUIRE(cache_append(c.graph, x, c.ints("starts", {3}, {2, 9, -1}), cache));
    c.check(backend);
}

}  // namespace
}  // namespace vkformer::tests
