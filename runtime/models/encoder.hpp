// SPDX-License-Identifier: MIT
/// Encoders of texts: the Transformer encoder of Vaswani et al. 2017 with learned positions, as BERT (Devlin et al. 2019) has it, or
/// the layers of a decoder (decoder.hpp) over whole texts. The files beside this one (bert.cpp, roberta.cpp, distilbert.cpp, clip.cpp,
/// siglip.cpp) turn the config and the tensors of an architecture into an EncoderConfig and EncoderWeights, others (modernbert.cpp,
/// qwen.cpp, …) into a decoder's.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/encoder_layers.hpp"
#include "models/file_notes.hpp"

namespace vkformer::models {

class Decoder;

/// How the rows of a table go by the distance from a key to a query (He et al. 2021, section 3.1; buckets as in DeBERTa-v2's code).
struct RelativeTable {
    std::uint32_t span =
        0;  ///< rows on either side of distance 0, whose own is the first behind the middle; 0: there is no table
    std::uint32_t buckets = 0;       ///< distances beyond half of them share rows, ever more of them; 0: none do
    std::uint32_t max_distance = 0;  ///< with buckets: beyond it all are alike; above buckets / 2 + 1

    /// How many rows from the middle a distance's is, before it is cut to the table.
    std::uint32_t bucket(std::uint32_t distance) const;
};

struct EncoderConfig : EncoderLayerConfig {
    std::uint32_t vocab_size = 0;
    std::uint32_t embedding_size = 0;  ///< width of the tables of tokens, positions and types; 0: hidden_size
    std::uint32_t max_positions = 0;   ///< longest sequence
    std::uint32_t types = 0;           ///< token types (segments); 0: the model knows none
    bool is_causal = false;            ///< a token sees only those before it: CLIP's texts
    std::int32_t end_token = -1;       ///< what follows it is not read; −1: none
    std::uint32_t labels = 0;          ///< outputs of the classification head; 0: there is none
    RelativeTable relative;
    graph::Activation head_activation = graph::Activation::tanh;
    graph::Pooling head_pooling = graph::Pooling::first;  ///< what the head reads
};

struct EncoderWeights : AdapterSet {
    TensorData embedding;             ///< [vocab_size, embedding_size]
    TensorData positions;             ///< [max_positions, embedding_size]; empty bytes: none
    TensorData types;                 ///< [types, embedding_size]; empty bytes: none
    Projection embedding_projection;  ///< to hidden_size; optional
    NormWeights embedding_norm;       ///< optional
    TensorData score_bias;            ///< f32 [heads, distances] of graph::relative_bias, of all layers; empty bytes: none
    TensorData relative;              ///< [2 · span, hidden_size]; empty bytes: none
    NormWeights relative_norm;        ///< of its rows; optional
    std::vector<EncoderLayerWeights> layers;
    NormWeights final_norm;  ///< behind the last layer; optional
    /// With labels only: [hidden_size, hidden_size], which may have no bytes, and [labels, hidden_size].
    Projection head_dense, head_output;
    NormWeights head_norm;  ///< between the two; optional
};

/// How many sequences of which size a graph is built for.
struct EncoderLayout {
    std::uint32_t batch = 1;   ///< sequences
    std::uint32_t len = 1;     ///< tokens of each, padding included
    DType dtype = DType::f32;  ///< of weights and activations: f32 or f16
    bool token_types = false;  ///< an input has the type of each token; else all are of type 0
    bool adapters = false;     ///< an input has how much the model's adapters count; else none does
    LayerChoice layers{};
    friend bool operator==(const EncoderLayout&, const EncoderLayout&) = default;
};

/// The tensors by which the host talks to an encoder.
struct EncoderTensors {
    graph::Value tokens;   ///< input "input_ids", i32 [batch, len]
    graph::Value types;    ///< input "token_type_ids", i32 [batch, len]; absent without token_types
    graph::Value lengths;  ///< input "lengths", i32 [batch]: what follows in a row is padding
    graph::Value adapters;  ///< input "adapters", f32 [batch, adapter_columns]: AdapterSet::adapter_words; if asked for
    graph::Value hidden;    ///< the last hidden state, [batch, len, hidden_size]; rows of padding have no meaning
    LayerValues layers;    ///< likewise
};

/// The model: weights in files and how they are put together. Immutable and thread-safe.
class Encoder : public FileNotes {
public:
    /// Requires what the loading functions give: weights of the shapes that the config says.
    Encoder(const EncoderConfig& config, EncoderWeights weights) : config_(config), weights_(std::move(weights)) {}
    /// The layers of a decoder. Of the weights, the head's count; of the config, what the head and the texts need.
    Encoder(const EncoderConfig& config, EncoderWeights head, std::shared_ptr<const Decoder> decoder)
        : config_(config), weights_(std::move(head)), decoder_(std::move(decoder)) {}

    const EncoderConfig& config() const noexcept { return config_; }
    const EncoderWeights& weights() const noexcept { return weights_; }
    /// nullptr: the layers are those of the weights.
    const Decoder* decoder() const noexcept { return decoder_.get(); }
    /// Tokens of several texts of `len` for which no tensor of scores by distance has more than 128 MiB: what the smallest devices bind.
    std::uint32_t most_tokens(std::uint32_t len) const;

    /// Adds the forward pass. Errors: the builders', and InvalidArgument (len above max_positions, token_types for a model that
    /// knows none, adapters for one that has none).
    Result<EncoderTensors> add_encoder(graph::Graph& graph, const EncoderLayout& layout) const;

    /// Adds the classification head over h, the first token's hidden state or what else the config's pooling says:
    /// output(norm(f(dense(h)))), or output(h) where there is no dense layer, f32 [batch, labels], before any sigmoid or softmax.
    /// Errors: UnsupportedConfig (the model has none).
    Result<graph::Value> add_classifier(graph::Graph& graph, const EncoderTensors& tensors) const;

private:
    /// norm(word + position + type)
    Result<graph::Value> embed(const EncoderLayers& build, graph::Graph& graph, const EncoderTensors& tensors,
                               DType dtype) const;

    /// The rows for the distances of texts of `len` tokens, and their index.
    Result<void> add_relative(const EncoderLayers& build, graph::Graph& graph, std::uint32_t len, DType dtype,
                              EncoderPass& pass) const;

    /// Adds what the tokens, their types and lengths give.
    Result<void> encode(graph::Graph& graph, EncoderTensors& tensors, const EncoderLayout& layout) const;

    EncoderConfig config_;
    EncoderWeights weights_;
    std::shared_ptr<const Decoder> decoder_;  // nullptr: the layers are those in weights_
};

}  // namespace vkformer::models
