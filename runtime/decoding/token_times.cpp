// SPDX-License-Identifier: MIT
#include "decoding/token_times.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vkformer::decoding {
namespace {

/// Rows [tokens, positions].
struct Matrix {
    Matrix(std::size_t rows, std::size_t columns) : tokens(rows), positions(columns), values(rows * columns) {}
    std::span<double> row(std::size_t token) { return std::span(values).subspan(token * positions, positions); }

    std::size_t tokens, positions;
    std::vector<double> values;
};

/// Every column with mean 0 and variance 1. One that does not vary says nothing: zeros.
void standardise_columns(Matrix& matrix) {
    const auto count = static_cast<double>(matrix.tokens);
    for (std::size_t p = 0; p < matrix.positions; ++p) {
        double sum = 0, squares = 0;
        for (std::size_t t = 0; t < matrix.tokens; ++t) sum += matrix.row(t)[p];
        const double mean = sum / count;
        for (std::size_t t = 0; t < matrix.tokens; ++t) {
            double& value = matrix.row(t)[p];
            value -= mean;
            squares += value * value;
        }
        const double deviation = std::sqrt(squares / count);
        for (std::size_t t = 0; t < matrix.tokens; ++t) matrix.row(t)[p] /= deviation > 0 ? deviation : 1;
    }
}

/// The median of `width` values around each, those behind an end mirrored at it. A row of less than half as many stays as it is.
void smooth(std::span<double> row, std::size_t width) {
    const std::size_t half = width / 2, size = row.size();
    if (size <= half) return;
    std::vector<double> padded(size + 2 * half), window(width);
    for (std::size_t i = 0; i < padded.size(); ++i) {
        const std::size_t from_begin = i < half ? half - i : i - half;
        padded[i] = row[from_begin < size ? from_begin : 2 * (size - 1) - from_begin];
    }
    for (std::size_t i = 0; i < size; ++i) {
        std::copy_n(padded.begin() + static_cast<std::ptrdiff_t>(i), width, window.begin());
        const auto middle = window.begin() + static_cast<std::ptrdiff_t>(half);
        std::ranges::nth_element(window, middle);
        row[i] = *middle;
    }
}

enum class Move : std::uint8_t { both, token, position };

/// The last move of the best path to each pair of a token and a position, both counted from 1; what is in row or column 0 is no pair.
std::vector<Move> best_moves(Matrix& gains) {
    const std::size_t width = gains.positions + 1;
    constexpr float kNowhere = std::numeric_limits<float>::infinity();
    std::vector<Move> moves((gains.tokens + 1) * width, Move::position);
    std::vector<float> above(width, kNowhere), costs(width, kNowhere);
    above[0] = 0;
    for (std::size_t t = 1; t <= gains.tokens; ++t) {
        moves[t * width] = Move::token;
        costs[0] = kNowhere;
        for (std::size_t p = 1; p < width; ++p) {
            const float both = above[p - 1], token = above[p], position = costs[p - 1];
            Move move = Move::position;
            float cost = position;
            if (both < token && both < position)
                move = Move::both, cost = both;
            else if (token < both && token < position)
                move = Move::token, cost = token;
            moves[t * width + p] = move;
            costs[p] = static_cast<float>(cost - gains.row(t - 1)[p - 1]);
        }
        above.swap(costs);
    }
    return moves;
}

/// Where the path enters each token's row.
std::vector<std::uint32_t> begins_of(const std::vector<Move>& moves, std::size_t tokens, std::size_t positions) {
    std::vector<std::uint32_t> begins(tokens, 0);
    std::size_t t = tokens, p = positions;
    while (t > 0) {
        if (p > 0) begins[t - 1] = static_cast<std::uint32_t>(p - 1);
        const Move move = moves[t * (positions + 1) + p];
        if (move != Move::position) --t;
        if (move != Move::token) --p;
    }
    return begins;
}

}  // namespace

std::vector<std::uint32_t> token_positions(const HeadWeights& weights, std::uint32_t median_width) {
    Matrix head(weights.tokens, weights.positions), gains(weights.tokens, weights.positions);
    for (std::size_t h = 0; h < weights.heads; ++h) {
        std::ranges::copy(weights.values.subspan(h * head.values.size(), head.values.size()), head.values.begin());
        standardise_columns(head);
        for (std::size_t t = 0; t < head.tokens; ++t) smooth(head.row(t), median_width);
        for (std::size_t i = 0; i < gains.values.size(); ++i)
            gains.values[i] += head.values[i] / static_cast<double>(weights.heads);
    }
    return begins_of(best_moves(gains), weights.tokens, weights.positions);
}

}  // namespace vkformer::decoding
