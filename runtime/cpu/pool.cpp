// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "cpu/twins.hpp"

namespace vkformer::cpu {
namespace {

/// What token i of n counts for in a sum of all of them.
template <std::floating_point T>
T pooling_weight(graph::Pooling pooling, std::size_t i, std::size_t n) {
    const T count = static_cast<T>(n);
    switch (pooling) {
    case graph::Pooling::first: return i == 0 ? T{1} : T{0};
    case graph::Pooling::last: return i + 1 == n ? T{1} : T{0};
    case graph::Pooling::mean: return 1 / count;
    case graph::Pooling::root_mean: return 1 / std::sqrt(count);
    case graph::Pooling::weighted_mean: return 2 * static_cast<T>(i + 1) / (count * (count + 1));
    case graph::Pooling::max: break;  // no sum
    }
    return 0;
}

// y = what `pooling` makes of the rows of x [n, dim]: a weighted sum of them, or the largest of each column, where NaN wins.
// Zeros for n = 0. Rows that count for nothing are not read.
template <std::floating_point T>
void pool(std::span<const T> x, graph::Pooling pooling, std::span<T> y) {
    const std::size_t dim = y.size(), n = x.size() / dim;
    std::ranges::fill(y, T{0});
    if (pooling == graph::Pooling::max && n > 0) std::ranges::copy(x.first(dim), y.begin());
    for (std::size_t i = 0; i < n; ++i) {
        const std::span<const T> row = x.subspan(i * dim, dim);
        const T weight = pooling_weight<T>(pooling, i, n);
        for (std::size_t d = 0; d < dim; ++d) {
            if (pooling == graph::Pooling::max)
                y[d] = std::isnan(row[d]) || row[d] > y[d] ? row[d] : y[d];
            else if (weight != 0)
                y[d] += weight * row[d];
        }
    }
}

}  // namespace

template <std::floating_point T>
void execute(const graph::Pool& op, const Operands<T>& operands) {
    const std::size_t len = operands.dim(op.x, 1), row_width = operands.width(op.x);
    for (std::size_t b = 0; b < operands.dim(op.x, 0); ++b) {
        const auto limit = static_cast<std::int32_t>(len);
        const auto tokens =
            op.lengths ? static_cast<std::size_t>(std::clamp(operands.ints(op.lengths)[b], 0, limit)) : len;
        pool<T>(operands.floats(op.x).subspan(b * len * row_width, tokens * row_width), op.pooling,
                operands.floats(op.y, b));
    }
}
template void execute(const graph::Pool&, const Operands<float>&);
template void execute(const graph::Pool&, const Operands<double>&);

ErrorRule error_rule(const graph::Pool& op, const graph::Graph& graph) {
    return {8, 8, graph.shape(op.x)[1]};  // a sum over the tokens
}

}  // namespace vkformer::cpu
