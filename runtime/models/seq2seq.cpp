// SPDX-License-Identifier: MIT
#include "models/seq2seq.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/try.hpp"

namespace vkformer::models {
namespace {

using graph::AttentionMask;
using graph::Graph;
using graph::Value;

constexpr const char *kSelf = "self_attn", *kCross = "encoder_attn";

/// The states that an encoder leaves for the decoder differ with the source length, so its number is in their names.
std::string cross_state(std::string_view what, std::size_t layer, const DecodeLayout& layout) {
    return "cross_" + std::string(what) + "." + std::to_string(layer) + ".source_" + std::to_string(layout.source_len);
}

Shape cross_shape(const Seq2SeqConfig::Stack& decoder, const DecodeLayout& layout) {
    return {layout.batch, layout.source_len, decoder.heads, decoder.head_dim};
}

Result<SourceTensors> source_states(Graph& graph, const DecodeLayout& layout) {
    SourceTensors source;
    if (layout.masked_source) {
        VKFORMER_TRY(source.mask, graph.state("source_mask.source_" + std::to_string(layout.source_len), DType::f32,
                                              {layout.batch, 1, 1, layout.source_len}));
    } else {
        VKFORMER_TRY(source.lengths, graph.state("source_lengths", DType::i32, {layout.batch}));
    }
    return source;
}

AttentionMask mask_of(const SourceTensors& source) { return {.key_lengths = source.lengths, .additive = source.mask}; }

}  // namespace

EncoderDecoder::Limits Seq2Seq::limits() const noexcept {
    return {.source_len = config_.encoder.max_positions,
            .target_len = config_.decoder.max_positions,
            .source_vocab = config_.encoder.vocab_size,
            .target_vocab = config_.target_vocab,
            .source_features = source_features(),
            .decoder_layers = weights_.decoder.layers.size(),
            .decoder_heads = config_.decoder.heads,
            .takes_any_mask = !config_.has_relative_bias};
}

/// The pieces of one stack for one graph. Scopes, and so the names of nodes and tensors, are "encoder.3.self_attn" and the like.
class Seq2Seq::Builder {
public:
    using Layer = Seq2SeqWeights::Layer;
    using Attention = Seq2SeqWeights::Attention;
    using AttentionMaps = std::vector<ForwardGraph::AttentionMap>;

    enum class Side : std::uint8_t { encoder, decoder };

    /// `dtype`: of activations, f32 or f16.
    Builder(const Seq2Seq& model, Side side, Graph& graph, DType dtype, WeightFormat format)
        : config_(model.config_),
          weights_(model.weights_),
          stack_(side == Side::encoder ? model.config_.encoder : model.config_.decoder),
          stack_weights_(side == Side::encoder ? model.weights_.encoder : model.weights_.decoder),
          name_(side == Side::encoder ? "encoder" : "decoder"),
          graph_(graph),
          dtype_(dtype),
          format_(format) {}

    const std::vector<Layer>& layers() const { return stack_weights_.layers; }
    std::string scope(std::size_t layer, const std::string& what) const {
        return name_ + "." + std::to_string(layer) + "." + what;
    }

    /// What the first layer reads.
    Result<Value> embed(Value tokens, Value starts) {
        graph_.set_scope(name_);
        const TensorData& table = stack_weights_.embedding;
        VKFORMER_TRY(const Value stored, matrix(embedding_name(table), table));
        VKFORMER_TRY(Value x, graph::embedding(graph_, tokens, stored, config_.embedding_scale, dtype_));
        VKFORMER_TRY(x, add_positions(x, starts));
        return norm(name_ + ".embedding_norm", stack_weights_.embedding_norm, x);
    }

    /// One projection, split into heads: [batch, len, heads, head_dim]. `attention` is the scope of its attention.
    Result<Value> project_heads(const std::string& attention, const char* projection, const Projection& w, Value x) {
        VKFORMER_TRY(const Value y, linear(attention + "." + projection, w, x));
        const Shape& shape = graph_.shape(y);
        return graph_.reshape(y, {shape[0], shape[1], stack_.heads, stack_.head_dim});
    }

    /// An attention with what is around it; attend(query, h) makes [.., heads, head_dim] of the query and of h, of which the query
    /// was made.
    template <class Attend>
    Result<Value> attention(std::size_t layer, const char* what, const Attention& w, Value x, Attend&& attend) {
        const std::string at = scope(layer, what);
        return residual(at, at + "_layer_norm", w.norm, x, [&](Value h) -> Result<Value> {
            VKFORMER_TRY(const Value query, project_heads(at, "q_proj", w.query, h));
            VKFORMER_TRY(const Value heads, attend(query, h));
            const Shape joined = graph_.shape(h).with_back(std::uint64_t{stack_.heads} * stack_.head_dim);
            VKFORMER_TRY(const Value y, graph_.reshape(heads, joined));
            return linear(at + ".out_proj", w.output, y);
        });
    }

    Result<Value> feed_forward(std::size_t layer, Value x) {
        const Layer& w = layers()[layer];
        return residual(scope(layer, "fc2"), scope(layer, "final_layer_norm"), w.feed_forward_norm, x,
                        [&](Value h) -> Result<Value> {
                            VKFORMER_TRY(const Value inner, inner_layer(layer, h));
                            return linear(scope(layer, "fc2"), w.down, inner);
                        });
    }

    /// The mask of a layer's self-attention, the bias by distance in it where the model has one.
    Result<AttentionMask> self_mask(std::size_t layer, const AttentionMask& base, Value starts, std::uint64_t query_len,
                                    std::uint64_t key_len) {
        if (!config_.has_relative_bias) return base;
        if (base.additive)
            return Error{ErrorCode::InvalidArgument,
                         "a model with relative positions takes no mask but lengths: its scores have a bias already"};
        const TensorData& table = layers()[layer].relative_bias;
        if (!table.bytes.empty()) {
            const std::string at = scope(layer, kSelf);
            graph_.set_scope(at);
            VKFORMER_TRY(const Value stored, graph_.weight(at + ".relative_bias", table, DType::f32));
            VKFORMER_TRY(relative_bias_, graph::relative_bias(graph_, stored, starts, query_len, key_len));
        }
        AttentionMask mask = base;
        mask.additive = relative_bias_;
        return mask;
    }

    Result<Value> final_norm(Value x) { return norm(name_ + ".layer_norm", stack_weights_.final_norm, x); }

    float score_scale() const {
        return config_.scales_scores ? 1.0f / std::sqrt(static_cast<float>(stack_.head_dim)) : 1.0f;
    }

    static std::string scope_of(AttentionKind kind) { return kind == AttentionKind::cross ? kCross : kSelf; }

    /// Attention over whole sequences: the query, of which `keys` are the keys' and values' source.
    Result<Value> attend(std::size_t layer, AttentionKind kind, const Attention& w, Value query, Value keys,
                         const AttentionMask& mask, AttentionMaps* maps) {
        const std::string at = scope(layer, scope_of(kind));
        VKFORMER_TRY(const Value key, project_heads(at, "k_proj", w.key, keys));
        VKFORMER_TRY(const Value value, project_heads(at, "v_proj", w.value, keys));
        return attend_to(layer, kind, query, {key, value}, mask, maps);
    }

    struct KeysAndValues {
        Value key, value;
    };
    /// With `maps`, by the path that keeps the weights, which it adds.
    Result<Value> attend_to(std::size_t layer, AttentionKind kind, Value query, const KeysAndValues& kept,
                            const AttentionMask& mask, AttentionMaps* maps) {
        const auto& [key, value] = kept;
        graph_.set_scope(scope(layer, scope_of(kind)));
        if (!maps) return graph::attention(graph_, query, key, value, mask, score_scale());
        VKFORMER_TRY(const auto both, graph::attention_with_weights(graph_, query, key, value, mask, score_scale()));
        maps->push_back({kind, static_cast<std::uint32_t>(layer), both.weights});
        return both.seen;
    }

    /// What the first layer of a model that hears reads: two convolutions with GELU, the second of stride two.
    Result<Value> listen(Value features) {
        const Shape shape = graph_.shape(features);
        const std::uint64_t d = config_.d_model;
        VKFORMER_TRY(const Value windows, graph_.reshape(features, {shape[0], 3 * shape[1], shape[2] / 3}));
        VKFORMER_TRY(const Value first, linear(name_ + ".conv1", weights_.stem.first, windows));
        VKFORMER_TRY(const Value heard, graph::activate(graph_, first, graph::Activation::gelu_erf));
        VKFORMER_TRY(const Value joined, graph_.reshape(heard, {shape[0], shape[1], 3 * d}));
        VKFORMER_TRY(const Value second, linear(name_ + ".conv2", weights_.stem.second, joined));
        VKFORMER_TRY(const Value x, graph::activate(graph_, second, graph::Activation::gelu_erf));
        return add_positions(x, {});
    }

    /// What a pass keeps besides its result, and where: nullptr is nowhere.
    struct Kept {
        AttentionMaps* maps = nullptr;
        std::vector<Value>* states = nullptr;
    };
    void keep(Value x, const Kept& kept) {
        if (kept.states) keep_output(graph_, x, *kept.states);
    }

    /// The whole encoder, of tokens or features.
    Result<Value> encoder(Value source, const AttentionMask& mask, const Kept& kept) {
        VKFORMER_TRY(Value x, config_.mel_bins ? listen(source) : embed(source, {}));
        const std::uint64_t len = graph_.shape(x)[1];
        for (std::size_t layer = 0; layer < layers().size(); ++layer) {
            keep(x, kept);
            const Attention& w = layers()[layer].self;
            VKFORMER_TRY(const AttentionMask seen, self_mask(layer, mask, {}, len, len));
            VKFORMER_TRY(x, attention(layer, kSelf, w, x, [&](Value query, Value h) {
                             return attend(layer, AttentionKind::encoder, w, query, h, seen, kept.maps);
                         }));
            VKFORMER_TRY(x, feed_forward(layer, x));
        }
        VKFORMER_TRY(x, final_norm(x));
        keep(x, kept);
        return x;
    }

    /// The first layers of the decoder over a target that is known. cross(layer, query) attends to the source.
    template <class Cross>
    Result<Value> decoder(Value tokens, const AttentionMask& mask, std::size_t count, const Kept& kept, Cross&& cross) {
        VKFORMER_TRY(Value x, embed(tokens, {}));
        const std::uint64_t len = graph_.shape(x)[1];
        for (std::size_t layer = 0; layer < count; ++layer) {
            keep(x, kept);
            const Attention& self = layers()[layer].self;
            VKFORMER_TRY(const AttentionMask seen, self_mask(layer, mask, {}, len, len));
            VKFORMER_TRY(x, attention(layer, kSelf, self, x, [&](Value query, Value h) {
                             return attend(layer, AttentionKind::decoder, self, query, h, seen, kept.maps);
                         }));
            VKFORMER_TRY(x, attention(layer, kCross, *layers()[layer].cross, x,
                                      [&](Value query, Value) { return cross(layer, query); }));
            VKFORMER_TRY(x, feed_forward(layer, x));
        }
        return x;
    }

    /// One token per row against the cache of those before it, which it joins.
    Result<Value> attend_to_cache(std::size_t layer, const DecodeLayout& layout, Value query, Value h, Value starts,
                                  std::vector<Value>& caches) {
        const Attention& w = layers()[layer].self;
        const std::string at = scope(layer, kSelf);
        const auto cache = [&](const char* what, const char* projection, const Projection& p) -> Result<Value> {
            VKFORMER_TRY(const Value x, project_heads(at, projection, p, h));
            VKFORMER_TRY(const Value state,
                         graph_.state("self_" + std::string(what) + "." + std::to_string(layer), layout.dtype,
                                      {layout.rows(), layout.max_steps, stack_.heads, stack_.head_dim}));
            graph_.set_scope(at + "." + what);
            VKFORMER_CHECK(graph::cache_append(graph_, x, starts, state));
            caches.push_back(state);
            return state;
        };
        VKFORMER_TRY(const Value key, cache("key", "k_proj", w.key));
        VKFORMER_TRY(const Value value, cache("value", "v_proj", w.value));
        const AttentionMask causal = {.causal = true, .starts = starts};
        VKFORMER_TRY(const AttentionMask mask, self_mask(layer, causal, starts, 1, layout.max_steps));
        graph_.set_scope(at);
        return graph::decode_attention(graph_, query, key, value, mask, score_scale());
    }

    /// What keep_source has projected.
    Result<KeysAndValues> kept_source(std::size_t layer, const DecodeLayout& layout) {
        const Shape shape = cross_shape(stack_, layout);
        VKFORMER_TRY(const Value key, graph_.state(cross_state("key", layer, layout), layout.dtype, shape));
        VKFORMER_TRY(const Value value, graph_.state(cross_state("value", layer, layout), layout.dtype, shape));
        return KeysAndValues{key, value};
    }

    /// One token per row against what the encoder left. The beams of a sequence are queries of one batch element, so that they
    /// share its keys and values.
    Result<Value> attend_to_source(std::size_t layer, const DecodeLayout& layout, Value query,
                                   const AttentionMask& mask) {
        VKFORMER_TRY(const KeysAndValues kept, kept_source(layer, layout));
        const auto& [key, value] = kept;
        VKFORMER_TRY(const Value beams,
                     graph_.reshape(query, {layout.batch, layout.beams, stack_.heads, stack_.head_dim}));
        graph_.set_scope(scope(layer, kCross));
        return layout.beams == 1 ? graph::decode_attention(graph_, beams, key, value, mask, score_scale())
                                 : graph::attention(graph_, beams, key, value, mask, score_scale());
    }

    /// Projects what the encoder gave for every layer of the decoder, into the states that kept_source reads.
    Result<void> keep_source(const DecodeLayout& layout, Value source) {
        const auto keep = [&](std::size_t layer, const char* what, const char* projection,
                              const Projection& w) -> Result<void> {
            VKFORMER_TRY(const Value state,
                         graph_.state(cross_state(what, layer, layout), layout.dtype, cross_shape(stack_, layout)));
            VKFORMER_TRY(const Value x, project_heads(scope(layer, kCross), projection, w, source));
            return graph::cache_append(graph_, x, {}, state);
        };
        for (std::size_t layer = 0; layer < layers().size(); ++layer) {
            VKFORMER_CHECK(keep(layer, "key", "k_proj", layers()[layer].cross->key));
            VKFORMER_CHECK(keep(layer, "value", "v_proj", layers()[layer].cross->value));
        }
        return {};
    }

    /// Logits f32 [batch · len, target_vocab] of what the last layer gave, [batch, len, d_model]; `normed` is it behind the final
    /// norm, made here where absent.
    Result<Value> logits(Value last, Value normed) {
        if (weights_.logits_norm) {
            VKFORMER_TRY(normed, norm("lm_head.norm", weights_.logits_norm, last));
        } else if (!normed) {
            VKFORMER_TRY(normed, final_norm(last));
        }
        graph_.set_scope("lm_head");
        VKFORMER_TRY(const Value rows, graph_.reshape(normed, {graph_.shape(normed).row_count(), config_.d_model}));
        const TensorData& head = weights_.lm_head.weight;
        VKFORMER_TRY(const Value table, matrix(embedding_name(head), head));
        VKFORMER_TRY(const Value bias, optional_weight("lm_head.bias", weights_.lm_head.bias));
        return graph::linear(graph_, rows, table, bias, DType::f32);
    }

private:
    Result<Value> inner_layer(std::size_t layer, Value x) {
        const Layer& w = layers()[layer];
        VKFORMER_TRY(const Value up, linear(scope(layer, "fc1"), w.up, x));
        if (w.gate.weight.bytes.empty()) return graph::activate(graph_, up, config_.activation);
        VKFORMER_TRY(const Value gate, linear(scope(layer, "gate"), w.gate, x));
        graph_.set_scope(scope(layer, "gate"));
        return graph::gated_activation(graph_, gate, up, config_.activation);
    }

    /// Tables that are the same bytes have the same name, so that they are one tensor on the device.
    std::string embedding_name(const TensorData& table) const {
        if (is_same(table, weights_.encoder.embedding)) return "encoder.embedding";
        return is_same(table, weights_.decoder.embedding) ? "decoder.embedding" : "lm_head.weight";
    }

    Result<Value> add_positions(Value x, Value starts) {
        const TensorData& table = stack_weights_.positions;
        if (table.bytes.empty()) return x;
        const char* name = is_same(table, weights_.encoder.positions) ? "encoder.positions" : "decoder.positions";
        VKFORMER_TRY(const Value positions, graph_.weight(name, table, DType::f32));
        return graph::positional_embedding(graph_, x, positions, starts);
    }

    /// Of a product, or a table of tokens.
    Result<Value> matrix(const std::string& name, const TensorData& data) {
        return graph_.weight(name, data, stored_dtype(data, dtype_, format_));
    }

    /// Absent where there is no data.
    Result<Value> optional_weight(const std::string& name, const TensorData& data) {
        if (data.bytes.empty()) return Value{};
        return graph_.weight(name, data, dtype_);
    }

    Result<Value> linear(const std::string& at, const Projection& w, Value x) {
        graph_.set_scope(at);
        VKFORMER_TRY(const Value weight, matrix(at + ".weight", w.weight));
        VKFORMER_TRY(const Value bias, optional_weight(at + ".bias", w.bias));
        return graph::linear(graph_, x, weight, bias);
    }

    /// x itself where the model has no such norm.
    Result<Value> norm(const std::string& at, const NormWeights& w, Value x) {
        if (!w) return x;
        graph_.set_scope(at);
        VKFORMER_TRY(const Value gain, graph_.weight(at + ".gain", w.gain, dtype_));
        if (config_.norm == Seq2SeqConfig::Norm::rms) return graph::rms_norm(graph_, x, gain, config_.norm_eps);
        VKFORMER_TRY(const Value bias, optional_weight(at + ".bias", w.bias));
        return graph::layer_norm(graph_, x, gain, bias, config_.norm_eps);
    }

    /// body(x) with the residual, and the norm before or after it.
    template <class Body>
    Result<Value> residual(const std::string& at, const std::string& norm_at, const NormWeights& w, Value x,
                           Body&& body) {
        if (config_.norm_place == Seq2SeqConfig::NormPlace::before) {
            VKFORMER_TRY(const Value normed, norm(norm_at, w, x));
            VKFORMER_TRY(const Value y, body(normed));
            graph_.set_scope(at);
            return graph::add(graph_, x, y);
        }
        VKFORMER_TRY(const Value y, body(x));
        graph_.set_scope(norm_at);
        VKFORMER_TRY(const Value sum, graph::add(graph_, x, y));
        return norm(norm_at, w, sum);
    }

    const Seq2SeqConfig& config_;
    const Seq2SeqWeights& weights_;
    const Seq2SeqConfig::Stack& stack_;
    const Seq2SeqWeights::Stack& stack_weights_;
    std::string name_;
    Graph& graph_;
    DType dtype_;
    WeightFormat format_;
    Value relative_bias_;  // of the last layer that has a table
};

Result<ForwardGraph> Seq2Seq::forward(const ForwardOptions& options) const {
    ForwardGraph f;
    Graph& g = f.graph;
    if (config_.mel_bins) {
        VKFORMER_TRY(f.source_features,
                     g.input("input_features", options.dtype, {options.batch, options.source_len, source_features()}));
    } else {
        VKFORMER_TRY(f.source_tokens, g.input("input_ids", DType::i32, {options.batch, options.source_len}));
    }
    AttentionMask source_mask;
    if (options.source_mask == SourceMask::lengths) {
        VKFORMER_TRY(f.source_lengths, g.input("source_lengths", DType::i32, {options.batch}));
        source_mask.key_lengths = f.source_lengths;
    } else if (options.source_mask == SourceMask::additive) {
        VKFORMER_TRY(f.source_mask, g.input("source_mask", DType::f32, {options.batch, 1, 1, options.source_len}));
        source_mask.additive = f.source_mask;
    }
    VKFORMER_TRY(f.target_tokens, g.input("decoder_input_ids", DType::i32, {options.batch, options.target_len}));
    AttentionMask target_mask = {.causal = true};
    if (options.target_mask) {
        VKFORMER_TRY(f.target_mask, g.input("target_mask", DType::f32, {options.batch, 1, 1, options.target_len}));
        target_mask.additive = f.target_mask;
    }

    auto* const maps = options.layers.attention ? &f.attention : nullptr;
    const bool keeps_states = options.layers.hidden;
    Builder encoder(*this, Builder::Side::encoder, g, options.dtype, options.weights);
    VKFORMER_TRY(f.encoder_hidden, encoder.encoder(config_.mel_bins ? f.source_features : f.source_tokens, source_mask,
                                                   {maps, keeps_states ? &f.encoder_states : nullptr}));
    g.mark_output(f.encoder_hidden);

    Builder decoder(*this, Builder::Side::decoder, g, options.dtype, options.weights);
    const auto attend_to_encoder = [&](std::size_t layer, Value query) {
        return decoder.attend(layer, AttentionKind::cross, *decoder.layers()[layer].cross, query, f.encoder_hidden,
                              source_mask, maps);
    };
    const Builder::Kept kept{maps, keeps_states ? &f.decoder_states : nullptr};
    VKFORMER_TRY(const Value last,
                 decoder.decoder(f.target_tokens, target_mask, decoder.layers().size(), kept, attend_to_encoder));
    VKFORMER_TRY(f.decoder_hidden, decoder.final_norm(last));
    decoder.keep(f.decoder_hidden, kept);
    g.mark_output(f.decoder_hidden);
    VKFORMER_TRY(const Value logits, decoder.logits(last, f.decoder_hidden));
    g.mark_output(logits);
    VKFORMER_TRY(f.logits, g.reshape(logits, {options.batch, options.target_len, config_.target_vocab}));
    return f;
}

Result<SourceTensors> Seq2Seq::add_encoder(Graph& graph, const DecodeLayout& layout) const {
    VKFORMER_TRY(SourceTensors source, source_states(graph, layout));
    if (config_.mel_bins) {
        VKFORMER_TRY(source.features,
                     graph.input("input_features", layout.dtype, {layout.batch, layout.source_len, source_features()}));
    } else {
        VKFORMER_TRY(source.tokens, graph.input("input_ids", DType::i32, {layout.batch, layout.source_len}));
    }
    Builder encoder(*this, Builder::Side::encoder, graph, layout.dtype, layout.weights);
    VKFORMER_TRY(const Value hidden,
                 encoder.encoder(config_.mel_bins ? source.features : source.tokens, mask_of(source), {}));
    VKFORMER_CHECK(
        Builder(*this, Builder::Side::decoder, graph, layout.dtype, layout.weights).keep_source(layout, hidden));
    return source;
}

Result<EncoderDecoder::Step> Seq2Seq::add_decoder_step(Graph& graph, const DecodeLayout& layout, Value tokens,
                                                       Value starts) const {
    Builder decoder(*this, Builder::Side::decoder, graph, layout.dtype, layout.weights);
    Step step;
    VKFORMER_TRY(step.source, source_states(graph, layout));
    const AttentionMask mask = mask_of(step.source);
    VKFORMER_TRY(Value x, decoder.embed(tokens, starts));
    for (std::size_t layer = 0; layer < decoder.layers().size(); ++layer) {
        const Seq2SeqWeights::Layer& w = decoder.layers()[layer];
        VKFORMER_TRY(x, decoder.attention(layer, kSelf, w.self, x, [&](Value query, Value h) {
            return decoder.attend_to_cache(layer, layout, query, h, starts, step.caches);
        }));
        VKFORMER_TRY(x, decoder.attention(layer, kCross, *w.cross, x, [&](Value query, Value) {
            return decoder.attend_to_source(layer, layout, query, mask);
        }));
        VKFORMER_TRY(x, decoder.feed_forward(layer, x));
    }
    VKFORMER_TRY(step.logits, decoder.logits(x, {}));
    return step;
}

Result<EncoderDecoder::KnownTarget> Seq2Seq::add_known_target(Graph& graph, const DecodeLayout& layout, Value tokens,
                                                              std::span<const std::uint32_t> layers) const {
    Builder decoder(*this, Builder::Side::decoder, graph, layout.dtype, layout.weights);
    if (layers.back() >= decoder.layers().size())
        return Error{ErrorCode::InvalidArgument, "the decoder has no layer " + std::to_string(layers.back())};
    KnownTarget target;
    VKFORMER_TRY(target.source, source_states(graph, layout));
    const auto attend_to_source = [&](std::size_t layer, Value query) -> Result<Value> {
        VKFORMER_TRY(const auto kept, decoder.kept_source(layer, layout));
        const bool is_wanted = std::ranges::find(layers, layer) != layers.end();
        return decoder.attend_to(layer, AttentionKind::cross, query, kept, mask_of(target.source),
                                 is_wanted ? &target.attention : nullptr);
    };
    VKFORMER_TRY(const Value last,
                 decoder.decoder(tokens, {.causal = true}, layers.back() + std::size_t{1}, {}, attend_to_source));
    (void)last;  // what is computed behind the weights that are wanted is not part of the plan
    return target;
}

}  // namespace vkformer::models
