// SPDX-License-Identifier: MIT
/// Encoders of images: the vision Transformer of Dosovitskiy et al. 2021. The files beside this one (vit.cpp, clip.cpp) turn the
/// config and the tensors of an architecture into a VisionConfig and VisionWeights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/encoder_layers.hpp"
#include "models/file_notes.hpp"

namespace vkformer::models {

/// What becomes of the logits of a classifier.
enum class ProblemType : std::uint8_t {
    one_label,    ///< softmax: one of the labels is right
    many_labels,  ///< a sigmoid each: any of them may be
    regression,   ///< the numbers are the result
};

struct VisionConfig : EncoderLayerConfig {
    std::uint32_t channels = 3;
    std::uint32_t image_height = 0, image_width = 0;  ///< pixels
    std::uint32_t patch_height = 0, patch_width = 0;
    std::uint32_t special_tokens = 1;  ///< before the patches: the class token, and DeiT's distillation token
    bool norms_embeddings = false;     ///< CLIP: a norm before the first layer
    bool norms_hidden = true;          ///< the last norm is over all tokens; CLIP: over the class token only
    std::uint32_t labels = 0;          ///< outputs of the classification head; 0: there is none
    ProblemType problem = ProblemType::one_label;
    std::vector<std::string> label_names;  ///< as many as labels, or none

    std::uint32_t patch_rows() const noexcept { return image_height / patch_height; }
    std::uint32_t patch_columns() const noexcept { return image_width / patch_width; }
    std::uint32_t tokens() const noexcept { return special_tokens + patch_rows() * patch_columns(); }
    std::uint32_t patch_elements() const noexcept { return channels * patch_height * patch_width; }
};

struct VisionWeights {
    TensorData patches;  ///< [hidden_size, channels · patch_height · patch_width]
    TensorData
        positions;  ///< [tokens, hidden_size]: positions, and what else a token of that place gets (embed_places)
    NormWeights embedding_norm;
    std::vector<EncoderLayerWeights> layers;
    NormWeights final_norm;
    std::vector<Projection> heads;  ///< one for each special token that has a say: their mean is the result
    Projection projection;          ///< CLIP: to the space that it shares with texts
};

/// How many images a graph is built for.
struct VisionLayout {
    std::uint32_t batch = 1;         ///< images
    DType dtype = DType::f32;        ///< of weights and activations: f32 or f16
    bool attention_weights = false;  ///< by the path that keeps them: VisionTensors::attention
};

/// The tensors by which the host, or another program on the GPU, talks to the encoder.
struct VisionTensors {
    graph::Value pixels;  ///< input "pixel_values", f32 [batch, channels, image_height, image_width], normalised
    graph::Value hidden;  ///< the last hidden state, [batch, tokens, hidden_size]
    std::vector<graph::Value> attention;  ///< of each layer, f32 [batch, heads, tokens, tokens], where asked for
};

/// The model: weights in files and how they are put together. Immutable and thread-safe.
class VisionEncoder : public FileNotes {
public:
    /// Requires what the loading functions give: weights of the shapes that the config says.
    VisionEncoder(VisionConfig config, VisionWeights weights)
        : config_(std::move(config)), weights_(std::move(weights)) {}

    const VisionConfig& config() const noexcept { return config_; }
    /// Numbers of add_embedding's vector.
    std::uint64_t dimension() const noexcept {
        return weights_.projection ? weights_.projection.weight.shape[0] : config_.hidden_size;
    }

    /// Adds the forward pass. Errors: the builders'.
    Result<VisionTensors> add_encoder(graph::Graph& graph, const VisionLayout& layout) const;

    /// Adds what the model makes of an image: the normed class token and, with CLIP, its projection; f32 [batch, dimension].
    Result<graph::Value> add_embedding(graph::Graph& graph, graph::Value hidden) const;

    /// Adds the classification head: f32 [batch, labels], before any sigmoid or softmax. Errors: UnsupportedConfig (the model
    /// has none).
    Result<graph::Value> add_classifier(graph::Graph& graph, graph::Value hidden) const;

private:
    VisionConfig config_;
    VisionWeights weights_;
};

}  // namespace vkformer::models
