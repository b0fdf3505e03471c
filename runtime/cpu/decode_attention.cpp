// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/attention.hpp"
#include "cpu/twins.hpp"
#include "graph/splits.hpp"

namespace vkformer::cpu {
namespace {

/// The seen keys are shared out evenly: graph/splits.hpp.
KeyRange keys_of_split(KeyRange seen, std::size_t split, std::size_t splits) {
    const std::size_t count = seen.last - seen.first, each = graph::keys_per_split(count, splits);
    const std::size_t used = (count + each - 1) / each;
    if (!graph::split_is_used(split, splits, used)) return {0, 0};
    const std::size_t first = seen.first + split * used / splits * each;
    return {first, std::min(first + each, seen.last)};
}

// y[row, v] = Σ_split exp(m_split − m) · sums[split, v] / (Σ_split exp(m_split − m) · sum[split] + exp(sink − m)), with m = max m_split, the
// last term where the head has a sink; zeros where no split has a seen key. parts: [splits, value_dim + 2] of the row, y: [value_dim].
template <std::floating_point T>
void combine_splits(std::span<const T> parts, std::size_t splits, const Mask<T>& mask, std::size_t head,
                    std::span<T> y) {
    const std::size_t width = y.size() + 2;
    std::ranges::fill(y, T{0});
    T max = -std::numeric_limits<T>::infinity();
    for (std::size_t split = 0; split < splits; ++split) max = std::max(max, parts[split * width + y.size()]);
    T sum = 0;
    for (std::size_t split = 0; split < splits; ++split) {
        const std::span<const T> part = parts.subspan(split * width, width);
        if (part[y.size() + 1] == 0) continue;  // no seen key
        const T scale = std::exp(part[y.size()] - max);
        sum += scale * part[y.size() + 1];
        for (std::size_t v = 0; v < y.size(); ++v) y[v] += scale * part[v];
    }
    if (sum == 0) return;
    sum += mask.sink_weight(head, max);
    for (T& value : y) value /= sum;
}

// Over the seen keys j of a split, its part of `partial` becomes Σ exp(s_j − m) · value[j, :], then m = max s_j, then Σ exp(s_j − m);
// zeros and m = −∞ where it has no seen key. The splits then give y: [batch, 1, heads, value_dim].
// partial: scratch, [batch · heads, splits · (value_dim + 2) + 1]. Dao et al. 2023, "Flash-Decoding for long-context inference".
template <std::floating_point T>
void decode_attention(const AttentionOperands<T>& o, std::size_t splits, std::span<T> partial, std::span<T> y) {
    const AttentionDims& dims = o.dims;
    const std::size_t width = dims.value_dim + 2, pitch = splits * width + 1;
    const auto attend = [&](std::size_t first, std::size_t last, std::size_t) {
        for (std::size_t n = first; n < last; ++n) {
            const std::size_t split = n % splits, h = n / splits % dims.heads, b = n / splits / dims.heads;
            const KeyRange keys = keys_of_split(o.mask.seen_keys(b, 0, dims.key_len), split, splits);
            const std::span<T> row = partial.subspan(n / splits * pitch + split * width, width);
            std::ranges::fill(row, T{0});
            const SoftmaxTerms<T> terms = add_weighted_values(o, b, h, 0, keys, row.first(dims.value_dim));
            row[dims.value_dim] = terms.max;
            row[dims.value_dim + 1] = terms.sum;
        }
    };
    const std::size_t seen = o.mask.seen_keys(0, 0, dims.key_len).last;
    over_threads<T>(dims.batch * dims.heads * splits, seen * (dims.head_dim + dims.value_dim) / splits, attend);
    for (std::size_t row = 0; row < dims.batch * dims.heads; ++row)
        combine_splits<T>(partial.subspan(row * pitch, splits * width), splits, o.mask, row % dims.heads,
                          y.subspan(row * dims.value_dim, dims.value_dim));
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
