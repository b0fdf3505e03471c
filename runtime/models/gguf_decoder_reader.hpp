// SPDX-License-Identifier: MIT
/// The reader of decoders in GGUF files: defined, by subjects, in gguf_decoder_config.cpp, gguf_decoder_ropes.cpp and
/// gguf_decoder_weights.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/decoder_loading.hpp"
#include "models/gguf_architecture.hpp"

namespace vkformer::models {

/// The keys of one architecture: "llama.block_count".
class GgufDecoderReader {
public:
    GgufDecoderReader(const formats::Gguf& file, const GgufArchitecture& architecture)
        : file_(file), architecture_(architecture), read_(file.weights(), "") {}

    Result<DecoderParts> load();
    /// In place of the model's layers, the first of those behind them and what it guesses by.
    Result<DecoderParts> load_head(const DecoderWeights& model);

private:
    /// "blk.0.", the place of a layer's tensors.
    std::string block(std::size_t index) const { return "blk." + std::to_string(first_layer_ + index) + "."; }
    std::string key(std::string_view name) const { return std::string(architecture_.name) + "." + std::string(name); }
    DecoderConfig& config() { return parts_.config; }

    // The sizes and kinds of layers (gguf_decoder_config.cpp).

    Result<void> read_config();
    Result<void> read_sizes();
    Result<void> read_heads();
    /// A number for each layer, or one of all.
    Result<std::vector<std::uint32_t>> numbers_of_layers(const char* what, std::optional<std::uint32_t> fallback = {});
    /// Layers with a window have heads of a width of their own, and all may differ in their numbers of heads and in their inner widths.
    Result<void> read_gemma4_layers();
    /// Streams, and layers whose gates are sparse.
    Result<void> read_gemma3n_layers();
    /// Files in which a cache holds expanded keys and values count their heads as such; those made for latent ones have keys for both.
    Result<void> read_latent();
    Result<void> read_multipliers();
    /// A number, or one for each layer: those that need none have 0, and the others must have the same.
    Result<std::uint32_t> read_by_layer(const char* what, const formats::Expect<std::uint32_t>& expected);
    /// Layers without keys are those without attention.
    Result<void> check_kv_heads() const;
    /// The tensors of a layer say what it is.
    Result<void> read_mixers();
    /// The sizes of a layer whose state is a matrix for each head.
    Result<void> read_recursion();
    /// How the weights of a token's experts come of their scores.
    Result<void> read_expert_weights();
    /// What llama.cpp computes without asking a key is refused where a key says otherwise.
    Result<void> read_experts();
    /// Which layers have experts their tensors say; keys that say otherwise are refused.
    Result<void> check_mixtures() const;
    /// DeepSeek-V2's router or V3's: each has its scores, and its way to choose groups.
    Result<void> read_grouped_routing();
    Result<void> read_attention();
    /// Which layers have the window: those of a list or, by a number, all but one of so many.
    Result<std::vector<bool>> read_windows() const;

    // Rotary positions (gguf_decoder_ropes.cpp).

    Result<void> read_ropes();
    /// Of YaRN, what models are not made with; converters write the scale that follows from the factor, too, where a config has it.
    Result<void> check_yarn(double factor) const;
    /// YaRN's scale of whole heads, whose weight files have a tenth of (mscale_all_dim).
    Result<void> scale_latent(double factor);
    Result<void> scale_rope(Rope& rope, double theta);
    Result<void> divide(Rope& rope, const std::string& name);

    // The tensors (gguf_decoder_weights.cpp).

    Result<void> read_weights();
    Result<DecoderWeights::Layer> read_layer(const std::string& layer, std::size_t index);
    /// What is optional for a layer and not for one of several.
    Result<void> check_layers() const;
    Result<void> read_attention(const std::string& layer, const DecoderConfig::Layer& kind, DecoderWeights::Layer& l);
    /// The norm of every head by itself or of all heads together, by how long it is.
    Result<NormWeights> query_or_key_norm(const std::string& name, std::uint64_t width, std::uint64_t head_dim);
    Result<void> read_convolution(const std::string& layer, DecoderWeights::Layer& l);
    /// Of what files have as −exp(log rate).
    Result<TensorData> log_rates(const std::string& name, const TensorData& rates) const;
    Result<void> read_delta_rule(const std::string& layer, DecoderWeights::Layer& l);
    /// ggml drops a first dimension of 1 from what it writes.
    Result<TensorData> table(const std::string& name, std::uint64_t rows, std::uint64_t columns) const;
    /// A number for each head, which files have as a column.
    Result<TensorData> column(const std::string& name, std::uint64_t heads) const;
    Result<void> read_scan(const std::string& layer, DecoderWeights::Layer& l);
    /// The feed-forward layers of all tokens.
    Result<void> read_feed_forward(const std::string& layer, bool has_experts, std::uint64_t inner,
                                   DecoderWeights::Layer& l);
    Result<ExpertWeights> read_experts(const std::string& layer);
    /// A stack of all experts' matrices or, in older files, a tensor for each.
    Result<std::vector<TensorData>> read_matrices(const std::string& name, std::uint64_t out, std::uint64_t in);
    /// Biases are there where the file has them: the tensors say so, no key does.
    Result<Projection> projection(const std::string& name, std::uint64_t out, std::uint64_t in);
    Result<NormWeights> norm(const std::string& name, std::uint64_t dim);
    Result<NormWeights> optional_norm(const std::string& name, std::uint64_t dim);
    /// Of what a part of a layer gives.
    Result<NormWeights> norm_of_result(const std::string& name);
    Result<TensorData> optional_tensor(const std::string& name, const Shape& shape);

    const formats::Gguf& file_;
    const GgufArchitecture& architecture_;
    WeightReader read_;
    DecoderParts parts_;
    bool is_head_ = false;
    std::size_t first_layer_ = 0;              // in the file
    std::vector<std::uint32_t> inner_widths_;  // of the layers' feed-forward layers, where they differ
    std::vector<float> gate_cutoffs_;          // of Gemma 3n's layers, −∞ for none
    std::uint32_t embedding_width_ = 0;        // of each layer's embeddings; 0: there are none
};

}  // namespace vkformer::models
