// SPDX-License-Identifier: MIT
// Nemotron-H (NVIDIA 2025, arXiv 2504.03624), Nemotron Nano 2 and 3: each layer is one part, Mamba-2, attention without positions,
// feed-forward layers or a mixture of experts, with a norm before it. What others have gates for, these have relu² for.
#include <algorithm>
#include <array>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using Mixer = DecoderConfig::Mixer;

enum class Part : std::uint8_t { scan, attention, feed_forward, experts };

struct PartName {
    Part part;
    std::string_view name;
    char letter;  ///< of hybrid_override_pattern
};
constexpr std::array<PartName, 4> kParts = {{{Part::scan, "mamba", 'M'},
                                             {Part::attention, "attention", '*'},
                                             {Part::feed_forward, "mlp", '-'},
                                             {Part::experts, "moe", 'E'}}};

/// By layers_block_type, layer_types or, in older files, a letter for each layer.
Result<std::vector<Part>> read_parts(const Config& config) {
    std::vector<Part> parts;
    const char* const field = config.has("layers_block_type") ? "layers_block_type" : "layer_types";
    VKFORMER_TRY(const auto names, config.strings(field));
    for (const std::string& name : names) {
        const auto found = std::ranges::find(kParts, name, &PartName::name);
        if (found == kParts.end()) return config.unsupported(field, "mamba, attention, mlp, moe");
        parts.push_back(found->part);
    }
    if (!names.empty()) return parts;
    VKFORMER_TRY(const std::string pattern, config.string("hybrid_override_pattern"));
    for (const char letter : pattern) {
        const auto found = std::ranges::find(kParts, letter, &PartName::letter);
        if (found == kParts.end()) return config.unsupported("hybrid_override_pattern", "the letters M, *, -, E");
        parts.push_back(found->part);
    }
    return parts;
}

/// One of two names: where both are there the older one holds, as in transformers 5.12.
std::string_view name_of(const Config& config, std::string_view name, std::string_view older) {
    return config.has(older) ? older : name;
}

Result<void> read_scan(const Config& config, DecoderConfig& c, LlamaLayout& layout) {
    const auto count = [&](std::string_view name, std::uint32_t usual, std::uint32_t most) {
        return config.unsigned_integer(name, {.fallback = usual, .min = 1, .max = most});
    };
    DecoderConfig::SelectiveScan& scan = c.scan;
    VKFORMER_TRY(scan.heads, count("mamba_num_heads", 128, 4096));
    VKFORMER_TRY(scan.head_dim, count("mamba_head_dim", 64, 4096));
    const std::string_view groups = name_of(config, "n_groups", "mamba_n_groups");
    VKFORMER_TRY(scan.groups, count(groups, 8, 4096));
    VKFORMER_TRY(scan.state_dim, count("ssm_state_size", 128, 256));
    VKFORMER_TRY(c.taps, config.unsigned_integer(name_of(config, "conv_kernel", "mamba_d_conv"),
                                                 {.fallback = 4, .min = 2, .max = 8}));
    if (scan.heads % scan.groups != 0)
        return config.unsupported(groups, "a divisor of mamba_num_heads = " + std::to_string(scan.heads));
    scan.norm_groups = scan.groups;
    scan.norm_eps = c.norm_eps;
    VKFORMER_TRY(const auto activation, read_activation(config, "mamba_hidden_act", "silu"));
    if (activation != graph::Activation::silu) return config.unsupported("mamba_hidden_act", "silu");
    VKFORMER_TRY(layout.convolution_bias, config.boolean(name_of(config, "use_conv_bias", "mamba_conv_bias"), true));
    VKFORMER_TRY(layout.projection_bias, config.boolean("use_bias", false));
    return read_step_limits(config, name_of(config, "time_step_limit", "mamba_dt_limit"), c);
}

Result<void> read_routing(const Config& config, DecoderConfig& c) {
    const formats::Expect<std::uint32_t> width = {.fallback = 7688, .min = 1, .max = 1u << 20};
    const auto most = static_cast<std::uint32_t>(graph::kMostExperts);
    VKFORMER_TRY(c.experts.count, config.unsigned_integer("n_routed_experts", {.fallback = 8, .min = 1, .max = most}));
    VKFORMER_TRY(
        c.experts.per_token,
        config.unsigned_integer("num_experts_per_tok",
                                {.fallback = 2, .min = 1, .max = std::min<std::uint32_t>(c.experts.count, 32)}));
    VKFORMER_TRY(c.experts.intermediate_size, config.unsigned_integer("moe_intermediate_size", width));
    VKFORMER_TRY(c.experts.shared_size, config.unsigned_integer("moe_shared_expert_intermediate_size", width));
    set_sigmoid_routing(c, 1e-20f);
    VKFORMER_CHECK(read_expert_weights(config, c));
    VKFORMER_TRY(const auto groups, config.unsigned_integer("n_group", {.fallback = 1}));
    if (groups != 1) return config.unsupported("n_group", "1");
    if (config.has("moe_latent_size")) return config.unsupported("moe_latent_size", "null");
    return {};
}

/// up and down of each expert, or of all of them in one tensor, as transformers 5 has them in memory.
Result<void> read_experts(const WeightReader& read, const DecoderConfig& c, const std::string& mixer,
                          DecoderWeights::Layer& l, bool has_bias) {
    const std::uint64_t count = c.experts.count, d = c.hidden_size, ffn = c.experts.intermediate_size;
    const std::string experts = mixer + "experts.", shared = mixer + "shared_experts.";
    VKFORMER_TRY(l.experts.router, read.tensor(mixer + "gate.weight", {count, d}));
    VKFORMER_TRY(l.experts.choice_bias, read.tensor(mixer + "gate.e_score_correction_bias", {count}));
    if (read.has(experts + "up_proj")) {
        VKFORMER_TRY(const TensorData up, read.tensor(experts + "up_proj", {count, ffn, d}));
        VKFORMER_TRY(const TensorData down, read.tensor(experts + "down_proj", {count, d, ffn}));
        l.experts.up = matrices_of(up);
        l.experts.down = matrices_of(down);
    } else {
        for (std::uint64_t e = 0; e < count; ++e) {
            const std::string expert = experts + std::to_string(e) + ".";
            VKFORMER_TRY(l.experts.up.emplace_back(), read.tensor(expert + "up_proj.weight", {ffn, d}));
            VKFORMER_TRY(l.experts.down.emplace_back(), read.tensor(expert + "down_proj.weight", {d, ffn}));
        }
        for (auto* const matrices : {&l.experts.up, &l.experts.down}) *matrices = stacked(std::move(*matrices));
    }
    VKFORMER_TRY(l.up, read.projection(shared + "up_proj", c.experts.shared_size, d, has_bias));
    VKFORMER_TRY(l.down, read.projection(shared + "down_proj", d, c.experts.shared_size, has_bias));
    return {};
}

Result<DecoderWeights::Layer> read_layer(const WeightReader& read, const DecoderConfig& c, const LlamaLayout& layout,
                                         std::size_t index, Part part) {
    const std::string layer = "layers." + std::to_string(index) + ".", mixer = layer + "mixer.";
    const std::uint64_t d = c.hidden_size;
    const bool has_bias = layout.feed_forward_bias;
    DecoderWeights::Layer l;
    VKFORMER_TRY(const NormWeights norm, read.norm(layer + "norm", d));
    const bool mixes = part == Part::scan || part == Part::attention;
    (mixes ? l.attention_norm : l.feed_forward_norm) = norm;
    switch (part) {
    case Part::scan: VKFORMER_CHECK(read_scan_layer(read, c, mixer, layout, l)); break;
    case Part::attention: VKFORMER_CHECK(read_attention_layer(read, c, mixer, layout, l)); break;
    case Part::feed_forward: {
        VKFORMER_TRY(l.up, read.projection(mixer + "up_proj", c.intermediate_size, d, has_bias));
        VKFORMER_TRY(l.down, read.projection(mixer + "down_proj", d, c.intermediate_size, has_bias));
        break;
    }
    case Part::experts: VKFORMER_CHECK(read_experts(read, c, mixer, l, has_bias)); break;
    }
    return l;
}

Result<void> read_config(const Config& config, const std::vector<Part>& parts, DecoderConfig& c, LlamaLayout& layout) {
    VKFORMER_TRY(const auto head_dim,
                 config.unsigned_integer("attention_head_dim", {.fallback = 128, .min = 1, .max = 1u << 16}));
    SizeDefaults defaults = {.positions = 4096, .head_dim = head_dim, .kv_heads = 8};
    defaults.intermediate_size = 21504;
    defaults.layers = static_cast<std::uint32_t>(parts.size());
    VKFORMER_TRY(c, read_sizes(config, defaults));
    if (c.layers.size() != parts.size())
        return config.unsupported("num_hidden_layers", std::to_string(parts.size()) + ", as many as there are blocks");
    VKFORMER_TRY(const double eps, config.real("layer_norm_epsilon", {.fallback = 1e-5, .min = 0, .max = 1}));
    c.norm_eps = static_cast<float>(eps);
    VKFORMER_TRY(c.activation, read_activation(config, "mlp_hidden_act", "relu2"));
    VKFORMER_TRY(layout.feed_forward_bias, config.boolean("mlp_bias", false));
    VKFORMER_TRY(layout.tied, config.boolean("tie_word_embeddings", false));
    if (config.has("sliding_window")) return config.unsupported("sliding_window", "null");
    for (std::size_t i = 0; i < parts.size(); ++i) {
        c.layers[i].mixer = parts[i] == Part::scan        ? Mixer::selective_scan
                            : parts[i] == Part::attention ? Mixer::attention
                                                          : Mixer::none;
        c.layers[i].has_experts = parts[i] == Part::experts;
    }
    if (c.keeps_states()) VKFORMER_CHECK(read_scan(config, c, layout));
    return std::ranges::count(parts, Part::experts) > 0 ? read_routing(config, c) : Result<void>();
}

}  // namespace

Result<DecoderParts> load_nemotron_h(const Config& config, const formats::Weights& weights) {
    DecoderParts loaded;
    DecoderConfig& c = loaded.config;
    LlamaLayout layout;
    VKFORMER_TRY(const std::vector<Part> parts, read_parts(config));
    VKFORMER_CHECK(read_config(config, parts, c, layout));
    std::string prefix = find_prefix(weights, "backbone.", "norm_f.weight");
    if (!weights.has(prefix + "norm_f.weight")) prefix = "model.";
    const WeightReader read(weights, prefix);
    DecoderWeights& w = loaded.weights;
    const char* const table = read.has("embedding.weight") ? "embedding.weight" : "embeddings.weight";
    VKFORMER_TRY(w.embedding, read.tensor(table, {c.vocab_size, c.hidden_size}));
    for (std::size_t i = 0; i < parts.size(); ++i) {
        VKFORMER_TRY(w.layers.emplace_back(), read_layer(read, c, layout, i, parts[i]));
    }
    VKFORMER_TRY(w.final_norm, read.norm("norm_f", c.hidden_size));
    const WeightReader whole(weights, "");
    if (layout.tied || whole.has("lm_head.weight")) {
        VKFORMER_TRY(w.lm_head.weight,
                     whole.tied_tensor("lm_head.weight", {c.vocab_size, c.hidden_size}, w.embedding, layout.tied));
        w.lm_head.origin = whole.origin("lm_head", c.vocab_size);
    }
    return loaded;
}

}  // namespace vkformer::models
