// SPDX-License-Identifier: MIT
/// MarianMT, the encoder–decoder Transformer of Vaswani et al. 2017 as Marian trains it and Hugging Face ships it (opus-mt):
/// post-norm layers, sinusoidal positions (sines first, then cosines), no norm after the last layer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "formats/config.hpp"
#include "formats/weights.hpp"
#include "models/encoder_decoder.hpp"

namespace vkformer::models {

/// The fields of config.json that change the arithmetic, with their Hugging Face names.
struct MarianConfig {
    std::uint32_t d_model = 0;
    std::uint32_t encoder_layers = 0, encoder_attention_heads = 0, encoder_ffn_dim = 0;
    std::uint32_t decoder_layers = 0, decoder_attention_heads = 0, decoder_ffn_dim = 0;
    std::uint32_t max_position_embeddings = 0;
    std::uint32_t vocab_size = 0, decoder_vocab_size = 0;
    graph::Activation activation_function = graph::Activation::none;
    bool scale_embedding = false;
    bool share_encoder_decoder_embeddings = true;
    bool tie_word_embeddings = true;
};

/// Fields that do not concern the forward pass are ignored; those that would change it and are not implemented are refused
/// by name, older ones that Hugging Face no longer reads (normalize_before, …) included. Errors: CorruptFile,
/// UnsupportedConfig.
Result<MarianConfig> parse_marian_config(const formats::Config& config);

class Marian final : public EncoderDecoder {
public:
    /// Reads config.json and the weights of a Hugging Face folder. Errors: FileNotFound, CorruptFile, UnsupportedConfig,
    /// UnsupportedDtype, MissingTensor, ShapeMismatch.
    static Result<Marian> load(const std::filesystem::path& folder);
    /// Checks that every weight is there with the shape that the config gives it.
    static Result<Marian> create(const MarianConfig& config, formats::Weights weights);

    const MarianConfig& config() const noexcept { return config_; }
    Limits limits() const noexcept override;

    Result<ForwardGraph> forward(const ForwardOptions& options) const override;
    Result<SourceTensors> add_encoder(graph::Graph& graph, const DecodeLayout& layout) const override;
    Result<Step> add_decoder_step(graph::Graph& graph, const DecodeLayout& layout, graph::Value tokens,
                                  graph::Value starts) const override;

private:
    class Builder;

    Marian(const MarianConfig& config, formats::Weights weights) : config_(config), weights_(std::move(weights)) {}
    Result<void> check_weights();
    Result<std::string> require(const std::string& name, Shape shape) const;
    Result<std::string> embedding_table(const std::string& stack, std::uint64_t& vocab) const;
    Result<void> load_positions();

    MarianConfig config_;
    formats::Weights weights_;
    std::string source_table_, target_table_, lm_head_;  // tensor names; the same one where the tables are tied
    std::uint64_t source_vocab_ = 0, target_vocab_ = 0;
    TensorData source_positions_, target_positions_;  // f32 [max_position_embeddings, d_model]
    TensorData logits_bias_;                          // [target_vocab]
};

}  // namespace vkformer::models
