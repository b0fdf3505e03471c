// SPDX-License-Identifier: MIT
// Qwen3-Next and Qwen 3.5 (Qwen Team 2025, 2026; of 3.5 the text part), dense or mixtures of experts: three layers with a gated delta rule, then
// one with gated attention, of which a quarter of each head is turned. 3.5's positions of pictures are those of tokens in a text.
#include "core/try.hpp"
#include "models/decoder_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using Mixer = DecoderConfig::Mixer;

Result<void> read_delta_rule(const Config& config, DecoderConfig& c) {
    const auto count = [&](const char* name, std::uint32_t usual, std::uint32_t most) {
        return config.unsigned_integer(name, {.fallback = usual, .min = 1, .max = most});
    };
    DecoderConfig::DeltaRule& rule = c.delta_rule;
    VKFORMER_TRY(rule.key_heads, count("linear_num_key_heads", 16, 1024));
    VKFORMER_TRY(rule.heads, count("linear_num_value_heads", 32, 4096));
    VKFORMER_TRY(rule.key_dim, count("linear_key_head_dim", 128, 256));
    VKFORMER_TRY(rule.value_dim, count("linear_value_head_dim", 128, 4096));
    VKFORMER_TRY(c.taps, config.unsigned_integer("linear_conv_kernel_dim", {.fallback = 4, .min = 2, .max = 8}));
    if (rule.heads % rule.key_heads != 0)
        return config.unsupported("linear_num_value_heads",
                                  "a multiple of linear_num_key_heads = " + std::to_string(rule.key_heads));
    return {};
}

Result<void> read_mixers(const Config& config, DecoderConfig& c) {
    VKFORMER_TRY(std::vector<bool> has_state, read_layer_types(config, c.layers.size(), "linear_attention"));
    VKFORMER_TRY(const auto interval, config.unsigned_integer("full_attention_interval", {.fallback = 4, .min = 1}));
    for (std::size_t i = 0; i < c.layers.size(); ++i) {
        if (!config.has("layer_types")) has_state[i] = (i + 1) % interval != 0;
        if (has_state[i])
            c.layers[i].mixer = Mixer::delta_rule;
        else
            c.layers[i].rope = 0;
    }
    return {};
}

/// `has_dense`: some layers may have no experts.
Result<void> read_qwen_experts(const Config& config, bool has_dense, DecoderConfig& c) {
    VKFORMER_CHECK(read_expert_counts(config, has_dense ? 512 : 256, has_dense ? 10 : 8, c));
    const formats::Expect<std::uint32_t> width = {.fallback = 512, .min = 1, .max = 1u << 20};
    VKFORMER_TRY(c.experts.intermediate_size, config.unsigned_integer("moe_intermediate_size", width));
    VKFORMER_TRY(c.experts.shared_size, config.unsigned_integer("shared_expert_intermediate_size", width));
    c.experts.normalises = true;
    if (!has_dense) return {};
    VKFORMER_TRY(c.experts.normalises, config.boolean("norm_topk_prob", true));
    return read_dense_layers(config, c);
}

/// The gate of each head follows its query.
Result<void> read_attention(const WeightReader& read, const DecoderConfig& c, const LlamaLayout& layout,
                            const std::string& self, DecoderWeights::Layer& l) {
    const std::uint64_t d = c.hidden_size, width = std::uint64_t{c.heads} * c.head_dim,
                        kv_width = std::uint64_t{c.kv_heads} * c.head_dim;
    VKFORMER_TRY(const Projection both, read.projection(self + "q_proj", 2 * width, d, layout.attention_bias));
    set_gated_query(both, c, l);
    VKFORMER_TRY(l.key, read.projection(self + "k_proj", kv_width, d, layout.attention_bias));
    VKFORMER_TRY(l.value, read.projection(self + "v_proj", kv_width, d, layout.attention_bias));
    VKFORMER_TRY(l.output, read.projection(self + "o_proj", d, width, layout.output_bias));
    VKFORMER_TRY(l.query_norm, read.norm(self + "q_norm", c.head_dim));
    VKFORMER_TRY(l.key_norm, read.norm(self + "k_norm", c.head_dim));
    return {};
}

/// Of 3.5; Qwen3-Next has for each head of keys its query, key, values and gates, and its β and steps, in turns.
Result<void> read_delta_inputs(const WeightReader& read, const DecoderConfig& c, const std::string& linear,
                               DecoderWeights::Layer& l) {
    const DecoderConfig::DeltaRule& rule = c.delta_rule;
    const std::uint64_t d = c.hidden_size, each = rule.heads / rule.key_heads, values = each * rule.value_dim;
    if (read.has(linear + "in_proj_qkv.weight")) {
        VKFORMER_TRY(l.state.input, read.projection(linear + "in_proj_qkv", rule.width(), d, false));
        VKFORMER_TRY(l.mixed_gate, read.projection(linear + "in_proj_z", rule.values(), d, false));
        VKFORMER_TRY(l.state.beta, read.projection(linear + "in_proj_b", rule.heads, d, false));
        VKFORMER_TRY(l.state.step, read.projection(linear + "in_proj_a", rule.heads, d, false));
        return {};
    }
    VKFORMER_TRY(const Projection all,
                 read.projection(linear + "in_proj_qkvz", rule.width() + rule.values(), d, false));
    VKFORMER_TRY(const Projection gates, read.projection(linear + "in_proj_ba", 2 * rule.heads, d, false));
    std::vector<RowRange> qkv;
    const std::uint64_t group = 2 * rule.key_dim + 2 * values;
    for (std::uint64_t g = 0; g < rule.key_heads; ++g) qkv.push_back({g * group, rule.key_dim});
    for (std::uint64_t g = 0; g < rule.key_heads; ++g) qkv.push_back({g * group + rule.key_dim, rule.key_dim});
    for (std::uint64_t g = 0; g < rule.key_heads; ++g) qkv.push_back({g * group + 2 * rule.key_dim, values});
    l.state.input = gathered_rows(all, qkv);
    l.mixed_gate = ungrouped(all, rule.key_heads, {2 * rule.key_dim + values, values})[1];
    const std::vector<Projection> parts = ungrouped(gates, rule.key_heads, {each, each});
    l.state.beta = parts[0];
    l.state.step = parts[1];
    return {};
}

Result<void> read_delta_or_attention(const WeightReader& read, const DecoderConfig& c, const LlamaLayout& layout,
                                     const std::string& layer, std::size_t index, DecoderWeights::Layer& l) {
    if (c.layers[index].mixer == Mixer::attention) return read_attention(read, c, layout, layer + "self_attn.", l);
    const std::string linear = layer + "linear_attn.";
    const DecoderConfig::DeltaRule& rule = c.delta_rule;
    VKFORMER_CHECK(read_delta_inputs(read, c, linear, l));
    VKFORMER_TRY(l.state.taps, read_taps(read, linear + "conv1d.weight", rule.width(), c.taps));
    VKFORMER_TRY(const TensorData rates, read.tensor(linear + "A_log", {rule.heads}));
    VKFORMER_TRY(const TensorData steps, read.tensor(linear + "dt_bias", {rule.heads}));
    VKFORMER_TRY(l.state.rates, rates_of(rates, {&steps}));
    VKFORMER_TRY(l.state.norm, read.norm(linear + "norm", rule.value_dim));
    VKFORMER_TRY(l.output, read.projection(linear + "out_proj", c.hidden_size, rule.values(), false));
    return {};
}

/// A head that guesses, which is outside of the text model.
Result<DecoderParts> load_head_of(const Config& config, const formats::Weights& weights, DecoderConfig c,
                                  const LlamaLayout& layout, const DecoderWeights& model) {
    const std::string own = "mtp.";
    const HeadNames names = {.layer = own + "layers.0.",
                             .token_norm = own + "pre_fc_norm_embedding",
                             .hidden_norm = own + "pre_fc_norm_hidden",
                             .projection = own + "fc",
                             .final_norm = own + "norm"};
    const WeightReader read(weights, "");
    if (!has_head(read, names)) return no_head(config.file_name());
    const bool has_experts = c.experts.count > 0 && !read.has(names.layer + "mlp.gate_proj.weight");
    c.layers.assign(1, {.rope = 0, .has_experts = has_experts});
    DecoderParts parts{.config = std::move(c), .weights = {}};
    VKFORMER_TRY(parts.weights, read_head(read, parts.config, layout, names, model));
    return parts;
}

/// `whole`: the config that says whether the head is the table of tokens. `model`: whose head that guesses is asked for; null: the model.
Result<DecoderParts> load(const Config& config, const Config& whole, const formats::Weights& weights,
                          const std::string& prefix, const std::string& type, const DecoderWeights* model) {
    const bool is_next = type == "qwen3_next", has_experts = is_next || type.starts_with("qwen3_5_moe");
    DecoderParts parts;
    DecoderConfig& c = parts.config;
    SizeDefaults defaults = {.positions = 32768, .head_dim = 256, .kv_heads = has_experts ? 2u : 4u};
    defaults.intermediate_size = is_next ? 5632 : 12288;
    VKFORMER_TRY(c, read_sizes(config, defaults));
    c.norm_gain_offset = 1;
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_act", "silu"));
    if (c.activation != graph::Activation::silu) return config.unsupported("hidden_act", "silu");
    VKFORMER_TRY(const bool is_gated, config.boolean("attn_output_gate", true));
    if (!is_gated) return config.unsupported("attn_output_gate", "true");
    VKFORMER_TRY(const Rope rope, read_rope(config, c, {.turns_part = true, .turned_part = 0.25}));
    c.ropes = {rope};
    VKFORMER_CHECK(read_mixers(config, c));
    VKFORMER_CHECK(read_delta_rule(config, c));
    if (has_experts) VKFORMER_CHECK(read_qwen_experts(config, is_next, c));

    LlamaLayout layout = {.read_mixer = &read_delta_or_attention};
    VKFORMER_TRY(layout.attention_bias, config.boolean("attention_bias", false));
    layout.output_bias = layout.attention_bias;
    VKFORMER_TRY(layout.tied, whole.boolean("tie_word_embeddings", false));
    if (model) return load_head_of(config, weights, std::move(c), layout, *model);
    VKFORMER_TRY(parts.weights, read_llama_weights(weights, c, layout, prefix));
    return parts;
}

Result<DecoderParts> load_any(const Config& config, const formats::Weights& weights, const DecoderWeights* model) {
    const std::string probe = "embed_tokens.weight";
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    if (type != "qwen3_5" && type != "qwen3_5_moe")
        return load(config, config, weights, find_prefix(weights, "model.", probe), type, model);
    // With a vision tower, which is not read.
    VKFORMER_TRY(const Config text, config.object("text_config"));
    VKFORMER_TRY(const std::string text_type, text.string("model_type", type + "_text"));
    if (text_type != type + "_text") return text.unsupported("model_type", type + "_text");
    return load(text, config, weights, find_prefix(weights, "model.language_model.", probe), type, model);
}

}  // namespace

Result<DecoderParts> load_qwen_hybrid(const Config& config, const formats::Weights& weights) {
    return load_any(config, weights, nullptr);
}

Result<DecoderParts> load_qwen_head(const Config& config, const formats::Weights& weights,
                                    const DecoderWeights& model) {
    return load_any(config, weights, &model);
}

}  // namespace vkformer::models
