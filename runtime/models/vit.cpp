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

Result<ProblemType> read_problem(const Config& config) {
    VKFORMER_TRY(const std::string problem, config.string("problem_type", "single_label_classification"));
    if (problem == "single_label_classification") return ProblemType::one_label;
    if (problem == "multi_label_classification") return ProblemType::many_labels;
    if (problem == "regression") return ProblemType::regression;
    return config.unsupported("problem_type", "single_label_classification, multi_label_classification, regression");
}

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

Result<void> read_labels_of(const Config& config, VisionConfig& c) {
    VKFORMER_TRY(c.problem, read_problem(config));
    VKFORMER_TRY(const Config names, config.object("id2label"));
    const std::size_t count = names.names().size();
    if (count == 0) {
        VKFORMER_TRY(c.labels, config.unsigned_integer("num_labels", {.fallback = 2, .min = 1, .max = 1u << 20}));
        return {};
    }
    c.labels = static_cast<std::uint32_t>(count);
    for (std::size_t i = 0; i < count; ++i) {
        VKFORMER_TRY(auto name, names.string(std::to_string(i)));
        c.label_names.push_back(std::move(name));
    }
    return {};
}

Result<VisionConfig> read_config(const Config& config, std::uint32_t special_tokens) {
    VKFORMER_CHECK(refuse_other_encoders(config));
    const auto count = [&](std::string_view name, std::uint32_t fallback) {
        return config.unsigned_integer(name, {.fallback = fallback, .min = 1, .max = 1u << 20});
    };
    VisionConfig c;
    c.norm_place = NormPlace::before;
    c.special_tokens = special_tokens;
    VKFORMER_TRY(c.hidden_size, count("hidden_size", 768));
    VKFORMER_TRY(c.intermediate_size, count("intermediate_size", 3072));
    VKFORMER_TRY(c.layers, config.unsigned_integer("num_hidden_layers", {.fallback = 12, .min = 1, .max = 4096}));
    VKFORMER_TRY(c.heads, count("num_attention_heads", 12));
    VKFORMER_TRY(const double eps, config.real("layer_norm_eps", {.fallback = 1e-12, .min = 0, .max = 1}));
    c.norm_eps = static_cast<float>(eps);
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_act", "gelu"));
    VKFORMER_CHECK(read_image_sizes(config, 224, 16, c));
    if (c.hidden_size % c.heads != 0)
        return config.unsupported("num_attention_heads", "a divisor of hidden_size = " + std::to_string(c.hidden_size));
    return c;
}

Result<EncoderLayerWeights> read_layer(const WeightReader& read, const std::string& layer, const VisionConfig& c,
                                       bool qkv_bias) {
    const std::uint64_t d = c.hidden_size, inner = c.intermediate_size;
    const std::string self = layer + "attention.attention.";
    EncoderLayerWeights l;
    VKFORMER_TRY(l.query, read.projection(self + "query", d, d, qkv_bias));
    VKFORMER_TRY(l.key, read.projection(self + "key", d, d, qkv_bias));
    VKFORMER_TRY(l.value, read.projection(self + "value", d, d, qkv_bias));
    VKFORMER_TRY(l.output, read.projection(layer + "attention.output.dense", d, d, true));
    VKFORMER_TRY(l.attention_norm, read.norm(layer + "layernorm_before", d, true));
    VKFORMER_TRY(l.up, read.projection(layer + "intermediate.dense", inner, d, true));
    VKFORMER_TRY(l.down, read.projection(layer + "output.dense", d, inner, true));
    VKFORMER_TRY(l.feed_forward_norm, read.norm(layer + "layernorm_after", d, true));
    return l;
}

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

/// The mean of two heads is the sum of halves, which a power of two does not round.
Result<Projection> halved(const Projection& projection) {
    const auto half = [](const TensorData& data) -> Result<TensorData> {
        const auto values = std::make_shared<std::vector<float>>(data.shape.element_count());
        VKFORMER_CHECK(convert(data.dtype, data.bytes, 0, std::span(*values)));
        for (float& value : *values) value /= 2;
        return TensorData{
            .dtype = DType::f32, .shape = data.shape, .bytes = std::as_bytes(std::span(*values)), .owner = values};
    };
    Projection p;
    VKFORMER_TRY(p.weight, half(projection.weight));
    VKFORMER_TRY(p.bias, half(projection.bias));
    return p;
}

Result<std::vector<Projection>> read_classifiers(const Weights& weights, const VisionConfig& c, std::uint32_t heads) {
    const WeightReader read(weights, "");
    std::vector<Projection> classifiers(heads);
    if (heads == 1) {
        VKFORMER_TRY(classifiers[0], read.projection("classifier", c.labels, c.hidden_size, true));
    } else if (heads == 2) {
        VKFORMER_TRY(classifiers[0], read.projection("cls_classifier", c.labels, c.hidden_size, true));
        VKFORMER_TRY(classifiers[1], read.projection("distillation_classifier", c.labels, c.hidden_size, true));
        for (Projection& classifier : classifiers) {
            VKFORMER_TRY(classifier, halved(classifier));
        }
    }
    return classifiers;
}

}  // namespace

Result<VisionEncoder> load_vit(const Config& config, const Weights& weights) {
    VKFORMER_TRY(const std::string type, config.string("model_type", "vit"));
    VKFORMER_TRY(VisionConfig c, read_config(config, type == "deit" ? 2 : 1));
    VKFORMER_TRY(const std::uint32_t heads, read_heads(config));
    VKFORMER_TRY(const bool qkv_bias, config.boolean("qkv_bias", true));
    if (heads > 0) VKFORMER_CHECK(read_labels_of(config, c));
    const WeightReader read(weights, find_prefix(weights, type + ".", "embeddings.cls_token"));
    VisionWeights w;
    VKFORMER_TRY(w.patches, read_patches(read, "embeddings.patch_embeddings.projection.weight", c));
    VKFORMER_TRY(w.positions, read_places(read, c));
    for (std::uint32_t i = 0; i < c.layers; ++i) {
        VKFORMER_TRY(auto layer, read_layer(read, "encoder.layer." + std::to_string(i) + ".", c, qkv_bias));
        w.layers.push_back(std::move(layer));
    }
    VKFORMER_TRY(w.final_norm, read.norm("layernorm", c.hidden_size, true));
    VKFORMER_TRY(w.heads, read_classifiers(weights, c, heads));
    return VisionEncoder(std::move(c), std::move(w));
}

}  // namespace vkformer::models
