// SPDX-License-Identifier: MIT
/// Operands of the attention ops with every kind of mask.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>

#include "support/catch.h"
#include "support/op_case.hpp"

namespace vkformer::tests {

struct AttentionSizes {
    std::uint64_t batch, query_len, key_len, heads, kv_heads, head_dim, value_dim;
};

inline std::string to_string(const AttentionSizes& s) {
    return "batch " + std::to_string(s.batch) + ", query_len " + std::to_string(s.query_len) + ", key_len " +
           std::to_string(s.key_len) + ", heads " + std::to_string(s.heads) + '/' + std::to_string(s.kv_heads) +
           ", head_dim " + std::to_string(s.head_dim) + ", value_dim " + std::to_string(s.value_dim);
}

struct AttentionOperands {
    graph::Value query, key, value;
};

/// The variants for CPUs unroll their loops over a head, which LLVM 15 takes up to a minute for; VKFORMER_TEST_THOROUGH=1 has them all.
inline AttentionOperands attention_operands(OpCase& c, const AttentionSizes& s, DType dtype) {
    c.leaves_out_cpu_devices = std::max(s.head_dim, s.value_dim) > 64 && !std::getenv("VKFORMER_TEST_THOROUGH");
    return {
        .query = c.floats("query", dtype, {s.batch, s.query_len, s.heads, s.head_dim}, 2),
        .key = c.floats("key", dtype, {s.batch, s.key_len, s.kv_heads, s.head_dim}, 2),
        .value = c.floats("value", dtype, {s.batch, s.key_len, s.kv_heads, s.value_dim}),
    };
}

inline float attention_scale(const AttentionSizes& s) { return 1 / std::sqrt(static_cast<float>(s.head_dim)); }

/// What a mask has; make_mask fills in the contents.
struct MaskKind {
    const char* name = "none";
    bool causal = false;
    std::uint32_t window = 0;
    bool lengths = false;
    bool starts = false;
    bool sinks = false;
    std::optional<std::array<bool, 3>> additive = {};  ///< own rows for every batch, head, query
};

inline const MaskKind kMasks[] = {
    {.name = "none"},
    {.name = "causal", .causal = true},
    {.name = "causal from starts", .causal = true, .starts = true},
    {.name = "lengths", .lengths = true},
    {.name = "window", .window = 3},
    {.name = "window from starts", .window = 5, .starts = true},
    {.name = "additive for all", .additive = {{false, false, false}}},
    {.name = "additive per query", .additive = {{false, false, true}}},
    {.name = "additive per batch and head", .additive = {{true, true, false}}},
    {.name = "additive per batch, head and query", .additive = {{true, true, true}}},
    {.name = "causal, lengths", .causal = true, .lengths = true},
    {.name = "causal, window, lengths, starts", .causal = true, .window = 7, .lengths = true, .starts = true},
    {.name = "sinks", .sinks = true},
    {.name = "causal, window, lengths, starts, sinks",
     .causal = true,
     .window = 9,
     .lengths = true,
     .starts = true,
     .sinks = true},
    {.name = "all", .causal = true, .window = 40, .lengths = true, .starts = true, .additive = {{true, false, true}}},
};

/// Contents that leave some queries without a key: lengths from below 0 to beyond key_len, starts around the keys, a sixth of
/// the additive mask −∞.
inline graph::AttentionMask make_mask(OpCase& c, const MaskKind& kind, const AttentionSizes& s) {
    graph::AttentionMask mask{.causal = kind.causal, .window = kind.window};
    const auto keys = static_cast<std::int32_t>(s.key_len);
    if (kind.lengths) mask.key_lengths = c.ints("key_lengths", {s.batch}, c.random_ints(s.batch, -1, keys + 1));
    if (kind.starts) mask.starts = c.ints("starts", {s.batch}, c.random_ints(s.batch, -3, keys));
    if (kind.sinks) {  // some larger than any score, some without weight
        mask.sinks = c.floats("sinks", DType::f32, {s.heads}, 4);
    }
    if (kind.additive) {
        const auto [per_batch, per_head, per_query] = *kind.additive;
        const Shape shape{per_batch ? s.batch : 1, per_head ? s.heads : 1, per_query ? s.query_len : 1, s.key_len};
        std::vector<float> addends = c.random_floats(shape.element_count());
        for (float& addend : addends)
            if (std::abs(addend) > 5.0f / 6) addend = -std::numeric_limits<float>::infinity();
        mask.additive = c.floats("additive", DType::f32, shape, std::move(addends));
    }
    return mask;
}

}  // namespace vkformer::tests
