// SPDX-License-Identifier: MIT
#include "graph/work.hpp"

#include "graph/pages.hpp"

namespace vkformer::graph {
namespace {

double elements(const Graph& graph, Value value) { return static_cast<double>(graph.shape(value).element_count()); }

/// A dimension, counted from the last one, which is 1.
double dim(const Graph& graph, Value value, std::size_t from_last) {
    const Shape& shape = graph.shape(value);
    return static_cast<double>(shape[shape.rank() - from_last]);
}

double all_elements(const Op& op, const Graph& graph) {
    double sum = 0;
    for_each_operand(op, [&](std::string_view, Value value, Access) {
        if (graph.tensor(graph.storage(value)).kind != TensorKind::weight) sum += elements(graph, value);
    });
    return sum;
}

/// Of op types without a product: none.
constexpr double kNoProduct = -1;
double work(const auto&, const Graph&) { return kNoProduct; }

double work(const Linear& op, const Graph& graph) { return elements(graph, op.x) * dim(graph, op.weight, 2); }

double work(const ExpertLinear& op, const Graph& graph) { return elements(graph, op.y) * dim(graph, op.weight, 1); }

double work(const AttentionScores& op, const Graph& graph) {
    return elements(graph, op.scores) * dim(graph, op.query, 1);
}

double work(const AdditiveScores& op, const Graph& graph) {
    return elements(graph, op.scores) * dim(graph, op.query, 1);
}

double work(const WeightedSum& op, const Graph& graph) { return elements(graph, op.weights) * dim(graph, op.value, 1); }

/// Every key against every query, and its value by its weight.
double attention_work(const auto& op, const Graph& graph) {
    return static_cast<double>(capacity_of(graph, op.key, op.pages)) *
           (elements(graph, op.query) + elements(graph, op.y));
}
double work(const Attention& op, const Graph& graph) { return attention_work(op, graph); }
double work(const DecodeAttention& op, const Graph& graph) { return attention_work(op, graph); }

double work(const RecurrentLayer& op, const Graph& graph) {
    return elements(graph, op.gates) * dim(graph, op.weight, 1);
}

/// Of each value of a token, a walk over its column of the state: what it holds for the key, the correction, and what it holds for the query.
double work(const GatedDeltaRule& op, const Graph& graph) {
    return 3 * elements(graph, op.y) * dim(graph, op.state, 2);
}

/// Likewise, what is added and what comes of it.
double work(const SelectiveScan& op, const Graph& graph) { return 2 * elements(graph, op.y) * dim(graph, op.state, 2); }

}  // namespace

double work_of(const Op& op, const Graph& graph) {
    const double products = visit_op([&](const auto& one) { return work(one, graph); }, op);
    return products == kNoProduct ? all_elements(op, graph) : products;
}

}  // namespace vkformer::graph
