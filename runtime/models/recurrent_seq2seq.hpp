// SPDX-License-Identifier: MIT
/// Recurrent encoder–decoders, from a fixed-size context to attention: stacked LSTMs (Sutskever et al. 2014), additive attention
/// over a bidirectional encoder (Bahdanau et al. 2015), multiplicative and local attention with input feeding (Luong et al.
/// 2015). Weights come in the layout of PyTorch's nn.LSTM and nn.GRU; tools/train/recurrent.py is the same model there.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "formats/config.hpp"
#include "formats/weights.hpp"
#include "models/encoder_decoder.hpp"

namespace vkformer::models {

enum class Bridge : std::uint8_t {
    copy,  ///< decoder layer l starts as encoder layer l ended
    tanh,  ///< every decoder layer starts as tanh(W · what the encoder's last layer ended with)
};

enum class AttentionScore : std::uint8_t {
    none,      ///< the decoder sees nothing of the source but its initial state
    dot,       ///< q · k
    general,   ///< (W_q q) · k
    additive,  ///< w · tanh(W_q q + W_k k + b): Bahdanau's; with the current state as the query it is Luong's "concat"
};

enum class AttentionQuery : std::uint8_t {
    previous,  ///< the state before the step: the context is an input of the step (Bahdanau)
    current,   ///< the state after the step (Luong)
};

enum class AttentionWindow : std::uint8_t {
    global,
    monotonic,   ///< keys around the step's own number: Luong's local-m
    predictive,  ///< keys around a predicted position, with a Gaussian: Luong's local-p
};

/// config.json of `"model_type": "recurrent_seq2seq"`, with the names of its fields.
struct RecurrentSeq2SeqConfig {
    std::uint32_t vocab_size = 0, decoder_vocab_size = 0;
    std::uint32_t embedding_dim = 0;
    graph::RecurrentUnit cell = graph::RecurrentUnit::lstm;
    std::uint32_t encoder_hidden_dim = 0, encoder_layers = 0;
    graph::Direction encoder_direction = graph::Direction::forward;
    std::uint32_t decoder_hidden_dim = 0, decoder_layers = 0;
    Bridge bridge = Bridge::copy;
    AttentionScore attention = AttentionScore::none;
    AttentionQuery attention_query = AttentionQuery::current;
    std::uint32_t attention_dim = 0;  ///< additive only
    AttentionWindow attention_window = AttentionWindow::global;
    std::uint32_t attention_half_width = 0;  ///< monotonic and predictive only
    bool input_feeding = false;    ///< the last output is an input of the next step (Luong et al., section 3.3)
    std::uint32_t max_length = 0;  ///< tokens, of source and target each

    /// Width of an encoder output: encoder_hidden_dim, twice of it for both directions.
    std::uint32_t encoder_width() const noexcept {
        return encoder_hidden_dim * graph::directions_of(encoder_direction);
    }
};

/// A field that is not known is refused by name. Errors: CorruptFile, UnsupportedConfig.
Result<RecurrentSeq2SeqConfig> parse_recurrent_seq2seq_config(const formats::Config& config);

/// Only padding at the end of the source can be masked: a recurrent encoder reads every token before that.
class RecurrentSeq2Seq final : public EncoderDecoder {
public:
    /// Checks that every weight is there with the shape that the config gives it.
    static Result<RecurrentSeq2Seq> create(const RecurrentSeq2SeqConfig& config, formats::Weights weights);

    const RecurrentSeq2SeqConfig& config() const noexcept { return config_; }
    Limits limits() const noexcept override;

    /// The decoder's steps are unrolled: some 15 nodes for each target token.
    Result<ForwardGraph> forward(const ForwardOptions& options) const override;
    Result<SourceTensors> add_encoder(graph::Graph& graph, const DecodeLayout& layout) const override;
    Result<Step> add_decoder_step(graph::Graph& graph, const DecodeLayout& layout, graph::Value tokens,
                                  graph::Value starts) const override;
    Result<KnownTarget> add_known_target(graph::Graph& graph, const DecodeLayout& layout, graph::Value tokens,
                                         std::span<const std::uint32_t> layers) const override;

private:
    class Builder;

    /// Both directions of an encoder layer as one: rows of the input's weights one after the other, the states' transposed.
    struct EncoderLayer {
        TensorData input_weight, input_bias;  // [directions · gates · hidden, in], [directions · gates · hidden]
        TensorData hidden_weight;             // [directions · hidden, gates · hidden]
        TensorData hidden_bias;               // [directions · gates · hidden]
    };

    RecurrentSeq2Seq(const RecurrentSeq2SeqConfig& config, formats::Weights weights)
        : config_(config), weights_(std::move(weights)) {}
    Result<void> require(const std::string& name, Shape shape) const;
    Result<void> require_rnn(const std::string& stack, const std::string& suffix, std::uint64_t input,
                             std::uint64_t hidden) const;
    Result<void> check_weights() const;
    Result<EncoderLayer> pack_encoder_layer(std::uint32_t layer) const;

    RecurrentSeq2SeqConfig config_;
    formats::Weights weights_;
    std::vector<EncoderLayer> encoder_;
};

/// Errors: CorruptFile, UnsupportedConfig, UnsupportedDtype, MissingTensor, ShapeMismatch.
Result<RecurrentSeq2Seq> load_recurrent_seq2seq(const formats::Config& config, const formats::Weights& weights);

}  // namespace vkformer::models
