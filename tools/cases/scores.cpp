// SPDX-License-Identifier: MIT
// The nodes that store the scores: attention in three steps, and the scores of recurrent models. The softmax over them is in
// softmax.cpp.
#include <algorithm>
#include <cmath>

#include "cases/families.hpp"
#include "core/try.hpp"

namespace vkformer::cases {
namespace {

/// The numbers of a shape, for the sums.
struct Counts {
    double queries, keys, heads, dim;
    double scores() const { return heads * queries * keys; }
    double query_elements() const { return queries * heads * dim; }
    double key_elements() const { return keys * heads * dim; }
};

Counts counts_of(const Family::Dims& shape) {
    return {static_cast<double>(shape[0]), static_cast<double>(shape[1]), static_cast<double>(shape[2]),
            static_cast<double>(shape[3])};
}

Result<Case> scores_case(const Family::Dims& shape, const Types& types) {
    const DType dtype = types.stored;
    const Counts n = counts_of(shape);
    const std::uint64_t queries = shape[0], keys = shape[1], heads = shape[2], dim = shape[3];
    return Case{.op = "attention_scores",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = 2 * n.scores() * n.dim,
                         .read = bytes_of(dtype, n.query_elements() + n.key_elements()),
                         .written = 4 * n.scores(),
                         .arithmetic = arithmetic_of(dtype)},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto query, b.input("query", dtype, {1, queries, heads, dim}));
                    VKFORMER_TRY(const auto key, b.input("key", dtype, {1, keys, heads, dim}));
                    const float scale = 1 / std::sqrt(static_cast<float>(dim));
                    VKFORMER_TRY(const auto y, graph::attention_scores(b.graph, query, key, scale));
                    b.result(y);
                    return {};
                }};
}

Result<Case> weighted_sum_case(const Family::Dims& shape, const Types& types) {
    const DType dtype = types.stored;
    const Counts n = counts_of(shape);
    const std::uint64_t queries = shape[0], keys = shape[1], heads = shape[2], dim = shape[3];
    return Case{.op = "weighted_sum",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = 2 * n.scores() * n.dim,
                         .read = 4 * n.scores() + bytes_of(dtype, n.key_elements()),
                         .written = bytes_of(dtype, n.query_elements()),
                         .arithmetic = arithmetic_of(dtype)},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto weights, b.input("weights", DType::f32, {1, heads, queries, keys}));
                    VKFORMER_TRY(const auto value, b.input("value", dtype, {1, keys, heads, dim}));
                    VKFORMER_TRY(const auto y, graph::weighted_sum(b.graph, weights, value));
                    b.result(y);
                    return {};
                }};
}

Result<Case> additive_case(const Family::Dims& shape, const Types& types) {
    const DType dtype = types.stored;
    const Counts n = counts_of(shape);
    const std::uint64_t queries = shape[0], keys = shape[1], heads = shape[2], dim = shape[3];
    return Case{.op = "additive_scores",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = 4 * n.scores() * n.dim,  // sum, tanh, product, sum
                         .read = bytes_of(dtype, n.query_elements() + n.key_elements() + n.heads * n.dim),
                         .written = 4 * n.scores()},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto query, b.input("query", dtype, {1, queries, heads, dim}));
                    VKFORMER_TRY(const auto key, b.input("key", dtype, {1, keys, heads, dim}));
                    VKFORMER_TRY(const auto weight, b.weight("weight", dtype, {heads, dim}));
                    VKFORMER_TRY(const auto y, graph::additive_scores(b.graph, query, key, weight));
                    b.result(y);
                    return {};
                }};
}

Result<Case> relative_bias_case(const Family::Dims& shape, const Types& types) {
    const std::uint64_t queries = shape[0], keys = shape[1], heads = shape[2], reach = 128;
    const double scores = static_cast<double>(queries * keys * heads);
    return Case{.op = "relative_bias",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = 0, .read = 4 * static_cast<double>(heads * (2 * reach + 1)), .written = 4 * scores},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto table, b.input("table", DType::f32, {heads, 2 * reach + 1}));
                    VKFORMER_TRY(const auto starts, b.ints("starts", {1}, {static_cast<std::int32_t>(keys - queries)}));
                    VKFORMER_TRY(const auto y, graph::relative_bias(b.graph, table, starts, queries, keys));
                    b.result(y);
                    return {};
                }};
}

Result<Case> relative_scores_case(const Family::Dims& shape, const Types& types) {
    const std::uint64_t batch = shape[0], len = shape[1], heads = shape[2], rows = shape[3];
    const double scores = static_cast<double>(batch * heads * len * len);
    return Case{.op = "relative_scores",
                .shape = to_text(shape),
                .dtype = types.name(),
                .work = {.flops = scores,
                         .read = 8 * static_cast<double>(batch * heads * len * std::min(rows, 2 * len)),
                         .written = 4 * scores},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    // distances that are further apart than the table reaches have its first or last row
                    const auto last = static_cast<std::int32_t>(rows) - 1, reach = static_cast<std::int32_t>(len) - 1;
                    std::vector<std::int32_t> index;
                    for (std::int32_t distance = -reach; distance <= reach; ++distance)
                        index.push_back(std::clamp(distance + last / 2, 0, last));
                    VKFORMER_TRY(const auto c2p, b.input("c2p", DType::f32, {1, heads, batch * len, rows}));
                    VKFORMER_TRY(const auto p2c, b.input("p2c", DType::f32, {1, heads, batch * len, rows}));
                    VKFORMER_TRY(const auto distances, b.ints("index", {2 * len - 1}, index));
                    VKFORMER_TRY(const auto y, graph::relative_scores(b.graph, c2p, p2c, distances, batch));
                    b.result(y);
                    return {};
                }};
}

Result<Case> local_softmax_case(const Family::Dims& shape, const Types& types) {
    const std::uint64_t batch = shape[0], keys = shape[1], half_width = shape[2];
    const double window = static_cast<double>(batch * std::min(2 * half_width + 1, keys));
    const double elements = static_cast<double>(batch * keys);
    return Case{.op = "local_softmax",
                .shape = to_text(shape),
                .dtype = types.name(),
                // maximum, subtraction, exp, sum, quotient; what lies outside the window is written, not read
                .work = {.flops = 5 * window, .read = 4 * window, .written = 4 * elements},
                .build = [=](CaseBuilder& b) -> Result<void> {
                    VKFORMER_TRY(const auto scores, b.input("scores", DType::f32, {batch, 1, 1, keys}, 4));
                    const std::vector<std::int32_t> middle(batch, static_cast<std::int32_t>(keys / 2));
                    VKFORMER_TRY(const auto positions, b.ints("positions", {batch, 1}, middle));
                    VKFORMER_TRY(const auto y,
                                 graph::local_softmax(
                                     b.graph, scores,
                                     {.half_width = static_cast<std::uint32_t>(half_width), .positions = positions}));
                    b.result(y);
                    return {};
                }};
}

}  // namespace

void add_scores_cases(std::vector<Family>& families) {
    families.push_back({.name = "attention_scores",
                        .op = "attention_scores",
                        .dims = "queries x keys x heads x head_dim",
                        .types = {DType::f32, DType::f16},
                        .shapes = {{512, 512, 9, 64}},
                        .gpu_shapes = {{2048, 2048, 32, 128}},
                        .make = scores_case});
    families.push_back({.name = "weighted_sum",
                        .op = "weighted_sum",
                        .dims = "queries x keys x heads x value_dim",
                        .types = {DType::f32, DType::f16},
                        .shapes = {{512, 512, 9, 64}},
                        .gpu_shapes = {{2048, 2048, 32, 128}},
                        .compiled = {{{1, 8, 1, 2048}, {DType::f32, DType::f16}}},
                        .make = weighted_sum_case});
    families.push_back({.name = "additive_scores",
                        .op = "additive_scores",
                        .dims = "queries x keys x heads x dim",
                        .types = {DType::f32, DType::f16},
                        .shapes = {{32, 64, 1, 512}},
                        .make = additive_case});
    families.push_back({.name = "relative_bias",
                        .op = "relative_bias",
                        .dims = "queries x keys x heads",
                        .types = {DType::f32},
                        .shapes = {{512, 512, 8}, {1, 512, 8}},
                        .make = relative_bias_case});
    families.push_back({.name = "relative_scores",
                        .op = "relative_scores",
                        .dims = "sequences x len x heads x rows",
                        .types = {DType::f32},
                        .shapes = {{8, 64, 12, 128}, {4, 384, 12, 512}},
                        .make = relative_scores_case});
    families.push_back({.name = "local_softmax",
                        .op = "local_softmax",
                        .dims = "sequences x keys x half_width",
                        .types = {DType::f32},
                        .shapes = {{32, 512, 10}},
                        .make = local_softmax_case});
}

}  // namespace vkformer::cases
