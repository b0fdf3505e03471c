// SPDX-License-Identifier: MIT
// A decoder from tokens to logits: embeddings, layers around what mixes tokens and what does not, norms and projections.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numbers>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/try.hpp"
#include "graph/builders/constant.hpp"
#include "models/decoder_builder.hpp"
#include "models/weight_reader.hpp"

namespace vkformer::models {
namespace {

using graph::Value;

/// The first row of a table, `count` times.
Result<TensorData> repeated_row(const TensorData& table, std::uint64_t count) {
    const std::uint64_t width = table.shape.back();
    std::vector<float> rows(count * width);
    const std::span<float> first = std::span(rows).first(width);
    VKFORMER_CHECK(convert(table.dtype, table.bytes, 0, first));
    for (std::size_t i = width; i < rows.size(); ++i) rows[i] = first[i % width];
    return float_tensor({count, width}, std::move(rows));
}

/// A norm whose result is multiplied.
Result<NormWeights> scaled_norm(const NormWeights& norm, float factor) {
    NormWeights scaled;
    for (const auto& [of, to] : {std::pair{&norm.gain, &scaled.gain}, std::pair{&norm.bias, &scaled.bias}}) {
        if (of->bytes.empty()) continue;
        VKFORMER_TRY(std::vector<float> values, floats_of(*of));
        for (float& value : values) value *= factor;
        *to = float_tensor(of->shape, std::move(values));
    }
    return scaled;
}

}  // namespace

Result<Value> Decoder::Builder::embed(Value tokens, Value starts, Value types) {
    name_ = table_scope() + "embedding";
    graph_.set_scope(name_);
    VKFORMER_TRY(const Value table,
                 graph_.weight(name_ + ".table", weights_.embedding, storage_of(weights_.embedding)));
    VKFORMER_TRY(Value x, graph::embedding(graph_, tokens, table, config_.embedding_scale, layout_.dtype));
    VKFORMER_TRY(x, adapters_.add_rows("embedding", weights_.word_adapters, tokens, x));
    if (!weights_.types.bytes.empty()) {
        VKFORMER_TRY(x, add_types(x, types));
        VKFORMER_TRY(x, adapters_.add_rows("embedding.types", weights_.type_adapters, types, x));
    }
    if (!weights_.positions.bytes.empty()) {
        VKFORMER_TRY(const Value positions, graph_.weight("embedding.positions", weights_.positions, DType::f32));
        VKFORMER_TRY(x, graph::positional_embedding(graph_, x, positions, starts));
    }
    if (weights_.embedding_norm) {
        VKFORMER_TRY(x, norm("norm", weights_.embedding_norm, x));
    }
    for (const LayerEmbeddings& part : weights_.layer_embeddings) VKFORMER_CHECK(embed_for_layers(part, tokens, x));
    return weights_.handover ? hand_over(x) : x;
}

Result<Value> Decoder::Builder::hand_over(Value x) {
    const HandoverWeights& w = weights_.handover;
    name_ = config_.scope + "handover";
    VKFORMER_TRY(const Value token, norm("token_norm", w.token_norm, x));
    VKFORMER_TRY(const Value hidden, norm("hidden_norm", w.hidden_norm, layout_.handed));
    graph_.set_scope(name_);
    VKFORMER_TRY(const Value both, graph::concat(graph_, token, hidden));
    return project("projection", w.projection, both);
}

Result<Value> Decoder::Builder::layers(Value x, Value starts) {
    if (config_.streams > 1) VKFORMER_CHECK(open_streams(x));
    for (std::size_t index = 0; index < config_.layers.size(); ++index) {
        if (layout_.layers.hidden) VKFORMER_CHECK(keep_hidden(x));
        VKFORMER_TRY(x, layer(index, x, starts));
    }
    if (layout_.layers.attention) kept_.attention.resize(config_.layers.size());
    return config_.streams > 1 ? close_streams(x) : x;
}

Result<DecoderPass> Decoder::Builder::finish(Value x, Logits wanted) {
    DecoderPass pass;
    VKFORMER_TRY(pass.hidden, final_norm(x));
    if (layout_.layers.hidden) keep_output(graph_, pass.hidden, kept_.hidden);
    pass.layers = std::move(kept_);
    pass.source_weights = std::move(source_weights_);
    if (wanted == Logits::all) {
        // Where nobody asks for the hidden state, its norm is left out of the program.
        VKFORMER_TRY(const Value scaled, config_.logit_scale == 1 ? Result<Value>(pass.hidden) : scaled_final_norm(x));
        VKFORMER_TRY(pass.logits, logits(scaled));
    }
    pass.caches = std::move(caches_);
    return pass;
}

Result<Value> Decoder::Builder::layer(std::size_t index, Value x, Value starts) {
    name_ = config_.scope + "layers." + std::to_string(index);
    if (config_.streams > 1) return layer_of_streams(index, x, starts);
    if (config_.norm_place == NormPlace::behind) return layer_normed_behind(index, x, starts);
    return config_.is_parallel ? layer_parallel(index, x, starts) : layer_normed_before(index, x, starts);
}

Result<Value> Decoder::Builder::layer_normed_behind(std::size_t index, Value x, Value starts) {
    const DecoderWeights::Layer& w = weights_.layers[index];
    VKFORMER_TRY(const Value seen, mixed(index, x, starts));
    graph_.set_scope(name_ + ".attention");
    VKFORMER_TRY(const Value sum, graph::add(graph_, x, seen));
    VKFORMER_TRY(const Value y, norm("attention_norm", w.attention_norm, sum));
    VKFORMER_TRY(const Value outer, feed_forward(w, y, y));
    graph_.set_scope(name_ + ".feed_forward");
    VKFORMER_TRY(const Value total, graph::add(graph_, y, outer));
    return norm("feed_forward_norm", w.feed_forward_norm, total);
}

Result<Value> Decoder::Builder::layer_parallel(std::size_t index, Value x, Value starts) {
    const DecoderWeights::Layer& w = weights_.layers[index];
    VKFORMER_TRY(const Value normed, norm("attention_norm", w.attention_norm, x));
    const bool has_one_norm = is_same(w.attention_norm.gain, w.feed_forward_norm.gain);
    VKFORMER_TRY(const Value inner,
                 has_one_norm ? Result<Value>(normed) : norm("feed_forward_norm", w.feed_forward_norm, x));
    VKFORMER_TRY(const Value seen, mixed(index, normed, starts));
    graph_.set_scope(name_ + ".attention");
    VKFORMER_TRY(const Value sum, graph::add(graph_, x, seen));
    VKFORMER_TRY(const Value outer, feed_forward(w, inner, x));
    graph_.set_scope(name_ + ".feed_forward");
    return graph::add(graph_, sum, outer);
}

Result<Value> Decoder::Builder::layer_normed_before(std::size_t index, Value x, Value starts) {
    const DecoderWeights::Layer& w = weights_.layers[index];
    const bool has_mixer = config_.layers[index].mixer != DecoderConfig::Mixer::none;
    VKFORMER_TRY(Value middle, has_mixer ? add_mixed(index, x, starts) : Result<Value>(x));
    if (w.source) {
        VKFORMER_TRY(middle, add_seen_of_source(index, middle));
    }
    if (!w.feed_forward_norm && !w.feed_forward_post_norm) return middle;
    VKFORMER_TRY(const Value inner,
                 w.feed_forward_norm ? norm("feed_forward_norm", w.feed_forward_norm, middle) : Result<Value>(middle));
    VKFORMER_TRY(Value y, feed_forward(w, inner, middle));
    if (w.feed_forward_post_norm) {
        VKFORMER_TRY(y, norm("feed_forward_post_norm", w.feed_forward_post_norm, y));
    }
    graph_.set_scope(name_ + ".feed_forward");
    if (!w.embedding_gate) return graph::add(graph_, middle, y, w.scale);
    VKFORMER_TRY(const Value outer, graph::add(graph_, middle, y));
    VKFORMER_TRY(y, layer_embedding(index, outer));
    graph_.set_scope(name_ + ".embedding");
    return graph::add(graph_, outer, y, w.scale);
}

Result<Value> Decoder::Builder::add_mixed(std::size_t index, Value x, Value starts) {
    const DecoderWeights::Layer& w = weights_.layers[index];
    VKFORMER_TRY(const Value normed, w.attention_norm ? norm("attention_norm", w.attention_norm, x) : Result<Value>(x));
    VKFORMER_TRY(Value y, mixed(index, normed, starts));
    if (w.attention_post_norm) {
        VKFORMER_TRY(y, norm("attention_post_norm", w.attention_post_norm, y));
    }
    graph_.set_scope(name_ + ".attention");
    return graph::add(graph_, x, y);
}

Result<Value> Decoder::Builder::mixed(std::size_t index, Value x, Value starts) {
    const DecoderWeights::Layer& w = weights_.layers[index];
    switch (config_.layers[index].mixer) {
    case DecoderConfig::Mixer::none: break;
    case DecoderConfig::Mixer::attention: {
        VKFORMER_TRY(Value y, attention(index, x, starts));
        if (w.mixed_gate) {
            VKFORMER_TRY(y, gate_mixed(w, x, y, graph::Activation::sigmoid));
        }
        return project("output", w.output, y);
    }
    case DecoderConfig::Mixer::convolution: {
        VKFORMER_TRY(const Value input, project("input", w.state.input, x));
        VKFORMER_TRY(const Value y, convolution(index, input, starts, graph::Activation::none, true));
        return project("output", w.output, y);
    }
    case DecoderConfig::Mixer::delta_rule: {
        VKFORMER_TRY(Value y, delta_rule(index, x, starts));
        VKFORMER_TRY(y, gate_mixed(w, x, y, graph::Activation::silu));
        return project("output", w.output, y);
    }
    case DecoderConfig::Mixer::selective_scan: {
        VKFORMER_TRY(Value y, selective_scan(index, x, starts));
        VKFORMER_TRY(y, gate_mixed(w, x, y, graph::Activation::silu));
        VKFORMER_TRY(y, scan_norm(w.state.norm, y));
        return project("output", w.output, y);
    }
    }
    return Error{ErrorCode::InvalidArgument, "a layer of no kind that is known"};
}

Result<Value> Decoder::Builder::gate_mixed(const DecoderWeights::Layer& w, Value x, Value y,
                                           graph::Activation activation) {
    VKFORMER_TRY(const Value gate, project("mixed_gate", w.mixed_gate, x));
    return graph::gated_activation(graph_, gate, y, activation);
}

Result<Value> Decoder::Builder::final_norm(Value x) {
    if (!weights_.final_norm) return x;
    name_ = config_.scope + "final";
    return norm("norm", weights_.final_norm, x);
}

Result<Value> Decoder::Builder::scaled_final_norm(Value x) {
    VKFORMER_TRY(const NormWeights scaled, scaled_norm(weights_.final_norm, config_.logit_scale));
    name_ = "final";
    return norm("scaled_norm", scaled, x);
}

Result<Value> Decoder::Builder::logits(Value hidden) {
    name_ = "lm_head";
    const std::uint64_t tokens = std::uint64_t{layout_.rows} * layout_.len;
    VKFORMER_TRY(const Value rows, graph_.reshape(hidden, {tokens, config_.hidden_size}));
    graph_.set_scope(name_);
    // A tied table is one tensor on the device.
    const TensorData& data = weights_.lm_head.weight;
    const bool is_tied = is_same(data, weights_.embedding);
    const std::string own = (weights_.handover.has_own_head ? config_.scope : "") + name_;
    VKFORMER_TRY(const Value weight,
                 graph_.weight(is_tied ? table_scope() + "embedding.table" : own + ".weight", data, storage_of(data)));
    VKFORMER_TRY(const Value bias, optional_weight(own + ".bias", weights_.lm_head.bias));
    VKFORMER_TRY(Value x, graph::linear(graph_, rows, weight, bias, DType::f32));
    VKFORMER_TRY(x, adapters_.add(name_, {&weights_.lm_head}, rows, x));
    return config_.logit_soft_cap == 0 ? Result<Value>(x) : graph::soft_cap(graph_, x, config_.logit_soft_cap);
}

Result<void> Decoder::Builder::embed_for_layers(const LayerEmbeddings& w, Value tokens, Value x) {
    name_ = config_.scope + "layer_embeddings." + std::to_string(layer_embeddings_.size());
    graph_.set_scope(name_);
    VKFORMER_TRY(const Value table, graph_.weight(name_ + ".table", w.table, storage_of(w.table)));
    const std::uint64_t width = weights_.layer_embedding_norm.gain.shape.element_count();
    const auto half = static_cast<float>(std::numbers::sqrt2 / 2);
    VKFORMER_TRY(const Value own,
                 graph::embedding(graph_, tokens, table, half * std::sqrt(static_cast<float>(width)), layout_.dtype));
    VKFORMER_TRY(const Value seen, project("projection", w.projection, x));
    const std::uint64_t rows = graph_.shape(own).element_count() / width;
    VKFORMER_TRY(const Value own_rows, graph_.reshape(own, {rows, width}));
    VKFORMER_TRY(const Value seen_rows, graph_.reshape(seen, {rows, width}));
    VKFORMER_TRY(const NormWeights scaled, scaled_norm(weights_.layer_embedding_norm, half));
    // The projection is multiplied by 1/√hidden_size before its norm.
    const float eps = config_.norm_eps * static_cast<float>(config_.hidden_size);
    VKFORMER_TRY(const Value normed, norm("norm", scaled, seen_rows, eps));
    graph_.set_scope(name_);
    VKFORMER_TRY(layer_embeddings_.emplace_back(), graph::add(graph_, normed, own_rows));
    return {};
}

Result<Value> Decoder::Builder::layer_embedding(std::size_t index, Value x) {
    const DecoderWeights::Layer& w = weights_.layers[index];
    VKFORMER_TRY(const Value gate, project("embedding_gate", w.embedding_gate, x));
    std::size_t part = 0;
    std::uint64_t first = 0;  // layer of the part
    const auto layers_of = [&](std::size_t i) {
        return weights_.layer_embeddings[i].table.shape[1] / graph_.shape(layer_embeddings_[i]).back();
    };
    while (index >= first + layers_of(part)) first += layers_of(part++);
    std::vector<std::int32_t> rows(std::size_t{layout_.rows} * layout_.len);
    for (std::size_t token = 0; token < rows.size(); ++token)
        rows[token] = static_cast<std::int32_t>(token * layers_of(part) + index - first);
    VKFORMER_TRY(const Value places, graph::constant(graph_, "rows", {layout_.rows, layout_.len}, std::move(rows)));
    VKFORMER_TRY(const Value own, graph::embedding(graph_, places, layer_embeddings_[part]));
    VKFORMER_TRY(const Value gated, graph::gated_activation(graph_, gate, own, config_.activation));
    VKFORMER_TRY(const Value y, project("embedding_output", w.embedding_output, gated));
    return norm("embedding_norm", w.embedding_norm, y);
}

Result<Value> Decoder::Builder::add_types(Value x, Value types) {
    if (types) {
        VKFORMER_TRY(const Value table, graph_.weight("embedding.types", weights_.types, layout_.dtype));
        VKFORMER_TRY(const Value rows, graph::embedding(graph_, types, table));
        return graph::add(graph_, x, rows);
    }
    VKFORMER_TRY(TensorData rows, repeated_row(weights_.types, layout_.capacity));
    const std::string name = "embedding.type_0.positions_" + std::to_string(layout_.capacity);
    VKFORMER_TRY(const Value table, graph_.weight(name, std::move(rows), DType::f32));
    return graph::positional_embedding(graph_, x, table);
}

Result<void> Decoder::Builder::keep_hidden(Value x) {
    if (config_.residual_scale != 1) {
        const std::uint64_t tokens = std::uint64_t{layout_.rows} * layout_.len;
        TensorData scales = float_tensor({tokens, 1}, std::vector<float>(tokens, config_.residual_scale));
        graph_.set_scope("hidden_states");
        VKFORMER_TRY(const Value weights,
                     graph_.weight("hidden_states.scale_" + std::to_string(tokens), std::move(scales), DType::f32));
        VKFORMER_TRY(x, weighted(weights, x));
    }
    keep_output(graph_, x, kept_.hidden);
    return {};
}

Result<Value> Decoder::Builder::optional_weight(const std::string& name, const TensorData& data) {
    if (data.bytes.empty()) return Value{};
    return graph_.weight(name, data, layout_.dtype);
}

Result<Value> Decoder::Builder::norm(std::string_view what, const NormWeights& w, Value x, float eps) {
    const std::string scope = name_ + "." + std::string(what);
    graph_.set_scope(scope);
    VKFORMER_TRY(const Value gains, gain(what, w));
    if (config_.norm == DecoderConfig::Norm::rms)
        return graph::rms_norm(graph_, x, gains, eps, config_.norm_gain_offset);
    VKFORMER_TRY(const Value bias, optional_weight(scope + ".bias", w.bias));
    return graph::layer_norm(graph_, x, gains, bias, eps);
}

Result<Value> Decoder::Builder::gain(std::string_view what, const NormWeights& w) {
    return graph_.weight(name_ + "." + std::string(what) + ".gain", w.gain, layout_.dtype);
}

Result<Value> Decoder::Builder::project(std::string_view what, const Projection& w, Value x,
                                        std::optional<DType> result) {
    const std::string scope = name_ + "." + std::string(what);
    graph_.set_scope(scope);
    VKFORMER_TRY(const Value weight, graph_.weight(scope + ".weight", w.weight, storage_of(w.weight)));
    VKFORMER_TRY(const Value bias, optional_weight(scope + ".bias", w.bias));
    VKFORMER_TRY(const Value y, graph::linear(graph_, x, weight, bias, result));
    return adapters_.add(scope, {&w}, x, y);
}

bool Decoder::Builder::can_join(std::initializer_list<const Projection*> parts) const {
    const Projection& first = **parts.begin();
    return std::ranges::all_of(parts, [&](const Projection* part) {
        const DType stored = storage_of(part->weight);
        return stored == storage_of(first.weight) && part->bias.bytes.empty() == first.bias.bytes.empty() &&
               graph::fills_words(stored, part->weight.shape.element_count()) &&
               graph::fills_words(layout_.dtype, part->weight.shape[0]);
    });
}

Result<Value> Decoder::Builder::project_joined(std::string_view what, std::initializer_list<const Projection*> parts,
                                               Value x, std::optional<DType> result) {
    const std::string scope = name_ + "." + std::string(what);
    std::vector<TensorData> weights, biases;
    for (const Projection* part : parts) {
        weights.push_back(part->weight);
        if (!part->bias.bytes.empty()) biases.push_back(part->bias);
    }
    graph_.set_scope(scope);
    const DType stored = storage_of(weights.front());
    VKFORMER_TRY(const Value weight, graph_.weight(scope + ".weight", std::move(weights), stored));
    Value bias;
    if (!biases.empty()) {
        VKFORMER_TRY(bias, graph_.weight(scope + ".bias", std::move(biases), layout_.dtype));
    }
    VKFORMER_TRY(const Value y, graph::linear(graph_, x, weight, bias, result));
    return adapters_.add(scope, parts, x, y);
}

}  // namespace vkformer::models
