// SPDX-License-Identifier: MIT
// SigLIP (Zhai et al. 2023, arXiv 2303.15343) and SigLIP 2 (Tschannen et al. 2025, arXiv 2502.14786) of one size: CLIP's towers without
// a class token, whose texts are read whole, padding included, and whose scores are each a probability of its own.
#include "core/try.hpp"
#include "models/encoder_loading.hpp"
#include "models/vision_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::Weights;

constexpr TowerDefaults kSiglip = {
    .hidden_size = 768, .intermediate_size = 3072, .heads = 12, .norm_eps = 1e-6, .activation = "gelu_pytorch_tanh"};

/// The probe's projection is the same for every image, so it is formed here: W_q · probe + b_q, in double precision.
Result<TensorData> read_query(const WeightReader& read, const TensorData& weight, const TensorData& bias,
                              std::uint64_t d) {
    VKFORMER_TRY(const TensorData data, read.tensor("head.probe", {1, 1, d}));
    VKFORMER_TRY(const std::vector<float> probe, floats_of(data));
    VKFORMER_TRY(const std::vector<float> matrix, floats_of(rows_of(weight, 0, d)));
    VKFORMER_TRY(const std::vector<float> offset, floats_of(rows_of(bias, 0, d)));
    std::vector<float> query(d);
    for (std::uint64_t row = 0; row < d; ++row) {
        double sum = offset[row];
        for (std::uint64_t i = 0; i < d; ++i) sum += static_cast<double>(matrix[row * d + i]) * probe[i];
        query[row] = static_cast<float>(sum);
    }
    return float_tensor({d}, std::move(query));
}

Result<AttentionPooling> read_pooling(const WeightReader& read, const VisionConfig& c) {
    const std::uint64_t d = c.hidden_size, inner = c.intermediate_size;
    VKFORMER_TRY(const TensorData weight, read.tensor("head.attention.in_proj_weight", {3 * d, d}));
    VKFORMER_TRY(const TensorData bias, read.tensor("head.attention.in_proj_bias", {3 * d}));
    const auto part = [&](std::uint64_t index) {
        return Projection{.weight = rows_of(weight, index * d, d), .bias = rows_of(bias, index * d, d)};
    };
    AttentionPooling pooling;
    VKFORMER_TRY(pooling.query, read_query(read, weight, bias, d));
    EncoderLayerWeights& l = pooling.layer;
    l.key = part(1);
    l.value = part(2);
    VKFORMER_TRY(l.output, read.projection("head.attention.out_proj", d, d, true));
    VKFORMER_TRY(l.feed_forward_norm, read.norm("head.layernorm", d, true));
    VKFORMER_TRY(l.up, read.projection("head.mlp.fc1", inner, d, true));
    VKFORMER_TRY(l.down, read.projection("head.mlp.fc2", d, inner, true));
    return pooling;
}

Result<VisionEncoder> read_siglip_images(const Config& config, const Weights& weights) {
    VisionConfig c;
    VKFORMER_CHECK(read_tower(config, kSiglip, c));
    c.special_tokens = 0;
    VKFORMER_CHECK(read_image_sizes(config, 224, 16, c));
    VKFORMER_TRY(const bool has_head, config.boolean("vision_use_head", true));
    if (!has_head) return config.unsupported("vision_use_head", "true");
    const WeightReader read(weights, "vision_model.");
    const std::uint64_t d = c.hidden_size;
    VisionWeights w;
    VKFORMER_TRY(w.patches, read_patches(read, "embeddings.patch_embedding.weight", c));
    VKFORMER_TRY(const TensorData bias, read.tensor("embeddings.patch_embedding.bias", {d}));
    VKFORMER_TRY(const TensorData positions, read.tensor("embeddings.position_embedding.weight", {c.tokens(), d}));
    VKFORMER_TRY(w.places.positions, embed_places(c, positions, {}, bias));
    VKFORMER_TRY(w.layers, read_tower_layers(read, c, kClipNames));
    VKFORMER_TRY(w.final_norm, read.norm("post_layernorm", d, true));
    VKFORMER_TRY(w.pooling, read_pooling(read, c));
    return VisionEncoder(std::move(c), std::move(w));
}

Result<Encoder> read_siglip_texts(const Config& config, const Weights& weights) {
    EncoderConfig c;
    VKFORMER_CHECK(read_tower(config, kSiglip, c));
    VKFORMER_TRY(c.vocab_size, config.unsigned_integer("vocab_size", {.fallback = 32000, .min = 1, .max = 1u << 24}));
    VKFORMER_TRY(c.max_positions,
                 config.unsigned_integer("max_position_embeddings", {.fallback = 64, .min = 1, .max = 1u << 20}));
    VKFORMER_TRY(EncoderWeights w, read_clip_texts(weights, c));
    return Encoder(c, std::move(w));
}

}  // namespace

Result<Clip> load_siglip(const Config& config, const Weights& weights) {
    VKFORMER_TRY(const Config text, tower_config(config, "text_config"));
    VKFORMER_TRY(const Config vision, tower_config(config, "vision_config"));
    VKFORMER_TRY(VisionEncoder vision_encoder, read_siglip_images(vision, weights));
    VKFORMER_TRY(Encoder text_encoder, read_siglip_texts(text, weights));
    const std::uint32_t width = text_encoder.config().hidden_size;
    VKFORMER_TRY(const std::uint32_t projection,
                 text.unsigned_integer("projection_size", {.fallback = width, .min = 1, .max = 1u << 20}));
    if (projection != vision_encoder.dimension())
        return text.unsupported("projection_size",
                                "the size of an image's vector, " + std::to_string(vision_encoder.dimension()));
    VKFORMER_TRY(Projection text_projection,
                 WeightReader(weights, "text_model.").projection("head", projection, width, true));
    const WeightReader read(weights, "");
    VKFORMER_TRY(const double logit_scale, read_logit_scale(read, {1}));
    VKFORMER_TRY(const float logit_bias, read_scalar(read, "logit_bias", {1}));
    return Clip{.vision = std::move(vision_encoder),
                .text = std::move(text_encoder),
                .text_projection = std::move(text_projection),
                .logit_scale = logit_scale,
                .logit_bias = logit_bias,
                .is_sigmoid = true,
                .pads_texts = true};
}

}  // namespace vkformer::models
