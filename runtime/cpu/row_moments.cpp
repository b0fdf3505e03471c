// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "cpu/rows.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {
namespace {

template <std::floating_point T>
T mean_square_from(std::span<const T> x, T centre) {
    T sum = 0;
    for (const T value : x) sum += (value - centre) * (value - centre);
    return sum / static_cast<T>(x.size());
}

// y[i] = max(x[i] − mean(x) − deviations · sqrt(var(x)), 0), one row: torch.std(unbiased=False).
template <std::floating_point T>
void gaussian_top_k(std::span<const T> x, T deviations, std::span<T> y) {
    T sum = 0;
    for (const T value : x) sum += value;
    const T mean = sum / static_cast<T>(x.size());
    const T cutoff = deviations * std::sqrt(mean_square_from(x, mean));
    // NaN stays NaN.
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = std::max(x[i] - mean - cutoff, T{0});
}

// y[i] = x[i] · sqrt(mean(like²) / max(mean(x²), least)), one row.
template <std::floating_point T>
void match_magnitude(std::span<const T> x, std::span<const T> like, T least, std::span<T> y) {
    const T scale = std::sqrt(mean_square_from(like, T{0}) / std::max(mean_square_from(x, T{0}), least));
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale;
}

}  // namespace

template <std::floating_point T>
void execute(const graph::RowMoments& op, const Operands<T>& operands) {
    for_rows(operands.rows(op.x), operands.width(op.x), [&](std::size_t row) {
        const std::span<const T> x = operands.floats(op.x, row);
        const std::span<T> y = operands.floats(op.y, row);
        if (op.like)
            match_magnitude<T>(x, operands.floats(op.like, row), static_cast<T>(op.bound), y);
        else
            gaussian_top_k<T>(x, static_cast<T>(op.bound), y);
    });
}
template void execute(const graph::RowMoments&, const Operands<float>&);
template void execute(const graph::RowMoments&, const Operands<double>&);

// What is left above a cutoff is small beside what it was taken off.
ErrorRule error_rule(const graph::RowMoments& op, const graph::Graph& graph) {
    return {op.like ? 16.0 : 64.0, 8, graph.shape(op.x).back()};
}

}  // namespace vkformer::cpu
