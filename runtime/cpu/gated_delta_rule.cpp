// SPDX-License-Identifier: MIT
#include <cmath>
#include <concepts>
#include <numeric>

#include "cpu/float_kernels.hpp"
#include "cpu/head_states.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {
namespace {

/// Of a head and a token.
template <std::floating_point T>
struct DeltaInputs {
    std::span<const T> query, key, value;
    T alpha, beta;
};

/// x / √(Σ x² + 1e-6) · scale
template <std::floating_point T>
void normalise(std::span<const T> x, T scale, std::span<T> y) {
    const T squares = std::inner_product(x.begin(), x.end(), x.begin(), T{0});
    const T factor = scale / std::sqrt(squares + static_cast<T>(1e-6));
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = factor * x[i];
}

/// S ← α S,  S ← S + β k̂ (v − Sᵀ k̂)ᵀ,  y = Sᵀ q̂ / √key_dim; `scratch` holds q̂ / √key_dim, k̂ and δ.
template <std::floating_point T>
void delta_step(const DeltaInputs<T>& in, std::span<T> state, std::span<T> scratch, std::span<T> y) {
    const std::size_t key_dim = in.key.size(), value_dim = y.size();
    const std::span<T> query = scratch.first(key_dim), key = scratch.subspan(key_dim, key_dim);
    normalise<T>(in.query, 1 / std::sqrt(static_cast<T>(key_dim)), query);
    normalise<T>(in.key, T{1}, key);
    if constexpr (std::same_as<T, float>) {
        const float product = std::inner_product(query.begin(), query.end(), key.begin(), 0.0f);
        float_kernels().correct_state({.query = query.data(),
                                       .key = key.data(),
                                       .value = in.value.data(),
                                       .key_dim = key_dim,
                                       .value_dim = value_dim,
                                       .alpha = in.alpha,
                                       .beta = in.beta,
                                       .product = product,
                                       .state = state.data(),
                                       .y = y.data()});
    } else {
        const std::span<T> delta = scratch.subspan(2 * key_dim, value_dim);
        std::ranges::fill(delta, T{0});
        for (std::size_t i = 0; i < key_dim; ++i)
            for (std::size_t j = 0; j < value_dim; ++j) {
                state[i * value_dim + j] *= in.alpha;
                delta[j] += key[i] * state[i * value_dim + j];
            }
        for (std::size_t j = 0; j < value_dim; ++j) delta[j] = in.beta * (in.value[j] - delta[j]);
        std::ranges::fill(y, T{0});
        for (std::size_t i = 0; i < key_dim; ++i)
            for (std::size_t j = 0; j < value_dim; ++j) {
                state[i * value_dim + j] += key[i] * delta[j];
                y[j] += query[i] * state[i * value_dim + j];
            }
    }
}

}  // namespace

template <std::floating_point T>
void execute(const graph::GatedDeltaRule& op, const Operands<T>& operands) {
    const std::size_t heads = operands.dim(op.state, 1), key_dim = operands.dim(op.state, 2),
                      value_dim = operands.dim(op.state, 3), keys = op.key_heads * key_dim;
    const std::span<const T> decay = operands.floats(op.decay);
    const auto step = [&](std::size_t row, std::size_t h, std::span<T> state, std::span<T> scratch, std::span<T> y) {
        const std::size_t key_head = op.heads_in_turns ? h % op.key_heads : h / (heads / op.key_heads);
        const std::span<const T> qkv = operands.floats(op.qkv, row), gates = operands.floats(op.gates, row);
        delta_step<T>({.query = qkv.subspan(key_head * key_dim, key_dim),
                       .key = qkv.subspan(keys + key_head * key_dim, key_dim),
                       .value = qkv.subspan(2 * keys + h * value_dim, value_dim),
                       .alpha = std::exp(-std::exp(decay[h]) * softplus<T>(gates[heads + h] + decay[heads + h])),
                       .beta = 1 / (1 + std::exp(-gates[h]))},
                      state, scratch, y);
    };
    over_head_states<T>(op, operands, 4, 2 * key_dim + value_dim, step);
}
template void execute(const graph::GatedDeltaRule&, const Operands<float>&);
template void execute(const graph::GatedDeltaRule&, const Operands<double>&);

// Two exponentials and two norms of a token; the state decays, so that its errors add up like the rounding of a sum over tokens and keys.
ErrorRule error_rule(const graph::GatedDeltaRule& op, const graph::Graph& graph) {
    return {3 * kExpUnits, 16, graph.shape(op.qkv)[1] * graph.shape(op.state)[2]};
}

}  // namespace vkformer::cpu
