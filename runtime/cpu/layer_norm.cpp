// SPDX-License-Identifier: MIT
#include <cassert>
#include <cmath>

#include "cpu/rows.hpp"
#include "cpu/twins.hpp"
#include "cpu/with_residual.hpp"

namespace vkformer::cpu {
namespace {

// y[i] = gain[i] · (x[i] − mean(x)) / sqrt(var(x) + eps) + bias[i], one row; var(x) = mean((x − mean(x))²).
// Ba et al. 2016, eq. 4; eps against division by zero as in PyTorch. bias may be empty.
template <std::floating_point T>
void layer_norm(std::span<const T> x, std::span<const T> gain, std::span<const T> bias, T eps, std::span<T> y) {
    assert(gain.size() == x.size() && y.size() == x.size());
    const T width = static_cast<T>(x.size());
    T sum = 0;
    for (const T value : x) sum += value;
    const T mean = sum / width;

    T square_sum = 0;
    for (const T value : x) square_sum += (value - mean) * (value - mean);
    const T scale = 1 / std::sqrt(square_sum / width + eps);
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = gain[i] * (x[i] - mean) * scale + (bias.empty() ? T{0} : bias[i]);
}

}  // namespace

template <std::floating_point T>
void execute(const graph::LayerNorm& op, const Operands<T>& operands) {
    std::vector<T> own_sum;
    const std::span<const T> x = with_residual(op, operands, own_sum);
    const std::size_t width = operands.width(op.x);
    const std::span<const T> gains = operands.floats(op.gain);
    for_rows(operands.rows(op.x), width, [&](std::size_t row) {
        layer_norm<T>(row_of(x, row, width), row_of(gains, row % (gains.size() / width), width),
                      operands.floats(op.bias), static_cast<T>(op.eps), operands.floats(op.y, row));
    });
}
template void execute(const graph::LayerNorm&, const Operands<float>&);
template void execute(const graph::LayerNorm&, const Operands<double>&);

// float16: a fused sum may be normalised before or after it is rounded
ErrorRule error_rule(const graph::LayerNorm& op, const graph::Graph& graph) {
    return {16, 8, graph.shape(op.x).back(), 3};
}

}  // namespace vkformer::cpu
