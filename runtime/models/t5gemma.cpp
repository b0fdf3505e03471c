// SPDX-License-Identifier: MIT
// T5Gemma (Zhang et al. 2025, arXiv 2504.06225): two stacks of Gemma 2's layers. The encoder's tokens see what follows them too, a window
// as far to either side as it reaches back in the decoder; the decoder's layers attend to what the encoder gave, with the same heads and
// caps and without positions, between norms of their own.
#include <array>
#include <numeric>
#include <utility>

#include "core/try.hpp"
#include "graph/builders/constant.hpp"
#include "models/decoder_loading.hpp"
#include "models/seq2seq_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::Weights;
using graph::Graph;
using graph::Value;

/// An encoder and a decoder that attends to it, both of decoder.hpp.
class TwoStacks final : public EncoderDecoder {
public:
    TwoStacks(DecoderParts encoder, DecoderParts decoder)
        : encoder_(std::move(encoder.config), std::move(encoder.weights)),
          decoder_(std::move(decoder.config), std::move(decoder.weights)) {}

    Limits limits() const noexcept override {
        const DecoderConfig& decoder = decoder_.config();
        return {.source_len = encoder_.config().max_positions,
                .target_len = decoder.max_positions,
                .source_vocab = encoder_.config().vocab_size,
                .target_vocab = decoder.vocab_size,
                .decoder_layers = decoder.layers.size(),
                .decoder_heads = decoder.heads,
                .takes_any_mask = false};
    }

    Result<ForwardGraph> forward(const ForwardOptions& options) const override {
        if (options.target_mask || options.source_mask == SourceMask::additive) return only_lengths();
        ForwardGraph f;
        Graph& g = f.graph;
        VKFORMER_TRY(f.source_tokens, g.input("input_ids", DType::i32, {options.batch, options.source_len}));
        Value lengths;
        if (options.source_mask == SourceMask::lengths) {
            VKFORMER_TRY(f.source_lengths, g.input("source_lengths", DType::i32, {options.batch}));
            lengths = f.source_lengths;
        } else {
            VKFORMER_TRY(lengths, whole(g, options.batch, options.source_len));
        }
        VKFORMER_TRY(f.target_tokens, g.input("decoder_input_ids", DType::i32, {options.batch, options.target_len}));
        DecoderLayout layout = {.rows = options.batch,
                                .len = options.source_len,
                                .dtype = options.dtype,
                                .weights = options.weights,
                                .layers = options.layers};
        VKFORMER_TRY(DecoderPass encoded, encoder_.add_encoding(g, layout, f.source_tokens, lengths));
        layout.len = options.target_len;
        layout.source = {
            .batch = options.batch, .len = options.source_len, .lengths = lengths, .hidden = encoded.hidden};
        if (options.layers.attention) {
            layout.source.kept.resize(decoder_.config().layers.size());
            std::iota(layout.source.kept.begin(), layout.source.kept.end(), std::size_t{0});
        }
        VKFORMER_TRY(const Value all, whole(g, options.batch, options.target_len));
        VKFORMER_TRY(DecoderPass decoded, decoder_.add_encoding(g, layout, f.target_tokens, all, {}, Logits::all));
        f.encoder_hidden = encoded.hidden;
        f.decoder_hidden = decoded.hidden;
        for (const Value output : {f.encoder_hidden, f.decoder_hidden, decoded.logits}) g.mark_output(output);
        const Shape shape = {options.batch, options.target_len, decoder_.config().vocab_size};
        VKFORMER_TRY(f.logits, g.reshape(decoded.logits, shape));
        f.encoder_states = std::move(encoded.layers.hidden);
        f.decoder_states = std::move(decoded.layers.hidden);
        add_maps(AttentionKind::encoder, encoded.layers.attention, f.attention);
        for (std::uint32_t i = 0; i < decoded.source_weights.size(); ++i) {
            f.attention.push_back({AttentionKind::decoder, i, decoded.layers.attention[i]});
            f.attention.push_back({AttentionKind::cross, i, decoded.source_weights[i]});
        }
        return f;
    }

    Result<SourceTensors> add_encoder(Graph& graph, const DecodeLayout& layout) const override {
        VKFORMER_TRY(SourceTensors source, source_of(graph, layout));
        VKFORMER_TRY(source.tokens, graph.input("input_ids", DType::i32, {layout.batch, layout.source_len}));
        VKFORMER_TRY(
            const DecoderPass encoded,
            encoder_.add_encoding(
                graph,
                {.rows = layout.batch, .len = layout.source_len, .dtype = layout.dtype, .weights = layout.weights},
                source.tokens, source.lengths));
        VKFORMER_CHECK(decoder_.add_source(graph, decoder_layout(layout, 1, source), encoded.hidden));
        return source;
    }

    Result<Step> add_decoder_step(Graph& graph, const DecodeLayout& layout, Value tokens, Value starts) const override {
        Step step;
        VKFORMER_TRY(step.source, source_of(graph, layout));
        VKFORMER_TRY(DecoderPass pass,
                     decoder_.add_pass(graph, decoder_layout(layout, 1, step.source), tokens, starts, Logits::all));
        step.logits = pass.logits;
        step.caches = std::move(pass.caches);
        return step;
    }

    Result<KnownTarget> add_known_target(Graph& graph, const DecodeLayout& layout, Value tokens,
                                         std::span<const std::uint32_t> layers) const override {
        if (layers.empty() || layers.back() >= decoder_.config().layers.size())
            return Error{ErrorCode::InvalidArgument, "the decoder has " +
                                                         std::to_string(decoder_.config().layers.size()) +
                                                         " layers, of which one or more are asked for"};
        KnownTarget target;
        VKFORMER_TRY(target.source, source_of(graph, layout));
        const auto len = static_cast<std::uint32_t>(graph.shape(tokens)[1]);
        DecoderLayout known = decoder_layout(layout, len, target.source);
        known.source.kept.assign(layers.begin(), layers.end());
        VKFORMER_TRY(const Value all, whole(graph, layout.batch, len));
        VKFORMER_TRY(const DecoderPass pass, decoder_.add_encoding(graph, known, tokens, all));
        for (std::size_t i = 0; i < layers.size(); ++i)
            target.attention.push_back({AttentionKind::cross, layers[i], pass.source_weights[i]});
        return target;
    }

private:
    static Error only_lengths() {
        return {ErrorCode::InvalidArgument,
                "a model of two stacks that keep positions takes no mask but lengths: only padding at the end"};
    }

    /// Lengths of texts without padding.
    static Result<Value> whole(Graph& graph, std::uint32_t batch, std::uint32_t len) {
        return graph::constant(graph, "whole", {batch},
                               std::vector<std::int32_t>(batch, static_cast<std::int32_t>(len)));
    }

    static Result<SourceTensors> source_of(Graph& graph, const DecodeLayout& layout) {
        if (layout.masked_source) return only_lengths();
        SourceTensors source;
        VKFORMER_TRY(source.lengths, graph.state("source_lengths", DType::i32, {layout.batch}));
        return source;
    }

    static DecoderLayout decoder_layout(const DecodeLayout& layout, std::uint32_t len, const SourceTensors& source) {
        return {.rows = layout.rows(),
                .len = len,
                .capacity = layout.max_steps,
                .dtype = layout.dtype,
                .weights = layout.weights,
                .source = {.batch = layout.batch, .len = layout.source_len, .lengths = source.lengths}};
    }

    static void add_maps(AttentionKind kind, const std::vector<Value>& weights,
                         std::vector<ForwardGraph::AttentionMap>& maps) {
        for (const Value value : weights) maps.push_back({kind, static_cast<std::uint32_t>(maps.size()), value});
    }

    Decoder encoder_, decoder_;
};

/// Attention to the source, in the names of the decoder's layers.
Result<void> read_source(const Weights& weights, const std::string& prefix, bool has_bias, DecoderParts& parts) {
    const DecoderConfig& c = parts.config;
    const WeightReader read(weights, prefix + "layers.");
    const std::uint64_t d = c.hidden_size, width = std::uint64_t{c.heads} * c.head_dim,
                        kv_width = std::uint64_t{c.kv_heads} * c.head_dim;
    for (std::size_t i = 0; i < c.layers.size(); ++i) {
        const std::string layer = std::to_string(i) + ".", cross = layer + "cross_attn.";
        SourceWeights& w = parts.weights.layers[i].source.emplace();
        VKFORMER_TRY(w.norm, read.norm(layer + "pre_cross_attn_layernorm", d));
        VKFORMER_TRY(w.query, read.projection(cross + "q_proj", width, d, has_bias));
        VKFORMER_TRY(w.key, read.projection(cross + "k_proj", kv_width, c.source_size, has_bias));
        VKFORMER_TRY(w.value, read.projection(cross + "v_proj", kv_width, c.source_size, has_bias));
        VKFORMER_TRY(w.output, read.projection(cross + "o_proj", d, width, has_bias));
        VKFORMER_TRY(w.post_norm, read.norm(layer + "post_cross_attn_layernorm", d));
    }
    return {};
}

}  // namespace

Result<std::unique_ptr<EncoderDecoder>> load_t5gemma(const Config& config, const Weights& weights) {
    constexpr std::array<std::string_view, 2> kArchitectures = {"T5GemmaForConditionalGeneration", "T5GemmaModel"};
    VKFORMER_CHECK(refuse_other_seq2seq(config, kArchitectures));
    const std::string prefix = find_prefix(weights, "model.", "encoder.embed_tokens.weight");
    LlamaLayout layout = {
        .attention_norm = "pre_self_attn_layernorm", .attention_post_norm = "post_self_attn_layernorm", .tied = true};
    VKFORMER_TRY(const Config encoder_json, config.object("encoder"));
    VKFORMER_TRY(const Config decoder_json, config.object("decoder"));
    VKFORMER_TRY(DecoderParts encoder, load_gemma2_stack(encoder_json, weights, prefix + "encoder.", layout));
    encoder.config.is_causal = false;
    encoder.config.scope = "encoder.";
    layout.head = "lm_head.out_proj";
    VKFORMER_TRY(layout.tied, config.boolean("tie_word_embeddings", true));
    VKFORMER_TRY(DecoderParts decoder, load_gemma2_stack(decoder_json, weights, prefix + "decoder.", layout));
    if (!decoder.weights.lm_head) {
        VKFORMER_TRY(const TensorData missing, weights.get("lm_head.out_proj.weight"));
    }
    const std::uint32_t size = encoder.config.hidden_size;
    VKFORMER_TRY(decoder.config.source_size,
                 decoder_json.unsigned_integer("cross_attention_hidden_size", {.fallback = size}));
    if (decoder.config.source_size != size)
        return decoder_json.unsupported("cross_attention_hidden_size", "the encoder's hidden_size");
    VKFORMER_TRY(const bool has_bias, decoder_json.boolean("attention_bias", false));
    VKFORMER_CHECK(read_source(weights, prefix + "decoder.", has_bias, decoder));
    return std::unique_ptr<EncoderDecoder>(std::make_unique<TwoStacks>(std::move(encoder), std::move(decoder)));
}

}  // namespace vkformer::models
