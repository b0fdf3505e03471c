// SPDX-License-Identifier: MIT
#include "models/gguf_export_keys.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "core/try.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::GgufMetadata;
using formats::OutputTensor;

constexpr RopeDefaults kGemma3Rope = {.theta = 1e6, .object = "full_attention"};
constexpr RopeDefaults kQwenHybridRope = {.turns_part = true, .turned_part = 0.25};
constexpr std::array<GgufSource, 44> kSources = {{
    {.model_type = "llama", .architecture = kGgufLlama, .has_biases = true},
    {.model_type = "mistral", .architecture = kGgufLlama, .has_biases = true},
    {.model_type = "qwen2", .architecture = kGgufQwen2, .has_biases = true},
    {.model_type = "qwen3", .architecture = kGgufQwen3},
    {.model_type = "smollm3", .architecture = kGgufSmolLm3, .rope = {.theta = 2e6}},
    {.model_type = "phi3", .architecture = kGgufPhi3, .rope = {.turns_part = true}},
    {.model_type = "gemma", .architecture = kGgufGemma},
    {.model_type = "gemma2", .architecture = kGgufGemma2, .activation = "hidden_activation"},
    {.model_type = "gemma3_text", .architecture = kGgufGemma3, .activation = "hidden_activation", .rope = kGemma3Rope},
    {.model_type = "gemma3", .architecture = kGgufGemma3, .activation = "hidden_activation", .rope = kGemma3Rope},
    {.model_type = "gpt2", .architecture = kGgufGpt2, .activation = "activation_function", .has_biases = true},
    {.model_type = "mixtral", .architecture = kGgufLlama, .rope = {.theta = 1e6}},
    {.model_type = "qwen2_moe", .architecture = kGgufQwen2Moe, .has_biases = true},
    {.model_type = "qwen3_moe", .architecture = kGgufQwen3Moe},
    {.model_type = "olmoe", .architecture = kGgufOlmoe},
    {.model_type = "gpt_oss", .architecture = kGgufGptOss, .rope = {.theta = 150000}, .has_biases = true},
    {.model_type = "granite", .architecture = kGgufGranite, .has_biases = true},
    {.model_type = "granitemoe", .architecture = kGgufGraniteMoe, .has_biases = true},
    {.model_type = "granitemoeshared", .architecture = kGgufGraniteMoe, .has_biases = true},
    {.model_type = "granitemoehybrid", .architecture = kGgufGraniteHybrid, .has_biases = true},
    {.model_type = "nemotron_h", .architecture = kGgufNemotronH, .activation = "mlp_hidden_act", .has_biases = true},
    {.model_type = "lfm2", .architecture = kGgufLfm2, .rope = {.theta = 1e6}},
    {.model_type = "lfm2_moe", .architecture = kGgufLfm2Moe, .rope = {.theta = 1e6}},
    {.model_type = "qwen3_next", .architecture = kGgufQwen3Next, .rope = kQwenHybridRope},
    {.model_type = "qwen3_5", .architecture = kGgufQwen35, .rope = kQwenHybridRope},
    {.model_type = "qwen3_5_text", .architecture = kGgufQwen35, .rope = kQwenHybridRope},
    {.model_type = "qwen3_5_moe", .architecture = kGgufQwen35Moe, .rope = kQwenHybridRope},
    {.model_type = "qwen3_5_moe_text", .architecture = kGgufQwen35Moe, .rope = kQwenHybridRope},
    {.model_type = "deepseek_v2", .architecture = kGgufDeepseek2},
    {.model_type = "deepseek_v3", .architecture = kGgufDeepseek2},
    {.model_type = "olmo2", .architecture = kGgufOlmo2},
    {.model_type = "olmo3", .architecture = kGgufOlmo2},
    {.model_type = "starcoder2", .architecture = kGgufStarcoder2, .has_biases = true},
    {.model_type = "phi", .architecture = kGgufPhi2, .has_biases = true},
    {.model_type = "gpt_neox",
     .architecture = kGgufGptNeox,
     .rope = {.theta_name = "rotary_emb_base"},
     .has_biases = true},
    {.model_type = "glm4", .architecture = kGgufGlm4, .has_biases = true},
    {.model_type = "glm4_moe", .architecture = kGgufGlm4Moe, .has_biases = true},
    {.model_type = "seed_oss", .architecture = kGgufSeedOss, .has_biases = true},
    {.model_type = "exaone4", .architecture = kGgufExaone4},
    {.model_type = "hunyuan_v1_dense", .architecture = kGgufHunyuanDense},
    {.model_type = "ernie4_5", .architecture = kGgufErnie, .rope = {.theta = 5e5}},
    {.model_type = "ernie4_5_moe", .architecture = kGgufErnieMoe, .rope = {.theta = 5e5}},
    {.model_type = "cohere", .architecture = kGgufCommandR, .rope = {.theta = 5e5}},
    {.model_type = "cohere2", .architecture = kGgufCohere2},
}};

}  // namespace

Result<const GgufSource*> gguf_source_of(const Config& config) {
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    std::string supported;
    for (const GgufSource& source : kSources) {
        if (source.model_type == type) return &source;
        supported += (supported.empty() ? "" : ", ") + std::string(source.model_type);
    }
    return config.unsupported("model_type", supported + " (for a conversion to GGUF)");
}

const GgufArchitecture& gguf_architecture_of(const GgufSource& source, const DecoderConfig& config) {
    const bool mixes = config.experts.count > 0;
    if (source.architecture.has_single_parts) return mixes ? kGgufNemotronHMoe : kGgufNemotronH;
    if (source.architecture.has_scans && !config.keeps_states()) return mixes ? kGgufGraniteMoe : kGgufGranite;
    return source.architecture;
}

Result<RopeSource> representable_rope(const GgufSource& source, const Config& json) {
    VKFORMER_TRY(RopeSource rope, find_rope(json, source.rope));
    const GgufArchitecture& a = source.architecture;
    if (a.has_single_parts) return rope;  // which knows no positions
    using Types = std::vector<std::string_view>;
    const Types types = a.has_long_rope                                        ? Types{"default", "longrope", "su"}
                        : a.is_gpt_oss || a.has_latent_attention               ? Types{"default", "yarn"}
                        : a.norms_results && a.has_own_head                    ? Types{"default", "linear", "yarn"}
                        : a.turns_before_norms                                 ? Types{"default", "linear", "dynamic"}
                        : a.name == "llama" || a.is_granite || a.norms_results ? Types{"default", "linear", "llama3"}
                                                                               : Types{"default", "linear"};
    std::string supported;
    for (const std::string_view type : types) {
        if (type == rope.type) return rope;
        supported += std::string(type) + ", ";
    }
    return rope.scaling.unsupported(rope.scaling.has("rope_type") ? "rope_type" : "type",
                                    supported.substr(0, supported.size() - 2) + " (for a conversion to GGUF)");
}

namespace {

/// Of latent attention: what its files have no key for.
Result<void> check_latent(const GgufSourceModel& model) {
    const DecoderConfig& c = model.config;
    const auto refused = [](const Config& json, std::string_view field, const std::string& supported) {
        return json.unsupported(field, supported + " (for a conversion to GGUF)");
    };
    const Rope& rope = c.ropes.front();
    if (rope.pairing != model.architecture.pairing) return refused(model.json, "rope_interleave", "true");
    if (rope.scale != 1) return refused(model.rope.scaling, "mscale", "what mscale_all_dim is");
    VKFORMER_TRY(const double weight, model.rope.scaling.real("mscale_all_dim", {.fallback = 0}));
    if (model.rope.type == "yarn" && weight == 0)
        return refused(model.rope.scaling, "mscale_all_dim", "a number above 0, and the same mscale");
    if (c.norm_eps != c.latent.norm_eps) return refused(model.json, "rms_norm_eps", "1e-6");
    const auto first = std::ranges::find(c.layers, true, &DecoderConfig::Layer::has_experts);
    if (first == c.layers.end() || !std::all_of(first, c.layers.end(), [](const auto& l) { return l.has_experts; }))
        return refused(model.json, "moe_layer_freq", "1, and a layer with experts");
    return {};
}

/// ERNIE's layers with experts are, in llama.cpp, each so-and-so-many-th from one on.
Result<void> check_ernie_layers(const GgufSourceModel& model) {
    VKFORMER_TRY(const auto first, model.json.unsigned_integer("moe_layer_start_index", {.fallback = 1}));
    VKFORMER_TRY(const auto step, model.json.unsigned_integer("moe_layer_interval", {.fallback = 1, .min = 1}));
    const auto& layers = model.config.layers;
    for (std::size_t i = 0; i < layers.size(); ++i)
        if (layers[i].has_experts != (i >= first && (i + 1) % step == 0))
            return model.json.unsupported("moe_layer_end_index", "the last layer (for a conversion to GGUF)");
    return {};
}

}  // namespace

Result<void> check_representable(const GgufSourceModel& model) {
    const DecoderConfig& c = model.config;
    const Config& json = model.json;
    const GgufArchitecture& a = model.architecture;
    const auto refused = [&](std::string_view field, const std::string& supported) {
        return json.unsupported(field, supported + " (for a conversion to GGUF)");
    };
    if (!a.is_gpt_oss && c.activation != a.activation())
        return refused(model.source.activation, a.learned_positions  ? "gelu_new"
                                                : a.is_gemma         ? "gelu_pytorch_tanh"
                                                : a.is_plain         ? "gelu_pytorch_tanh"
                                                : a.has_single_parts ? "relu2"
                                                                     : "silu");
    if (a.has_latent_attention) return check_latent(model);
    if (!a.is_granite && std::abs(c.attention_scale / a.attention_scale(c) - 1) > 1e-6)
        return refused(a.is_gemma ? "query_pre_attn_scalar" : "scale_attn_weights",
                       a.is_gemma ? "head_dim, here " + std::to_string(c.head_dim) : "true");
    for (std::size_t i = 0; i < c.layers.size(); ++i) {
        if (!a.norms_results && c.layers[i].window != (a.has_window(i) ? model.window() : 0))
            return refused(json.has("layer_types") ? "layer_types" : "max_window_layers",
                           a.window_pattern == 1
                               ? "the same window or none for all layers"
                               : "a layer without a window every " + std::to_string(a.window_pattern) + " layers");
        const bool turns = a.has_rope(i) && (!a.turns_windows_only || model.window() == 0 || c.layers[i].window > 0);
        if (!a.is_granite && model.attends(i) && c.layers[i].rope.has_value() != turns)
            return refused(json.has("no_rope_layers") ? "no_rope_layers" : "no_rope_layer_interval",
                           "every fourth layer without positions");
    }
    if (model.is("gemma2")) {  // llama.cpp caps by 50 and 30 where a file says nothing
        if (c.attention_soft_cap == 0) return refused("attn_logit_softcapping", "a number");
        if (c.logit_soft_cap == 0) return refused("final_logit_softcapping", "a number");
    } else if (c.attention_soft_cap != 0) {
        return refused("attn_logit_softcapping", "null");
    }
    if (!model.ties_head() && (model.is("gemma") || model.is("gemma2") || a.is_cohere))
        return refused("tie_word_embeddings", "a head that is the table of tokens");
    if (a.has_choice_bias) VKFORMER_CHECK(check_ernie_layers(model));
    if (model.is("phi2") && model.decoder.weights().layers.front().query_norm) return refused("qk_layernorm", "false");
    if (c.experts.count > 0 && !a.has_single_parts && !a.has_grouped_experts) {  // which have keys for both
        const bool normalises = a.experts == GgufExperts::normalised;
        if (c.experts.normalises != normalises) return refused("norm_topk_prob", normalises ? "true" : "false");
        if (c.experts.scale != 1) return refused("routed_scaling_factor", "1");
    }
    if (c.scan.least_step > 0 || c.scan.most_step < std::numeric_limits<float>::infinity())
        return refused(json.has("mamba_dt_limit") ? "mamba_dt_limit" : "time_step_limit", "no limits but 0");
    const auto is_dense = [](const DecoderConfig::Layer& layer) {
        return layer.mixer == DecoderConfig::Mixer::none && !layer.has_experts;
    };
    const auto is_feed_forward = [](const DecoderConfig::Layer& layer) {
        return layer.mixer == DecoderConfig::Mixer::none;
    };
    const char* const parts = json.has("layers_block_type") ? "layers_block_type" : "hybrid_override_pattern";
    if (a.has_single_parts && std::ranges::none_of(c.layers, is_feed_forward))
        return refused(parts, "a feed-forward layer at least");
    if (a.has_single_parts && c.experts.count > 0 && std::ranges::any_of(c.layers, is_dense))
        return refused(parts, "experts in all feed-forward layers or in none");
    if (a.is_gpt_oss && model.window() == 0) return refused("layer_types", "a window in every second layer");
    if (c.head_dim % 2 != 0 && !a.learned_positions) return refused("head_dim", "an even number");
    if (a.is_granite && c.scan.groups > 1) return refused("mamba_n_groups", "1");
    for (std::size_t i = 0; a.is_qwen_hybrid && i < c.layers.size(); ++i)
        if (model.attends(i) != ((i + 1) % model.attention_interval() == 0))
            return refused("layer_types", "full attention in the layers whose number is a multiple of " +
                                              std::to_string(model.attention_interval()) + ", the first one's being 1");
    return {};
}

namespace {

/// `count` for each layer that has what it counts, 0 for the others.
void set_by_layer(const GgufSourceModel& model, std::string_view name, std::uint32_t count, auto has,
                  GgufMetadata& metadata) {
    std::vector<std::int32_t> counts;
    for (std::size_t i = 0; i < model.config.layers.size(); ++i)
        counts.push_back(has(i) ? static_cast<std::int32_t>(count) : 0);
    metadata.set(model.key(name), std::span<const std::int32_t>(counts));
}

/// DeepSeek's mixture: its router, its groups and what all tokens go through.
Result<void> set_grouped_experts(const GgufSourceModel& model, GgufMetadata& metadata) {
    const DecoderConfig& c = model.config;
    const DecoderConfig::Experts& experts = c.experts;
    const auto dense = std::ranges::find(c.layers, true, &DecoderConfig::Layer::has_experts) - c.layers.begin();
    metadata.set(model.key("leading_dense_block_count"), static_cast<std::uint32_t>(dense));
    metadata.set(model.key("expert_shared_count"), experts.shared_size / experts.intermediate_size);
    metadata.set(model.key("expert_weights_scale"), experts.scale);
    if (experts.normalises) metadata.set(model.key("expert_weights_norm"), true);
    const bool is_sigmoid = experts.scores == graph::RouteScores::sigmoid;
    metadata.set(model.key("expert_gating_func"), is_sigmoid ? std::uint32_t{2} : std::uint32_t{1});
    if (experts.groups.count == 1) return {};
    metadata.set(model.key("expert_group_count"), experts.groups.count);
    metadata.set(model.key("expert_group_used_count"), experts.groups.kept);
    return {};
}

/// A mixture's: how many experts there are, how wide, and what their router does where files say it.
Result<void> set_experts(const GgufSourceModel& model, GgufMetadata& metadata) {
    const DecoderConfig& c = model.config;
    const DecoderConfig::Experts& experts = c.experts;
    if (experts.count == 0) return {};
    metadata.set(model.key("expert_count"), experts.count);
    metadata.set(model.key("expert_used_count"), experts.per_token);
    if (experts.intermediate_size != c.intermediate_size || model.json.has("moe_intermediate_size") ||
        model.architecture.is_gpt_oss)
        metadata.set(model.key("expert_feed_forward_length"), experts.intermediate_size);
    if (model.architecture.has_grouped_experts) return set_grouped_experts(model, metadata);
    if (model.architecture.has_choice_bias) {
        VKFORMER_TRY(const auto first, model.json.unsigned_integer("moe_layer_start_index", {.fallback = 1}));
        VKFORMER_TRY(const auto step, model.json.unsigned_integer("moe_layer_interval", {.fallback = 1}));
        metadata.set(model.key("leading_dense_block_count"), first);
        metadata.set(model.key("interleave_moe_layer_step"), step);
        metadata.set(model.key("expert_shared_count"), experts.shared_size / experts.intermediate_size);
    }
    if (experts.shared_size > 0) metadata.set(model.key("expert_shared_feed_forward_length"), experts.shared_size);
    if (model.architecture.is_lfm2) {
        const auto dense = std::ranges::find(c.layers, true, &DecoderConfig::Layer::has_experts) - c.layers.begin();
        metadata.set(model.key("leading_dense_block_count"), static_cast<std::uint32_t>(dense));
        metadata.set(model.key("expert_gating_func"), std::uint32_t{2});  // sigmoid
    }
    if (!model.architecture.has_single_parts) return {};
    VKFORMER_TRY(const auto shared, model.json.unsigned_integer("n_shared_experts", {.fallback = 1}));
    metadata.set(model.key("expert_shared_count"), shared);
    metadata.set(model.key("expert_weights_norm"), experts.normalises);
    metadata.set(model.key("expert_weights_scale"), experts.scale);
    metadata.set(model.key("expert_group_count"), std::uint32_t{1});
    return {};
}

/// A hybrid's: the sizes of its states, and which layers attend where the architecture's name does not say it.
Result<void> set_states(const GgufSourceModel& model, GgufMetadata& metadata) {
    const DecoderConfig& c = model.config;
    if (model.architecture.is_lfm2) metadata.set(model.key("shortconv.l_cache"), c.taps);
    const auto set = [&](std::uint32_t rows, std::uint32_t groups, std::uint32_t heads, std::uint32_t values) {
        metadata.set(model.key("ssm.conv_kernel"), c.taps);
        metadata.set(model.key("ssm.state_size"), rows);
        metadata.set(model.key("ssm.group_count"), groups);
        metadata.set(model.key("ssm.time_step_rank"), heads);
        metadata.set(model.key("ssm.inner_size"), values);
    };
    if (c.scan.heads > 0) set(c.scan.state_dim, c.scan.groups, c.scan.heads, c.scan.values());
    // What llama.cpp goes by where an architecture need not turn positions.
    if (model.source.architecture.has_scans)
        metadata.set(model.key("rope.scaling.finetuned"), !model.config.ropes.empty());
    if (!model.architecture.is_qwen_hybrid) return {};
    set(c.delta_rule.key_dim, c.delta_rule.key_heads, c.delta_rule.heads, c.delta_rule.values());
    metadata.set(model.key("full_attention_interval"), model.attention_interval());
    if (!model.architecture.delta_in_turns) return {};
    // Of images, whose pairs of a head turn by other positions; llama.cpp loads no file without.
    VKFORMER_TRY(auto sections, model.rope.scaling.token_ids("mrope_section"));
    const auto pairs = static_cast<std::int32_t>(c.ropes.front().frequencies.size());
    if (sections.empty()) sections = pairs == 32 ? std::vector<std::int32_t>{11, 11, 10} : std::vector{pairs};
    sections.resize(4);
    metadata.set(model.key("rope.dimension_sections"), std::span<const std::int32_t>(sections));
    return {};
}

/// Granite's factors as its config has them: the model's are folded (set_multipliers).
Result<void> set_granite(const GgufSourceModel& model, GgufMetadata& metadata) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kFactors = {
        {{"attention_multiplier", "attention.scale"},
         {"embedding_multiplier", "embedding_scale"},
         {"residual_multiplier", "residual_scale"},
         {"logits_scaling", "logit_scale"}}};
    for (const auto& [field, key] : kFactors) {
        VKFORMER_TRY(const double factor, model.json.real(field, {.fallback = 1}));
        metadata.set(model.key(key), static_cast<float>(factor));
    }
    VKFORMER_TRY(const double eps, model.json.real("rms_norm_eps", {.fallback = 1e-6}));
    metadata.set(model.key("attention.layer_norm_rms_epsilon"), static_cast<float>(eps));
    return {};
}

/// Which layers have the window: a list of booleans.
void set_window_pattern(const GgufSourceModel& model, GgufMetadata& metadata) {
    constexpr std::byte kBoolean{static_cast<std::uint8_t>(formats::GgufType::boolean)};
    const auto& layers = model.config.layers;
    std::vector<std::byte> encoded(sizeof(std::uint32_t) +
                                   sizeof(std::uint64_t));  // the type and the count, little-endian
    encoded[0] = kBoolean;
    for (std::size_t i = 0; i < 2; ++i)
        encoded[sizeof(std::uint32_t) + i] = static_cast<std::byte>(layers.size() >> (8 * i) & 0xFF);
    for (const DecoderConfig::Layer& layer : layers) encoded.push_back(std::byte{layer.window > 0});
    const std::string key = model.key("attention.sliding_window_pattern");
    metadata.set(formats::GgufValue{.key = key, .type = formats::GgufType::array, .encoded = encoded});
}

}  // namespace

Result<void> set_metadata(const GgufSourceModel& model, GgufMetadata& metadata) {
    const DecoderConfig& c = model.config;
    const GgufArchitecture& a = model.architecture;
    metadata.set("general.architecture", a.name);
    metadata.set(model.key("block_count"), static_cast<std::uint32_t>(c.layers.size()));
    metadata.set(model.key("context_length"), c.most_positions());
    metadata.set(model.key("embedding_length"), c.hidden_size);
    const auto is_mixture = [&](std::size_t layer) { return c.layers[layer].has_experts; };
    if (a.has_single_parts) {  // layers without either number have a state
        const bool mixes = c.experts.count > 0;
        set_by_layer(
            model, "feed_forward_length", mixes ? c.experts.intermediate_size : c.intermediate_size,
            [&](std::size_t i) { return mixes ? is_mixture(i) : c.layers[i].mixer == DecoderConfig::Mixer::none; },
            metadata);
    } else if (model.json.has("intermediate_size") ||
               !std::ranges::all_of(c.layers, &DecoderConfig::Layer::has_experts)) {
        metadata.set(model.key("feed_forward_length"), c.intermediate_size);
    }
    metadata.set(model.key("attention.head_count"), c.heads);
    if (a.is_lfm2 || a.has_scans)
        set_by_layer(
            model, "attention.head_count_kv", c.kv_heads, [&](std::size_t i) { return model.attends(i); }, metadata);
    else
        metadata.set(model.key("attention.head_count_kv"), c.kv_heads);
    if (c.norm == DecoderConfig::Norm::rms) metadata.set(model.key("attention.layer_norm_rms_epsilon"), c.norm_eps);
    if (c.norm == DecoderConfig::Norm::layer || a.has_single_parts)  // llama.cpp asks for both there
        metadata.set(model.key("attention.layer_norm_epsilon"), c.norm_eps);
    metadata.set(model.key("vocab_size"), c.vocab_size);
    if (!a.learned_positions) {
        metadata.set(model.key("attention.key_length"), c.head_dim);
        metadata.set(model.key("attention.value_length"), c.latent ? c.latent.rank : c.head_dim);
    }
    if (c.latent) {
        metadata.set(model.key("attention.kv_lora_rank"), c.latent.rank);
        if (c.latent.query_rank > 0) metadata.set(model.key("attention.q_lora_rank"), c.latent.query_rank);
        metadata.set(model.key("attention.key_length_mla"), c.latent.query_dim());
        metadata.set(model.key("attention.value_length_mla"), c.latent.value_dim);
    }
    if (c.attention_soft_cap != 0) metadata.set(model.key("attn_logit_softcapping"), c.attention_soft_cap);
    if (c.logit_soft_cap != 0) metadata.set(model.key("final_logit_softcapping"), c.logit_soft_cap);
    if (model.window() > 0 || model.is("phi3")) metadata.set(model.key("attention.sliding_window"), model.window());
    if (model.window() > 0 && a.norms_results) set_window_pattern(model, metadata);
    if (a.is_cohere) metadata.set(model.key("logit_scale"), c.logit_scale);
    if (a.parallel == GgufParallel::by_key) metadata.set(model.key("use_parallel_residual"), c.is_parallel);
    VKFORMER_CHECK(set_states(model, metadata));
    if (a.is_granite) VKFORMER_CHECK(set_granite(model, metadata));
    return set_experts(model, metadata);
}

namespace {

/// What each of the rope's frequencies is divided by, as a tensor.
OutputTensor divisors(const std::string& name, const Rope& rope, double theta) {
    const std::vector<double> base = graph::rope_frequencies(2 * rope.frequencies.size(), theta);
    std::vector<float> factors;
    for (std::size_t k = 0; k < base.size(); ++k) factors.push_back(static_cast<float>(base[k] / rope.frequencies[k]));
    const Shape shape = {factors.size()};
    return OutputTensor{.name = name, .dtype = DType::f32, .source = float_tensor(shape, std::move(factors))};
}

Result<void> set_yarn(const GgufSourceModel& model, GgufMetadata& metadata) {
    const Config& scaling = model.rope.scaling;
    if (scaling.has("attention_factor")) {
        VKFORMER_TRY(const double factor, scaling.real("factor", {.fallback = 1}));
        VKFORMER_TRY(const double found, scaling.real("attention_factor"));
        if (!(std::abs(found - yarn_scale(factor, 1)) < 1e-5))  // what follows from the factor need not be said
            return scaling.unsupported("attention_factor", "null (for a conversion to GGUF)");
    }
    const auto set = [&](std::string_view field, double usual, std::string_view key) -> Result<void> {
        VKFORMER_TRY(const double value, scaling.real(field, {.fallback = usual}));
        metadata.set(model.key("rope.scaling." + std::string(key)), static_cast<float>(value));
        return {};
    };
    metadata.set(model.key("rope.scaling.type"), "yarn");
    VKFORMER_CHECK(set("factor", 1, "factor"));
    VKFORMER_CHECK(set("beta_fast", 32, "yarn_beta_fast"));
    VKFORMER_CHECK(set("beta_slow", 1, "yarn_beta_slow"));
    VKFORMER_TRY(const auto context, scaling.unsigned_integer("original_max_position_embeddings",
                                                              {.fallback = model.config.max_positions}));
    VKFORMER_TRY(const bool truncates, scaling.boolean("truncate", true));
    metadata.set(model.key("rope.scaling.original_context_length"), context);
    metadata.set(model.key("rope.scaling.yarn_truncate"), truncates);
    if (model.config.latent) {
        VKFORMER_TRY(const double weight, scaling.real("mscale_all_dim"));
        metadata.set(model.key("rope.scaling.yarn_log_multiplier"), static_cast<float>(0.1 * weight));
    }
    return {};
}

}  // namespace

Result<void> add_ropes(const GgufSourceModel& model, GgufContents& contents) {
    if (model.architecture.learned_positions || model.architecture.has_single_parts) return {};
    const DecoderConfig& c = model.config;
    const RopeSource& rope = model.rope;
    const auto turned = c.ropes.empty() ? c.head_dim : 2 * c.ropes.front().frequencies.size();
    contents.metadata.set(model.key("rope.dimension_count"), static_cast<std::uint32_t>(turned));
    const auto& frequencies = c.ropes.empty() ? std::vector<double>() : c.ropes.front().frequencies;
    const bool is_stretched = rope.type == "dynamic";  // by alpha, which is in the base
    const double theta =
        is_stretched ? std::pow(frequencies.at(1), -static_cast<double>(frequencies.size())) : rope.theta;
    contents.metadata.set(model.key("rope.freq_base"), static_cast<float>(theta));
    if (c.ropes.empty()) return {};
    if (model.is("gemma3")) {
        constexpr RopeDefaults kLocal = {
            .theta_name = "rope_local_base_freq", .object = "sliding_attention", .is_scaled_by_rope_scaling = false};
        VKFORMER_TRY(const RopeSource local, find_rope(model.json, kLocal));
        if (local.type != "default")
            return local.scaling.unsupported("rope_type", "default (for a conversion to GGUF)");
        contents.metadata.set(model.key("rope.freq_base_swa"), static_cast<float>(local.theta));
    }
    if (rope.type == "linear") {
        VKFORMER_TRY(const double factor, rope.scaling.real("factor", {.min = 1}));
        contents.metadata.set(model.key("rope.scaling.type"), "linear");
        contents.metadata.set(model.key("rope.scaling.factor"), static_cast<float>(factor));
    } else if (rope.type == "llama3") {
        contents.tensors.push_back(divisors("rope_freqs.weight", c.ropes.front(), rope.theta));
    } else if (rope.type == "yarn") {
        return set_yarn(model, contents.metadata);
    } else if (rope.type != "default" && !is_stretched) {  // LongRoPE
        contents.metadata.set(model.key("rope.scaling.original_context_length"), c.max_positions);
        contents.metadata.set(model.key("rope.scaling.attn_factor"), static_cast<float>(c.ropes.front().scale));
        contents.tensors.push_back(divisors("rope_factors_short.weight", c.ropes.front(), rope.theta));
        if (!c.extended_ropes.empty())
            contents.tensors.push_back(divisors("rope_factors_long.weight", c.extended_ropes.front(), rope.theta));
    }
    return {};
}

}  // namespace vkformer::models
