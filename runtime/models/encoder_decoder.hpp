// SPDX-License-Identifier: MIT
/// What decoding needs of an encoder–decoder model: two pieces of graph, and the states that connect them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/builders.hpp"
#include "models/file_notes.hpp"
#include "models/layer_values.hpp"
#include "models/weight_format.hpp"
#include "vkformer/attention_weights.hpp"

namespace vkformer::models {

enum class SourceMask : std::uint8_t {
    none,      ///< every token counts
    lengths,   ///< padding on the right
    additive,  ///< any position may be masked
};

struct ForwardOptions {
    std::uint32_t batch = 1, source_len = 1, target_len = 1;
    DType dtype = DType::f32;  ///< of activations: f32 or f16
    WeightFormat weights = WeightFormat::as_filed;
    SourceMask source_mask = SourceMask::none;
    bool target_mask = false;  ///< adds an additive mask over the target's tokens to the causal one
    LayerChoice layers{};
};

/// Encoder and decoder over whole sequences. Inputs are absent where the options do not ask for them.
struct ForwardGraph {
    graph::Graph graph;
    graph::Value source_tokens;    ///< i32 [batch, source_len]; absent for a model that hears
    graph::Value source_features;  ///< [batch, source_len, Limits::source_features]; absent for one that reads
    graph::Value source_lengths;   ///< i32 [batch]
    graph::Value source_mask;      ///< f32 [batch, 1, 1, source_len], 0 or −∞
    graph::Value target_tokens;    ///< i32 [batch, target_len]
    graph::Value target_mask;      ///< f32 [batch, 1, 1, target_len], 0 or −∞
    graph::Value encoder_hidden;   ///< [batch, source_len, d_model]
    graph::Value decoder_hidden;   ///< [batch, target_len, d_model]
    graph::Value logits;           ///< f32 [batch, target_len, decoder vocabulary]

    struct AttentionMap {
        AttentionKind kind;
        std::uint32_t layer;
        graph::Value weights;  ///< f32 [batch, heads, query_len, key_len]
    };
    std::vector<AttentionMap> attention;  ///< on request, in the order of the forward pass
    /// On request, of both stacks as in LayerValues.
    std::vector<graph::Value> encoder_states, decoder_states;
};

/// How many sequences of which size the graphs of a generation are built for.
struct DecodeLayout {
    std::uint32_t batch = 1;       ///< source sequences
    std::uint32_t beams = 1;       ///< rows of the decoder per source sequence
    std::uint32_t source_len = 1;  ///< tokens per source sequence, padding included
    std::uint32_t max_steps = 1;   ///< tokens to generate at most: the capacity of the self-attention caches
    DType dtype = DType::f32;      ///< of activations and caches: f32 or f16
    WeightFormat weights = WeightFormat::as_filed;
    bool masked_source = false;  ///< false: the source is padded on the right; true: any position may be masked

    std::uint32_t rows() const noexcept { return batch * beams; }
};

/// The tensors by which the host tells an encoder and a decoder step about the source.
struct SourceTensors {
    graph::Value tokens;  ///< input i32 [batch, source_len]; of the encoder only; absent for a model that hears
    graph::Value
        features;  ///< input [batch, source_len, Limits::source_features]; of the encoder only; absent for one that reads
    graph::Value lengths;  ///< state i32 [batch]; absent with masked_source
    graph::Value mask;     ///< state f32 [batch, 1, 1, source_len], 0 or −∞; absent without masked_source
};

/// An encoder–decoder model whose encoder leaves in states what the decoder's steps need: keys and values, or where a recurrent
/// decoder begins. The states of one layout have the same names in both graphs. Thread-safe: the functions only read the
/// model. What a model cannot do of the options (a mask over the target of a recurrent decoder, say) is an
/// InvalidArgument.
class EncoderDecoder : public FileNotes {
public:
    struct Limits {
        std::uint64_t source_len = 0;       ///< longest source sequence
        std::uint64_t target_len = 0;       ///< longest target sequence, the start token included
        std::uint64_t source_vocab = 0;     ///< tokens of the encoder: 0 … source_vocab − 1
        std::uint64_t target_vocab = 0;     ///< width of the logits
        std::uint64_t source_features = 0;  ///< numbers per position of a source that is no text; 0: it is tokens
        std::uint64_t decoder_layers = 0,
                      decoder_heads = 0;  ///< with attention to the source, that add_known_target keeps
        bool takes_any_mask = true;  ///< false: only SourceMask::none and lengths, no target_mask, no masked_source
    };

    virtual ~EncoderDecoder() = default;

    virtual Limits limits() const noexcept = 0;

    /// The whole forward pass for a target that is known (teacher forcing).
    virtual Result<ForwardGraph> forward(const ForwardOptions& options) const = 0;

    /// Adds the encoder and the projections of its result to the cross-attention states.
    virtual Result<SourceTensors> add_encoder(graph::Graph& graph, const DecodeLayout& layout) const = 0;

    struct Step {
        SourceTensors source;
        graph::Value logits;  ///< f32 [rows, target_vocab]
        /// What follows a row's history, [rows, n, …]: self-attention caches (n = max_steps), hidden states (n = 1).
        std::vector<graph::Value> caches;
    };
    /// Adds one step of the decoder for tokens i32 [rows, 1] at positions starts i32 [rows].
    virtual Result<Step> add_decoder_step(graph::Graph& graph, const DecodeLayout& layout, graph::Value tokens,
                                          graph::Value starts) const = 0;

    struct KnownTarget {
        SourceTensors source;
        std::vector<ForwardGraph::AttentionMap>
            attention;  ///< to the source, outputs; of the layers that were asked for
    };
    /// Adds the decoder over a target that is known, tokens i32 [batch, len], against what the encoder has left, up to the last of
    /// `layers`: one or more, rising. Takes one beam. Errors: InvalidArgument (a layer that there is not; a recurrent decoder).
    virtual Result<KnownTarget> add_known_target(graph::Graph& graph, const DecodeLayout& layout, graph::Value tokens,
                                                 std::span<const std::uint32_t> layers) const = 0;
};

}  // namespace vkformer::models
