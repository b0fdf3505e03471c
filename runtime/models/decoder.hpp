// SPDX-License-Identifier: MIT
/// Decoder-only language models: one Transformer whose parts a config switches on and off. The files beside this one (llama.cpp,
/// gemma.cpp, …) turn the config and the tensors of an architecture into a DecoderConfig and DecoderWeights.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/builders.hpp"
#include "models/file_notes.hpp"
#include "models/layer_values.hpp"
#include "models/layer_weights.hpp"
#include "models/weight_format.hpp"

namespace vkformer::models {

/// Rotary positions: frequencies θ_k (see graph::rope) and what queries and keys are multiplied with besides.
struct Rope {
    std::vector<double> frequencies;  ///< rotary_dim / 2 of them; elements of a head behind rotary_dim are not turned
    double scale = 1;
    graph::RopePairing pairing = graph::RopePairing::halves;
};

struct DecoderConfig {
    enum class Norm : std::uint8_t { rms, layer };

    /// What a layer sees the tokens before by.
    enum class Mixer : std::uint8_t {
        none,  ///< by nothing: the layer has feed-forward layers alone
        attention,
        convolution,  ///< of the last tokens alone, gated (graph::short_convolution)
        delta_rule,  ///< a matrix for each head, which tokens correct (graph::gated_delta_rule), behind a convolution with SiLU
        selective_scan,  ///< Mamba-2: one to which tokens are added (graph::selective_scan), behind a convolution with SiLU
    };

    struct Layer {
        Mixer mixer = Mixer::attention;
        std::uint32_t window = 0;         ///< keys so far away, or further, are not seen; 0: all are
        std::optional<std::size_t> rope;  ///< index into ropes; none: the layer's attention knows no positions
        bool has_experts = false;  ///< a mixture of them in place of feed-forward layers that all tokens go through
        std::uint32_t kv_heads = 0, head_dim = 0;  ///< of its attention; 0: the config's
        std::optional<std::size_t>
            shared_cache;  ///< an earlier layer, whose keys and values it sees; none: it has its own
    };

    struct Experts {
        std::uint32_t count = 0, per_token = 0;
        std::uint32_t intermediate_size = 0,
                      shared_size = 0;  ///< of an expert, and of the one of all tokens; 0: there is none
        graph::RouteScores scores = graph::RouteScores::softmax;
        graph::RouteGroups groups;
        bool normalises = false;   ///< the weights of a token's experts sum up to `scale`
        float least_sum = 1e-20f;  ///< as of graph::RouteOptions
        float scale = 1;           ///< of the weights
        float jitter = 0;          ///< as of graph::RouteOptions
        graph::GateClamp clamp;    ///< of their gates
    };

    /// Multi-head latent attention (DeepSeek-AI 2024, arXiv 2405.04434, section 2.1): what a cache holds of a token is a latent vector,
    /// from which each head makes its keys and values, and a key of positions that all heads share. A head's matrices are multiplied with
    /// its queries and its results (the paper's "absorbed" form), so that attention has one head of keys [latent | rotated], which are its
    /// values too: kv_heads is 1, head_dim rank + rotary_dim.
    struct LatentAttention {
        std::uint32_t rank = 0;        ///< of the latent vector; 0: attention is not of this kind
        std::uint32_t query_rank = 0;  ///< queries are made of so many numbers; 0: of the hidden state itself
        std::uint32_t plain_dim = 0, rotary_dim = 0;  ///< of a head's query: without positions, and turned by them
        std::uint32_t value_dim = 0;                  ///< of a head's result
        float norm_eps = 0;                           ///< of the norms of both ranks

        std::uint32_t query_dim() const noexcept { return plain_dim + rotary_dim; }
        explicit operator bool() const noexcept { return rank > 0; }
    };

    struct DeltaRule {
        std::uint32_t key_heads = 0, heads = 0, key_dim = 0, value_dim = 0;
        bool in_turns = false;  ///< as of graph::GatedDeltaOptions

        std::uint32_t keys() const noexcept { return key_heads * key_dim; }
        std::uint32_t values() const noexcept { return heads * value_dim; }
        /// Of queries, keys and values together.
        std::uint32_t width() const noexcept { return 2 * keys() + values(); }
    };

    struct SelectiveScan {
        std::uint32_t groups = 0, heads = 0, state_dim = 0, head_dim = 0;
        float least_step = 0,
              most_step = std::numeric_limits<float>::infinity();  ///< as of graph::SelectiveScanOptions
        float norm_eps = 0;                                        ///< of the norm of the result
        std::uint32_t norm_groups = 1;                             ///< parts of it that are normed each by itself

        std::uint32_t values() const noexcept { return heads * head_dim; }
        /// Of x, B and C together.
        std::uint32_t width() const noexcept { return values() + 2 * groups * state_dim; }
    };

    std::uint32_t vocab_size = 0, hidden_size = 0, intermediate_size = 0;
    std::uint32_t heads = 0, kv_heads = 0, head_dim = 0;
    std::uint32_t max_positions = 0;  ///< longest sequence that the model was made for
    /// > 0: longer sequences, up to this, have extended_ropes at all of their positions (LongRoPE, Ding et al. 2024).
    std::uint32_t extended_positions = 0;
    std::vector<Layer> layers;
    std::vector<Rope> ropes, extended_ropes;
    Experts experts;         ///< of the layers that have them
    LatentAttention latent;  ///< of all layers' attention, if it is of this kind
    DeltaRule delta_rule;    ///< of the layers that have one
    SelectiveScan scan;      ///< likewise
    std::uint32_t taps = 0;  ///< of the convolutions of layers that have one: tokens that each output sees

    /// Hidden states of a token (AltUp: StreamWeights). What keeps a layer's hidden state keeps the first.
    std::uint32_t streams = 1;
    bool is_causal = true;  ///< a token sees none behind it; false: that of an encoder, for add_encoding alone
    /// "encoder.", before the names of what the graph has of the model: of one of two in a graph, or with the same weights and states.
    std::string scope = {};
    /// > 0: between attention and feed-forward layers, tokens attend to vectors of this size, the source.
    std::uint32_t source_size = 0;
    NormPlace norm_place = NormPlace::before;
    /// With norms before: attention and feed-forward layers see the same hidden state, x + attention(norm(x)) + feed_forward(norm'(x)).
    bool is_parallel = false;
    Norm norm = Norm::rms;
    float norm_eps = 1e-5f;
    float norm_gain_offset = 0;  ///< added to the gains of RMS norms
    bool turns_before_norms =
        false;                   ///< heads of queries and keys are turned by their positions before they are normed
    bool norms_values = false;   ///< each head of the values by its root mean square, without gains
    float embedding_scale = 1;   ///< of the tokens' embeddings
    float residual_scale = 1;    ///< what lies between the layers is the hidden state divided by it
    float attention_scale = 1;   ///< of the scores
    float logit_scale = 1;       ///< of the logits, before their cap
    float attention_soft_cap = 0, logit_soft_cap = 0;  ///< c · tanh(x / c); 0: none
    graph::Activation activation = graph::Activation::silu;

    std::uint32_t most_positions() const noexcept { return std::max(max_positions, extended_positions); }
    std::uint32_t kv_heads_of(const Layer& layer) const noexcept {
        return layer.kv_heads > 0 ? layer.kv_heads : kv_heads;
    }
    std::uint32_t head_dim_of(const Layer& layer) const noexcept {
        return layer.head_dim > 0 ? layer.head_dim : head_dim;
    }
    /// Numbers that all layers with a window, or all without one, keep of a token: keys and values, or a latent vector and a key.
    std::uint64_t cached_numbers(bool windows) const noexcept {
        std::uint64_t numbers = 0;
        for (const Layer& layer : layers)
            if (layer.mixer == Mixer::attention && !layer.shared_cache && (layer.window > 0) == windows)
                numbers += (latent ? 1 : 2) * std::uint64_t{kv_heads_of(layer)} * head_dim_of(layer);
        return numbers;
    }
    std::uint64_t attention_layers() const noexcept {
        return static_cast<std::uint64_t>(
            std::ranges::count_if(layers, [](const Layer& layer) { return layer.mixer == Mixer::attention; }));
    }
    /// Whether a layer sees all tokens, or there is none with a window.
    bool has_full_attention() const noexcept { return largest_window() == 0 || cached_numbers(false) > 0; }
    /// 0: no layer has one.
    std::uint32_t largest_window() const noexcept {
        std::uint32_t largest = 0;
        for (const Layer& layer : layers)
            if (layer.mixer == Mixer::attention) largest = std::max(largest, layer.window);
        return largest;
    }
    /// Bytes of the states that all layers keep of one sequence.
    std::uint64_t state_bytes() const noexcept;
    /// Whether a layer's state holds all that it knows of a sequence: nothing that was read can be taken back, and no two sequences share it.
    bool keeps_states() const noexcept {
        return std::ranges::any_of(
            layers, [](const Layer& layer) { return layer.mixer != Mixer::attention && layer.mixer != Mixer::none; });
    }
};

/// Σ_e weight_e(x) · down_e(f(gate_e(x)) · up_e(x)) over the experts that the router chooses for a token (Shazeer et al. 2017).
struct ExpertWeights {
    NormWeights norm,
        router_norm;  ///< of what experts and router see, the hidden state; optional: that of what other layers see
    TensorData router, router_bias;  ///< [experts, hidden_size], and [experts], optional
    TensorData choice_bias;  ///< [experts], optional: added to the scores where experts are chosen, and nowhere else
    std::vector<TensorData> gate, up,
        down;  ///< of each expert, [intermediate_size, hidden_size] and, down, the other way round; no gate: down(f(up(x)))
    TensorData gate_bias, up_bias,
        down_bias;             ///< [experts, intermediate_size] and, down, [experts, hidden_size]; optional
    TensorData scales;  ///< [experts, 1], by which each one's weights are multiplied once they are summed up; optional
    TensorData shared_router;  ///< [1, hidden_size]: by its sigmoid counts the expert of all tokens; optional
    NormWeights post_norm,
        shared_post_norm;  ///< of the experts' sum, and of what the expert of all tokens gives; optional

    explicit operator bool() const noexcept { return !down.empty(); }
};

/// Of latent attention, what takes the place of query, key and value.
struct LatentWeights {
    Projection query_down;   ///< [query_rank, hidden_size], optional
    NormWeights query_norm;  ///< [query_rank], likewise
    /// [heads · plain_dim, in] and [heads · rotary_dim, in], of query_rank numbers or of the hidden state.
    Projection plain_query, rotary_query;
    Projection latent, rotary_key;  ///< [rank, hidden_size] and [rotary_dim, hidden_size]
    NormWeights latent_norm;        ///< [rank]
    TensorData key_up;              ///< [heads · rank, plain_dim]: a head's query becomes one of latent vectors
    TensorData value_up;            ///< [heads · value_dim, head_dim], the columns of the rotated key zeros
};

/// Per-layer embeddings (Gemma 3n and 4): what layer i adds to its result x is norm(output(f(gate(x)) · e_i)), with e_i the layer's part
/// of (norm'(projection(h)) + table[token]) / √2 for the token's embedding h. Here they are of some layers that follow each other, for a
/// table of all is longer than devices' buffers.
struct LayerEmbeddings {
    TensorData table;       ///< [tokens, layers · width]; Gemma 3n's has none for what stands for images and sounds
    Projection projection;  ///< [layers · width, hidden_size]
};

/// AltUp (Baykal et al. 2023) and LAuReL (Menghani et al. 2024), as Gemma 3n has them, of norms before. With m(x) = tanh(router(norm(x))),
/// of the n hidden states h_i of a token and what the layer before has added to all but the first, e:
///   p_i = Σ_j (predict · m(h_0) + predict_bias)_ij [h | e]_j
///   y = (p_0 + attention(z) + z + laurel_norm(right(left(z)))) / √2,  z = attention_norm(p_0),  y ← y + feed_forward(y)
///   h_i ← Σ_j (correct · m(y) + correct_bias)_ij [p | y]_j
/// and e is what the layer's embeddings make of scale · h_0.
struct StreamWeights {
    NormWeights norm;   ///< [hidden_size]
    TensorData router;  ///< [n, hidden_size]
    /// f32, [n · n, n] of the first layer, [n · (n + 1), n] of others, and so much bias.
    TensorData predict, predict_bias;
    TensorData correct, correct_bias;  ///< f32, [n · (n + 1), n] and [n · (n + 1)]
    TensorData scale;                  ///< [1, hidden_size], optional
    Projection left, right;            ///< [rank, hidden_size] and back
    NormWeights laurel_norm;
};

/// Of a layer with a state, what others do not have.
struct StateWeights {
    /// Of a convolution [before | behind | channels], [3 · hidden_size, hidden_size]; of a delta rule queries, keys and values, one after the
    /// other, [delta_rule.width(), hidden_size]; of a selective scan x, B and C, [scan.width(), hidden_size].
    Projection input;
    TensorData taps, taps_bias;  ///< [width, taps] of the convolution, and [width], optional
    Projection beta;             ///< of a delta rule alone, [heads, hidden_size]
    // Of both recursions:
    Projection step;   ///< [heads, hidden_size]
    TensorData rates;  ///< f32, decay of graph::gated_delta_rule or rates of graph::selective_scan
    /// Of the result: [value_dim], of each head by itself, or, behind the gate, [scan.values()] or [scan.norm_groups, scan.values() /
    /// scan.norm_groups].
    NormWeights norm;
};

/// Of a model that guesses what follows the tokens that another one reads (multi-token prediction: DeepSeek-AI 2024, arXiv 2412.19437,
/// section 2.2). Its layers see, of each token, projection([token_norm(embedding) | hidden_norm(h)]), with h the hidden state behind the
/// last norm that the token before has in the other model or, where that has not read so far, in this one.
struct HandoverWeights {
    NormWeights token_norm, hidden_norm;
    Projection projection;                             ///< [hidden_size, 2 · hidden_size]
    bool has_own_table = false, has_own_head = false;  ///< else they are the other model's, which its weights are among

    explicit operator bool() const noexcept { return bool{projection}; }
};

/// x + post_norm(output(what query(norm(x)) sees of key(source) and value(source)))
struct SourceWeights {
    NormWeights norm;
    Projection query, key, value, output;
    NormWeights post_norm;
};

struct DecoderWeights : AdapterSet {
    struct Layer {
        NormWeights attention_norm;    ///< before attention (or its like), or behind it (NormPlace); optional
        Projection query, key, value;  ///< heads one after the other; no value: it is the key, before its norm
        LatentWeights latent;          ///< in place of them, of latent attention
        StateWeights state;            ///< in place of them, of layers with a state
        /// Optional, as wide as what goes to `output`, which is multiplied by its sigmoid; a recursion's by its SiLU.
        Projection mixed_gate;
        Projection output;
        /// Of every head, [head_dim], or [heads, head_dim] with gains of its own, or of all of them together; optional.
        NormWeights query_norm, key_norm;
        TensorData sinks;  ///< [heads], a score of each query that is no key's (AttentionMask::sinks); optional
        NormWeights attention_post_norm;  ///< of the attention's result, before the residual; optional
        std::optional<SourceWeights> source;  ///< of all layers of a model that attends to a source
        /// Before the feed-forward layers, or behind them; absent, with feed_forward_post_norm: there are none. Of parallel layers that
        /// have one norm it is attention_norm.
        NormWeights feed_forward_norm;
        Projection gate;                  ///< optional: down(f(gate(x)) · up(x)), else down(f(up(x)))
        Projection up, down;
        ExpertWeights experts;  ///< optional; gate, up and down are then, if there, those of the expert of all tokens
        NormWeights feed_forward_post_norm;  ///< optional
        Projection embedding_gate, embedding_output;  ///< of per-layer embeddings; optional
        NormWeights embedding_norm;
        float scale = 1;                   ///< of the hidden state behind the layer
        StreamWeights streams;             ///< of a model with several
        std::optional<float> gate_cutoff;  ///< gates go through graph::gaussian_top_k with so many deviations
    };
    TensorData embedding;  ///< [vocab_size, hidden_size]
    TensorData positions;  ///< [max_positions, hidden_size] of learned positions; empty bytes: none
    TensorData types;      ///< [types, hidden_size], what the type of a token adds to its embedding; empty bytes: none
    NormWeights embedding_norm;  ///< optional
    HandoverWeights handover;    ///< optional
    std::vector<LayerEmbeddings> layer_embeddings;  ///< of all layers, or none
    NormWeights layer_embedding_norm;               ///< [width], of their projections
    /// Of several streams, [hidden_size, hidden_size] for each but the first, what they begin as, and what becomes of them at the end: both
    /// with the first one's magnitude. The last hidden state is their mean.
    std::vector<Projection> stream_inputs, stream_outputs;
    std::vector<Layer> layers;
    NormWeights final_norm;  ///< optional
    /// weight: the embedding's own bytes, where both are tied; none: a model for add_encoding alone
    Projection lm_head;
};

/// How keys and values are stored in their caches.
enum class CacheFormat : std::uint8_t {
    as_computed,  ///< in the dtype of the activations
    q8_0,  ///< in blocks of 32 with a scale, 8.5 bits an element: for head_dim a multiple of 32, kv_heads · head_dim one of 64
};

struct DecoderLayout {
    std::uint32_t rows = 1;      ///< sequences
    std::uint32_t len = 1;       ///< tokens of each in one run
    std::uint32_t capacity = 1;  ///< positions that the key/value caches hold; at most most_positions()
    DType dtype = DType::f32;    ///< of activations: f32 or f16
    WeightFormat weights = WeightFormat::as_computed;
    CacheFormat cache = CacheFormat::as_computed;
    bool extended = false;  ///< the sequences are longer than max_positions
    /// > 0: the caches have so many rows, of which the one sequence (rows = 1) has the first: the beams of a search begin alike.
    std::uint32_t cache_rows = 0;
    /// > 0: the caches are states of so many pages (graph/pages.hpp), which page_table names, whatever graphs of other rows and capacities
    /// do with the same pages. The capacity is then that of the table, table_len · kPageLen, or most_positions() where that is less.
    std::uint32_t pages = 0;
    graph::Value page_table{};  ///< with pages: i32 [rows, table_len]
    /// > 0: the caches of layers with a window have so many pages, and a table of their own, as long as the others'. Keys that a window
    /// hides are not read, whatever their tables' places hold.
    std::uint32_t window_pages = 0;
    graph::Value window_table{};
    /// Of a model that keeps states, i32 [rows]: tokens of each row that are its own (graph::StatePlace::counts); absent: all are.
    graph::Value counts{};
    /// Of a model with adapters, f32 [rows, adapter_columns]: what Decoder::adapter_words gives; absent: none of them counts.
    graph::Value adapter_scales{};
    std::uint32_t slots = 0;  ///< with state_slots: so many states there are
    graph::Value
        state_slots{};  ///< of a model that keeps states, i32 [rows, 2]: graph::StatePlace::slots; absent: a state for each row
    graph::Value handed{};  ///< with a handover, [rows, len, hidden_size]: h of each token
    LayerChoice layers{};  ///< attention: with caches as they are computed, not in pages

    /// Of a model that attends to a source: `batch` sources, of each of which rows / batch sequences are beams, one behind the other.
    struct Source {
        std::uint32_t batch = 0, len = 0;
        graph::Value lengths{};           ///< i32 [batch]
        graph::Value hidden{};            ///< [batch, len, source_size]; absent: what add_source has left of it
        std::vector<std::size_t> kept{};  ///< layers whose weights of it are kept
    } source{};
};

enum class Logits : std::uint8_t { none, all };

/// What one run adds to a graph.
struct DecoderPass {
    graph::Value hidden;               ///< [rows, len, hidden_size] behind the last norm
    graph::Value logits;               ///< f32 [rows · len, vocab_size]; absent with Logits::none
    std::vector<graph::Value> caches;  ///< of all layers, keys and values
    LayerValues layers;
    std::vector<graph::Value> source_weights;  ///< of the layers of Source::kept, f32 [batch, heads, queries, len]
};

/// The model: weights in files and how they are put together. Immutable and thread-safe.
class Decoder : public FileNotes {
public:
    /// Requires what the loading functions give: weights of the shapes that the config says.
    Decoder(DecoderConfig config, DecoderWeights weights) : config_(std::move(config)), weights_(std::move(weights)) {}

    const DecoderConfig& config() const noexcept { return config_; }
    const DecoderWeights& weights() const noexcept { return weights_; }

    /// Adapters that the model has beside its weights.
    std::size_t adapters() const noexcept { return weights_.adapters.size(); }
    /// DecoderLayout::adapter_scales, as bits, of rows that have a scale of each adapter, or none: then none counts.
    std::vector<std::int32_t> adapter_words(std::span<const std::span<const float>> rows) const {
        return weights_.adapter_words(rows);
    }
    /// As of AdapterSet.
    Result<void> check_adapters(std::span<const float> scales) const { return weights_.check_adapters(scales); }

    /// Errors: InvalidArgument (heads that are no whole blocks of the format; it names their numbers).
    Result<void> check_cache(CacheFormat format) const;

    /// Errors: InvalidArgument (layers keep states, which a beam search would have to copy).
    Result<void> check_beams() const;
    /// Errors: UnsupportedConfig (layers keep states, and add_encoding has none).
    Result<void> check_encoding() const;

    /// Adds the forward pass over tokens i32 [rows, len], the first of row r at position starts[r] (i32 [rows]). Keys and values
    /// are appended to the caches, states "key_cache.L" and "value_cache.L" [rows, capacity, kv_heads, head_dim], with pages
    /// [pages, kPageLen, kv_heads, head_dim], but of layers that see those of others, and every token attends to those before it there. Positions at or above the capacity are not
    /// kept. Latent attention has the first of the two alone. Layers with a state have it in "convolution_state.L" and "delta_state.L" or
    /// "scan_state.L", f32, a row for each sequence or slot, and take up where the run before ended, whatever `starts` says, unless it says
    /// 0. Errors: the builders', and InvalidArgument (a capacity above most_positions(), or a table with pages that lie wholly above it;
    /// extended for a model that is not; a cache format that its heads do not fit; pages and cache_rows; cache_rows of a model that keeps
    /// states; a handover without what is handed over, or the other way round).
    Result<DecoderPass> add_pass(graph::Graph& graph, const DecoderLayout& layout, graph::Value tokens,
                                 graph::Value starts, Logits logits) const;

    /// Adds the forward pass over whole texts, without caches: tokens i32 [rows, len], of which those from lengths[r] (i32 [rows]) on are
    /// padding that no other token sees, with their types (i32 [rows, len]; absent: all 0). There are no caches; rows of padding have no
    /// meaning. Of the layout, rows, len, dtype, weights, layers and source count. Errors: the builders', and InvalidArgument (a len above
    /// max_positions).
    Result<DecoderPass> add_encoding(graph::Graph& graph, const DecoderLayout& layout, graph::Value tokens,
                                     graph::Value lengths, graph::Value types = {}, Logits logits = Logits::none) const;

    /// Adds what all layers make of the source, hidden [batch, len, source_size]: states that passes with this layout's source read, whose
    /// names have its length.
    Result<void> add_source(graph::Graph& graph, const DecoderLayout& layout, graph::Value hidden) const;

    /// The caches alone, in a graph that has no pass.
    Result<std::vector<graph::Value>> add_caches(graph::Graph& graph, const DecoderLayout& layout) const;

private:
    class Builder;

    /// With pages, the capacity of the table.
    Result<void> find_capacity(const graph::Graph& graph, DecoderLayout& layout) const;

    DecoderConfig config_;
    DecoderWeights weights_;
};

}  // namespace vkformer::models
