// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <vector>

#include "cpu/backend.hpp"
#include "support/attention_case.hpp"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

/// The op by `add_op` is what three ops of one head and query at a time give.
void check_against_three_ops(const MaskKind& kind, const AttentionSizes& sizes, auto&& add_op) {
    const std::unique_ptr<graph::Backend> backend = cpu::make_cpu_backend<float>();
    CAPTURE(kind.name, to_string(sizes));
    OpCase c;
    const AttentionOperands o = attention_operands(c, sizes, DType::f32);
    const graph::AttentionMask mask = make_mask(c, kind, sizes);
    const float scale = attention_scale(sizes);
    const graph::Value weights =
        must(masked_softmax(c.graph, must(attention_scores(c.graph, o.query, o.key, scale)), mask));
    const graph::Value in_three = c.expect(weighted_sum(c.graph, weights, o.value));
    const graph::Value y = c.expect(add_op(c.graph, o, mask, scale));
    const std::vector<float> expected = c.run(*backend, in_three), found = c.run(*backend, y);
    REQUIRE(found.size() == expected.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < found.size(); ++i) wrong += !(std::abs(found[i] - expected[i]) <= 1e-5f);
    CHECK(wrong == 0);
}

}  // namespace

// Five heads of a group go as four and one where there are blocks enough for the threads; blocks have 32 queries, and 18 or 8 are left.
TEST_CASE("attention of heads that share keys in one node and in three is the same", "[cpu][attention]") {
    const MaskKind kind = GENERATE(from_range(std::begin(kMasks), std::end(kMasks)));
    for (const AttentionSizes& sizes :
         {AttentionSizes{8, 50, 70, 10, 2, 8, 28}, AttentionSizes{6, 40, 300, 9, 3, 20, 9},
          AttentionSizes{9, 16, 33, 17, 1, 12, 16}})
        check_against_three_ops(kind, sizes,
                                [](graph::Graph& graph, const AttentionOperands& o, const graph::AttentionMask& mask,
                                   float scale) { return attention(graph, o.query, o.key, o.value, mask, scale); });
}

// Up to four queries are a tile, and seventeen go by panels of keys.
TEST_CASE("decode_attention of heads that share keys in one node and in three is the same", "[cpu][decode_attention]") {
    const MaskKind kind = GENERATE(from_range(std::begin(kMasks), std::end(kMasks)));
    for (const std::uint64_t group : {1, 2, 3, 4, 5, 7, 17})
        check_against_three_ops(
            kind, {3, 1, 150, 2 * group, 2, 20, 28},
            [](graph::Graph& graph, const AttentionOperands& o, const graph::AttentionMask& mask, float scale) {
                return decode_attention(graph, o.query, o.key, o.value, mask, scale, 40);
            });
}

}  // namespace vkformer::tests
