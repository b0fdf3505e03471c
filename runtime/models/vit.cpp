// SPDX-License-Identifier: MIT
// ViT (Dosovitskiy et al. 2021) and DeiT (Touvron et al. 2021), which is a ViT with a second special token, taught by another model.
#include <algorithm>

#include "core/try.hpp"
#include "models/encoder_loading.hpp"
#include "models/vision_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::Weights;

/// How many heads the classifier has: 0 for a model without, 2 for DeiT's with a teacher.
Result<std::uint32_t> read_heads(const Config& config) {
    VKFORMER_TRY(const auto architectures, config.strings("architectures"));
    std::uint32_t heads = 0;
    for (const std::string& name : architectures) {
        if (name.ends_with("ForImageClassification")) heads = 1;
        if (name.ends_with("ForImageClassificationWithTeacher")) heads = 2;
    }
    return heads;
}

constexpr TowerNames kVitNames = {.layer = "encoder.layer.",
                                  .query = "attention.attention.query",
                                  .key = "attention.attention.key",
                                  .value = "attention.attention.value",
                                  .output = "attention.output.dense",
                                  .attention_norm = "layernorm_before",
                                  .up = "intermediate.dense",
                                  .down = "output.dense",
                                  .feed_forward_norm = "layernorm_after"};
constexpr TowerDefaults kVit = {
    .hidden_size = 768, .intermediate_size = 3072, .heads = 12, .norm_eps = 1e-12, .activation = "gelu"};

Result<TensorData> read_places(const WeightReader& read, const VisionConfig& c) {
    const std::string embeddings = "embeddings.";
    const std::uint64_t d = c.hidden_size;
    VKFORMER_TRY(const TensorData positions, read.tensor(embeddings + "position_embeddings", {1, c.tokens(), d}));
    std::vector<TensorData> special(c.special_tokens);
    VKFORMER_TRY(special[0], read.tensor(embeddings + "cls_token", {1, 1, d}));
    if (c.special_tokens > 1) {
        VKFORMER_TRY(special[1], read.tensor(embeddings + "distillation_token", {1, 1, d}));
    }
    VKFORMER_TRY(const TensorData bias, read.tensor(embeddings + "patch_embeddings.projection.bias", {d}));
    return embed_places(c, positions, special, bias);
}

Result<std::vector<Projection>> read_classifiers(const Weights& weights, const VisionConfig& c, std::uint32_t heads) {
    const WeightReader read(weights, "");
    std::vector<Projection> classifiers(heads);
    if (heads == 1) {
        VKFORMER_TRY(classifiers[0], read.projection("classifier", c.labels, c.hidden_size, true));
    } else if (heads == 2) {
        VKFORMER_TRY(classifiers[0], read.projection("cls_classifier", c.labels, c.hidden_size, true));
        VKFORMER_TRY(classifiers[1], read.projection("distillation_classifier", c.labels, c.hidden_size, true));
        // The mean of two heads is the sum of halves, which a power of two does not round.
        const std::vector<float> halves(c.labels, 0.5f);
        for (Projection& classifier : classifiers) {
            VKFORMER_TRY(classifier, scaled_rows(classifier, halves));
        }
    }
    return classifiers;
}

}  // namespace

Result<VisionEncoder> load_vit(const Config& config, const Weights& weights) {
    VKFORMER_TRY(const std::string type, config.string("model_type", "vit"));
    VisionConfig c;
    c.special_tokens = type == "deit" ? 2 : 1;
    VKFORMER_CHECK(read_tower(config, kVit, c));
    VKFORMER_CHECK(read_image_sizes(config, 224, 16, c));
    VKFORMER_TRY(const std::uint32_t heads, read_heads(config));
    VKFORMER_TRY(const bool qkv_bias, config.boolean("qkv_bias", true));
    if (heads > 0) VKFORMER_CHECK(read_image_labels(config, c));
    const WeightReader read(weights, find_prefix(weights, type + ".", "embeddings.cls_token"));
    VisionWeights w;
    VKFORMER_TRY(w.patches, read_patches(read, "embeddings.patch_embeddings.projection.weight", c));
    VKFORMER_TRY(w.places.positions, read_places(read, c));
    VKFORMER_TRY(w.layers,
                 read_tower_layers(read, c, kVitNames, {.query = qkv_bias, .key = qkv_bias, .value = qkv_bias}));
    VKFORMER_TRY(w.final_norm, read.norm("layernorm", c.hidden_size, true));
    VKFORMER_TRY(w.heads, read_classifiers(weights, c, heads));
    return VisionEncoder(std::move(c), std::move(w));
}

}  // namespace vkformer::models
