// SPDX-License-Identifier: MIT
/// Encoder–decoder Transformers: one network, that of Vaswani et al. 2017, whose parts a config switches on and off. The files
/// beside this one (marian.cpp, bart.cpp, …) turn the config and the tensors of an architecture into a Seq2SeqConfig and
/// Seq2SeqWeights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/decoder.hpp"
#include "models/encoder_decoder.hpp"

namespace vkformer::models {

struct Seq2SeqConfig {
    enum class Norm : std::uint8_t { layer, rms };
    enum class NormPlace : std::uint8_t {
        after,   ///< x = norm(x + f(x)): Vaswani et al. 2017
        before,  ///< x = x + f(norm(x)): Xiong et al. 2020
    };

    struct Stack {
        std::uint32_t layers = 0, heads = 0, head_dim = 0, ffn_dim = 0;
        std::uint64_t vocab_size = 0;
        std::uint64_t max_positions = 0;  ///< longest sequence
    };

    std::uint32_t d_model = 0;
    Stack encoder, decoder;
    std::uint64_t target_vocab = 0;  ///< width of the logits, at most the decoder's vocab_size
    std::uint32_t mel_bins =
        0;  ///< of a model that hears: the encoder begins with a convolution over these; 0: with tokens
    bool has_relative_bias =
        false;  ///< the scores of self-attention have a bias by distance; no other masks then than lengths

    Norm norm = Norm::layer;
    NormPlace norm_place = NormPlace::after;
    float norm_eps = 1e-5f;
    float embedding_scale = 1;
    bool scales_scores = true;  ///< by 1 / √head_dim
    graph::Activation activation = graph::Activation::none;
};

struct Seq2SeqWeights {
    struct Attention {
        Projection query, key, value, output;  ///< heads one after the other
        NormWeights norm;
    };
    struct Layer {
        Attention self;
        std::optional<Attention> cross;  ///< of a decoder, over what the encoder gave
        TensorData
            relative_bias;  ///< [heads, 2 · reach + 1] of graph::relative_bias; empty bytes: that of the layer before
        Projection gate;    ///< optional: down(f(gate(x)) · up(x)), else down(f(up(x)))
        Projection up, down;
        NormWeights feed_forward_norm;
    };
    struct Stack {
        TensorData embedding;        ///< [vocab_size, d_model]
        TensorData positions;        ///< [max_positions, d_model]; empty bytes: none
        NormWeights embedding_norm;  ///< of the sum of both; optional
        std::vector<Layer> layers;
        NormWeights final_norm;  ///< optional
    };
    /// The two convolutions over time that turn mel bins into the encoder's positions (Radford et al. 2022, section 2.2), as products: a
    /// position of the encoder reads three of the first's results, each of which reads three frames (audio/mel.hpp, windows_of).
    struct Stem {
        Projection first;   ///< [d_model, 3 · mel_bins + 1]; its last column is the bias
        Projection second;  ///< [d_model, 3 · d_model], with a bias
    };

    /// Where the two stacks have the same bytes for embedding or positions, the device has them once; likewise lm_head's weight and
    /// the decoder's embedding.
    Stack encoder, decoder;
    Stem stem;           ///< with mel_bins only; the encoder then has no embedding
    Projection lm_head;  ///< [target_vocab, d_model], bias optional
    NormWeights
        logits_norm;  ///< optional: in place of the decoder's final norm on the way to the head (T5 scales there)
};

/// The model: weights in files and how they are put together. Immutable and thread-safe.
class Seq2Seq final : public EncoderDecoder {
public:
    /// Requires what the loading functions give: weights of the shapes that the config says.
    Seq2Seq(const Seq2SeqConfig& config, Seq2SeqWeights weights) : config_(config), weights_(std::move(weights)) {}

    /// Numbers per position of the encoder: three windows of three frames, each with a one for the bias; 0 for a model that reads.
    std::uint64_t source_features() const noexcept { return config_.mel_bins ? 3 * (3 * config_.mel_bins + 1) : 0; }

    const Seq2SeqConfig& config() const noexcept { return config_; }
    const Seq2SeqWeights& weights() const noexcept { return weights_; }
    Limits limits() const noexcept override;

    Result<ForwardGraph> forward(const ForwardOptions& options) const override;
    Result<SourceTensors> add_encoder(graph::Graph& graph, const DecodeLayout& layout) const override;
    Result<Step> add_decoder_step(graph::Graph& graph, const DecodeLayout& layout, graph::Value tokens,
                                  graph::Value starts) const override;
    Result<KnownTarget> add_known_target(graph::Graph& graph, const DecodeLayout& layout, graph::Value tokens,
                                         std::span<const std::uint32_t> layers) const override;

private:
    class Builder;

    Seq2SeqConfig config_;
    Seq2SeqWeights weights_;
};

}  // namespace vkformer::models
