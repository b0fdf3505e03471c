// SPDX-License-Identifier: MIT
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"

namespace vkformer::tests {
namespace {

using graph::Value;

struct ReorderSizes {
    std::uint32_t groups, beams;
    std::uint64_t capacity, heads, dim;
};

void run_case(graph::Backend& backend, DType dtype, const ReorderSizes& s, OpCase& c, std::vector<std::int32_t> parents,
              std::vector<std::int32_t> lengths, std::vector<std::int32_t> begins = {}) {
    const std::uint64_t rows = parents.size();
    const Shape shape{rows, s.capacity, s.heads, s.dim};
    const Value cache = c.state("cache", dtype, shape, c.random_floats(shape.element_count()));
    const Value parent = c.ints("parents", {rows}, std::move(parents));
    const Value length = c.ints("lengths", {rows}, std::move(lengths));
    const Value begin = begins.empty() ? Value{} : c.ints("begins", {rows}, std::move(begins));
    REQUIRE(cache_reorder(c.graph, cache, parent, length, s.beams, begin));
    c.check(backend);
}

TEST_CASE("cache_reorder gives each row its parent's positions", "[op][cache_reorder]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const bool has_begins = GENERATE(false, true);
    const ReorderSizes s = GENERATE(values<ReorderSizes>({
        {1, 1, 3, 1, 5},
        {3, 2, 1, 1, 1},
        {1, 4, 129, 2, 31},
        {5, 4, 17, 3, 33},
        {2, 5, 40, 8, 64},
        {2, 31, 7, 1, 3},
        {3, 32, 6, 2, 11},
    }));
    CAPTURE(backend.name(), to_string(dtype), has_begins, s.groups, s.beams, s.capacity, s.heads, s.dim);

    OpCase c;
    std::vector<std::int32_t> parents;
    for (std::uint32_t group = 0; group < s.groups; ++group) {
        const auto first = static_cast<std::int32_t>(group * s.beams);
        const auto in_group = c.random_ints(s.beams, first, first + static_cast<std::int32_t>(s.beams) - 1);
        parents.insert(parents.end(), in_group.begin(), in_group.end());
    }
    const auto lengths = c.random_ints(parents.size(), 0, static_cast<std::int32_t>(s.capacity));
    const auto begins = c.random_ints(parents.size(), 0, static_cast<std::int32_t>(s.capacity));
    run_case(backend, dtype, s, c, parents, lengths, has_begins ? begins : std::vector<std::int32_t>());
}

TEST_CASE("cache_reorder: identity, swaps and rotations", "[op][cache_reorder]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto parents = GENERATE(values<std::vector<std::int32_t>>({
        {0, 1, 2, 3, 4, 5, 6, 7},
        {1, 0, 3, 2, 4, 5, 6, 7},
        {1, 2, 3, 0, 7, 4, 5, 6},
        {2, 2, 2, 2, 5, 5, 5, 5},
    }));
    CAPTURE(backend.name(), parents);
    OpCase c;
    run_case(backend, DType::f32, {2, 4, 70, 4, 16}, c, parents, std::vector<std::int32_t>(8, 70));
}

TEST_CASE("cache_reorder leaves rows with wrong parents and takes any length", "[op][cache_reorder]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), to_string(dtype));
    constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
    constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();
    OpCase c;
    run_case(backend, dtype, {3, 3, 5, 1, 7}, c, {-1, 3, 1, 5, kLowest, kHighest, 8, 2, 6},
             {5, 5, kHighest, 2, 5, 5, kLowest, 5, 6});
}

TEST_CASE("cache_reorder leaves what lies before the begins, whatever they are", "[op][cache_reorder]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    CAPTURE(backend.name(), to_string(dtype));
    constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
    constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();
    OpCase c;
    run_case(backend, dtype, {3, 3, 5, 1, 7}, c, {1, 2, 0, 5, 3, 4, 7, 8, 6}, {5, 5, 5, 4, 2, kHighest, 5, 3, 0},
             {4, 4, 4, 3, 2, kLowest, kHighest, 1, -1});
}

TEST_CASE("cache_reorder moves tokens too", "[op][cache_reorder]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    const Value cache = c.state("cache", {6, 37}, c.random_ints(6 * 37, 0, 1 << 30));
    const Value parents = c.ints("parents", {6}, {2, 0, 1, 4, 4, 4});
    REQUIRE(cache_reorder(c.graph, cache, parents, c.ints("lengths", {6}, {37, 5, 36, 0, 1, 37}), 3));
    c.check(backend);
}

}  // namespace
}  // namespace vkformer::tests
