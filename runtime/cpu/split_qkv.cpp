// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>
#include <vector>

#include "cpu/cache_append.hpp"
#include "cpu/cache_places.hpp"
#include "cpu/rms_norm.hpp"
#include "cpu/rope.hpp"
#include "cpu/rows.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {

// query = the first heads of qkv, normed and turned; key_cache[b, starts[b] + i] = the next kv_heads, likewise, value_cache[…] = the last ones.
// qkv: [batch, len, heads + 2 · kv_heads, head_dim], caches: [batch, capacity, kv_heads, head_dim] or in pages, positions outside which
// are not written; table: [positions, rotary_dim], positions outside which give NaN, or absent: nothing is turned; `starts` may be absent: 0.
// Gains: [head_dim], or none: no norm. norms_values: values are normed, too, without gains.
template <std::floating_point T>
void execute(const graph::SplitQkv& op, const Operands<T>& operands) {
    const std::size_t len = operands.dim(op.qkv, 1), heads = operands.dim(op.query, 2), d = operands.width(op.qkv);
    const CachePlaces places = cache_places(op.key_cache, op.pages, operands);
    const std::size_t kv_heads = operands.dim(op.key_cache, 2);
    const std::span<const T> qkv = operands.floats(op.qkv), table = operands.floats(op.table);
    const std::span<const T> query_gain = operands.floats(op.query_gain), key_gain = operands.floats(op.key_gain);
    const std::span<const std::int32_t> starts = operands.ints(op.starts);
    const std::span<T> query = operands.floats(op.query);
    const std::span<T> key_cache = operands.floats(op.key_cache), value_cache = operands.floats(op.value_cache);
    const std::size_t rotary_dim = op.table ? operands.width(op.table) : 0;
    const auto positions = static_cast<std::int64_t>(op.table ? operands.rows(op.table) : 0);

    const bool rounds = operands.rounds_to_bfloats(op.key_cache);

    const auto place = [&](std::span<const T> x, std::span<const T> gain, std::int64_t position, std::span<T> y,
                           std::span<T> normed) {
        if (!gain.empty()) {
            rms_norm<T>(x, gain, static_cast<T>(op.norm_gain_offset), static_cast<T>(op.norm_eps), normed);
            x = normed;
        }
        if (table.empty())
            std::ranges::copy(x, y.begin());
        else if (position < 0 || position >= positions)
            std::ranges::fill(y, std::numeric_limits<T>::quiet_NaN());
        else
            rope_head<T>(x, row_of(table, static_cast<std::size_t>(position), rotary_dim), op.pairing, y);
    };
    const std::size_t tokens = operands.dim(op.qkv, 0) * len;
    const auto position_of = [&](std::size_t token) {
        const std::int64_t start = starts.empty() ? 0 : starts[token / len];
        return start + static_cast<std::int64_t>(token % len);
    };
    const auto head_of = [&](std::size_t token, std::size_t head) {
        return row_of(qkv, token * (heads + 2 * kv_heads) + head, d);
    };
    const auto place_query = [&](std::size_t token, std::span<T> normed) {
        for (std::size_t h = 0; h < heads; ++h)
            place(head_of(token, h), query_gain, position_of(token), row_of(query, token * heads + h, d), normed);
    };
    const auto cache_head = [&](std::size_t h, std::span<T> normed) {
        for (std::size_t token = 0; token < tokens; ++token) {
            const std::int64_t position = position_of(token);
            const auto row = places.row_of(token / len, position);
            if (!row) continue;
            const std::span<T> key = row_of(key_cache, *row * kv_heads + h, d);
            place(head_of(token, heads + h), key_gain, position, key, normed);
            const std::span<const T> value = head_of(token, heads + kv_heads + h);
            const std::span<T> stored = row_of(value_cache, *row * kv_heads + h, d);
            if (op.norms_values)
                rms_norm<T>(value, {}, 0, static_cast<T>(op.norm_eps), stored);
            else
                std::ranges::copy(value, stored.begin());
            if (rounds) round_to_bfloats<T>(key), round_to_bfloats<T>(stored);
        }
    };
    // Queries by tokens; caches by heads, for tokens of several sequences may lie at one place, of which the last remains.
    const auto run = [&](std::size_t first, std::size_t last, std::size_t) {
        std::vector<T> normed(query_gain.empty() && key_gain.empty() ? 0 : d);
        for (std::size_t i = first; i < last; ++i)
            if (i < kv_heads)
                cache_head(i, normed);
            else
                place_query(i - kv_heads, normed);
    };
    const std::size_t products = 8 * tokens * (heads + 2 * kv_heads) * d;
    parallel_for(kv_heads + tokens, slice_of(kv_heads + tokens, products / (kv_heads + tokens)), run);
}
template void execute(const graph::SplitQkv&, const Operands<float>&);
template void execute(const graph::SplitQkv&, const Operands<double>&);

ErrorRule error_rule(const graph::SplitQkv& op, const graph::Graph& graph) {
    // as Rope, and RmsNorm before it
    return op.query_gain ? ErrorRule{20, 8, graph.shape(op.qkv).back(), 3} : ErrorRule{4};
}

}  // namespace vkformer::cpu
