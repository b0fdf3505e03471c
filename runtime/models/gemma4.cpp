// SPDX-License-Identifier: MIT
// Gemma 4 (Gemma Team 2026), of its text part: Gemma 3's layers whose attention without a window has heads of another width, and keys that
// may be its values too, whose last layers may see the caches of earlier ones, and which may have per-layer embeddings or, beside feed-forward
// layers, a mixture of experts with norms of its own. Gains are plain, and what a layer gives is multiplied by a number of it.
#include "models/gemma4.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;

/// Columns first … first + count − 1 of a matrix, copied. Requires whole blocks.
TensorData columns_of(const TensorData& matrix, std::uint64_t first, std::uint64_t count) {
    const std::uint64_t rows = matrix.shape[0], row_bytes = bytes_of(matrix.dtype, matrix.shape[1]),
                        begin = bytes_of(matrix.dtype, first), size = bytes_of(matrix.dtype, count);
    const auto bytes = std::make_shared<std::vector<std::byte>>(rows * size);
    for (std::uint64_t row = 0; row < rows; ++row)
        std::ranges::copy(matrix.bytes.subspan(row * row_bytes + begin, size), bytes->begin() + row * size);
    return {.dtype = matrix.dtype, .shape = {rows, count}, .bytes = *bytes, .owner = bytes};
}

constexpr Gemma4Names kFolderNames = {.table = "embed_tokens_per_layer.weight",
                                      .projection = "per_layer_model_projection",
                                      .projection_norm = "per_layer_projection_norm",
                                      .embedding_gate = "per_layer_input_gate",
                                      .embedding_output = "per_layer_projection",
                                      .embedding_norm = "post_per_layer_input_norm",
                                      .scale = "layer_scalar",
                                      .expert_norm = "pre_feedforward_layernorm_2",
                                      .expert_post_norm = "post_feedforward_layernorm_2",
                                      .shared_post_norm = "post_feedforward_layernorm_1",
                                      .router_scale = "router.scale",
                                      .expert_scales = "router.per_expert_scale"};

Result<void> read_gemma4_windows(const Config& config, DecoderConfig& c) {
    VKFORMER_TRY(std::vector<bool> slides, read_sliding_layers(config, c.layers.size()));
    constexpr std::size_t kUsual = 6;  // from one layer without a window to the next
    if (!config.has("layer_types"))
        for (std::size_t i = 0; i < slides.size(); ++i) slides[i] = (i + 1) % kUsual != 0;
    slides.back() = false;  // whatever the list says of it
    VKFORMER_TRY(const auto window, read_window(config, slides, 512));
    for (std::size_t i = 0; i < slides.size(); ++i) c.layers[i].window = slides[i] ? window : 0;
    return {};
}

Result<void> read_gemma4_heads(const Config& config, const Gemma4Layout& layout, DecoderConfig& c) {
    VKFORMER_TRY(const auto head_dim, config.unsigned_integer("global_head_dim", {.fallback = 512, .max = 1u << 16}));
    std::uint32_t kv_heads = c.kv_heads;
    if (layout.keys_are_values) {
        VKFORMER_TRY(kv_heads, config.unsigned_integer("num_global_key_value_heads", {.min = 1, .max = c.heads}));
        if (c.heads % kv_heads != 0)
            return config.unsupported("num_global_key_value_heads", "a divisor of num_attention_heads");
    }
    VKFORMER_TRY(const auto shared,
                 config.unsigned_integer("num_kv_shared_layers",
                                         {.fallback = 0, .max = static_cast<std::uint32_t>(c.layers.size() - 1)}));
    for (DecoderConfig::Layer& layer : c.layers) {
        layer.rope = layer.window == 0 ? 0 : 1;
        if (layer.window > 0) continue;
        layer.head_dim = head_dim;  // 0: as the others
        layer.kv_heads = kv_heads;
    }
    if (!share_caches(c, shared))
        return config.unsupported("num_kv_shared_layers", "so few that each has a layer of its kind before them");
    DecoderConfig wide = c;
    if (head_dim > 0) wide.head_dim = head_dim;
    constexpr const char* kProportional = "proportional";
    if (config.has("rope_scaling"))  // which transformers passes over
        return config.unsupported("rope_scaling", "null: rope_parameters say how positions turn");
    RopeDefaults defaults = {.theta = 1e6, .object = "full_attention"};
    if (!config.has("rope_parameters")) {
        defaults.turned_part = 0.25;
        defaults.type = kProportional;
    }
    VKFORMER_TRY(const RopeSource source, find_rope(config, defaults));
    if (source.type != kProportional && wide.head_dim != c.head_dim)
        return source.scaling.unsupported("rope_type", "\"proportional\" for heads of another width");
    VKFORMER_TRY(const Rope global, read_rope(config, wide, defaults));
    VKFORMER_TRY(const Rope local, read_rope(config, c, {.object = "sliding_attention"}));
    if (wide.extended_positions > 0 || c.extended_positions > 0)
        return config.unsupported("rope_parameters",
                                  "an object whose types are default, linear, llama3, yarn, proportional");
    c.ropes = {global, local};
    return {};
}

Result<void> read_gemma4_experts(const Config& config, DecoderConfig& c) {
    VKFORMER_TRY(const bool has_experts, config.boolean("enable_moe_block", false));
    if (!has_experts) return {};
    DecoderConfig::Experts& experts = c.experts;
    constexpr std::uint32_t kMost = graph::kMostExperts, kMostPerToken = 32;
    VKFORMER_TRY(experts.count, config.unsigned_integer("num_experts", {.min = 1, .max = kMost}));
    VKFORMER_TRY(experts.per_token,
                 config.unsigned_integer("top_k_experts", {.min = 1, .max = std::min(experts.count, kMostPerToken)}));
    VKFORMER_TRY(experts.intermediate_size,
                 config.unsigned_integer("moe_intermediate_size", {.min = 1, .max = 1u << 24}));
    experts.shared_size = c.intermediate_size;
    experts.normalises = true;
    experts.least_sum = 0;
    for (auto& layer : c.layers) layer.has_experts = true;
    return {};
}

Result<void> read_gemma4_layer(const WeightReader& read, const DecoderConfig& c, const Gemma4Layout& layout,
                               std::size_t index, DecoderWeights::Layer& l) {
    const std::string layer = "layers." + std::to_string(index) + ".", mlp = layer + "mlp.";
    const bool is_shared = c.layers[index].shared_cache.has_value();
    const std::uint64_t d = c.hidden_size,
                        inner = std::uint64_t{c.intermediate_size} * (layout.doubles_shared && is_shared ? 2 : 1);
    VKFORMER_CHECK(read_gemma4_attention(read, c, layout, layer + "self_attn.", c.layers[index], l));
    VKFORMER_TRY(l.gate, read.projection(mlp + "gate_proj", inner, d, false));
    VKFORMER_TRY(l.up, read.projection(mlp + "up_proj", inner, d, false));
    VKFORMER_TRY(l.down, read.projection(mlp + "down_proj", d, inner, false));
    return read_gemma4_extras(read, c, kFolderNames, layer, layout.embedding_width, l);
}

Result<DecoderParts> load_gemma4_text(const Config& config, const formats::Weights& weights,
                                      const std::string& prefix) {
    DecoderParts parts;
    DecoderConfig& c = parts.config;
    VKFORMER_TRY(c, read_sizes(config, {.positions = 131072, .head_dim = 256, .kv_heads = 4}));
    c.embedding_scale = std::sqrt(static_cast<float>(c.hidden_size));
    c.attention_scale = 1;
    c.norms_values = true;
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_activation", "gelu_pytorch_tanh"));
    VKFORMER_TRY(const double cap, config.real("final_logit_softcapping", {.fallback = 0, .min = 0, .max = 1e6}));
    c.logit_soft_cap = static_cast<float>(cap);
    VKFORMER_TRY(const std::string sees, config.string("use_bidirectional_attention", "vision"));
    if (sees != "vision")  // which says it of images alone
        return config.unsupported("use_bidirectional_attention", "null or \"vision\"");

    Gemma4Layout own;
    VKFORMER_TRY(own.attention_bias, config.boolean("attention_bias", false));
    VKFORMER_TRY(own.keys_are_values, config.boolean("attention_k_eq_v", false));
    VKFORMER_TRY(own.doubles_shared, config.boolean("use_double_wide_mlp", false));
    VKFORMER_TRY(own.embedding_width,
                 config.unsigned_integer("hidden_size_per_layer_input", {.fallback = 256, .max = 1u << 16}));
    VKFORMER_CHECK(read_gemma4_windows(config, c));
    VKFORMER_CHECK(read_gemma4_heads(config, own, c));
    VKFORMER_CHECK(read_gemma4_experts(config, c));

    LlamaLayout layout = with_gemma_norms({.feed_forward = false});
    layout.experts = {.block = "", .router = "router.proj.weight"};
    layout.read_mixer = [](const WeightReader&, const DecoderConfig&, const LlamaLayout&, const std::string&,
                           std::size_t, DecoderWeights::Layer&) { return Result<void>(); };
    VKFORMER_TRY(layout.tied, config.boolean("tie_word_embeddings", true));
    VKFORMER_TRY(parts.weights, read_llama_weights(weights, c, layout, prefix));
    const WeightReader read(weights, prefix);
    for (std::size_t i = 0; i < c.layers.size(); ++i)
        VKFORMER_CHECK(read_gemma4_layer(read, c, own, i, parts.weights.layers[i]));
    if (own.embedding_width == 0) return parts;
    VKFORMER_TRY(const auto rows, config.unsigned_integer("vocab_size_per_layer_input",
                                                          {.fallback = 262144, .min = 1, .max = 1u << 28}));
    if (rows != c.vocab_size) return config.unsupported("vocab_size_per_layer_input", "as many as vocab_size");
    VKFORMER_CHECK(read_layer_embeddings(read, c, kFolderNames, own.embedding_width, rows, parts.weights));
    return parts;
}

}  // namespace

Result<void> read_gemma4_attention(const WeightReader& read, const DecoderConfig& c, const Gemma4Layout& layout,
                                   const std::string& name, const DecoderConfig::Layer& layer,
                                   DecoderWeights::Layer& l) {
    const std::uint64_t d = c.hidden_size, head = c.head_dim_of(layer), width = c.heads * head,
                        kv_width = c.kv_heads_of(layer) * head;
    const bool has_bias = layout.attention_bias;
    VKFORMER_TRY(l.query, read.projection(name + "q_proj", width, d, has_bias));
    VKFORMER_TRY(l.query_norm, read.norm(name + "q_norm", head));
    VKFORMER_TRY(l.output, read.projection(name + "o_proj", d, width, has_bias));
    if (layer.shared_cache) return {};
    VKFORMER_TRY(l.key, read.projection(name + "k_proj", kv_width, d, has_bias));
    VKFORMER_TRY(l.key_norm, read.norm(name + "k_norm", head));
    if (!layout.keys_are_values || layer.window > 0) {
        VKFORMER_TRY(l.value, read.projection(name + "v_proj", kv_width, d, has_bias));
    }
    return {};
}

Result<std::vector<LayerEmbeddings>> split_layer_embeddings(const TensorData& table, const Projection& projection,
                                                            std::uint64_t width, std::uint64_t most) {
    const std::uint64_t all = table.shape[1], of_a_layer = table.shape[0] * width;
    const std::uint64_t columns = std::max<std::uint64_t>(most / of_a_layer, 1) * width;
    if (columns >= all) return std::vector{LayerEmbeddings{table, projection}};
    if (width % block_elements(table.dtype) != 0)
        return Error{ErrorCode::UnsupportedDtype,
                     "the layers' embeddings have " + std::to_string(width) + " elements, which no blocks of " +
                         std::string(to_string(table.dtype)) + " end with, and all layers' are too long for one table"};
    std::vector<LayerEmbeddings> parts;
    for (std::uint64_t first = 0; first < all; first += columns) {
        const std::uint64_t count = std::min(columns, all - first);
        parts.push_back({columns_of(table, first, count), rows_of(projection, first, count)});
    }
    return parts;
}

Result<void> read_gemma4_extras(const WeightReader& read, const DecoderConfig& config, const Gemma4Names& names,
                                const std::string& name, std::uint64_t width, DecoderWeights::Layer& layer) {
    const std::uint64_t d = config.hidden_size, experts = config.experts.count;
    if (names.scale) {
        VKFORMER_TRY(const TensorData scale, read.tensor(name + names.scale, {1}));
        VKFORMER_TRY(const auto scales, floats_of(scale));
        layer.scale = scales.front();
    }
    if (width > 0) {
        VKFORMER_TRY(layer.embedding_gate, read.projection(name + names.embedding_gate, width, d, false));
        VKFORMER_TRY(layer.embedding_output, read.projection(name + names.embedding_output, d, width, false));
        VKFORMER_TRY(layer.embedding_norm, read.norm(name + names.embedding_norm, d));
    }
    ExpertWeights& w = layer.experts;
    if (!w) return {};
    VKFORMER_TRY(w.norm, read.norm(name + names.expert_norm, d));
    VKFORMER_TRY(w.post_norm, read.norm(name + names.expert_post_norm, d));
    VKFORMER_TRY(w.shared_post_norm, read.norm(name + names.shared_post_norm, d));
    // The router sees norm(x) · scale / √hidden_size.
    VKFORMER_TRY(const TensorData router_scale, read.tensor(name + names.router_scale, {d}));
    VKFORMER_TRY(auto gains, floats_of(router_scale));
    for (float& gain : gains) gain /= std::sqrt(static_cast<float>(d));
    w.router_norm.gain = float_tensor({d}, std::move(gains));
    if (names.may_fold_scales && !read.has(name + names.expert_scales)) return {};
    VKFORMER_TRY(w.scales, read.tensor(name + names.expert_scales, {experts}));
    w.scales.shape = {experts, 1};
    return {};
}

Result<void> read_layer_embeddings(const WeightReader& read, const DecoderConfig& config, const Gemma4Names& names,
                                   std::uint64_t width, std::uint64_t tokens, DecoderWeights& weights) {
    const std::uint64_t all = width * config.layers.size();
    VKFORMER_TRY(const TensorData table, read.tensor(names.table, {tokens, all}));
    VKFORMER_TRY(const Projection projection, read.projection(names.projection, all, config.hidden_size, false));
    VKFORMER_TRY(weights.layer_embedding_norm, read.norm(names.projection_norm, width));
    VKFORMER_TRY(weights.layer_embeddings, split_layer_embeddings(table, projection, width));
    return {};
}

bool share_caches(DecoderConfig& config, std::size_t count) {
    std::vector<DecoderConfig::Layer>& layers = config.layers;
    const std::size_t own = layers.size() - count;
    for (std::size_t i = own; i < layers.size(); ++i) {
        for (std::size_t j = 0; j < own; ++j)
            if ((layers[j].window > 0) == (layers[i].window > 0)) layers[i].shared_cache = j;
        if (!layers[i].shared_cache) return false;
    }
    return true;
}

Result<DecoderParts> load_gemma4(const Config& config, const formats::Weights& weights) {
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    if (type == "gemma4_text")
        return load_gemma4_text(config, weights, find_prefix(weights, "model.", "embed_tokens.weight"));
    VKFORMER_TRY(const Config text, config.object("text_config"));  // beside towers, which are not read
    return load_gemma4_text(text, weights, "model.language_model.");
}

}  // namespace vkformer::models
