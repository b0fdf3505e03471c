// SPDX-License-Identifier: MIT
#include <algorithm>
#include <vector>

#include "cpu/activate.hpp"
#include "cpu/attention.hpp"
#include "cpu/state_place.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {
namespace {

/// The inputs of a sequence's channels, those before the run first: [taps − 1 + len, width].
template <std::floating_point T>
std::vector<T> inputs_of(const graph::ShortConvolution& op, const Operands<T>& operands, std::size_t b,
                         const OwnTokens& own) {
    const std::size_t len = operands.dim(op.x, 1), width = operands.width(op.y), old = operands.dim(op.state, 1);
    std::vector<T> inputs((old + len) * width, T{0});
    if (own.before)
        std::ranges::copy(operands.floats(op.state).subspan(*own.before * old * width, old * width), inputs.begin());
    for (std::size_t t = 0; t < len; ++t) {
        const std::span<const T> x = operands.floats(op.x, b * len + t);
        T* const u = &inputs[(old + t) * width];
        for (std::size_t c = 0; c < width; ++c) u[c] = op.is_gated ? x[c] * x[2 * width + c] : x[c];
    }
    return inputs;
}

template <std::floating_point T>
void add_products(const T* a, const T* b, std::span<T> y) {
    for (std::size_t c = 0; c < y.size(); ++c) y[c] += a[c] * b[c];
}

template <std::floating_point T>
void multiply(std::span<T> y, std::span<const T> by) {
    for (std::size_t c = 0; c < y.size(); ++c) y[c] *= by[c];
}

}  // namespace

// Each sequence by itself: its inputs are put together, the old ones first, and the last of them are kept.
template <std::floating_point T>
void execute(const graph::ShortConvolution& op, const Operands<T>& operands) {
    const std::size_t batch = operands.dim(op.x, 0), len = operands.dim(op.x, 1), width = operands.width(op.y);
    const std::size_t taps = operands.width(op.weight), old = taps - 1;
    const std::span<const T> weight = operands.floats(op.weight), bias = operands.floats(op.bias);
    std::vector<T> by_tap(weight.size());  // neighbours are channels, as they are in the inputs
    for (std::size_t c = 0; c < width; ++c)
        for (std::size_t j = 0; j < taps; ++j) by_tap[j * width + c] = weight[c * taps + j];
    for (std::size_t b = 0; b < batch; ++b) {
        const OwnTokens own = own_tokens(op, operands, b, len);
        const std::vector<T> inputs = inputs_of(op, operands, b, own);
        const auto convolve = [&](std::size_t first, std::size_t last, std::size_t) {
            for (std::size_t t = first; t < last; ++t) {
                const std::span<T> y = operands.floats(op.y, b * len + t);
                if (bias.empty())
                    std::ranges::fill(y, T{0});
                else
                    std::ranges::copy(bias, y.begin());
                for (std::size_t j = 0; j < taps; ++j) add_products<T>(&by_tap[j * width], &inputs[(t + j) * width], y);
                activate<T>(y, op.activation, y);
                if (op.is_gated) multiply<T>(y, operands.floats(op.x, b * len + t).subspan(width));
            }
        };
        over_threads<T>(len, (taps + 8) * width, convolve);
        if (!own.behind || own.count == 0) continue;
        const auto last = inputs.begin() + static_cast<std::ptrdiff_t>(own.count * width);
        std::copy_n(last, old * width, operands.floats(op.state).subspan(*own.behind * old * width).begin());
    }
}
template void execute(const graph::ShortConvolution&, const Operands<float>&);
template void execute(const graph::ShortConvolution&, const Operands<double>&);

// as Activate, behind a sum of a few products of two roundings each
ErrorRule error_rule(const graph::ShortConvolution& op, const graph::Graph& graph) {
    return {kExpUnits, 16, graph.shape(op.weight).back()};
}

}  // namespace vkformer::cpu
