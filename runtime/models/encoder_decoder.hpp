// SPDX-License-Identifier: MIT
/// What decoding needs of an encoder–decoder model: two pieces of graph, and the states that connect them.
#pragma once

#include <string>
#include <vector>

#include "graph/builders.hpp"

namespace vkformer::models {

/// How many sequences of which size the graphs of a generation are built for.
struct DecodeLayout {
    std::uint32_t batch = 1;       ///< source sequences
    std::uint32_t beams = 1;       ///< rows of the decoder per source sequence
    std::uint32_t source_len = 1;  ///< tokens per source sequence, padding included
    std::uint32_t max_steps = 1;   ///< tokens to generate at most: the capacity of the self-attention caches
    DType dtype = DType::f32;      ///< of weights, activations and caches: f32 or f16
    bool masked_source = false;    ///< false: the source is padded on the right; true: any position may be masked

    std::uint32_t rows() const noexcept { return batch * beams; }
};

/// The tensors by which the host tells an encoder and a decoder step about the source.
struct SourceTensors {
    graph::Value tokens;   ///< input i32 [batch, source_len]; of the encoder only
    graph::Value lengths;  ///< state i32 [batch]; absent with masked_source
    graph::Value mask;     ///< state f32 [batch, 1, 1, source_len], 0 or −∞; absent without masked_source
};

/// An encoder–decoder Transformer whose encoder leaves keys and values for the decoder's cross-attention in states.
/// The states of one layout have the same names in both graphs. Thread-safe: the functions only read the model.
class EncoderDecoder {
public:
    struct Limits {
        std::uint64_t source_len = 0;    ///< longest source sequence
        std::uint64_t target_len = 0;    ///< longest target sequence, the start token included
        std::uint64_t source_vocab = 0;  ///< tokens of the encoder: 0 … source_vocab − 1
        std::uint64_t target_vocab = 0;  ///< width of the logits
    };

    virtual ~EncoderDecoder() = default;

    virtual Limits limits() const noexcept = 0;

    /// Adds the encoder and the projections of its result to the cross-attention states.
    virtual Result<SourceTensors> add_encoder(graph::Graph& graph, const DecodeLayout& layout) const = 0;

    struct Step {
        SourceTensors source;
        graph::Value logits;               ///< f32 [rows, target_vocab]
        std::vector<graph::Value> caches;  ///< self-attention states [rows, max_steps, …]: what follows a row's history
    };
    /// Adds one step of the decoder for tokens i32 [rows, 1] at positions starts i32 [rows].
    virtual Result<Step> add_decoder_step(graph::Graph& graph, const DecodeLayout& layout, graph::Value tokens,
                                          graph::Value starts) const = 0;
};

}  // namespace vkformer::models
