// SPDX-License-Identifier: MIT
#include "models/decoder.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <map>
#include <memory>
#include <numbers>
#include <span>
#include <utility>

#include "core/try.hpp"
#include "graph/builders/constant.hpp"
#include "models/adapter_products.hpp"
#include "models/weight_reader.hpp"

namespace vkformer::models {
namespace {

using graph::Graph;
using graph::Value;

constexpr std::uint32_t kSplitKeys = 128;  // keys of a workgroup in a decode step

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
    VKFORMER_TRY(std::vector<float> values, floats_of(norm.gain));
    for (float& value : values) value *= factor;
    return NormWeights{.gain = float_tensor(norm.gain.shape, std::move(values))};
}

}  // namespace

/// The pieces of the network for one graph. Scopes, and so the names of nodes and tensors, are "layers.3.attention" and the like.
class Decoder::Builder {
public:
    /// `lengths`: of texts that are read whole, without caches; absent: the caches hold what came before.
    Builder(const Decoder& model, Graph& graph, const DecoderLayout& layout, Value lengths = {})
        : config_(model.config_),
          weights_(model.weights_),
          graph_(graph),
          layout_(layout),
          lengths_(lengths),
          rope_tables_(model.config_.ropes.size()),
          keys_values_(model.config_.layers.size()),
          adapters_(graph, layout.dtype, layout.adapter_scales) {}

    Result<Value> embed(Value tokens, Value starts, Value types = {}) {
        name_ = config_.scope + "embedding";
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
        return x;
    }

    Result<Value> layer(std::size_t index, Value x, Value starts) {
        name_ = config_.scope + "layers." + std::to_string(index);
        if (config_.norm_place == NormPlace::behind) return layer_normed_behind(index, x, starts);
        return config_.is_parallel ? layer_parallel(index, x, starts) : layer_normed_before(index, x, starts);
    }

    /// norm(y + feed_forward(y)) of y = norm(x + attention(x))
    Result<Value> layer_normed_behind(std::size_t index, Value x, Value starts) {
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

    /// x + attention(norm(x)) + feed_forward(norm'(x))
    Result<Value> layer_parallel(std::size_t index, Value x, Value starts) {
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

    Result<Value> layer_normed_before(std::size_t index, Value x, Value starts) {
        const DecoderWeights::Layer& w = weights_.layers[index];
        const bool has_mixer = config_.layers[index].mixer != DecoderConfig::Mixer::none;
        VKFORMER_TRY(Value middle, has_mixer ? add_mixed(index, x, starts) : Result<Value>(x));
        if (w.source) {
            VKFORMER_TRY(middle, add_seen_of_source(index, middle));
        }
        if (!w.feed_forward_norm && !w.feed_forward_post_norm) return middle;
        VKFORMER_TRY(const Value inner, w.feed_forward_norm ? norm("feed_forward_norm", w.feed_forward_norm, middle)
                                                            : Result<Value>(middle));
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

    /// x + attention(norm(x)), or its like
    Result<Value> add_mixed(std::size_t index, Value x, Value starts) {
        const DecoderWeights::Layer& w = weights_.layers[index];
        VKFORMER_TRY(const Value normed,
                     w.attention_norm ? norm("attention_norm", w.attention_norm, x) : Result<Value>(x));
        VKFORMER_TRY(Value y, mixed(index, normed, starts));
        if (w.attention_post_norm) {
            VKFORMER_TRY(y, norm("attention_post_norm", w.attention_post_norm, y));
        }
        graph_.set_scope(name_ + ".attention");
        return graph::add(graph_, x, y);
    }

    /// x + what x sees of the source
    Result<Value> add_seen_of_source(std::size_t index, Value x) {
        const SourceWeights& w = *weights_.layers[index].source;
        VKFORMER_TRY(const Value normed, norm("source_norm", w.norm, x));
        VKFORMER_TRY(const Value query, project("source_query", w.query, normed));
        VKFORMER_TRY(const Value seen, see_source(index, query));
        VKFORMER_TRY(Value y, project("source_output", w.output, seen));
        VKFORMER_TRY(y, norm("source_post_norm", w.post_norm, y));
        graph_.set_scope(name_ + ".source");
        return graph::add(graph_, x, y);
    }

    /// Keys or values of the source, of which `hidden` is absent where they are in their state already.
    Result<Value> source_heads(std::string_view what, std::size_t index, const Projection& w, Value hidden) {
        const DecoderLayout::Source& source = layout_.source;
        const Shape shape = {source.batch, source.len, config_.kv_heads, config_.head_dim};
        if (!hidden)
            return graph_.state(
                std::string(what) + "." + std::to_string(index) + ".source_" + std::to_string(source.len),
                layout_.dtype, shape);
        VKFORMER_TRY(const Value rows, project(what, w, hidden));
        return graph_.reshape(rows, shape);
    }

    /// The states of the source's keys and values.
    Result<void> keep_source(Value hidden) {
        for (std::size_t index = 0; index < weights_.layers.size(); ++index) {
            name_ = config_.scope + "layers." + std::to_string(index);
            const SourceWeights& w = *weights_.layers[index].source;
            for (const auto& [what, projection] :
                 {std::pair{"source_key", &w.key}, std::pair{"source_value", &w.value}}) {
                VKFORMER_TRY(const Value heads, source_heads(what, index, *projection, hidden));
                VKFORMER_TRY(const Value state, source_heads(what, index, *projection, {}));
                VKFORMER_CHECK(graph::cache_append(graph_, heads, {}, state));
            }
        }
        return {};
    }

    /// The beams of a source are queries of one batch element, so that they share its keys and values.
    Result<Value> see_source(std::size_t index, Value query) {
        const SourceWeights& w = *weights_.layers[index].source;
        const DecoderLayout::Source& source = layout_.source;
        VKFORMER_TRY(const Value keys, source_heads("source_key", index, w.key, source.hidden));
        VKFORMER_TRY(const Value values, source_heads("source_value", index, w.value, source.hidden));
        const std::uint64_t queries = std::uint64_t{layout_.rows} * layout_.len / source.batch;
        VKFORMER_TRY(query, graph_.reshape(query, {source.batch, queries, config_.heads, config_.head_dim}));
        graph_.set_scope(name_ + ".source");
        const graph::AttentionMask mask = {.key_lengths = source.lengths};
        const float scale = config_.attention_scale, cap = config_.attention_soft_cap;
        Value seen;
        if (std::ranges::find(source.kept, index) != source.kept.end()) {
            VKFORMER_TRY(const auto both, graph::attention_with_weights(graph_, query, keys, values, mask, scale, cap));
            source_weights_.push_back(both.weights);
            seen = both.seen;
        } else {
            VKFORMER_TRY(seen, queries == 1
                                   ? graph::decode_attention(graph_, query, keys, values, mask, scale, kSplitKeys, cap)
                                   : graph::attention(graph_, query, keys, values, mask, scale, cap));
        }
        return graph_.reshape(seen, {layout_.rows, layout_.len, std::uint64_t{config_.heads} * config_.head_dim});
    }

    Result<Value> final_norm(Value x) {
        if (!weights_.final_norm) return x;
        name_ = config_.scope + "final";
        return norm("norm", weights_.final_norm, x);
    }

    /// What the head multiplies: final_norm(x) times the scale of the logits.
    Result<Value> scaled_final_norm(Value x) {
        VKFORMER_TRY(const NormWeights scaled, scaled_norm(weights_.final_norm, config_.logit_scale));
        name_ = "final";
        return norm("scaled_norm", scaled, x);
    }

    /// `hidden`: with the scale of the logits.
    Result<Value> logits(Value hidden) {
        name_ = "lm_head";
        const std::uint64_t tokens = std::uint64_t{layout_.rows} * layout_.len;
        VKFORMER_TRY(const Value rows, graph_.reshape(hidden, {tokens, config_.hidden_size}));
        graph_.set_scope(name_);
        // A tied table is one tensor on the device.
        const TensorData& data = weights_.lm_head.weight;
        const bool is_tied = is_same(data, weights_.embedding);
        VKFORMER_TRY(const Value weight, graph_.weight(is_tied ? config_.scope + "embedding.table" : "lm_head.weight",
                                                       data, storage_of(data)));
        VKFORMER_TRY(const Value bias, optional_weight("lm_head.bias", weights_.lm_head.bias));
        VKFORMER_TRY(Value x, graph::linear(graph_, rows, weight, bias, DType::f32));
        VKFORMER_TRY(x, adapters_.add(name_, {&weights_.lm_head}, rows, x));
        return config_.logit_soft_cap == 0 ? Result<Value>(x) : graph::soft_cap(graph_, x, config_.logit_soft_cap);
    }

    /// The layer's cache of that name.
    Result<Value> cache(std::string_view what, std::size_t index) {
        const std::uint64_t rows = std::max(layout_.rows, layout_.cache_rows);
        const DType stored = layout_.cache == CacheFormat::q8_0 ? DType::q8_0 : layout_.dtype;
        const bool in_pages = layout_.pages > 0;
        const std::uint64_t pages = is_windows(index) ? layout_.window_pages : layout_.pages;
        const std::uint64_t heads = kv_heads(index), width = head_dim(index);
        const Shape shape{in_pages ? pages : rows, in_pages ? graph::kPageLen : layout_.capacity, heads, width};
        VKFORMER_TRY(const Value state,
                     graph_.state(std::string(what) + "_cache." + std::to_string(index), stored, shape));
        caches_.push_back(state);
        if (in_pages || rows == layout_.rows) return state;
        // As one row: what is behind the first is beyond any position.
        return graph_.reshape(state, {1, rows * layout_.capacity, heads, width});
    }

    const std::vector<Value>& caches() const noexcept { return caches_; }

    /// Whether the layer's caches are among those of layers with a window.
    bool is_windows(std::size_t index) const { return layout_.window_pages > 0 && config_.layers[index].window > 0; }
    /// Of the layer's caches; none where these are not in pages.
    Value page_table(std::size_t index) const { return is_windows(index) ? layout_.window_table : layout_.page_table; }

    /// All layers, over what embed() gave: the last hidden state before the final norm.
    Result<Value> layers(Value x, Value starts) {
        for (std::size_t index = 0; index < config_.layers.size(); ++index) {
            if (layout_.layers.hidden) VKFORMER_CHECK(keep_hidden(x));
            VKFORMER_TRY(x, layer(index, x, starts));
        }
        if (layout_.layers.attention) kept_.attention.resize(config_.layers.size());
        return x;
    }

    /// Whether the layer's keys and values are its own.
    bool has_cache(std::size_t index) const { return !config_.layers[index].shared_cache; }

    /// What comes of the last layer's x, and what the layers gave on request.
    Result<DecoderPass> finish(Value x, Logits wanted) {
        DecoderPass pass;
        VKFORMER_TRY(pass.hidden, final_norm(x));
        if (layout_.layers.hidden) keep_output(graph_, pass.hidden, kept_.hidden);
        pass.layers = std::move(kept_);
        pass.source_weights = std::move(source_weights_);
        if (wanted == Logits::all) {
            // Where nobody asks for the hidden state, its norm is left out of the program.
            VKFORMER_TRY(const Value scaled,
                         config_.logit_scale == 1 ? Result<Value>(pass.hidden) : scaled_final_norm(x));
            VKFORMER_TRY(pass.logits, logits(scaled));
        }
        pass.caches = std::move(caches_);
        return pass;
    }

private:
    struct KeysValues {
        Value keys, values;
    };

    std::uint32_t kv_heads(std::size_t index) const { return config_.kv_heads_of(config_.layers[index]); }
    std::uint32_t head_dim(std::size_t index) const { return config_.head_dim_of(config_.layers[index]); }

    /// Of the tokens, whose embeddings are x, what layer_embedding() takes the rows of its layer from.
    Result<void> embed_for_layers(const LayerEmbeddings& w, Value tokens, Value x) {
        name_ = config_.scope + "layer_embeddings." + std::to_string(layer_embeddings_.size());
        graph_.set_scope(name_);
        VKFORMER_TRY(const Value table, graph_.weight(name_ + ".table", w.table, storage_of(w.table)));
        const std::uint64_t width = weights_.layer_embedding_norm.gain.shape.element_count();
        const auto half = static_cast<float>(std::numbers::sqrt2 / 2);
        VKFORMER_TRY(const Value own, graph::embedding(graph_, tokens, table,
                                                       half * std::sqrt(static_cast<float>(width)), layout_.dtype));
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

    /// What the layer's own embeddings of the tokens add to its result x.
    Result<Value> layer_embedding(std::size_t index, Value x) {
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

    /// The hidden state that x stands for.
    Result<void> keep_hidden(Value x) {
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

    DType storage_of(const TensorData& data) const { return stored_dtype(data, layout_.dtype, layout_.weights); }

    /// The rows of type 0 are a table of positions that are all alike: no op adds one row to all.
    Result<Value> add_types(Value x, Value types) {
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

    /// Absent where there is no data.
    Result<Value> optional_weight(const std::string& name, const TensorData& data) {
        if (data.bytes.empty()) return Value{};
        return graph_.weight(name, data, layout_.dtype);
    }

    Result<Value> norm(std::string_view what, const NormWeights& w, Value x) {
        return norm(what, w, x, config_.norm_eps);
    }
    Result<Value> norm(std::string_view what, const NormWeights& w, Value x, float eps) {
        const std::string scope = name_ + "." + std::string(what);
        graph_.set_scope(scope);
        VKFORMER_TRY(const Value gains, gain(what, w));
        if (config_.norm == DecoderConfig::Norm::rms)
            return graph::rms_norm(graph_, x, gains, eps, config_.norm_gain_offset);
        VKFORMER_TRY(const Value bias, optional_weight(scope + ".bias", w.bias));
        return graph::layer_norm(graph_, x, gains, bias, eps);
    }

    Result<Value> gain(std::string_view what, const NormWeights& w) {
        return graph_.weight(name_ + "." + std::string(what) + ".gain", w.gain, layout_.dtype);
    }

    Result<Value> project(std::string_view what, const Projection& w, Value x, std::optional<DType> result = {}) {
        const std::string scope = name_ + "." + std::string(what);
        graph_.set_scope(scope);
        VKFORMER_TRY(const Value weight, graph_.weight(scope + ".weight", w.weight, storage_of(w.weight)));
        VKFORMER_TRY(const Value bias, optional_weight(scope + ".bias", w.bias));
        VKFORMER_TRY(const Value y, graph::linear(graph_, x, weight, bias, result));
        return adapters_.add(scope, {&w}, x, y);
    }

    /// Whether several projections of one input can be one product on the device: a launch costs more than a row there.
    bool can_join(std::initializer_list<const Projection*> parts) const {
        const Projection& first = **parts.begin();
        return std::ranges::all_of(parts, [&](const Projection* part) {
            const DType stored = storage_of(part->weight);
            return stored == storage_of(first.weight) && part->bias.bytes.empty() == first.bias.bytes.empty() &&
                   graph::fills_words(stored, part->weight.shape.element_count()) &&
                   graph::fills_words(layout_.dtype, part->weight.shape[0]);
        });
    }

    Result<Value> project_joined(std::string_view what, std::initializer_list<const Projection*> parts, Value x,
                                 std::optional<DType> result = {}) {
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

    /// A projection's result split into heads, normed all together or each by itself: [rows, len, count, width].
    Result<Value> heads(std::string_view what, const NormWeights& norms, std::uint32_t count, std::uint32_t width,
                        Value y) {
        const std::string name = std::string(what) + "_norm";
        const bool is_wide = has_wide_norm(norms, width);
        if (is_wide) {
            VKFORMER_TRY(y, norm(name, norms, y));
        }
        VKFORMER_TRY(y, graph_.reshape(y, {layout_.rows, layout_.len, count, width}));
        return norms && !is_wide ? norm(name, norms, y) : Result<Value>(y);
    }

    Result<Value> place(std::string_view what, const DecoderConfig::Layer& layer, Value x, Value starts) {
        if (!layer.rope) return x;
        VKFORMER_TRY(const Value table, rope_table(*layer.rope));
        graph_.set_scope(name_ + "." + std::string(what));
        return graph::rope(graph_, x, table, starts, config_.ropes[*layer.rope].pairing);
    }

    /// The angles of all positions up to the capacity.
    Result<Value> rope_table(std::size_t index) {
        if (rope_tables_[index]) return rope_tables_[index];
        const Rope& rope = layout_.extended ? config_.extended_ropes[index] : config_.ropes[index];
        const std::string name = config_.scope + (layout_.extended ? "extended_rope." : "rope.") +
                                 std::to_string(index) + ".positions_" + std::to_string(layout_.capacity);
        VKFORMER_TRY(
            rope_tables_[index],
            graph_.weight(name, graph::rope_table(layout_.capacity, rope.frequencies, rope.scale), DType::f32));
        return rope_tables_[index];
    }

    static bool has_wide_norm(const NormWeights& w, std::uint32_t head_dim) {
        return w && w.gain.shape.element_count() != head_dim;
    }

    /// [rows, len, heads, head_dim]
    Result<Value> query_of(std::size_t index, Value x, Value starts) {
        const DecoderWeights::Layer& w = weights_.layers[index];
        VKFORMER_TRY(const Value rows, project("query", w.query, x));
        VKFORMER_TRY(const Value query, heads("query", w.query_norm, config_.heads, head_dim(index), rows));
        return place("query", config_.layers[index], query, starts);
    }

    /// [rows, len, kv_heads, head_dim]
    Result<KeysValues> keys_values_of(std::size_t index, Value x, Value starts) {
        const DecoderWeights::Layer& w = weights_.layers[index];
        const std::uint32_t count = kv_heads(index), width = head_dim(index);
        KeysValues both;
        VKFORMER_TRY(const Value rows, project("key", w.key, x));
        VKFORMER_TRY(const Value key, heads("key", w.key_norm, count, width, rows));
        // Values without a projection of their own are the keys', before their norm.
        VKFORMER_TRY(const Value values, w.value ? project("value", w.value, x) : Result<Value>(rows));
        VKFORMER_TRY(both.values, heads("value", {}, count, width, values));
        if (config_.norms_values) {
            graph_.set_scope(name_ + ".value_norm");
            VKFORMER_TRY(both.values, graph::rms_norm(graph_, both.values, {}, config_.norm_eps));
        }
        VKFORMER_TRY(both.keys, place("key", config_.layers[index], key, starts));
        return both;
    }

    /// y[token, h] = W_h · x[token, h]     x: [rows, len, heads, in], weight: the heads' matrices, one behind the other, [heads · out, in].
    Result<Value> multiply_heads(std::string_view what, const TensorData& weight, Value x) {
        const std::uint64_t tokens = std::uint64_t{layout_.rows} * layout_.len, heads = config_.heads;
        std::vector<std::int32_t> owners(tokens * heads);
        for (std::size_t i = 0; i < owners.size(); ++i) owners[i] = static_cast<std::int32_t>(i % heads);
        VKFORMER_TRY(const Value of_rows, graph::constant(graph_, "heads", {tokens, heads}, std::move(owners)));
        VKFORMER_TRY(const Value rows, graph_.reshape(x, {tokens, heads, graph_.shape(x).back()}));
        VKFORMER_TRY(const Value y, project_each(name_ + "." + std::string(what), {weight}, rows, of_rows, heads));
        return graph_.reshape(y, {layout_.rows, layout_.len, heads, weight.shape[0] / heads});
    }

    /// A projection split into heads of the rotary width, turned by their positions.
    Result<Value> rotary_heads(std::string_view what, std::size_t index, const Projection& w, std::uint32_t count,
                               Value x, Value starts) {
        VKFORMER_TRY(const Value y, project(what, w, x));
        VKFORMER_TRY(const Value heads,
                     graph_.reshape(y, {layout_.rows, layout_.len, count, config_.latent.rotary_dim}));
        return place(what, config_.layers[index], heads, starts);
    }

    /// Queries of latent attention, [rows, len, heads, head_dim].
    Result<Value> latent_query(std::size_t index, Value x, Value starts) {
        const LatentWeights& w = weights_.layers[index].latent;
        if (w.query_down) {
            VKFORMER_TRY(const Value down, project("query_down", w.query_down, x));
            VKFORMER_TRY(x, norm("query_norm", w.query_norm, down, config_.latent.norm_eps));
        }
        VKFORMER_TRY(const Value rows, project("plain_query", w.plain_query, x));
        VKFORMER_TRY(const Value heads,
                     graph_.reshape(rows, {layout_.rows, layout_.len, config_.heads, config_.latent.plain_dim}));
        VKFORMER_TRY(const Value plain, multiply_heads("key_up", w.key_up, heads));
        VKFORMER_TRY(const Value rotary, rotary_heads("rotary_query", index, w.rotary_query, config_.heads, x, starts));
        graph_.set_scope(name_ + ".query");
        return graph::concat(graph_, plain, rotary);
    }

    /// Keys of latent attention, [rows, len, 1, head_dim], which are its values too.
    Result<Value> latent_key(std::size_t index, Value x, Value starts) {
        const LatentWeights& w = weights_.layers[index].latent;
        VKFORMER_TRY(const Value rows, project("latent", w.latent, x));
        VKFORMER_TRY(const Value normed, norm("latent_norm", w.latent_norm, rows, config_.latent.norm_eps));
        VKFORMER_TRY(const Value latent, graph_.reshape(normed, {layout_.rows, layout_.len, 1, config_.latent.rank}));
        VKFORMER_TRY(const Value rotary, rotary_heads("rotary_key", index, w.rotary_key, 1, x, starts));
        graph_.set_scope(name_ + ".key");
        return graph::concat(graph_, latent, rotary);
    }

    /// The queries of a layer, whose keys and values go to the ends of the caches.
    Result<Value> project_attention(std::size_t index, Value x, Value starts, Value keys, Value values) {
        const DecoderWeights::Layer& w = weights_.layers[index];
        const DecoderConfig::Layer& layer = config_.layers[index];
        if (config_.latent) {
            VKFORMER_TRY(const Value key, latent_key(index, x, starts));
            VKFORMER_CHECK(graph::cache_append(graph_, key, starts, keys, page_table(index)));
            return latent_query(index, x, starts);
        }
        if (layer.shared_cache) return query_of(index, x, starts);
        const std::uint32_t width = head_dim(index);
        const bool can_split = graph_.dtype(keys) == layout_.dtype && bool{w.query_norm} == bool{w.key_norm} &&
                               (!w.query_norm || config_.norm == DecoderConfig::Norm::rms) &&
                               !has_wide_norm(w.query_norm, width) && !has_wide_norm(w.key_norm, width) &&
                               (w.query_norm || !config_.norms_values);
        const Projection& own_value = w.value ? w.value : w.key;
        if (can_split && can_join({&w.query, &w.key, &own_value})) {
            VKFORMER_TRY(const Value joined, project_joined("qkv", {&w.query, &w.key, &own_value}, x));
            const std::uint64_t all_heads = std::uint64_t{config_.heads} + 2 * std::uint64_t{kv_heads(index)};
            VKFORMER_TRY(const Value qkv, graph_.reshape(joined, {layout_.rows, layout_.len, all_heads, width}));
            Value table;
            if (layer.rope) {
                VKFORMER_TRY(table, rope_table(*layer.rope));
            }
            graph::HeadNorms norms{
                .eps = config_.norm_eps, .gain_offset = config_.norm_gain_offset, .values = config_.norms_values};
            if (w.query_norm) {
                VKFORMER_TRY(norms.query_gain, gain("query_norm", w.query_norm));
                VKFORMER_TRY(norms.key_gain, gain("key_norm", w.key_norm));
            }
            graph_.set_scope(name_ + ".qkv");
            return graph::split_qkv(graph_, qkv, table, starts, keys, values,
                                    layer.rope ? config_.ropes[*layer.rope].pairing : graph::RopePairing::halves, norms,
                                    page_table(index));
        }
        VKFORMER_TRY(const Value query, query_of(index, x, starts));
        VKFORMER_TRY(const KeysValues own, keys_values_of(index, x, starts));
        graph_.set_scope(name_ + ".key");
        VKFORMER_CHECK(graph::cache_append(graph_, own.keys, starts, keys, page_table(index)));
        graph_.set_scope(name_ + ".value");
        VKFORMER_CHECK(graph::cache_append(graph_, own.values, starts, values, page_table(index)));
        return query;
    }

    /// What the tokens of whole texts see of each other, [rows, len, heads, head_dim].
    Result<Value> see_whole_texts(std::size_t index, Value x) {
        const DecoderWeights::Layer& w = weights_.layers[index];
        const DecoderConfig::Layer& layer = config_.layers[index];
        Value query;
        KeysValues& seen = keys_values_[index];
        if (config_.latent) {
            VKFORMER_TRY(query, latent_query(index, x, {}));
            VKFORMER_TRY(seen.keys, latent_key(index, x, {}));
            seen.values = seen.keys;
        } else {
            VKFORMER_TRY(query, query_of(index, x, {}));
            VKFORMER_TRY(seen, layer.shared_cache ? Result<KeysValues>(keys_values_[*layer.shared_cache])
                                                  : keys_values_of(index, x, {}));
        }
        graph_.set_scope(name_ + ".attention");
        VKFORMER_TRY(const Value sinks, sinks_of(w));
        const graph::AttentionMask mask = {
            .causal = config_.is_causal, .window = layer.window, .key_lengths = lengths_, .sinks = sinks};
        return see(index, query, seen.keys, seen.values, mask);
    }

    /// The same as one node, or by those that keep the weights.
    Result<Value> see(std::size_t index, Value query, Value keys, Value values, const graph::AttentionMask& mask) {
        const float scale = config_.attention_scale, cap = config_.attention_soft_cap;
        if (!layout_.layers.attention)
            return graph::attention(graph_, query, keys, values, mask, scale, cap, page_table(index));
        VKFORMER_TRY(const auto both, graph::attention_with_weights(graph_, query, keys, values, mask, scale, cap));
        kept_.attention.resize(index);  // those before it without attention
        kept_.attention.push_back(both.weights);
        return both.seen;
    }

    /// What new tokens see of the caches, which they are appended to.
    Result<Value> see_caches(std::size_t index, Value x, Value starts) {
        const DecoderConfig::Layer& layer = config_.layers[index];
        KeysValues& seen = keys_values_[index];
        if (layer.shared_cache) {
            seen = keys_values_[*layer.shared_cache];
        } else {
            VKFORMER_TRY(seen.keys, cache("key", index));
            VKFORMER_TRY(seen.values, config_.latent ? Result<Value>(seen.keys) : cache("value", index));
        }
        const auto [keys, values] = seen;
        VKFORMER_TRY(const Value query, project_attention(index, x, starts, keys, values));

        graph_.set_scope(name_ + ".attention");
        VKFORMER_TRY(const Value sinks, sinks_of(weights_.layers[index]));
        const graph::AttentionMask mask = {.causal = true, .window = layer.window, .starts = starts, .sinks = sinks};
        if (layout_.len > 1 || layout_.layers.attention) return see(index, query, keys, values, mask);
        return graph::decode_attention(graph_, query, keys, values, mask, config_.attention_scale, kSplitKeys,
                                       config_.attention_soft_cap, page_table(index));
    }

    /// Scores are float32, whatever the activations are.
    Result<Value> sinks_of(const DecoderWeights::Layer& w) {
        if (w.sinks.bytes.empty()) return Value{};
        return graph_.weight(name_ + ".attention.sinks", w.sinks, DType::f32);
    }

    /// What the layer makes of the tokens together.
    Result<Value> mixed(std::size_t index, Value x, Value starts) {
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

    Result<Value> attention(std::size_t index, Value x, Value starts) {
        VKFORMER_TRY(Value seen, lengths_ ? see_whole_texts(index, x) : see_caches(index, x, starts));
        if (config_.latent) {
            VKFORMER_TRY(seen, multiply_heads("value_up", weights_.layers[index].latent.value_up, seen));
        }
        return graph_.reshape(seen, {layout_.rows, layout_.len, config_.heads * graph_.shape(seen).back()});
    }

    /// f(gate(x)) · y
    Result<Value> gate_mixed(const DecoderWeights::Layer& w, Value x, Value y, graph::Activation activation) {
        VKFORMER_TRY(const Value gate, project("mixed_gate", w.mixed_gate, x));
        return graph::gated_activation(graph_, gate, y, activation);
    }

    /// A state of a layer, rows of the shape `inner`.
    Result<Value> state(std::string_view what, std::size_t index, std::initializer_list<std::uint64_t> inner) {
        std::vector<std::uint64_t> dims = {layout_.state_slots ? layout_.slots : layout_.rows};
        dims.insert(dims.end(), inner);
        return graph_.state(std::string(what) + "_state." + std::to_string(index), DType::f32, Shape(dims));
    }

    graph::StatePlace state_place(Value starts) const {
        return {.starts = starts, .counts = layout_.counts, .slots = layout_.state_slots};
    }

    Result<Value> convolution(std::size_t index, Value x, Value starts, graph::Activation activation, bool is_gated) {
        const StateWeights& w = weights_.layers[index].state;
        const std::string scope = name_ + ".convolution";
        graph_.set_scope(scope);
        VKFORMER_TRY(const Value taps, graph_.weight(scope + ".weight", w.taps, graph_.dtype(x)));
        Value bias;
        if (!w.taps_bias.bytes.empty()) {
            VKFORMER_TRY(bias, graph_.weight(scope + ".bias", w.taps_bias, graph_.dtype(x)));
        }
        VKFORMER_TRY(const Value kept, state("convolution", index, {config_.taps - 1u, w.taps.shape[0]}));
        return graph::short_convolution(graph_, x, taps, bias, kept, state_place(starts), activation, is_gated);
    }

    /// Behind its norm, which has gains of its own kind: [rows, len, heads · value_dim].
    Result<Value> delta_rule(std::size_t index, Value x, Value starts) {
        const StateWeights& w = weights_.layers[index].state;
        const DecoderConfig::DeltaRule& c = config_.delta_rule;
        VKFORMER_TRY(const Value input, project("qkv", w.input, x, DType::f32));
        VKFORMER_TRY(const Value qkv, convolution(index, input, starts, graph::Activation::silu, false));
        VKFORMER_TRY(const Value gates, delta_gates(w, x));
        const std::string scope = name_ + ".delta_rule";
        graph_.set_scope(scope);
        VKFORMER_TRY(const Value decay, graph_.weight(scope + ".decay", w.rates, DType::f32));
        VKFORMER_TRY(const Value kept, state("delta", index, {c.heads, c.key_dim, c.value_dim}));
        VKFORMER_TRY(
            const Value seen,
            graph::gated_delta_rule(graph_, qkv, gates, decay, kept, state_place(starts),
                                    {.key_heads = c.key_heads, .in_turns = c.in_turns, .result = layout_.dtype}));
        graph_.set_scope(name_ + ".delta_norm");
        VKFORMER_TRY(const Value gains, gain("delta_norm", w.norm));
        VKFORMER_TRY(const Value normed, graph::rms_norm(graph_, seen, gains, config_.norm_eps));
        return graph_.reshape(normed, {layout_.rows, layout_.len, c.values()});
    }

    /// Before its gate and norm: [rows, len, scan.values()].
    Result<Value> selective_scan(std::size_t index, Value x, Value starts) {
        const StateWeights& w = weights_.layers[index].state;
        const DecoderConfig::SelectiveScan& c = config_.scan;
        VKFORMER_TRY(const Value input, project("xbc", w.input, x, DType::f32));
        VKFORMER_TRY(const Value xbc, convolution(index, input, starts, graph::Activation::silu, false));
        VKFORMER_TRY(const Value steps, project("scan_step", w.step, x, DType::f32));
        const std::string scope = name_ + ".scan";
        graph_.set_scope(scope);
        VKFORMER_TRY(const Value rates, graph_.weight(scope + ".rates", w.rates, DType::f32));
        VKFORMER_TRY(const Value kept, state("scan", index, {c.heads, c.state_dim, c.head_dim}));
        VKFORMER_TRY(
            const Value seen,
            graph::selective_scan(
                graph_, xbc, steps, rates, kept, state_place(starts),
                {.groups = c.groups, .least_step = c.least_step, .most_step = c.most_step, .result = layout_.dtype}));
        return graph_.reshape(seen, {layout_.rows, layout_.len, c.values()});
    }

    /// Of all that a selective scan gives for a token, or of each of some parts by itself.
    Result<Value> scan_norm(const NormWeights& w, Value y) {
        const DecoderConfig::SelectiveScan& c = config_.scan;
        graph_.set_scope(name_ + ".scan_norm");
        VKFORMER_TRY(const Value gains, gain("scan_norm", w));
        if (c.norm_groups > 1) {
            VKFORMER_TRY(y, graph_.reshape(y, {layout_.rows, layout_.len, c.norm_groups, c.values() / c.norm_groups}));
        }
        VKFORMER_TRY(const Value normed, graph::rms_norm(graph_, y, gains, c.norm_eps));
        return graph_.reshape(normed, {layout_.rows, layout_.len, c.values()});
    }

    /// [β | step] of each head: float32, whatever the activations are, for steps are exponents.
    Result<Value> delta_gates(const StateWeights& w, Value x) {
        if (can_join({&w.beta, &w.step})) return project_joined("delta_gates", {&w.beta, &w.step}, x, DType::f32);
        VKFORMER_TRY(const Value beta, project("delta_beta", w.beta, x, DType::f32));
        VKFORMER_TRY(const Value step, project("delta_step", w.step, x, DType::f32));
        return graph::concat(graph_, beta, step);
    }

    /// `x`: the hidden state behind the layer's norm; `middle`: before it.
    Result<Value> feed_forward(const DecoderWeights::Layer& w, Value x, Value middle) {
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

    /// The tokens, one after the other: [tokens, width].
    Result<Value> token_rows(Value x) {
        return graph_.reshape(x, {std::uint64_t{layout_.rows} * layout_.len, graph_.shape(x).back()});
    }

    /// Σ_j weights[token, j] · y[token, j]     weights: [tokens, n], y: n rows for each token.
    Result<Value> weighted(Value weights, Value y) {
        const std::uint64_t tokens = graph_.shape(weights)[0], n = graph_.shape(weights)[1], d = config_.hidden_size;
        VKFORMER_TRY(const Value scores, graph_.reshape(weights, {tokens, 1, 1, n}));
        VKFORMER_TRY(const Value rows, graph_.reshape(y, {tokens, n, 1, d}));
        VKFORMER_TRY(const Value sum, graph::weighted_sum(graph_, scores, rows));
        return graph_.reshape(sum, {layout_.rows, layout_.len, d});
    }

    /// What the tokens give for some experts' scores: float32, whatever the activations are.
    Result<Value> scores_of(std::string_view what, const TensorData& router, const TensorData& router_bias, Value x) {
        const std::string scope = name_ + "." + std::string(what);
        graph_.set_scope(scope);
        VKFORMER_TRY(const Value weight, graph_.weight(scope + ".weight", router, storage_of(router)));
        VKFORMER_TRY(const Value bias, optional_weight(scope + ".bias", router_bias));
        return graph::linear(graph_, x, weight, bias, DType::f32);
    }

    /// What experts, or their router, see by a norm of their own; else x.
    Result<Value> seen_by_experts(std::string_view what, const NormWeights& w, Value x, Value middle) {
        if (!w) return token_rows(x);
        VKFORMER_TRY(const Value own, norm(what, w, middle));
        return token_rows(own);
    }

    Result<Value> mixture(const ExpertWeights& w, Value normed, Value middle) {
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
            VKFORMER_TRY(route.weights,
                         graph::gated_activation(graph_, factors, route.weights, graph::Activation::none));
        }
        VKFORMER_TRY(const Value inner, inner_of_experts(w, x, route.indices));
        VKFORMER_TRY(Value y, project_experts("down", w.down, inner, route.indices));
        VKFORMER_TRY(y, add_expert_bias("down", {&w.down_bias}, y, route.indices));
        return weighted(route.weights, y);
    }

    /// What the experts' last matrices are multiplied with.
    Result<Value> inner_of_experts(const ExpertWeights& w, Value x, Value experts) {
        if (!w.gate.empty()) return gated_experts(w, x, experts);
        VKFORMER_TRY(Value up, project_experts("up", w.up, x, experts));
        VKFORMER_TRY(up, add_expert_bias("up", {&w.up_bias}, up, experts));
        return graph::activate(graph_, up, config_.activation);
    }

    Result<Value> gated_experts(const ExpertWeights& w, Value x, Value experts) {
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

    /// y[token, j, :] + the row of expert experts[token, j], which is that of each of the biases, one behind the other.
    Result<Value> add_expert_bias(std::string_view what, std::initializer_list<const TensorData*> biases, Value y,
                                  Value experts) {
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

    /// Matrices that follow each other in memory, as those of a stack do, as one.
    static std::vector<TensorData> in_few_parts(const std::vector<TensorData>& matrices) {
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

    Result<Value> project_experts(std::string_view what, const std::vector<TensorData>& matrices, Value x,
                                  Value experts) {
        return project_each(name_ + ".experts." + std::string(what), in_few_parts(matrices), x, experts,
                            config_.experts.count);
    }

    /// Each row with the matrices, of `count`, that it goes to.
    Result<Value> project_each(const std::string& scope, std::vector<TensorData> matrices, Value x, Value owners,
                               std::uint64_t count) {
        graph_.set_scope(scope);
        const DType stored = storage_of(matrices.front());
        VKFORMER_TRY(const Value weight, graph_.weight(scope + ".weight", std::move(matrices), stored));
        return graph::expert_linear(graph_, x, weight, owners, count);
    }

    /// sigmoid(router · x) · shared
    Result<Value> weigh_shared(const ExpertWeights& w, Value shared, Value x) {
        VKFORMER_TRY(const Value rows, token_rows(x));
        VKFORMER_TRY(const Value scores, scores_of("shared_router", w.shared_router, {}, rows));
        VKFORMER_TRY(const Value weights, graph::activate(graph_, scores, graph::Activation::sigmoid));
        return weighted(weights, shared);
    }

    Result<Value> dense(const DecoderWeights::Layer& w, Value x) {
        Value inner;
        if (w.gate.weight.bytes.empty()) {
            VKFORMER_TRY(const Value up, project("up", w.up, x));
            VKFORMER_TRY(inner, graph::activate(graph_, up, config_.activation));
        } else {
            VKFORMER_TRY(inner, gated(w, x));
        }
        return project("down", w.down, inner);
    }

    Result<Value> gated(const DecoderWeights::Layer& w, Value x) {
        if (can_join({&w.gate, &w.up})) {
            VKFORMER_TRY(const Value both, project_joined("gate_up", {&w.gate, &w.up}, x));
            graph_.set_scope(name_ + ".feed_forward");
            return graph::gated_activation(graph_, both, {}, config_.activation);
        }
        VKFORMER_TRY(const Value up, project("up", w.up, x));
        VKFORMER_TRY(const Value gate, project("gate", w.gate, x));
        graph_.set_scope(name_ + ".feed_forward");
        return graph::gated_activation(graph_, gate, up, config_.activation);
    }

    const DecoderConfig& config_;
    const DecoderWeights& weights_;
    Graph& graph_;
    const DecoderLayout layout_;
    const Value lengths_;
    std::vector<Value> rope_tables_;               // absent until a layer needs them
    std::vector<KeysValues> keys_values_;          // of each layer, or its caches
    std::vector<Value> layer_embeddings_;          // of each of their parts, [tokens · layers of it, width]
    AdapterProducts adapters_;
    std::vector<Value> caches_;
    LayerValues kept_;
    std::vector<Value> source_weights_;
    std::string name_;  // of the layer at hand
};

std::uint64_t DecoderConfig::state_bytes() const noexcept {
    const std::uint64_t kept = std::uint64_t{taps} - (taps > 0 ? 1 : 0),
                        matrices = std::uint64_t{delta_rule.key_dim} * delta_rule.values();
    std::uint64_t numbers = 0;
    for (const Layer& layer : layers) {
        if (layer.mixer == Mixer::convolution) numbers += kept * hidden_size;
        if (layer.mixer == Mixer::delta_rule) numbers += kept * delta_rule.width() + matrices;
        if (layer.mixer == Mixer::selective_scan)
            numbers += kept * scan.width() + std::uint64_t{scan.state_dim} * scan.values();
    }
    return numbers * sizeof(float);
}

Result<void> Decoder::check_cache(CacheFormat format) const {
    if (format == CacheFormat::as_computed) return {};
    const auto differs = [this](const DecoderConfig::Layer& layer) {
        const std::uint32_t heads = config_.kv_heads_of(layer), width = config_.head_dim_of(layer);
        return layer.mixer == DecoderConfig::Mixer::attention &&
               (width % block_elements(DType::q8_0) != 0 || !graph::fills_words(DType::q8_0, heads * width));
    };
    const auto other = std::ranges::find_if(config_.layers, differs);
    if (other == config_.layers.end()) return {};
    return Error{
        .code = ErrorCode::InvalidArgument,
        .message =
            "keys and values cannot be cached as q8_0: its blocks have 32 elements of a head and come in pairs, "
            "the model has " +
            std::to_string(config_.kv_heads_of(*other)) + " key heads of " +
            std::to_string(config_.head_dim_of(*other)) +
            "; cache them in the dtype of the activations, f16 for half of f32's memory",
        .hint = Hint::cache_storage};
}

Result<void> Decoder::check_beams() const {
    if (!config_.keeps_states()) return {};
    return Error{.code = ErrorCode::InvalidArgument,
                 .message =
                     "layers of this model keep a state of each sequence, which a beam search would have to "
                     "copy; ask for one beam",
                 .hint = Hint::beams};
}

Result<void> Decoder::check_encoding() const {
    if (!config_.keeps_states()) return {};
    return Error{ErrorCode::UnsupportedConfig,
                 "layers of this model keep a state of each sequence, with which it can continue texts but not give "
                 "vectors or scores of whole ones; take a model whose layers all have attention"};
}

Result<void> Decoder::find_capacity(const Graph& graph, DecoderLayout& layout) const {
    if ((layout.pages > 0) != bool{layout.page_table})
        return Error{ErrorCode::InvalidArgument, "caches in pages need a table of them, and a table caches in pages"};
    if ((layout.window_pages > 0) != bool{layout.window_table} ||
        (layout.window_table &&
         (layout.pages == 0 || graph.shape(layout.window_table) != graph.shape(layout.page_table))))
        return Error{ErrorCode::InvalidArgument, "pages of windows have a table beside the others', of the same shape"};
    if (layout.pages == 0) return {};
    if (layout.cache_rows > 0) return Error{ErrorCode::InvalidArgument, "caches in pages have no rows of their own"};
    const std::uint64_t positions = graph.shape(layout.page_table).back() * graph::kPageLen;
    // The last page may hold more than the model has positions for.
    const std::uint64_t whole = graph::page_count(config_.most_positions()) * graph::kPageLen;
    layout.capacity = static_cast<std::uint32_t>(
        positions == whole ? config_.most_positions() : std::min<std::uint64_t>(positions, Graph::kMaxElements));
    return {};
}

Result<DecoderPass> Decoder::add_pass(Graph& graph, const DecoderLayout& wanted, Value tokens, Value starts,
                                      Logits logits) const {
    DecoderLayout layout = wanted;
    VKFORMER_CHECK(find_capacity(graph, layout));
    if (layout.extended && config_.extended_positions == 0)
        return Error{ErrorCode::InvalidArgument, "the model has no positions for sequences beyond its context of " +
                                                     std::to_string(config_.max_positions) + " tokens"};
    if (layout.extended && config_.extended_ropes.size() != config_.ropes.size())
        return Error{ErrorCode::UnsupportedConfig,
                     "some layers' positions are scaled for sequences beyond the context of " +
                         std::to_string(config_.max_positions) + " tokens, and some are not; take shorter ones"};
    if (layout.capacity == 0 || layout.capacity > config_.most_positions())
        return Error{ErrorCode::InvalidArgument, "a context of " + std::to_string(layout.capacity) +
                                                     " tokens was asked for, the model takes 1 to " +
                                                     std::to_string(config_.most_positions())};
    VKFORMER_CHECK(check_cache(layout.cache));
    if (layout.layers.attention && (layout.pages > 0 || layout.cache != CacheFormat::as_computed))
        return Error{ErrorCode::InvalidArgument,
                     "attention weights are kept with caches as they are computed, neither in pages nor in blocks"};
    if (layout.cache_rows > 0) VKFORMER_CHECK(check_beams());
    if (layout.cache_rows > 0 && layout.rows != 1)
        return Error{ErrorCode::InvalidArgument, "caches of more rows than are computed are for one sequence"};
    Builder build(*this, graph, layout);
    VKFORMER_TRY(const Value embedded, build.embed(tokens, starts));
    VKFORMER_TRY(const Value x, build.layers(embedded, starts));
    return build.finish(x, logits);
}

Result<DecoderPass> Decoder::add_encoding(Graph& graph, const DecoderLayout& wanted, Value tokens, Value lengths,
                                          Value types, Logits logits) const {
    if (wanted.len > config_.max_positions)
        return Error{ErrorCode::InvalidArgument, "the model takes at most " + std::to_string(config_.max_positions) +
                                                     " tokens, not " + std::to_string(wanted.len)};
    // Tables of positions of a few lengths serve texts of all.
    const DecoderLayout layout = {.rows = wanted.rows,
                                  .len = wanted.len,
                                  .capacity = std::min(std::bit_ceil(wanted.len), config_.max_positions),
                                  .dtype = wanted.dtype,
                                  .weights = wanted.weights,
                                  .adapter_scales = wanted.adapter_scales,
                                  .layers = wanted.layers,
                                  .source = wanted.source};
    VKFORMER_CHECK(check_encoding());
    Builder build(*this, graph, layout, lengths);
    VKFORMER_TRY(const Value embedded, build.embed(tokens, {}, types));
    VKFORMER_TRY(const Value x, build.layers(embedded, {}));
    return build.finish(x, logits);
}

Result<void> Decoder::add_source(Graph& graph, const DecoderLayout& layout, Value hidden) const {
    return Builder(*this, graph, layout).keep_source(hidden);
}

Result<std::vector<Value>> Decoder::add_caches(Graph& graph, const DecoderLayout& layout) const {
    VKFORMER_CHECK(check_beams());
    Builder build(*this, graph, layout);
    for (std::size_t layer = 0; layer < config_.layers.size(); ++layer) {
        if (!build.has_cache(layer)) continue;
        VKFORMER_CHECK(build.cache("key", layer));
        if (!config_.latent) VKFORMER_CHECK(build.cache("value", layer));
    }
    return build.caches();
}

}  // namespace vkformer::models
