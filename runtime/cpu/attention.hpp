// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "cpu/attention_mask.hpp"
#include "cpu/bfloat_pairs.hpp"
#include "cpu/blas.hpp"
#include "cpu/cache_places.hpp"
#include "cpu/parallel.hpp"
#include "cpu/soft_cap.hpp"
#include "cpu/softmax.hpp"

namespace vkformer::cpu {

/// Heads go to several threads in float. In double their products are a BLAS's, which has threads of its own.
template <std::floating_point T>
void over_threads(std::size_t count, std::size_t products, auto&& work) {
    if constexpr (std::same_as<T, float>)
        parallel_for(count, slice_of(count, products), work);
    else
        work(0, count, 0);
}

/// query [batch, query_len, heads, head_dim], key [batch, key_len, kv_heads, head_dim], value [batch, key_len, kv_heads,
/// value_dim], or both in pages. Head h reads key/value head h / (heads / kv_heads).
struct AttentionDims {
    std::size_t batch, query_len, key_len, heads, kv_heads, head_dim, value_dim;

    std::size_t kv_head(std::size_t head) const { return head / (heads / kv_heads); }
};

/// The operands of attention; layouts at AttentionDims.
template <std::floating_point T>
struct AttentionOperands {
    std::span<const T> query, key, value;
    CachePlaces places;  // of keys and values
    Mask<T> mask;
    T scale, soft_cap;  // soft_cap 0: none
    AttentionDims dims;
    bool rounds = false;  // to bfloat16: bfloat_pairs.hpp

    /// Queries as keys are multiplied by them, with the scale that the products get besides.
    T prepare(std::span<T> queries) const {
        if constexpr (std::same_as<T, float>)
            if (rounds) {
                for (T& x : queries) x *= scale;
                float_kernels().round_to_bfloats(queries.data(), queries.size());
                return 1;
            }
        return scale;
    }

    /// Calls visit(first, last, keys, values) for keys first … last − 1 of a sequence that lie side by side, with those of the head as
    /// matrices, until all in the range were visited.
    void for_each_run(std::size_t b, std::size_t h, KeyRange range, auto&& visit) const {
        places.for_each_run(b, range.first, range.last, [&](std::size_t first, std::size_t last, std::size_t row) {
            const std::size_t kv_row = row * dims.kv_heads + dims.kv_head(h);
            visit(first, last, Matrix<const T>{&key[kv_row * dims.head_dim], dims.kv_heads * dims.head_dim},
                  Matrix<const T>{&value[kv_row * dims.value_dim], dims.kv_heads * dims.value_dim});
        });
    }
};

/// Those of graph::Attention and of graph::DecodeAttention.
template <std::floating_point T>
AttentionOperands<T> attention_operands(const auto& op, const Operands<T>& operands) {
    return {.query = operands.floats(op.query),
            .key = operands.floats(op.key),
            .value = operands.floats(op.value),
            .places = cache_places(op.key, op.pages, operands),
            .mask = mask_of(op.mask, operands),
            .scale = static_cast<T>(op.scale),
            .soft_cap = static_cast<T>(op.soft_cap),
            .dims = {.batch = operands.dim(op.query, 0),
                     .query_len = operands.dim(op.query, 1),
                     .key_len = graph::capacity_of(operands.graph(), op.key, op.pages),
                     .heads = operands.dim(op.query, 2),
                     .kv_heads = operands.dim(op.key, 2),
                     .head_dim = operands.dim(op.query, 3),
                     .value_dim = operands.dim(op.value, 3)},
            .rounds = operands.rounds_to_bfloats(op.key) && operands.rounds_to_bfloats(op.value)};
}

/// Scores become weights, and m is not below `least`: softmax.hpp, or bfloat_pairs.hpp.
template <std::floating_point T>
SoftmaxTerms<T> weights_of(const AttentionOperands<T>& o, std::span<T> scores,
                           T least = -std::numeric_limits<T>::infinity()) {
    if constexpr (std::same_as<T, float>)
        if (o.rounds) return exponentiate_to_bfloats(scores, least);
    return exponentiate(scores, least);
}

/// Some heads that read one key/value head.
struct HeadRange {
    std::size_t first, count;
};

/// The products of a block's rows with keys and of their weights with values; PairedProducts has the same of bfloat16.
template <std::floating_point T>
class FloatProducts {
public:
    /// x: [rows, depth] is borrowed. together: so many rows of weights go through a product at once.
    FloatProducts(std::size_t rows, std::size_t together, std::size_t depth, T scale, std::span<const T> x)
        : rows_(rows), together_(together), queries_(rows, depth, scale, {x.data(), depth}) {}

    /// scores[rows, keys] += scale · x · keyᵀ
    void add_scores(std::size_t keys, Matrix<const T> key, Matrix<T> scores) { queries_.add(keys, key, scores); }
    /// sums[rows, columns] += weights[rows, keys] · values[keys, columns]
    void add_values(std::size_t keys, std::size_t columns, Matrix<const T> weights, Matrix<const T> values,
                    Matrix<T> sums) {
        for_columns(keys, columns, values, scratch_, [&](std::size_t column, std::size_t count, Matrix<const T> some) {
            for (std::size_t r = 0; r < rows_; r += together_)  // by heads: sums do not depend on how many there are
                add_small_product(together_, count, keys, {weights.data + r * weights.stride, weights.stride}, some,
                                  {sums.data + r * sums.stride + column, sums.stride});
        });
    }

private:
    std::size_t rows_, together_;
    SmallProduct<T> queries_;
    std::vector<T> scratch_;
};

/// Neighbouring queries of some heads, whose common keys go through matrix products instead of many with a vector, all heads' through the
/// same one. Some keys at a time: their weights stay in a cache, and what the keys before have given is scaled where a larger score comes.
/// Milakov and Gimelshein 2018, "Online normalizer calculation for softmax"; Dao et al. 2022, "FlashAttention".
template <std::floating_point T>
class QueryBlock {
public:
    QueryBlock(const AttentionOperands<T>& o, std::size_t b, HeadRange heads, std::size_t first, std::size_t count)
        : o_(o), dims_(o.dims), b_(b), heads_(heads), first_(first), count_(count) {
        common_ = {0, dims_.key_len};
        reach_ = {dims_.key_len, 0};
        for (std::size_t i = 0; i < count; ++i) {
            const KeyRange keys = seen(i);
            common_ = {std::max(common_.first, keys.first), std::min(common_.last, keys.last)};
            if (keys.first < keys.last) reach_ = {std::min(reach_.first, keys.first), std::max(reach_.last, keys.last)};
        }
        if (common_.first >= common_.last) common_ = {reach_.first, reach_.first};
    }

    /// y: zeros before. Keys that a query does not see are not even read for it.
    void attend(std::span<T> y) const {
        if (reach_.first >= reach_.last) return;
        std::vector<T> x = gathered_queries();
        const T scale = o_.prepare(x);
        const std::size_t common_rows = common_.first < common_.last ? rows() : 0;
        if constexpr (std::same_as<T, float>) {
            const BfloatPairKernels* const pairs = o_.rounds ? bfloat_pair_kernels() : nullptr;
            if (pairs != nullptr && rows() >= kLeastTiledRows)
                return attend_with(PairedProducts(*pairs, common_rows, count_, dims_.head_dim, x), {x, scale}, y);
        }
        attend_with(FloatProducts<T>(common_rows, count_, dims_.head_dim, scale, x), {x, scale}, y);
    }

private:
    struct Queries {
        std::span<const T> x;  // [rows, head_dim]
        T scale;
    };

    void attend_with(auto products, const Queries& queries, std::span<T> y) const {
        std::vector<T> weights(rows() * std::min(kKeysAtOnce, reach_.last - reach_.first));
        std::vector<T> sums(rows() * dims_.value_dim, T{0});
        std::vector<SoftmaxTerms<T>> terms(rows(), {-std::numeric_limits<T>::infinity(), 0});
        for (std::size_t first = reach_.first, last; first < reach_.last; first = last) {
            last = std::min((first / kKeysAtOnce + 1) * kKeysAtOnce, reach_.last);
            const Part part{{first, last}, weights};
            std::ranges::fill(weights, T{0});
            score(part, queries, products);
            for (std::size_t r = 0; r < rows(); ++r) softmax(part, r, terms[r], sum_of(r, sums));
            add_values(part, sums, products);
        }
        for (std::size_t r = 0; r < rows(); ++r) {
            if (terms[r].sum == 0) continue;
            const T sum = terms[r].sum + o_.mask.sink_weight(head(r), terms[r].max);
            const std::span<T> from = sum_of(r, sums);
            for (std::size_t v = 0; v < dims_.value_dim; ++v) y[place(r) * dims_.value_dim + v] = from[v] / sum;
        }
    }

    /// Whole pages. Weights of 128 rows take 128 KiB.
    static constexpr std::size_t kKeysAtOnce = 256;
    static_assert(kKeysAtOnce % graph::kPageLen == 0);

    /// Some neighbouring keys, and the scores or weights of all rows for them.
    struct Part {
        KeyRange keys;
        std::span<T> weights;  // [rows, keys]
        std::size_t stride() const { return keys.last - keys.first; }
        T* at(std::size_t row, std::size_t key) const { return &weights[row * stride() + key - keys.first]; }
    };

    // Rows: all queries of the first head, then those of the next one.
    std::size_t rows() const { return heads_.count * count_; }
    std::size_t head(std::size_t row) const { return heads_.first + row / count_; }
    std::size_t query(std::size_t row) const { return first_ + row % count_; }
    /// Of the row among all queries and heads.
    std::size_t place(std::size_t row) const { return (b_ * dims_.query_len + query(row)) * dims_.heads + head(row); }
    std::span<T> sum_of(std::size_t row, std::span<T> sums) const {
        return sums.subspan(row * dims_.value_dim, dims_.value_dim);
    }

    KeyRange seen(std::size_t i) const { return o_.mask.seen_keys(b_, first_ + i, dims_.key_len); }
    /// The keys of a row in the part that are not common, on both sides.
    std::array<KeyRange, 2> own_keys(const Part& part, std::size_t row) const {
        const KeyRange keys = common_part(part.keys, seen(row % count_)), common = common_part(part.keys, common_);
        if (common.first == common.last) return {keys, {0, 0}};
        return {KeyRange{keys.first, common.first}, KeyRange{common.last, keys.last}};
    }

    std::vector<T> gathered_queries() const {
        std::vector<T> x(rows() * dims_.head_dim);
        for (std::size_t r = 0; r < rows(); ++r)
            std::ranges::copy(o_.query.subspan(place(r) * dims_.head_dim, dims_.head_dim), &x[r * dims_.head_dim]);
        return x;
    }

    void score(const Part& part, const Queries& queries, auto& products) const {
        using Keys = Matrix<const T>;
        o_.for_each_run(b_, heads_.first, common_part(part.keys, common_),
                        [&](std::size_t first, std::size_t last, Keys keys, Keys) {
                            products.add_scores(last - first, keys, {part.at(0, first), part.stride()});
                        });
        for (std::size_t r = 0; r < rows(); ++r)
            for (const KeyRange& own : own_keys(part, r))
                o_.for_each_run(b_, heads_.first, own, [&](std::size_t first, std::size_t last, Keys keys, Keys) {
                    add_matrix_vector(last - first, dims_.head_dim, queries.scale, keys, &queries.x[r * dims_.head_dim],
                                      part.at(r, first));
                });
    }

    /// Scores of a row become weights; `terms` and `sums` are those of the keys so far.
    void softmax(const Part& part, std::size_t row, SoftmaxTerms<T>& terms, std::span<T> sums) const {
        const auto [first, last] = common_part(part.keys, seen(row % count_));
        if (first >= last) return;
        const std::span<T> scores(part.at(row, first), last - first);
        if (o_.soft_cap != 0)
            for (T& score : scores) score = soft_capped(score, o_.soft_cap);
        for (std::size_t j = 0; j < scores.size() && !o_.mask.additive.empty(); ++j)
            scores[j] += o_.mask.addend(b_, head(row), query(row), first + j, dims_.key_len);
        const SoftmaxTerms<T> more = weights_of(o_, scores, terms.max);
        if (terms.sum != 0 && more.max != terms.max) {
            const T scale = std::exp(terms.max - more.max);
            terms.sum *= scale;
            for (T& sum : sums) sum *= scale;
        }
        terms = {more.max, terms.sum + more.sum};
    }

    void add_values(const Part& part, std::span<T> sums, auto& products) const {
        using Values = Matrix<const T>;
        o_.for_each_run(b_, heads_.first, common_part(part.keys, common_),
                        [&](std::size_t first, std::size_t last, Values, Values values) {
                            products.add_values(last - first, dims_.value_dim, {part.at(0, first), part.stride()},
                                                values, {sums.data(), dims_.value_dim});
                        });
        for (std::size_t r = 0; r < rows(); ++r)
            for (const KeyRange& own : own_keys(part, r))
                o_.for_each_run(b_, heads_.first, own, [&](std::size_t first, std::size_t last, Values, Values values) {
                    add_vector_matrix(last - first, dims_.value_dim, part.at(r, first), values,
                                      &sums[r * dims_.value_dim]);
                });
    }

    const AttentionOperands<T>& o_;
    const AttentionDims& dims_;
    std::size_t b_;
    HeadRange heads_;
    std::size_t first_, count_;
    KeyRange common_, reach_;  // seen by every query, by any query
};

// y[b, i, h, :] = Σ_j exp(s_j − m) · value[b, j, kv_head(h), :] / (Σ_j exp(s_j − m) + exp(sink_h − m)), over the keys j that the query
// sees, the last term with sinks only; zeros where it sees none. y: [batch, query_len, heads, value_dim]. Vaswani et al. 2017, eq. 1.
template <std::floating_point T>
void attention(const AttentionOperands<T>& o, std::span<T> y) {
    constexpr std::size_t kBlock = 32;  // queries: the keys on the edge of a causal mask are few beside the common ones
    constexpr std::size_t kHeads = 4;
    const AttentionDims& dims = o.dims;
    std::ranges::fill(y, T{0});
    const std::size_t blocks = (dims.query_len + kBlock - 1) / kBlock, queries = std::min(kBlock, dims.query_len);
    // Several heads where that leaves some blocks for each thread.
    const std::size_t group = dims.heads / dims.kv_heads, shares = 4 * parallel_threads();
    const std::size_t together =
        std::clamp<std::size_t>(dims.batch * dims.heads * blocks / shares, 1, std::min(kHeads, group));
    const std::size_t parts = (group + together - 1) / together;  // of a group
    const auto attend = [&](std::size_t first, std::size_t last, std::size_t) {
        for (std::size_t n = first; n < last; ++n) {
            const std::size_t i = n % blocks * kBlock, count = std::min(kBlock, dims.query_len - i);
            const std::size_t part = n / blocks % parts * together, heads = std::min(together, group - part);
            const std::size_t kv_head = n / blocks / parts % dims.kv_heads, b = n / blocks / parts / dims.kv_heads;
            // Few queries of several heads would be enough for tiles, and sums depend on the number of threads.
            const std::size_t each = count < kLeastTiledRows ? 1 : heads;
            for (std::size_t h = 0; h < heads; h += each)
                QueryBlock<T>(o, b, {kv_head * group + part + h, each}, i, count).attend(y);
        }
    };
    over_threads<T>(dims.batch * dims.kv_heads * parts * blocks,
                    together * queries * dims.key_len * (dims.head_dim + dims.value_dim), attend);
}

}  // namespace vkformer::cpu
