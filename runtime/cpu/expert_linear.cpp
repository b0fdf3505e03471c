// SPDX-License-Identifier: MIT
#include <limits>
#include <numeric>
#include <vector>

#include "cpu/float_product.hpp"
#include "cpu/linear.hpp"
#include "cpu/packed_linear.hpp"
#include "cpu/rows.hpp"
#include "cpu/twins.hpp"

namespace vkformer::cpu {
namespace {

struct ExpertDims {
    std::size_t in, out, experts;
    std::size_t sharing;  // pairs that have one row of x
};

/// Pairs of a row and one of its experts, by expert: those of expert e are order[begins[e]] … order[begins[e + 1] − 1], and those of experts
/// that there are not the last.
struct SortedPairs {
    std::vector<std::size_t> order, begins;

    SortedPairs(std::span<const std::int32_t> chosen, std::size_t experts) : order(chosen.size()), begins(experts + 2) {
        const auto group = [&](std::size_t pair) {
            const auto expert = static_cast<std::uint32_t>(chosen[pair]);  // a negative one becomes larger than any
            return std::min<std::size_t>(expert, experts);
        };
        for (std::size_t pair = 0; pair < order.size(); ++pair) ++begins[group(pair) + 1];
        std::partial_sum(begins.begin(), begins.end(), begins.begin());
        std::vector<std::size_t> next(begins.begin(), begins.end() - 1);
        for (std::size_t pair = 0; pair < order.size(); ++pair) order[next[group(pair)]++] = pair;
    }
    std::span<const std::size_t> of(std::size_t expert) const {
        return std::span(order).subspan(begins[expert], begins[expert + 1] - begins[expert]);
    }
};

/// The product of an expert with the rows of its pairs, which are brought together for it and its results spread again.
template <std::floating_point T>
class Gathered {
public:
    Gathered(std::span<const T> x, const ExpertDims& dims, std::span<T> y) : x_(x), dims_(dims), y_(y) {}

    void run(std::span<const std::size_t> pairs, auto&& multiply) {
        const std::size_t rows = pairs.size(), in = dims_.in, out = dims_.out;
        xs_.resize(rows * in);
        ys_.resize(rows * out);
        for_rows(rows, in / 8 + 1, [&](std::size_t row) {
            std::ranges::copy(row_of(x_, pairs[row] / dims_.sharing, in), row_of(std::span(xs_), row, in).begin());
        });
        multiply(std::span<const T>(xs_), LinearDims{.rows = rows, .in = in, .out = out}, std::span(ys_));
        for_rows(rows, out / 8 + 1, [&](std::size_t row) {
            std::ranges::copy(row_of(std::span(ys_), row, out), row_of(y_, pairs[row], out).begin());
        });
    }

private:
    std::span<const T> x_;
    ExpertDims dims_;
    std::span<T> y_;
    std::vector<T> xs_, ys_;
};

void float_row_products(std::span<const float> x, std::span<const float> weight, std::span<const RowProduct> products,
                        const ExpertDims& dims, std::span<float> y) {
    const auto multiply = [&](const RowProduct& product, std::size_t first, std::size_t last) {
        float* const to = y.data() + product.y_row * dims.out + first;
        std::fill_n(to, last - first, 0.0f);
        float_panel_kernels().add_transposed({.rows = 1,
                                              .columns = last - first,
                                              .depth = dims.in,
                                              .x = x.data() + product.x_row * dims.in,
                                              .x_stride = dims.in,
                                              .w = weight.data() + (product.first_row + first) * dims.in,
                                              .w_stride = dims.in,
                                              .y = to,
                                              .y_stride = dims.out});
    };
    for_columns_of(products, dims.in, dims.out, dims.in * sizeof(float), multiply);
}

}  // namespace

// y[p, :] = W_e · x[p / sharing], e = chosen[p]     x: [pairs / sharing, in], weight: [experts · out, in], y: [pairs, out]; NaN for an e
// that is no expert. Shazeer et al. 2017, eq. 2.
template <std::floating_point T>
void execute(const graph::ExpertLinear& op, const Operands<T>& operands) {
    const std::size_t out = operands.width(op.y), slots = operands.width(op.experts);
    const ExpertDims dims{.in = operands.width(op.x),
                          .out = out,
                          .experts = operands.rows(op.weight) / out,
                          .sharing = operands.shape(op.x).rank() == 3 ? 1 : slots};
    const std::span<const T> x = operands.floats(op.x), weight = operands.floats(op.weight);
    const std::span<T> y = operands.floats(op.y);
    const PackedWeight* const packed = operands.packed(op.weight);
    constexpr std::size_t kFewRows = 4;  // of one expert, of which each reads its matrix
    const std::size_t most_single = std::same_as<T, double> ? 0 : packed ? most_single_rows(*packed) : kFewRows;

    const SortedPairs pairs(operands.ints(op.experts), dims.experts);
    for (const std::size_t pair : pairs.of(dims.experts))
        std::ranges::fill(row_of(y, pair, out), std::numeric_limits<T>::quiet_NaN());
    Gathered<T> gathered(x, dims, y);
    std::vector<RowProduct> single;
    for (std::size_t e = 0; e < dims.experts; ++e) {
        const std::span<const std::size_t> own = pairs.of(e);
        if (own.size() <= most_single) {
            for (const std::size_t pair : own) single.push_back({pair / dims.sharing, pair, e * out});
            continue;
        }
        gathered.run(own, [&](std::span<const T> xs, const LinearDims& product, std::span<T> ys) {
            using enum graph::Activation;
            if constexpr (std::same_as<T, float>) {
                if (packed) return packed_linear(xs, rows_of(*packed, e * out, out), {}, {}, none, product, ys);
            }
            linear<T>(xs, weight.subspan(e * out * dims.in, out * dims.in), {}, {}, none, product, ys);
        });
    }
    if constexpr (std::same_as<T, float>) {
        if (packed) return packed_row_products(x, *packed, single, out, y);
        float_row_products(x, weight, single, dims, y);
    }
}
template void execute(const graph::ExpertLinear&, const Operands<float>&);
template void execute(const graph::ExpertLinear&, const Operands<double>&);

// a sum as Linear's
ErrorRule error_rule(const graph::ExpertLinear& op, const graph::Graph& graph) {
    return {8, 8, graph.shape(op.x).back()};
}

}  // namespace vkformer::cpu
