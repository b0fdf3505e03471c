// SPDX-License-Identifier: MIT
/// Encoders of images: the vision Transformer of Dosovitskiy et al. 2021. The files beside this one (vit.cpp, dino.cpp, clip.cpp,
/// siglip.cpp) turn the config and the tensors of an architecture into a VisionConfig and VisionWeights.
#pragma once

#include <cstdint>
#include <functional>
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
    std::uint32_t special_tokens =
        1;  ///< before the patches: the class token, DeiT's distillation token, DINO's registers
    bool norms_embeddings = false;  ///< CLIP: a norm before the first layer
    bool norms_hidden = true;       ///< the last norm is over all tokens; CLIP: over the class token only
    std::uint32_t labels = 0;       ///< outputs of the classification head; 0: there is none
    bool classifies_patches =
        false;  ///< the head reads the class token and, behind it, the mean of the patches: DINOv2
    ProblemType problem = ProblemType::one_label;
    std::vector<std::string> label_names;  ///< as many as labels, or none

    std::uint32_t patch_rows() const noexcept { return image_height / patch_height; }
    std::uint32_t patch_columns() const noexcept { return image_width / patch_width; }
    std::uint32_t tokens() const noexcept { return special_tokens + patch_rows() * patch_columns(); }
    std::uint32_t patch_elements() const noexcept { return channels * patch_height * patch_width; }
    /// Empty, or what the size of images and patches would have to be: an image may be smaller than a patch, or have too many.
    std::string required_size() const;
};

/// What tokens have by their place in the image.
struct VisionPlaces {
    TensorData
        positions;  ///< f32 [tokens, hidden_size], added: positions, and what else a token of that place gets (embed_places)
    TensorData turns;  ///< f32 [tokens, head_dim], as of graph::rope_table: DINOv3; empty bytes: none
};

/// One query that looks at all patches, and a feed-forward layer behind it: x + down(f(up(norm(x)))) of what it sees. SigLIP's "MAP head"
/// (Zhai et al. 2022, "Scaling Vision Transformers", section 3.3; Lee et al. 2019, "Set Transformer", eq. 11).
struct AttentionPooling {
    TensorData query;           ///< f32 [hidden_size], behind its projection
    EncoderLayerWeights layer;  ///< all but query and attention_norm
    explicit operator bool() const noexcept { return !query.bytes.empty(); }
};

struct VisionWeights {
    TensorData patches;  ///< [hidden_size, channels · patch_height · patch_width]
    VisionPlaces places;
    /// For images of the size that the config says. None: the model takes one size.
    std::function<Result<VisionPlaces>(const VisionConfig&)> places_of{};
    NormWeights embedding_norm;
    std::vector<EncoderLayerWeights> layers;
    NormWeights final_norm;
    AttentionPooling pooling;       ///< SigLIP
    std::vector<Projection> heads;  ///< one for each special token that has a say: their mean is the result
    Projection projection;          ///< CLIP: to the space that it shares with texts
};

/// How many images a graph is built for.
struct VisionLayout {
    std::uint32_t batch = 1;   ///< images
    DType dtype = DType::f32;  ///< of weights and activations: f32 or f16
    LayerChoice layers{};
};

/// The tensors by which the host, or another program on the GPU, talks to the encoder.
struct VisionTensors {
    graph::Value pixels;  ///< input "pixel_values", f32 [batch, channels, image_height, image_width], normalised
    graph::Value hidden;  ///< the last hidden state, [batch, tokens, hidden_size]
    LayerValues layers;
};

/// The model: weights in files and how they are put together. Immutable and thread-safe.
class VisionEncoder : public FileNotes {
public:
    /// Requires what the loading functions give: weights of the shapes that the config says.
    VisionEncoder(VisionConfig config, VisionWeights weights)
        : config_(std::move(config)), weights_(std::move(weights)) {}

    const VisionConfig& config() const noexcept { return config_; }

    /// Whether at_size() takes other sizes than the config's.
    bool is_resizable() const noexcept { return weights_.places_of != nullptr; }
    /// The same model for images of so many pixels: DINO's, whose positions are interpolated or computed. Errors: ShapeMismatch (the model
    /// takes one size), InvalidArgument (an image smaller than a patch, or with too many of them).
    Result<VisionEncoder> at_size(std::uint32_t height, std::uint32_t width) const;

    /// Numbers of add_embedding's vector.
    std::uint64_t dimension() const noexcept {
        return weights_.projection ? weights_.projection.weight.shape[0] : config_.hidden_size;
    }

    /// Adds the forward pass. Errors: the builders'.
    Result<VisionTensors> add_encoder(graph::Graph& graph, const VisionLayout& layout) const;

    /// Adds what the model makes of an image: the normed class token and, with CLIP, its projection; with SigLIP what its pooling gives;
    /// f32 [batch, dimension].
    Result<graph::Value> add_embedding(graph::Graph& graph, graph::Value hidden) const;

    /// Adds the classification head: f32 [batch, labels], before any sigmoid or softmax. Errors: UnsupportedConfig (the model
    /// has none).
    Result<graph::Value> add_classifier(graph::Graph& graph, graph::Value hidden) const;

private:
    /// What AttentionPooling gives, f32 [batch, hidden_size].
    Result<graph::Value> add_pooling(graph::Graph& graph, graph::Value hidden) const;
    /// The class token and the mean of the patches, f32 [batch, 2 · hidden_size].
    Result<graph::Value> add_class_and_mean(graph::Graph& graph, graph::Value hidden) const;

    VisionConfig config_;
    VisionWeights weights_;
};

}  // namespace vkformer::models
