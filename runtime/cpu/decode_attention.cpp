// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/attention.hpp"
#include "cpu/twins.hpp"
#include "graph/splits.hpp"

namespace vkformer::cpu {
namespace {

/// The seen keys are shared out evenly, as graph/splits.hpp says, to the first splits; the others have none.
KeyRange keys_of_split(KeyRange seen, std::size_t split, std::size_t splits) {
    const std::size_t each = graph::keys_per_split(seen.last - seen.first, splits);
    const std::size_t first = std::min(seen.first + split * each, seen.last);
    return {first, std::min(first + each, seen.last)};
}

// y[row, v] = Σ_split exp(m_split − m) · sums[split, v] / (Σ_split exp(m_split − m) · sum[split] + exp(sink − m)), with m = max m_split, the
// last term where the head has a sink, of splits that have keys; zeros where none has a seen key. parts: [splits, value_dim + 2] of the
// row, y: [value_dim].
template <std::floating_point T>
void combine_splits(std::span<const T> parts, KeyRange seen, std::size_t splits, const Mask<T>& mask, std::size_t head,
                    std::span<T> y) {
    const std::size_t width = y.size() + 2, each = graph::keys_per_split(seen.last - seen.first, splits);
    const auto for_each_used = [&](auto&& visit) {
        for (std::size_t split = 0; seen.first + split * each < seen.last; ++split)
            visit(parts.subspan(split * width, width));
    };
    std::ranges::fill(y, T{0});
    T max = -std::numeric_limits<T>::infinity(), sum = 0;
    for_each_used([&](std::span<const T> part) { max = std::max(max, part[y.size()]); });
    for_each_used([&](std::span<const T> part) {
        if (part[y.size() + 1] == 0) return;  // no seen key
        const T scale = std::exp(part[y.size()] - max);
        sum += scale * part[y.size() + 1];
        for (std::size_t v = 0; v < y.size(); ++v) y[v] += scale * part[v];
    });
    if (sum == 0) return;
    sum += mask.sink_weight(head, max);
    for (T& value : y) value /= sum;
}

/// The queries of some heads against the keys first … last − 1, with the scores s_j = scale · query · key_j, soft-capped, + additive_j: for
/// each head Σ_j exp(s_j − m) · value[j, :], then m = max s_j, then Σ_j exp(s_j − m). parts: zeros before, by rows `pitch` apart.
template <std::floating_point T>
void attend_to(const AttentionOperands<T>& o, std::size_t b, HeadRange heads, KeyRange keys, std::span<T> parts,
               std::size_t pitch) {
    const AttentionDims& dims = o.dims;
    const std::size_t count = keys.last - keys.first;
    std::vector<T> scores(heads.count * count, T{0});
    std::vector<T> x(heads.count * dims.head_dim);
    std::ranges::copy(o.query.subspan((b * dims.heads + heads.first) * dims.head_dim, x.size()), x.begin());
    const T scale = o.prepare(x);
    const SmallProduct<T> queries(heads.count, dims.head_dim, scale, {x.data(), dims.head_dim});
    o.for_each_run(b, heads.first, keys,
                   [&](std::size_t first, std::size_t last, Matrix<const T> key, Matrix<const T>) {
                       queries.add(last - first, key, {&scores[first - keys.first], count});
                   });
    for (std::size_t h = 0; h < heads.count; ++h) {
        const std::span<T> row = std::span(scores).subspan(h * count, count);
        if (o.soft_cap != 0)
            for (T& score : row) score = soft_capped(score, o.soft_cap);
        for (std::size_t j = 0; j < count && !o.mask.additive.empty(); ++j)
            row[j] += o.mask.addend(b, heads.first + h, 0, keys.first + j, dims.key_len);
        const SoftmaxTerms<T> terms = weights_of(o, row);
        parts[h * pitch + dims.value_dim] = terms.max;
        parts[h * pitch + dims.value_dim + 1] = terms.sum;
    }
    o.for_each_run(b, heads.first, keys,
                   [&](std::size_t first, std::size_t last, Matrix<const T>, Matrix<const T> value) {
                       add_small_product(heads.count, dims.value_dim, last - first,
                                         {&scores[first - keys.first], count}, value, {parts.data(), pitch});
                   });
}

// The seen keys are shared out to splits, each of which leaves its part of `partial`: what attend_to gives; a split without keys leaves it
// as it is. The splits then give y: [batch, 1, heads, value_dim]. Heads that read one key/value head go together.
// partial: scratch, [batch · heads, splits · (value_dim + 2) + 1]. Dao et al. 2023, "Flash-Decoding for long-context inference".
template <std::floating_point T>
void decode_attention(const AttentionOperands<T>& o, std::size_t splits, std::span<T> partial, std::span<T> y) {
    const AttentionDims& dims = o.dims;
    const std::size_t width = dims.value_dim + 2, pitch = splits * width + 1, group = dims.heads / dims.kv_heads;
    const auto attend = [&](std::size_t b, std::size_t kv_head, KeyRange seen, std::size_t split) {
        const KeyRange keys = keys_of_split(seen, split, splits);
        if (keys.first == keys.last) return;
        const HeadRange heads{kv_head * group, group};
        const std::span<T> parts = partial.subspan((b * dims.heads + heads.first) * pitch + split * width);
        for (std::size_t h = 0; h < group; ++h) std::ranges::fill(parts.subspan(h * pitch, dims.value_dim), T{0});
        attend_to(o, b, heads, keys, parts, pitch);
    };
    const auto combine = [&](std::size_t b, std::size_t kv_head, KeyRange seen) {
        for (std::size_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
            const std::size_t row = b * dims.heads + head;
            combine_splits<T>(partial.subspan(row * pitch, splits * width), seen, splits, o.mask, head,
                              y.subspan(row * dims.value_dim, dims.value_dim));
        }
    };
    const auto seen_keys = [&](std::size_t b) { return o.mask.seen_keys(b, 0, dims.key_len); };
    const std::size_t items = dims.batch * dims.kv_heads;
    const std::size_t products = group * seen_keys(0).last * (dims.head_dim + dims.value_dim);
    // Many are work for all threads without their splits, whose sums are then combined where they were made.
    const bool is_whole = items >= 4 * parallel_threads();
    if (!is_whole)
        over_threads<T>(items * splits, products / splits, [&](std::size_t first, std::size_t last, std::size_t) {
            for (std::size_t n = first; n < last; ++n) {
                const std::size_t item = n / splits, b = item / dims.kv_heads;
                attend(b, item % dims.kv_heads, seen_keys(b), n % splits);
            }
        });
    const auto end = [&](std::size_t first, std::size_t last, std::size_t) {
        for (std::size_t item = first; item < last; ++item) {
            const std::size_t b = item / dims.kv_heads, kv_head = item % dims.kv_heads;
            const KeyRange seen = seen_keys(b);
            for (std::size_t split = 0; is_whole && split < splits; ++split) attend(b, kv_head, seen, split);
            combine(b, kv_head, seen);
        }
    };
    if (is_whole)
        over_threads<T>(items, products, end);
    else
        end(0, items, 0);
}

}  // namespace

template <std::floating_point T>
void execute(const graph::DecodeAttention& op, const Operands<T>& operands) {
    decode_attention<T>(attention_operands(op, operands),
                        graph::splits_in(operands.width(op.partial), operands.width(op.y)), operands.floats(op.partial),
                        operands.floats(op.y));
}
template void execute(const graph::DecodeAttention&, const Operands<float>&);
template void execute(const graph::DecodeAttention&, const Operands<double>&);

// as Attention, and the splits are put together
ErrorRule error_rule(const graph::DecodeAttention& op, const graph::Graph& graph) {
    return {3 * kExpUnits, 16, std::max(graph.shape(op.query).back(), graph::capacity_of(graph, op.key, op.pages))};
}

}  // namespace vkformer::cpu
