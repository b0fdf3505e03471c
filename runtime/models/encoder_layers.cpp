// SPDX-License-Identifier: MIT
#include "models/encoder_layers.hpp"

#include <cmath>

#include "core/try.hpp"

namespace vkformer::models {

using graph::Value;

Result<Value> EncoderLayers::stack(const std::string& name, std::span<const EncoderLayerWeights> layers, Value x,
                                   const EncoderPass& pass) const {
    if (pass.wanted.hidden) keep_output(graph_, x, pass.values->hidden);
    for (std::size_t index = 0; index < layers.size(); ++index) {
        const EncoderLayerWeights& w = layers[index];
        const std::string layer = name + "." + std::to_string(index);
        const std::string attention_norm = layer + ".attention_norm", feed_forward_norm = layer + ".feed_forward_norm";
        if (config_.norm_place == NormPlace::behind) {
            VKFORMER_TRY(const Value seen, self_attention(layer, w, x, pass));
            VKFORMER_TRY(const Value sum, add(attention_norm, x, seen));
            VKFORMER_TRY(const Value y, norm(attention_norm, w.attention_norm, sum));
            VKFORMER_TRY(const Value outer, feed_forward(layer, w, y));
            VKFORMER_TRY(const Value total, add(feed_forward_norm, y, outer));
            VKFORMER_TRY(x, norm(feed_forward_norm, w.feed_forward_norm, total));
        } else {
            VKFORMER_TRY(const Value normed, norm(attention_norm, w.attention_norm, x));
            VKFORMER_TRY(const Value seen, self_attention(layer, w, normed, pass));
            VKFORMER_TRY(const Value y, add(layer, x, seen));
            VKFORMER_TRY(const Value normed_y, norm(feed_forward_norm, w.feed_forward_norm, y));
            VKFORMER_TRY(const Value outer, feed_forward(layer, w, normed_y));
            VKFORMER_TRY(x, add(layer, y, outer));
        }
        if (pass.wanted.hidden) keep_output(graph_, x, pass.values->hidden);
    }
    return x;
}

/// output(softmax(query · keyᵀ / √head_dim + mask) · value), all of x; with disentangled attention √(head_dim · terms) and their scores.
Result<Value> EncoderLayers::self_attention(const std::string& name, const EncoderLayerWeights& w, Value x,
                                            const EncoderPass& pass) const {
    VKFORMER_TRY(Value query, heads(name + ".query", w.query, x));
    VKFORMER_TRY(Value key, heads(name + ".key", w.key, x));
    VKFORMER_TRY(const Value value, heads(name + ".value", w.value, x));
    graph_.set_scope(name);
    const std::uint64_t terms = 1u + config_.c2p + config_.p2c;
    const float scale = 1.0f / std::sqrt(static_cast<float>(graph_.shape(query).back() * terms));
    if (pass.turns) {
        VKFORMER_TRY(query, graph::rope(graph_, query, pass.turns, {}, graph::RopePairing::halves));
        VKFORMER_TRY(key, graph::rope(graph_, key, pass.turns, {}, graph::RopePairing::halves));
    }
    graph::AttentionMask mask = pass.mask;
    if (pass.relative) {
        VKFORMER_TRY(mask.additive, relative_scores(name, w, query, key, scale, pass));
    }
    Value seen;
    if (pass.wanted.attention) {
        VKFORMER_TRY(const auto both, graph::attention_with_weights(graph_, query, key, value, mask, scale));
        pass.values->attention.push_back(both.weights);
        seen = both.seen;
    } else {
        VKFORMER_TRY(seen, graph::attention(graph_, query, key, value, mask, scale));
    }
    VKFORMER_TRY(const Value joined, graph_.reshape(seen, graph_.shape(x)));
    return linear(name + ".output", w.output, joined);
}

/// The rows for distances are the same for all texts: what is projected is one text's, and queries and keys are taken as one text, too.
Result<Value> EncoderLayers::relative_scores(const std::string& name, const EncoderLayerWeights& w, Value query,
                                             Value key, float scale, const EncoderPass& pass) const {
    const Shape shape = graph_.shape(query);
    const auto term = [&](const std::string& part, const Projection& projection, Value content) -> Result<Value> {
        VKFORMER_TRY(const Value rows, heads(name + part, projection, pass.relative));
        VKFORMER_TRY(const Value text, graph_.reshape(content, {1, shape[0] * shape[1], shape[2], shape[3]}));
        return graph::attention_scores(graph_, text, rows, scale);
    };
    Value c2p, p2c;
    if (config_.c2p) {
        const bool is_own = !!w.relative_key;
        VKFORMER_TRY(c2p, term(is_own ? ".relative_key" : ".key", is_own ? w.relative_key : w.key, query));
    }
    if (config_.p2c) {
        const bool is_own = !!w.relative_query;
        VKFORMER_TRY(p2c, term(is_own ? ".relative_query" : ".query", is_own ? w.relative_query : w.query, key));
    }
    graph_.set_scope(name);
    return graph::relative_scores(graph_, c2p, p2c, pass.distances, shape[0]);
}

Result<Value> EncoderLayers::feed_forward(const std::string& name, const EncoderLayerWeights& w, Value x) const {
    VKFORMER_TRY(Value inner, linear(name + ".up", w.up, x));
    if (w.gate) {
        VKFORMER_TRY(const Value gate, linear(name + ".gate", w.gate, x));
        VKFORMER_TRY(inner, graph::gated_activation(graph_, gate, inner, config_.activation));
    } else {
        VKFORMER_TRY(inner, graph::activate(graph_, inner, config_.activation));
    }
    return linear(name + ".down", w.down, inner);
}

Result<Value> EncoderLayers::heads(const std::string& name, const Projection& projection, Value x) const {
    VKFORMER_TRY(const Value y, linear(name, projection, x));
    const Shape& shape = graph_.shape(y);
    return graph_.reshape(y, {shape[0], shape[1], config_.heads, config_.hidden_size / config_.heads});
}

Result<Value> EncoderLayers::matrix(const std::string& name, const TensorData& data) const {
    return graph_.weight(name, data, is_quantized(data.dtype) ? data.dtype : dtype_);
}

Result<Value> EncoderLayers::linear(const std::string& name, const Projection& projection, Value x) const {
    graph_.set_scope(name);
    VKFORMER_TRY(const Value weight, matrix(name + ".weight", projection.weight));
    Value bias;
    if (!projection.bias.bytes.empty()) {
        VKFORMER_TRY(bias, graph_.weight(name + ".bias", projection.bias, dtype_));
    }
    VKFORMER_TRY(const Value y, graph::linear(graph_, x, weight, bias));
    return adapters_.add(name, {&projection}, x, y);
}

Result<Value> EncoderLayers::norm(const std::string& name, const NormWeights& norm, Value x) const {
    graph_.set_scope(name);
    VKFORMER_TRY(const Value gain, graph_.weight(name + ".gain", norm.gain, dtype_));
    Value bias;
    if (!norm.bias.bytes.empty()) {
        VKFORMER_TRY(bias, graph_.weight(name + ".bias", norm.bias, dtype_));
    }
    return graph::layer_norm(graph_, x, gain, bias, config_.norm_eps);
}

Result<Value> EncoderLayers::add(const std::string& name, Value x, Value y) const {
    graph_.set_scope(name);
    return graph::add(graph_, x, y);
}

}  // namespace vkformer::models
