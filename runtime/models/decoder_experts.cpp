// SPDX-License-Identifier: MIT
// A decoder's feed-forward layers and mixtures of experts.
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "core/try.hpp"
#include "models/decoder_builder.hpp"
#include "models/weight_reader.hpp"

namespace vkformer::models {
namespace {

using graph::Value;

/// Matrices that follow each other in memory, as those of a stack do, as one.
std::vector<TensorData> in_few_parts(const std::vector<TensorData>& matrices) {
    std::vector<TensorData> parts;
    for (const TensorData& next : matrices) {
        if (!parts.empty()) {
            TensorData& last = parts.back();
            const bool follows = last.bytes.data() + last.bytes.size() == next.bytes.data() &&
                                 last.owner == next.owner && last.dtype == next.dtype;
            if (follows) {
                last.bytes = {last.bytes.data(), last.bytes.size() + next.bytes.size()};
                last.shape = {last.shape[0] + next.shape[0], next.shape[1]};
                continue;
            }
        }
        parts.push_back(next);
    }
    return parts;
}

}  // namespace

Result<Value> Decoder::Builder::feed_forward(const DecoderWeights::Layer& w, Value x, Value middle) {
    if (!w.experts) return dense(w, x);
    VKFORMER_TRY(Value y, mixture(w.experts, x, middle));
    if (w.experts.post_norm) {
        VKFORMER_TRY(y, norm("experts_post_norm", w.experts.post_norm, y));
    }
    if (!w.up) return y;
    VKFORMER_TRY(Value shared, dense(w, x));
    if (w.experts.shared_post_norm) {
        VKFORMER_TRY(shared, norm("shared_post_norm", w.experts.shared_post_norm, shared));
    }
    if (!w.experts.shared_router.bytes.empty()) {
        VKFORMER_TRY(shared, weigh_shared(w.experts, shared, x));
    }
    graph_.set_scope(name_ + ".experts");
    return graph::add(graph_, y, shared);
}

Result<Value> Decoder::Builder::mixture(const ExpertWeights& w, Value normed, Value middle) {
    const DecoderConfig::Experts& c = config_.experts;
    VKFORMER_TRY(const Value x, seen_by_experts("experts_norm", w.norm, normed, middle));
    VKFORMER_TRY(const Value routed, seen_by_experts("router_norm", w.router_norm, normed, middle));
    VKFORMER_TRY(const Value scores, scores_of("router", w.router, w.router_bias, routed));
    graph::RouteOptions options{.k = c.per_token,
                                .scores = c.scores,
                                .normalises = c.normalises,
                                .least_sum = c.least_sum,
                                .scale = c.scale,
                                .groups = c.groups,
                                .jitter = c.jitter};
    if (!w.choice_bias.bytes.empty()) {
        VKFORMER_TRY(options.bias, graph_.weight(name_ + ".router.choice_bias", w.choice_bias, DType::f32));
    }
    VKFORMER_TRY(auto route, graph::route_top_k(graph_, scores, options));
    if (!w.scales.bytes.empty()) {
        VKFORMER_TRY(const Value scales, graph_.weight(name_ + ".router.scales", w.scales, DType::f32));
        VKFORMER_TRY(const Value chosen, graph::embedding(graph_, route.indices, scales));
        VKFORMER_TRY(const Value factors, graph_.reshape(chosen, graph_.shape(route.weights)));
        VKFORMER_TRY(route.weights, graph::gated_activation(graph_, factors, route.weights, graph::Activation::none));
    }
    VKFORMER_TRY(const Value inner, inner_of_experts(w, x, route.indices));
    VKFORMER_TRY(Value y, project_experts("down", w.down, inner, route.indices));
    VKFORMER_TRY(y, add_expert_bias("down", {&w.down_bias}, y, route.indices));
    return weighted(route.weights, y);
}

Result<Value> Decoder::Builder::weigh_shared(const ExpertWeights& w, Value shared, Value x) {
    VKFORMER_TRY(const Value rows, token_rows(x));
    VKFORMER_TRY(const Value scores, scores_of("shared_router", w.shared_router, {}, rows));
    VKFORMER_TRY(const Value weights, graph::activate(graph_, scores, graph::Activation::sigmoid));
    return weighted(weights, shared);
}

Result<Value> Decoder::Builder::seen_by_experts(std::string_view what, const NormWeights& w, Value x, Value middle) {
    if (!w) return token_rows(x);
    VKFORMER_TRY(const Value own, norm(what, w, middle));
    return token_rows(own);
}

Result<Value> Decoder::Builder::token_rows(Value x) {
    return graph_.reshape(x, {std::uint64_t{layout_.rows} * layout_.len, graph_.shape(x).back()});
}

Result<Value> Decoder::Builder::weighted(Value weights, Value y) {
    const std::uint64_t tokens = graph_.shape(weights)[0], n = graph_.shape(weights)[1], d = config_.hidden_size;
    VKFORMER_TRY(const Value scores, graph_.reshape(weights, {tokens, 1, 1, n}));
    VKFORMER_TRY(const Value rows, graph_.reshape(y, {tokens, n, 1, d}));
    VKFORMER_TRY(const Value sum, graph::weighted_sum(graph_, scores, rows));
    return graph_.reshape(sum, {layout_.rows, layout_.len, d});
}

Result<Value> Decoder::Builder::scores_of(std::string_view what, const TensorData& router,
                                          const TensorData& router_bias, Value x) {
    const std::string scope = name_ + "." + std::string(what);
    graph_.set_scope(scope);
    VKFORMER_TRY(const Value weight, graph_.weight(scope + ".weight", router, storage_of(router)));
    VKFORMER_TRY(const Value bias, optional_weight(scope + ".bias", router_bias));
    return graph::linear(graph_, x, weight, bias, DType::f32);
}

Result<Value> Decoder::Builder::inner_of_experts(const ExpertWeights& w, Value x, Value experts) {
    if (!w.gate.empty()) return gated_experts(w, x, experts);
    VKFORMER_TRY(Value up, project_experts("up", w.up, x, experts));
    VKFORMER_TRY(up, add_expert_bias("up", {&w.up_bias}, up, experts));
    return graph::activate(graph_, up, config_.activation);
}

Result<Value> Decoder::Builder::gated_experts(const ExpertWeights& w, Value x, Value experts) {
    const DType stored = storage_of(w.gate.front());
    const bool can_join =
        storage_of(w.up.front()) == stored && graph::fills_words(stored, w.gate.front().shape.element_count());
    if (can_join) {
        std::vector<TensorData> parts;
        for (std::size_t e = 0; e < w.gate.size(); ++e) parts.insert(parts.end(), {w.gate[e], w.up[e]});
        VKFORMER_TRY(Value both, project_experts("gate_up", parts, x, experts));
        VKFORMER_TRY(both, add_expert_bias("gate_up", {&w.gate_bias, &w.up_bias}, both, experts));
        return graph::gated_activation(graph_, both, {}, config_.activation, config_.experts.clamp);
    }
    VKFORMER_TRY(Value up, project_experts("up", w.up, x, experts));
    VKFORMER_TRY(up, add_expert_bias("up", {&w.up_bias}, up, experts));
    VKFORMER_TRY(Value gate, project_experts("gate", w.gate, x, experts));
    VKFORMER_TRY(gate, add_expert_bias("gate", {&w.gate_bias}, gate, experts));
    return graph::gated_activation(graph_, gate, up, config_.activation, config_.experts.clamp);
}

Result<Value> Decoder::Builder::add_expert_bias(std::string_view what, std::initializer_list<const TensorData*> biases,
                                                Value y, Value experts) {
    if ((*biases.begin())->bytes.empty()) return y;
    std::vector<TensorData> parts;
    for (std::uint64_t e = 0; e < config_.experts.count; ++e)
        for (const TensorData* bias : biases) parts.push_back(rows_of(*bias, e, 1));
    const std::string scope = name_ + ".experts." + std::string(what);
    graph_.set_scope(scope);
    VKFORMER_TRY(const Value rows, graph_.weight(scope + ".bias", in_few_parts(parts), DType::f32));
    VKFORMER_TRY(const Value table, graph_.reshape(rows, {config_.experts.count, graph_.shape(y).back()}));
    VKFORMER_TRY(const Value chosen, graph::embedding(graph_, experts, table, 1, layout_.dtype));
    return graph::add(graph_, y, chosen);
}

Result<Value> Decoder::Builder::project_experts(std::string_view what, const std::vector<TensorData>& matrices, Value x,
                                                Value experts) {
    return project_each(name_ + ".experts." + std::string(what), in_few_parts(matrices), x, experts,
                        config_.experts.count);
}

Result<Value> Decoder::Builder::project_each(const std::string& scope, std::vector<TensorData> matrices, Value x,
                                             Value owners, std::uint64_t count) {
    graph_.set_scope(scope);
    const DType stored = storage_of(matrices.front());
    VKFORMER_TRY(const Value weight, graph_.weight(scope + ".weight", std::move(matrices), stored));
    return graph::expert_linear(graph_, x, weight, owners, count);
}

Result<Value> Decoder::Builder::dense(const DecoderWeights::Layer& w, Value x) {
    Value inner;
    if (w.gate.weight.bytes.empty()) {
        VKFORMER_TRY(const Value up, project("up", w.up, x));
        VKFORMER_TRY(inner, graph::activate(graph_, up, config_.activation));
    } else {
        VKFORMER_TRY(inner, gated(w, x));
    }
    return project("down", w.down, inner);
}

Result<Value> Decoder::Builder::gated(const DecoderWeights::Layer& w, Value x) {
    if (!w.gate_cutoff && can_join({&w.gate, &w.up})) {
        VKFORMER_TRY(const Value both, project_joined("gate_up", {&w.gate, &w.up}, x));
        graph_.set_scope(name_ + ".feed_forward");
        return graph::gated_activation(graph_, both, {}, config_.activation);
    }
    VKFORMER_TRY(const Value up, project("up", w.up, x));
    VKFORMER_TRY(Value gate, project("gate", w.gate, x));
    graph_.set_scope(name_ + ".feed_forward");
    if (w.gate_cutoff) {
        VKFORMER_TRY(gate, graph::gaussian_top_k(graph_, gate, *w.gate_cutoff));
    }
    return graph::gated_activation(graph_, gate, up, config_.activation);
}

}  // namespace vkformer::models
