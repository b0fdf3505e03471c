// SPDX-License-Identifier: MIT
/// How a decoder becomes nodes of a graph: defined, by subjects, in decoder_layers.cpp, decoder_attention.cpp, decoder_states.cpp,
/// decoder_experts.cpp and decoder_streams.cpp.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/adapter_products.hpp"
#include "models/decoder.hpp"

namespace vkformer::models {

/// The pieces of the network for one graph. Scopes, and so the names of nodes and tensors, are "layers.3.attention" and the like.
class Decoder::Builder {
public:
    /// `lengths`: of texts that are read whole, without caches; absent: the caches hold what came before.
    Builder(const Decoder& model, graph::Graph& graph, const DecoderLayout& layout, graph::Value lengths = {})
        : config_(model.config_),
          weights_(model.weights_),
          graph_(graph),
          layout_(layout),
          lengths_(lengths),
          rope_tables_(model.config_.ropes.size()),
          keys_values_(model.config_.layers.size()),
          adapters_(graph, layout.dtype, layout.adapter_scales) {}

    Result<graph::Value> embed(graph::Value tokens, graph::Value starts, graph::Value types = {});
    /// What the layers of a model with a handover see of tokens with these embeddings.
    Result<graph::Value> hand_over(graph::Value x);
    /// All layers, over what embed() gave: the last hidden state before the final norm.
    Result<graph::Value> layers(graph::Value x, graph::Value starts);
    /// What comes of the last layer's x, and what the layers gave on request.
    Result<DecoderPass> finish(graph::Value x, Logits wanted);
    /// The states of the source's keys and values.
    Result<void> keep_source(graph::Value hidden);
    /// The layer's cache of that name.
    Result<graph::Value> cache(std::string_view what, std::size_t index);
    const std::vector<graph::Value>& caches() const noexcept { return caches_; }
    /// Whether the layer's keys and values are its own.
    bool has_cache(std::size_t index) const { return !config_.layers[index].shared_cache; }

private:
    struct KeysValues {
        graph::Value keys, values;
    };

    std::uint32_t kv_heads(std::size_t index) const { return config_.kv_heads_of(config_.layers[index]); }
    std::uint32_t head_dim(std::size_t index) const { return config_.head_dim_of(config_.layers[index]); }
    /// Whether the layer's caches are among those of layers with a window.
    bool is_windows(std::size_t index) const { return layout_.window_pages > 0 && config_.layers[index].window > 0; }
    /// Of the layer's caches; none where these are not in pages.
    graph::Value page_table(std::size_t index) const {
        return is_windows(index) ? layout_.window_table : layout_.page_table;
    }
    DType storage_of(const TensorData& data) const { return stored_dtype(data, layout_.dtype, layout_.weights); }

    // The hidden state from layer to layer (decoder_layers.cpp).

    Result<graph::Value> layer(std::size_t index, graph::Value x, graph::Value starts);
    /// norm(y + feed_forward(y)) of y = norm(x + attention(x))
    Result<graph::Value> layer_normed_behind(std::size_t index, graph::Value x, graph::Value starts);
    /// x + attention(norm(x)) + feed_forward(norm'(x))
    Result<graph::Value> layer_parallel(std::size_t index, graph::Value x, graph::Value starts);
    Result<graph::Value> layer_normed_before(std::size_t index, graph::Value x, graph::Value starts);
    /// x + attention(norm(x)), or its like
    Result<graph::Value> add_mixed(std::size_t index, graph::Value x, graph::Value starts);
    /// What the layer makes of the tokens together.
    Result<graph::Value> mixed(std::size_t index, graph::Value x, graph::Value starts);
    /// f(gate(x)) · y
    Result<graph::Value> gate_mixed(const DecoderWeights::Layer& w, graph::Value x, graph::Value y,
                                    graph::Activation activation);
    Result<graph::Value> final_norm(graph::Value x);
    /// Before the name of the table of tokens.
    std::string table_scope() const {
        return weights_.handover && !weights_.handover.has_own_table ? std::string() : config_.scope;
    }
    /// What the head multiplies: final_norm(x) times the scale of the logits.
    Result<graph::Value> scaled_final_norm(graph::Value x);
    /// `hidden`: with the scale of the logits.
    Result<graph::Value> logits(graph::Value hidden);
    /// Of the tokens, whose embeddings are x, what layer_embedding() takes the rows of its layer from.
    Result<void> embed_for_layers(const LayerEmbeddings& w, graph::Value tokens, graph::Value x);
    /// What the layer's own embeddings of the tokens add to its result x.
    Result<graph::Value> layer_embedding(std::size_t index, graph::Value x);
    /// The rows of type 0 are a table of positions that are all alike: no op adds one row to all.
    Result<graph::Value> add_types(graph::Value x, graph::Value types);
    /// The hidden state that x stands for.
    Result<void> keep_hidden(graph::Value x);
    /// Absent where there is no data.
    Result<graph::Value> optional_weight(const std::string& name, const TensorData& data);
    Result<graph::Value> norm(std::string_view what, const NormWeights& w, graph::Value x) {
        return norm(what, w, x, config_.norm_eps);
    }
    Result<graph::Value> norm(std::string_view what, const NormWeights& w, graph::Value x, float eps);
    Result<graph::Value> gain(std::string_view what, const NormWeights& w);
    Result<graph::Value> project(std::string_view what, const Projection& w, graph::Value x,
                                 std::optional<DType> result = {});
    /// Whether several projections of one input can be one product on the device: a launch costs more than a row there.
    bool can_join(std::initializer_list<const Projection*> parts) const;
    Result<graph::Value> project_joined(std::string_view what, std::initializer_list<const Projection*> parts,
                                        graph::Value x, std::optional<DType> result = {});

    // Several hidden states of a token (decoder_streams.cpp).

    /// What the streams of a token with this embedding begin as.
    Result<void> open_streams(graph::Value x);
    /// The hidden state that the streams end as; x is the first of them.
    Result<graph::Value> close_streams(graph::Value x);
    /// The first stream behind the layer, of that before it.
    Result<graph::Value> layer_of_streams(std::size_t index, graph::Value x, graph::Value starts);
    /// One of the streams [rows, len, streams · hidden_size].
    Result<graph::Value> stream(graph::Value streams, std::size_t index);
    /// Weighted sums of `vectors` [rows, len, n · hidden_size], one for each stream, by weights that are x's.
    Result<graph::Value> mix_streams(std::string_view what, const TensorData& weights, const TensorData& bias,
                                     const StreamWeights& w, graph::Value x, graph::Value vectors);

    // Attention (decoder_attention.cpp).

    Result<graph::Value> attention(std::size_t index, graph::Value x, graph::Value starts);
    /// What the tokens of whole texts see of each other, [rows, len, heads, head_dim].
    Result<graph::Value> see_whole_texts(std::size_t index, graph::Value x);
    /// The same as one node, or by those that keep the weights.
    Result<graph::Value> see(std::size_t index, graph::Value query, graph::Value keys, graph::Value values,
                             const graph::AttentionMask& mask);
    /// What new tokens see of the caches, which they are appended to.
    Result<graph::Value> see_caches(std::size_t index, graph::Value x, graph::Value starts);
    /// Scores are float32, whatever the activations are.
    Result<graph::Value> sinks_of(const DecoderWeights::Layer& w);
    /// The queries of a layer, whose keys and values go to the ends of the caches.
    Result<graph::Value> project_attention(std::size_t index, graph::Value x, graph::Value starts, graph::Value keys,
                                           graph::Value values);
    /// [rows, len, heads, head_dim]
    Result<graph::Value> query_of(std::size_t index, graph::Value x, graph::Value starts);
    /// [rows, len, kv_heads, head_dim]
    Result<KeysValues> keys_values_of(std::size_t index, graph::Value x, graph::Value starts);
    /// A projection's result split into heads, normed all together or each by itself: [rows, len, count, width].
    Result<graph::Value> heads(std::string_view what, const NormWeights& norms, std::uint32_t count,
                               std::uint32_t width, graph::Value y);
    /// The same, turned by their positions before their norm or behind it.
    Result<graph::Value> placed_heads(std::string_view what, std::size_t index, const NormWeights& norms,
                                      std::uint32_t count, graph::Value y, graph::Value starts);
    Result<graph::Value> place(std::string_view what, const DecoderConfig::Layer& layer, graph::Value x,
                               graph::Value starts);
    /// The angles of all positions up to the capacity.
    Result<graph::Value> rope_table(std::size_t index);
    /// Queries of latent attention, [rows, len, heads, head_dim].
    Result<graph::Value> latent_query(std::size_t index, graph::Value x, graph::Value starts);
    /// Keys of latent attention, [rows, len, 1, head_dim], which are its values too.
    Result<graph::Value> latent_key(std::size_t index, graph::Value x, graph::Value starts);
    /// A projection split into heads of the rotary width, turned by their positions.
    Result<graph::Value> rotary_heads(std::string_view what, std::size_t index, const Projection& w,
                                      std::uint32_t count, graph::Value x, graph::Value starts);
    /// y[token, h] = W_h · x[token, h]     x: [rows, len, heads, in], weight: the heads' matrices, one behind the other, [heads · out, in].
    Result<graph::Value> multiply_heads(std::string_view what, const TensorData& weight, graph::Value x);
    /// x + what x sees of the source
    Result<graph::Value> add_seen_of_source(std::size_t index, graph::Value x);
    /// The beams of a source are queries of one batch element, so that they share its keys and values.
    Result<graph::Value> see_source(std::size_t index, graph::Value query);
    /// Keys or values of the source, of which `hidden` is absent where they are in their state already.
    Result<graph::Value> source_heads(std::string_view what, std::size_t index, const Projection& w,
                                      graph::Value hidden);

    // Layers with a state (decoder_states.cpp).

    /// A state of a layer, rows of the shape `inner`.
    Result<graph::Value> state(std::string_view what, std::size_t index, std::initializer_list<std::uint64_t> inner);
    graph::StatePlace state_place(graph::Value starts) const;
    Result<graph::Value> convolution(std::size_t index, graph::Value x, graph::Value starts,
                                     graph::Activation activation, bool is_gated);
    /// Behind its norm, which has gains of its own kind: [rows, len, heads · value_dim].
    Result<graph::Value> delta_rule(std::size_t index, graph::Value x, graph::Value starts);
    /// [β | step] of each head: float32, whatever the activations are, for steps are exponents.
    Result<graph::Value> delta_gates(const StateWeights& w, graph::Value x);
    /// Before its gate and norm: [rows, len, scan.values()].
    Result<graph::Value> selective_scan(std::size_t index, graph::Value x, graph::Value starts);
    /// Of all that a selective scan gives for a token, or of each of some parts by itself.
    Result<graph::Value> scan_norm(const NormWeights& w, graph::Value y);

    // Feed-forward layers and mixtures of experts (decoder_experts.cpp).

    /// `x`: the hidden state behind the layer's norm; `middle`: before it.
    Result<graph::Value> feed_forward(const DecoderWeights::Layer& w, graph::Value x, graph::Value middle);
    Result<graph::Value> mixture(const ExpertWeights& w, graph::Value normed, graph::Value middle);
    /// sigmoid(router · x) · shared
    Result<graph::Value> weigh_shared(const ExpertWeights& w, graph::Value shared, graph::Value x);
    /// What experts, or their router, see by a norm of their own; else x.
    Result<graph::Value> seen_by_experts(std::string_view what, const NormWeights& w, graph::Value x,
                                         graph::Value middle);
    /// The tokens, one after the other: [tokens, width].
    Result<graph::Value> token_rows(graph::Value x);
    /// Σ_j weights[token, j] · y[token, j]     weights: [tokens, n], y: n rows for each token.
    Result<graph::Value> weighted(graph::Value weights, graph::Value y);
    /// What the tokens give for some experts' scores: float32, whatever the activations are.
    Result<graph::Value> scores_of(std::string_view what, const TensorData& router, const TensorData& router_bias,
                                   graph::Value x);
    /// What the experts' last matrices are multiplied with.
    Result<graph::Value> inner_of_experts(const ExpertWeights& w, graph::Value x, graph::Value experts);
    Result<graph::Value> gated_experts(const ExpertWeights& w, graph::Value x, graph::Value experts);
    /// y[token, j, :] + the row of expert experts[token, j], which is that of each of the biases, one behind the other.
    Result<graph::Value> add_expert_bias(std::string_view what, std::initializer_list<const TensorData*> biases,
                                         graph::Value y, graph::Value experts);
    Result<graph::Value> project_experts(std::string_view what, const std::vector<TensorData>& matrices, graph::Value x,
                                         graph::Value experts);
    /// Each row with the matrices, of `count`, that it goes to.
    Result<graph::Value> project_each(const std::string& scope, std::vector<TensorData> matrices, graph::Value x,
                                      graph::Value owners, std::uint64_t count);
    Result<graph::Value> dense(const DecoderWeights::Layer& w, graph::Value x);
    Result<graph::Value> gated(const DecoderWeights::Layer& w, graph::Value x);

    const DecoderConfig& config_;
    const DecoderWeights& weights_;
    graph::Graph& graph_;
    const DecoderLayout layout_;
    const graph::Value lengths_;
    std::vector<graph::Value> rope_tables_;       // absent until a layer needs them
    std::vector<KeysValues> keys_values_;         // of each layer, or its caches
    std::vector<graph::Value> layer_embeddings_;  // of each of their parts, [tokens · layers of it, width]
    graph::Value streams_, added_;                // all, and what all but the first still get added
    AdapterProducts adapters_;
    std::vector<graph::Value> caches_;
    LayerValues kept_;
    std::vector<graph::Value> source_weights_;
    std::string name_;  // of the layer at hand
};

}  // namespace vkformer::models
