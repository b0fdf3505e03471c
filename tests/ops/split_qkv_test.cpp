// SPDX-License-Identifier: MIT
#include <limits>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"
#include "support/refused.hpp"

namespace vkformer::tests {
namespace {

using graph::RopePairing;
using graph::Value;

struct SplitSizes {
    std::uint64_t batch, len, capacity, heads, kv_heads, dim;
    std::uint64_t rotary_dim;  // 0: no table
};

void run_split(graph::Backend& backend, DType dtype, RopePairing pairing, const SplitSizes& s, std::uint64_t positions,
               std::vector<std::int32_t> starts, bool norms = false, bool norms_values = false) {
    OpCase c;
    const Value qkv = c.floats("qkv", dtype, {s.batch, s.len, s.heads + 2 * s.kv_heads, s.dim});
    const Shape cache_shape{s.batch, s.capacity, s.kv_heads, s.dim};
    const Value keys = c.state("keys", dtype, cache_shape, c.random_floats(cache_shape.element_count()));
    const Value values = c.state("values", dtype, cache_shape, c.random_floats(cache_shape.element_count()));
    Value table;
    if (s.rotary_dim > 0) {
        const auto made = c.graph.weight(
            "table", graph::rope_table(positions, graph::rope_frequencies(s.rotary_dim, 100)), DType::f32);
        REQUIRE(made);
        table = *made;
    }
    const Value start = starts.empty() ? Value{} : c.ints("starts", {s.batch}, std::move(starts));
    graph::HeadNorms gains{.eps = 1e-5f, .gain_offset = 0.5f, .values = norms_values};
    if (norms) {
        gains.query_gain = c.floats("query_gain", dtype, {s.dim});
        gains.key_gain = c.floats("key_gain", dtype, {s.dim});
    }
    const auto query = split_qkv(c.graph, qkv, table, start, keys, values, pairing, gains);
    REQUIRE(query);
    c.graph.mark_output(*query);
    c.check(backend);
}

TEST_CASE("split_qkv turns queries and keys, and appends keys and values", "[op][split_qkv]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const RopePairing pairing = GENERATE(RopePairing::halves, RopePairing::interleaved);
    const SplitSizes s = GENERATE(values<SplitSizes>({
        {1, 1, 1, 1, 1, 2, 2},
        {2, 1, 5, 3, 1, 6, 4},
        {1, 1, 40, 9, 3, 64, 64},
        {3, 4, 9, 4, 4, 7, 6},
        {2, 3, 7, 2, 1, 5, 0},
        {1, 300, 301, 3, 2, 34, 34},  // several heads per workgroup, and one left over
    }));
    CAPTURE(backend.name(), to_string(dtype), s.batch, s.len, s.capacity, s.heads, s.kv_heads, s.dim, s.rotary_dim);

    run_split(backend, dtype, pairing, s, s.capacity, {});
    std::vector<std::int32_t> starts;
    for (std::uint64_t b = 0; b < s.batch; ++b)
        starts.push_back(static_cast<std::int32_t>(b * 5 % (s.capacity - s.len + 1)));
    run_split(backend, dtype, pairing, s, s.capacity, starts);
}

TEST_CASE("split_qkv norms the heads of queries and keys first", "[op][split_qkv]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const SplitSizes s = GENERATE(values<SplitSizes>({
        {1, 1, 1, 1, 1, 1, 0},
        {2, 1, 5, 3, 1, 6, 4},
        {1, 2, 40, 9, 3, 100, 100},
        {3, 4, 9, 4, 4, 7, 6},
        {1, 300, 301, 3, 2, 34, 34},  // several heads per workgroup, and one left over
    }));
    CAPTURE(backend.name(), to_string(dtype), s.batch, s.len, s.capacity, s.heads, s.kv_heads, s.dim, s.rotary_dim);
    run_split(backend, dtype, RopePairing::halves, s, s.capacity, std::vector<std::int32_t>(s.batch, 1), true);
    run_split(backend, dtype, RopePairing::interleaved, s, s.capacity, {}, true);
    run_split(backend, dtype, RopePairing::halves, s, s.capacity, {}, true, true);
}

TEST_CASE("split_qkv norms values where it norms the others, and there alone", "[op][split_qkv][errors]") {
    OpCase c;
    const Value qkv = c.floats("qkv", DType::f32, {1, 1, 4, 6});
    const Value keys = c.state("keys", DType::f32, {1, 3, 1, 6}, std::vector<float>(18)),
                values = c.state("values", DType::f32, {1, 3, 1, 6}, std::vector<float>(18));
    check_refused(split_qkv(c.graph, qkv, {}, {}, keys, values, RopePairing::halves, {.values = true}),
                  ErrorCode::InvalidArgument, "query_gain");
}

TEST_CASE("split_qkv leaves out what lies outside the caches, and knows no angle outside the table",
          "[op][split_qkv]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType dtype = GENERATE(DType::f32, DType::f16);
    const std::uint64_t positions = GENERATE(3, 6, 9), rotary_dim = GENERATE(0, 4);
    CAPTURE(backend.name(), to_string(dtype), positions, rotary_dim);
    constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
    constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();
    run_split(backend, dtype, RopePairing::halves, {8, 4, 6, 2, 1, 5, rotary_dim}, positions,
              {-2, 5, 6, -4, kLowest, kHighest, -1, 1 << 30});
}

}  // namespace
}  // namespace vkformer::tests
