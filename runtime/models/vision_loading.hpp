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

/// CLIP (Radford et al. 2021): both towers, and what their vectors' cosines are multiplied with.
struct Clip {
    VisionEncoder vision;
    Encoder text;  ///< hidden states behind the last norm
    Projection text_projection;
    double logit_scale = 1;  ///< already exp(logit_scale)
    std::vector<std::string> notes = {};  ///< as FileNotes

    /// Adds what the model makes of a text: the end token's hidden state, projected; f32 [batch, projection_dim]. `lengths` of the
    /// encoder count the end token as the last one.
    Result<graph::Value> add_text_embedding(graph::Graph& graph, const EncoderTensors& tensors) const;
};
Result<Clip> load_clip(const formats::Config& config, const formats::Weights& weights);

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
