// SPDX-License-Identifier: MIT
// CLIP (Radford et al. 2021): an encoder of images and one of texts whose vectors lie in one space.
#include "core/try.hpp"
#include "models/encoder_loading.hpp"
#include "models/vision_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::Weights;

constexpr TowerDefaults kClipImages = {
    .hidden_size = 768, .intermediate_size = 3072, .heads = 12, .norm_eps = 1e-5, .activation = "quick_gelu"};
constexpr TowerDefaults kClipTexts = {
    .hidden_size = 512, .intermediate_size = 2048, .heads = 8, .norm_eps = 1e-5, .activation = "quick_gelu"};

Result<VisionEncoder> read_image_tower(const Config& config, const Weights& weights, std::uint32_t projection) {
    VisionConfig c;
    VKFORMER_CHECK(read_tower(config, kClipImages, c));
    VKFORMER_CHECK(read_image_sizes(config, 224, 32, c));
    c.norms_embeddings = true;
    c.norms_hidden = false;
    const WeightReader read(weights, "vision_model.");
    const std::uint64_t d = c.hidden_size;
    VisionWeights w;
    VKFORMER_TRY(w.patches, read_patches(read, "embeddings.patch_embedding.weight", c));
    VKFORMER_TRY(const TensorData positions, read.tensor("embeddings.position_embedding.weight", {c.tokens(), d}));
    VKFORMER_TRY(const TensorData special, read.tensor("embeddings.class_embedding", {d}));
    VKFORMER_TRY(w.places.positions, embed_places(c, positions, {special}, {}));
    VKFORMER_TRY(w.embedding_norm, read.norm("pre_layrnorm", d, true));  // sic
    VKFORMER_TRY(w.layers, read_tower_layers(read, c, kClipNames));
    VKFORMER_TRY(w.final_norm, read.norm("post_layernorm", d, true));
    VKFORMER_TRY(w.projection, WeightReader(weights, "").projection("visual_projection", projection, d, false));
    return VisionEncoder(std::move(c), std::move(w));
}

Result<Encoder> read_text_tower(const Config& config, const Weights& weights) {
    EncoderConfig c;
    VKFORMER_CHECK(read_tower(config, kClipTexts, c));
    VKFORMER_TRY(c.vocab_size, config.unsigned_integer("vocab_size", {.fallback = 49408, .min = 1, .max = 1u << 24}));
    VKFORMER_TRY(c.max_positions,
                 config.unsigned_integer("max_position_embeddings", {.fallback = 77, .min = 1, .max = 1u << 20}));
    VKFORMER_TRY(const auto end, config.integer("eos_token_id", {.fallback = 49407, .min = 0, .max = 1 << 24}));
    // Configs of before 2023 say 2, which is wrong: transformers then takes the largest id, which is the end token's.
    c.end_token = end == 2 ? static_cast<std::int32_t>(c.vocab_size) - 1 : static_cast<std::int32_t>(end);
    c.is_causal = true;
    VKFORMER_TRY(EncoderWeights w, read_clip_texts(weights, c));
    return Encoder(c, std::move(w));
}

}  // namespace

Result<EncoderWeights> read_clip_texts(const Weights& weights, const EncoderConfig& c) {
    const WeightReader read(weights, "text_model.");
    const std::uint64_t d = c.hidden_size;
    EncoderWeights w;
    VKFORMER_TRY(w.embedding, read.tensor("embeddings.token_embedding.weight", {c.vocab_size, d}));
    VKFORMER_TRY(w.positions, read.tensor("embeddings.position_embedding.weight", {c.max_positions, d}));
    VKFORMER_TRY(w.layers, read_tower_layers(read, c, kClipNames));
    VKFORMER_TRY(w.final_norm, read.norm("final_layer_norm", d, true));
    return w;
}

Result<Clip> load_clip(const Config& config, const Weights& weights) {
    VKFORMER_TRY(const Config text, tower_config(config, "text_config"));
    VKFORMER_TRY(const Config vision, tower_config(config, "vision_config"));
    VKFORMER_TRY(const std::uint32_t projection,
                 config.unsigned_integer("projection_dim", {.fallback = 512, .min = 1, .max = 1u << 20}));
    VKFORMER_TRY(VisionEncoder vision_encoder, read_image_tower(vision, weights, projection));
    VKFORMER_TRY(Encoder text_encoder, read_text_tower(text, weights));
    const WeightReader read(weights, "");
    VKFORMER_TRY(Projection text_projection,
                 read.projection("text_projection", projection, text_encoder.config().hidden_size, false));
    VKFORMER_TRY(const double logit_scale, read_logit_scale(read, Shape{}));
    return Clip{.vision = std::move(vision_encoder),
                .text = std::move(text_encoder),
                .text_projection = std::move(text_projection),
                .logit_scale = logit_scale};
}

Result<graph::Value> Clip::add_text_embedding(graph::Graph& graph, const EncoderTensors& tensors) const {
    const EncoderLayers build(text.config(), graph, DType::f32);
    graph.set_scope("text.head");
    VKFORMER_TRY(const graph::Value end, graph::pool(graph, tensors.hidden, tensors.lengths, graph::Pooling::last));
    return build.linear("text.head.projection", text_projection, end);
}

}  // namespace vkformer::models
