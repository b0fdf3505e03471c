// SPDX-License-Identifier: MIT
/// What the loading functions of the vision architectures share.
#pragma once

#include <string_view>
#include <vector>

#include "models/encoder.hpp"
#include "models/vision.hpp"
#include "models/weight_reader.hpp"

namespace vkformer::models {

// One loading function per architecture: the fields of config.json that change the arithmetic are honoured or refused by name,
// every weight is there with the shape that the config gives it. Errors: CorruptFile, UnsupportedConfig, UnsupportedDtype,
// MissingTensor, ShapeMismatch.
Result<VisionEncoder> load_vit(const formats::Config& config, const formats::Weights& weights);  // ViT, DeiT
Result<VisionEncoder> load_dinov2(const formats::Config& config,
                                  const formats::Weights& weights);  // with registers too
Result<VisionEncoder> load_dinov3(const formats::Config& config, const formats::Weights& weights);

/// An encoder of images and one of texts whose vectors lie in one space: CLIP (Radford et al. 2021) and SigLIP (Zhai et al. 2023). How
/// well a text fits an image is the cosine of their vectors · logit_scale + logit_bias.
struct Clip {
    VisionEncoder vision;
    Encoder text;  ///< hidden states behind the last norm
    Projection text_projection;
    double logit_scale = 1;  ///< already exp(logit_scale)
    double logit_bias = 0;
    /// SigLIP: the sigmoid of that is the text's probability, whatever the other texts are. CLIP: their softmax.
    bool is_sigmoid = false;
    bool pads_texts = false;  ///< SigLIP: every text is read with as much padding as the encoder has positions
    std::vector<std::string> notes = {};  ///< as FileNotes

    /// Adds what the model makes of a text: the last token's hidden state, projected; f32 [batch, projection_dim]. `lengths` of the
    /// encoder count CLIP's end token, or SigLIP's padding, as the last one.
    Result<graph::Value> add_text_embedding(graph::Graph& graph, const EncoderTensors& tensors) const;
};
Result<Clip> load_clip(const formats::Config& config, const formats::Weights& weights);
Result<Clip> load_siglip(const formats::Config& config, const formats::Weights& weights);

/// What transformers assumes where a config does not say it.
struct TowerDefaults {
    std::uint32_t hidden_size, intermediate_size, heads;
    double norm_eps;
    const char* activation;
};
/// The sizes of a stack of layers that norms first, under their usual names; checked.
Result<void> read_tower(const formats::Config& config, const TowerDefaults& defaults, EncoderLayerConfig& layers);

/// "text_config", or what transformers lets win over it: old files say it twice.
Result<formats::Config> tower_config(const formats::Config& config, const std::string& name);

/// What an architecture calls the tensors of a layer, behind `layer`, its number and a point.
struct TowerNames {
    std::string_view layer;
    std::string_view query, key, value, output, attention_norm;
    std::string_view gate = {};  ///< none; or the same as `up`, whose first half it is
    std::string_view up, down, feed_forward_norm;
    /// Factors of what a layer adds, multiplied into the matrices before: LayerScale (Touvron et al. 2021, "Going deeper with Image
    /// Transformers", section 2.1); empty: none.
    std::string_view attention_scale = {}, feed_forward_scale = {};
};
struct TowerBiases {
    bool query = true, key = true, value = true, output = true, feed_forward = true;
};
Result<std::vector<EncoderLayerWeights>> read_tower_layers(const WeightReader& read, const EncoderLayerConfig& layers,
                                                           const TowerNames& names, const TowerBiases& biases = {});

/// CLIP's and SigLIP's, of images and of texts.
inline constexpr TowerNames kClipNames = {.layer = "encoder.layers.",
                                          .query = "self_attn.q_proj",
                                          .key = "self_attn.k_proj",
                                          .value = "self_attn.v_proj",
                                          .output = "self_attn.out_proj",
                                          .attention_norm = "layer_norm1",
                                          .up = "mlp.fc1",
                                          .down = "mlp.fc2",
                                          .feed_forward_norm = "layer_norm2"};
/// The texts' tower, but for its projection.
Result<EncoderWeights> read_clip_texts(const formats::Weights& weights, const EncoderConfig& texts);

/// Each row of a matrix, and its bias, times a factor: in f32.
Result<Projection> scaled_rows(const Projection& projection, std::span<const float> factors);

/// One number; `shape` has one element.
Result<float> read_scalar(const WeightReader& read, const std::string& name, const Shape& shape);
/// exp(logit_scale). Errors: also CorruptFile (an exponential beyond reason).
Result<double> read_logit_scale(const WeightReader& read, const Shape& shape);

/// problem_type, and id2label or num_labels.
Result<void> read_image_labels(const formats::Config& config, VisionConfig& vision);

/// A field that is one number, or a list of two: height and width.
struct Extent {
    std::uint32_t height = 0, width = 0;
};
Result<Extent> read_extent(const formats::Config& config, std::string_view name, std::uint32_t fallback);

/// image_size, patch_size and num_channels, checked against each other; `image`, `patch`: where the config says nothing.
Result<void> read_image_sizes(const formats::Config& config, std::uint32_t image, std::uint32_t patch,
                              VisionConfig& vision);

/// A convolution's weight [hidden_size, channels, patch_height, patch_width] as a product's.
Result<TensorData> read_patches(const WeightReader& read, const std::string& name, const VisionConfig& config);

/// What the tokens have by their place, f32 [tokens, hidden_size]: `positions` and, added to it, each special token and for patches
/// `bias` (no bytes: none). All of them in any float dtype, of hidden_size or that many rows of it.
Result<TensorData> embed_places(const VisionConfig& config, const TensorData& positions,
                                const std::vector<TensorData>& special_tokens, const TensorData& bias);

}  // namespace vkformer::models
