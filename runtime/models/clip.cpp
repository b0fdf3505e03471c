// SPDX-License-Identifier: MIT
// CLIP (Radford et al. 2021): an encoder of images and one of texts whose vectors lie in one space.
#include <cmath>

#include "core/try.hpp"
#include "models/encoder_loading.hpp"
#include "models/vision_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::Weights;

/// What the towers' configs have in common, with transformers' defaults for what is not said.
struct TowerDefaults {
    std::uint32_t hidden_size, intermediate_size, heads;
};

Result<void> read_tower(const Config& config, const TowerDefaults& defaults, EncoderLayerConfig& c) {
    VKFORMER_CHECK(refuse_other_encoders(config));
    const auto count = [&](std::string_view name, std::uint32_t fallback) {
        return config.unsigned_integer(name, {.fallback = fallback, .min = 1, .max = 1u << 20});
    };
    c.norm_place = NormPlace::before;
    VKFORMER_TRY(c.hidden_size, count("hidden_size", defaults.hidden_size));
    VKFORMER_TRY(c.intermediate_size, count("intermediate_size", defaults.intermediate_size));
    VKFORMER_TRY(c.layers, config.unsigned_integer("num_hidden_layers", {.fallback = 12, .min = 1, .max = 4096}));
    VKFORMER_TRY(c.heads, count("num_attention_heads", defaults.heads));
    VKFORMER_TRY(const double eps, config.real("layer_norm_eps", {.fallback = 1e-5, .min = 0, .max = 1}));
    c.norm_eps = static_cast<float>(eps);
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_act", "quick_gelu"));
    if (c.hidden_size % c.heads != 0)
        return config.unsupported("num_attention_heads", "a divisor of hidden_size = " + std::to_string(c.hidden_size));
    return {};
}

Result<std::vector<EncoderLayerWeights>> read_layers(const WeightReader& read, const EncoderLayerConfig& c) {
    const std::uint64_t d = c.hidden_size, inner = c.intermediate_size;
    std::vector<EncoderLayerWeights> layers(c.layers);
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const std::string layer = "encoder.layers." + std::to_string(i) + ".", self = layer + "self_attn.";
        EncoderLayerWeights& l = layers[i];
        VKFORMER_TRY(l.query, read.projection(self + "q_proj", d, d, true));
        VKFORMER_TRY(l.key, read.projection(self + "k_proj", d, d, true));
        VKFORMER_TRY(l.value, read.projection(self + "v_proj", d, d, true));
        VKFORMER_TRY(l.output, read.projection(self + "out_proj", d, d, true));
        VKFORMER_TRY(l.attention_norm, read.norm(layer + "layer_norm1", d, true));
        VKFORMER_TRY(l.up, read.projection(layer + "mlp.fc1", inner, d, true));
        VKFORMER_TRY(l.down, read.projection(layer + "mlp.fc2", d, inner, true));
        VKFORMER_TRY(l.feed_forward_norm, read.norm(layer + "layer_norm2", d, true));
    }
    return layers;
}

/// "text_config", or what transformers lets win over it: old files say it twice.
Result<Config> tower_config(const Config& config, const std::string& name) {
    return config.object(config.has(name + "_dict") ? name + "_dict" : name);
}

Result<VisionEncoder> read_vision(const Config& config, const Weights& weights, std::uint32_t projection) {
    VisionConfig c;
    VKFORMER_CHECK(read_tower(config, {.hidden_size = 768, .intermediate_size = 3072, .heads = 12}, c));
    VKFORMER_CHECK(read_image_sizes(config, 224, 32, c));
    c.norms_embeddings = true;
    c.norms_hidden = false;
    const WeightReader read(weights, "vision_model.");
    const std::uint64_t d = c.hidden_size;
    VisionWeights w;
    VKFORMER_TRY(w.patches, read_patches(read, "embeddings.patch_embedding.weight", c));
    VKFORMER_TRY(const TensorData positions, read.tensor("embeddings.position_embedding.weight", {c.tokens(), d}));
    VKFORMER_TRY(const TensorData special, read.tensor("embeddings.class_embedding", {d}));
    VKFORMER_TRY(w.positions, embed_places(c, positions, {special}, {}));
    VKFORMER_TRY(w.embedding_norm, read.norm("pre_layrnorm", d, true));  // sic
    VKFORMER_TRY(w.layers, read_layers(read, c));
    VKFORMER_TRY(w.final_norm, read.norm("post_layernorm", d, true));
    VKFORMER_TRY(w.projection, WeightReader(weights, "").projection("visual_projection", projection, d, false));
    return VisionEncoder(std::move(c), std::move(w));
}

Result<Encoder> read_text(const Config& config, const Weights& weights) {
    EncoderConfig c;
    VKFORMER_CHECK(read_tower(config, {.hidden_size = 512, .intermediate_size = 2048, .heads = 8}, c));
    VKFORMER_TRY(c.vocab_size, config.unsigned_integer("vocab_size", {.fallback = 49408, .min = 1, .max = 1u << 24}));
    VKFORMER_TRY(c.max_positions,
                 config.unsigned_integer("max_position_embeddings", {.fallback = 77, .min = 1, .max = 1u << 20}));
    VKFORMER_TRY(const auto end, config.integer("eos_token_id", {.fallback = 49407, .min = 0, .max = 1 << 24}));
    // Configs of before 2023 say 2, which is wrong: transformers then takes the largest id, which is the end token's.
    c.end_token = end == 2 ? static_cast<std::int32_t>(c.vocab_size) - 1 : static_cast<std::int32_t>(end);
    c.is_causal = true;
    const WeightReader read(weights, "text_model.");
    const std::uint64_t d = c.hidden_size;
    EncoderWeights w;
    VKFORMER_TRY(w.embedding, read.tensor("embeddings.token_embedding.weight", {c.vocab_size, d}));
    VKFORMER_TRY(w.positions, read.tensor("embeddings.position_embedding.weight", {c.max_positions, d}));
    VKFORMER_TRY(w.layers, read_layers(read, c));
    VKFORMER_TRY(w.final_norm, read.norm("final_layer_norm", d, true));
    return Encoder(c, std::move(w));
}

}  // namespace

Result<Clip> load_clip(const Config& config, const Weights& weights) {
    VKFORMER_TRY(const Config text, tower_config(config, "text_config"));
    VKFORMER_TRY(const Config vision, tower_config(config, "vision_config"));
    VKFORMER_TRY(const std::uint32_t projection,
                 config.unsigned_integer("projection_dim", {.fallback = 512, .min = 1, .max = 1u << 20}));
    VKFORMER_TRY(VisionEncoder vision_encoder, read_vision(vision, weights, projection));
    VKFORMER_TRY(Encoder text_encoder, read_text(text, weights));
    const WeightReader read(weights, "");
    VKFORMER_TRY(Projection text_projection,
                 read.projection("text_projection", projection, text_encoder.config().hidden_size, false));
    VKFORMER_TRY(const TensorData scale, read.tensor("logit_scale", Shape{}));
    float logarithm = 0;
    VKFORMER_CHECK(convert(scale.dtype, scale.bytes, 0, std::span(&logarithm, 1)));
    constexpr float kLargestLogarithm = 50;  // models have 4.6; from 88 on its exponential is infinite
    if (std::abs(logarithm) > kLargestLogarithm)
        return Error{ErrorCode::CorruptFile, weights.source() + ": logit_scale is " + formats::shown(logarithm) +
                                                 ", expected a logarithm from -50 to 50"};
    return Clip{.vision = std::move(vision_encoder),
                .text = std::move(text_encoder),
                .text_projection = std::move(text_projection),
                .logit_scale = std::exp(static_cast<double>(logarithm))};
}

Result<graph::Value> Clip::add_text_embedding(graph::Graph& graph, const EncoderTensors& tensors) const {
    const EncoderLayers build(text.config(), graph, DType::f32);
    graph.set_scope("text.head");
    VKFORMER_TRY(const graph::Value end, graph::pool(graph, tensors.hidden, tensors.lengths, graph::Pooling::last));
    return build.linear("text.head.projection", text_projection, end);
}

}  // namespace vkformer::models
