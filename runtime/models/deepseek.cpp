// SPDX-License-Identifier: MIT
// DeepSeek-V2 and its Lite (DeepSeek-AI 2024, arXiv 2405.04434), V3 and R1 (arXiv 2412.19437): latent attention, and a mixture of experts
// in groups beside one of all tokens. Norms of the ranks have an epsilon of their own, as in DeepSeek's and in transformers' code.
#include <algorithm>
#include <cmath>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"

namespace vkformer::models {

using formats::Config;

namespace {

/// Each head's matrix turned, [heads · rows, columns] → [heads · columns, rows], as float32.
Result<TensorData> turned_heads(const TensorData& matrices, std::uint64_t heads) {
    const std::uint64_t rows = matrices.shape[0] / heads, columns = matrices.shape[1];
    VKFORMER_TRY(const std::vector<float> values, floats_of(matrices));
    std::vector<float> turned(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t head = i / (rows * columns), row = i / columns % rows, column = i % columns;
        turned[(head * columns + column) * rows + row] = values[i];
    }
    return float_tensor({heads * columns, rows}, std::move(turned));
}

}  // namespace

double yarn_scale(double factor, double weight) { return factor > 1 ? 0.1 * weight * std::log(factor) + 1 : 1; }

void set_latent_sizes(const DecoderConfig::LatentAttention& latent, DecoderConfig& c) {
    c.latent = latent;
    c.kv_heads = 1;
    c.head_dim = latent.rank + latent.rotary_dim;
    c.attention_scale = 1 / std::sqrt(static_cast<float>(latent.query_dim()));
}

Result<TensorData> widened_rows(const TensorData& matrix, std::uint64_t width) {
    if (width % block_elements(matrix.dtype) != 0) {
        VKFORMER_TRY(std::vector<float> values, floats_of(matrix));
        return widened_rows(float_tensor(matrix.shape, std::move(values)), width);
    }
    const std::uint64_t row = bytes_of(matrix.dtype, matrix.shape[1]), wide = bytes_of(matrix.dtype, width);
    const auto bytes =
        std::make_shared<std::vector<std::byte>>(matrix.shape[0] * wide);  // blocks of zero bytes are zeros
    for (std::uint64_t r = 0; r < matrix.shape[0]; ++r)
        std::ranges::copy(matrix.bytes.subspan(r * row, row), &(*bytes)[r * wide]);
    return TensorData{.dtype = matrix.dtype,
                      .shape = {matrix.shape[0], width},
                      .bytes = std::span<const std::byte>(*bytes),
                      .owner = bytes};
}

Result<void> read_latent_weights(const WeightReader& read, const DecoderConfig& c, const LatentNames& names,
                                 const std::string& layer, const LlamaLayout& layout, DecoderWeights::Layer& l) {
    const DecoderConfig::LatentAttention& latent = c.latent;
    const std::uint64_t d = c.hidden_size, heads = c.heads;
    const auto name = [&](std::string_view tensor) { return layer + std::string(tensor); };
    LatentWeights& w = l.latent;
    const bool goes_down = latent.query_rank > 0;
    if (goes_down) {
        VKFORMER_TRY(w.query_down,
                     read.projection(name(names.query_down), latent.query_rank, d, layout.attention_bias));
        VKFORMER_TRY(w.query_norm, read.norm(name(names.query_norm), latent.query_rank));
    }
    VKFORMER_TRY(const Projection query,
                 read.projection(name(goes_down ? names.query_up : names.query), heads * latent.query_dim(),
                                 goes_down ? latent.query_rank : d, false));
    std::vector<Projection> queries = ungrouped(query, heads, {latent.plain_dim, latent.rotary_dim});
    w.plain_query = std::move(queries[0]);
    w.rotary_query = std::move(queries[1]);
    VKFORMER_TRY(const Projection down, read.projection(name(names.down), c.head_dim, d, layout.attention_bias));
    w.latent = rows_of(down, 0, latent.rank);
    w.rotary_key = rows_of(down, latent.rank, latent.rotary_dim);
    VKFORMER_TRY(w.latent_norm, read.norm(name(names.latent_norm), latent.rank));
    VKFORMER_TRY(l.output, read.projection(name(names.output), d, heads * latent.value_dim, layout.output_bias));
    if (names.key_up.empty() || !read.has(name(names.key_up))) {
        const Shape shape{heads * (latent.plain_dim + latent.value_dim), latent.rank};
        VKFORMER_TRY(const TensorData both, read.tensor(name(names.up), shape));
        const std::vector<Projection> parts =
            ungrouped({.weight = both, .bias = {}}, heads, {latent.plain_dim, latent.value_dim});
        VKFORMER_TRY(w.key_up, turned_heads(parts[0].weight, heads));
        VKFORMER_TRY(w.value_up, widened_rows(parts[1].weight, c.head_dim));
        return {};
    }
    VKFORMER_TRY(w.key_up, read.tensor(name(names.key_up), {heads, latent.rank, latent.plain_dim}));
    VKFORMER_TRY(w.value_up, read.tensor(name(names.value_up), {heads, latent.value_dim, latent.rank}));
    w.key_up.shape = {heads * latent.rank, latent.plain_dim};
    w.value_up.shape = {heads * latent.value_dim, latent.rank};
    VKFORMER_TRY(w.value_up, widened_rows(w.value_up, c.head_dim));
    return {};
}

bool has_room(const graph::RouteGroups& groups, const DecoderConfig::Experts& experts) {
    const std::uint32_t each = experts.count / groups.count;
    return experts.count % groups.count == 0 && each >= groups.best && groups.kept <= groups.count &&
           groups.kept * each >= experts.per_token;
}

namespace {

/// A number of a config, and what a family makes up where it says none; 0: it has to say it.
struct Count {
    const char* name;
    std::uint32_t* value;
    std::uint32_t usual, least = 1, most = 1u << 16;
};

Result<void> read_counts(const Config& config, std::initializer_list<Count> counts) {
    for (const Count& count : counts) {
        formats::Expect<std::uint32_t> expected = {.min = count.least, .max = count.most};
        if (count.usual >= count.least) expected.fallback = count.usual;
        VKFORMER_TRY(*count.value, config.unsigned_integer(count.name, expected));
    }
    return {};
}

Result<void> read_latent(const Config& config, const WeightReader& read, bool is_third, DecoderConfig& c) {
    DecoderConfig::LatentAttention latent{.norm_eps = 1e-6f};
    VKFORMER_CHECK(read_counts(config, {{"kv_lora_rank", &latent.rank, 512},
                                        {"qk_nope_head_dim", &latent.plain_dim, 128},
                                        {"qk_rope_head_dim", &latent.rotary_dim, 64},
                                        {"v_head_dim", &latent.value_dim, 128}}));
    // Queries may be made of the hidden state itself, which a null says, or a tensor.
    if (config.has("q_lora_rank") || !read.has("layers.0.self_attn.q_proj.weight"))
        VKFORMER_CHECK(read_counts(config, {{"q_lora_rank", &latent.query_rank, 1536}}));
    if (c.kv_heads != c.heads) return config.unsupported("num_key_value_heads", "as many as num_attention_heads");
    if (c.head_dim != latent.rotary_dim) return config.unsupported("head_dim", "null, or what qk_rope_head_dim is");

    VKFORMER_TRY(Rope rope, read_rope(config, c));
    VKFORMER_TRY(const bool interleaves, is_third ? config.boolean("rope_interleave", true) : Result<bool>(true));
    if (interleaves) rope.pairing = graph::RopePairing::interleaved;
    c.ropes = {rope};
    for (auto& layer : c.layers) layer.rope = 0;
    set_latent_sizes(latent, c);
    // What DeepSeek's code has for both; transformers has it for the third alone.
    VKFORMER_TRY(const RopeSource source, find_rope(config));
    if (source.type == "default") return {};
    VKFORMER_TRY(const double weight, source.scaling.real("mscale_all_dim", {.fallback = 0, .min = 0, .max = 1e3}));
    VKFORMER_TRY(const double factor, source.scaling.real("factor", {.fallback = 1, .min = 1e-6, .max = 1e9}));
    const double scale = yarn_scale(factor, weight);
    c.attention_scale *= static_cast<float>(scale * scale);
    return {};
}

/// Some of the fields say what a family's router does anyway. The second one chooses from groups by its wish, the third always does.
Result<void> read_routing(const Config& config, const GroupedMixture& usual, DecoderConfig& c) {
    const bool is_third = usual.by_sigmoid;
    VKFORMER_TRY(const double scale,
                 config.real("routed_scaling_factor", {.fallback = usual.scale, .min = 1e-6, .max = 1e6}));
    VKFORMER_TRY(c.experts.normalises, config.boolean("norm_topk_prob", is_third));
    c.experts.scale = static_cast<float>(scale);
    if (c.experts.normalises && !is_third)
        return config.unsupported("norm_topk_prob", "false (programs disagree about what true means)");
    constexpr const char* kGrouped = "group_limited_greedy";
    VKFORMER_TRY(const std::string method, config.string("topk_method", is_third ? "noaux_tc" : "greedy"));
    const bool is_grouped = is_third || method == kGrouped;
    for (const auto& [field, expected] : {std::pair{"scoring_func", is_third ? "sigmoid" : "softmax"},
                                          std::pair{"topk_method", is_third     ? "noaux_tc"
                                                                   : is_grouped ? kGrouped
                                                                                : "greedy"}}) {
        VKFORMER_TRY(const std::string found, config.string(field, expected));
        if (found != expected) return config.unsupported(field, expected);
    }
    if (is_third) set_sigmoid_routing(c, 1e-20f);
    if (!is_grouped) return {};
    graph::RouteGroups groups{.best = is_third ? 2u : 1u};
    VKFORMER_CHECK(read_counts(config, {{"n_group", &groups.count, usual.groups, 1, 64},
                                        {"topk_group", &groups.kept, usual.kept_groups, 1, 64}}));
    if (groups.count == 1) return {};
    if (!has_room(groups, c.experts))
        return config.unsupported("n_group",
                                  "groups of one size, topk_group of which have num_experts_per_tok experts");
    c.experts.groups = groups;
    return {};
}

}  // namespace

Result<void> read_grouped_mixture(const Config& config, const GroupedMixture& usual, DecoderConfig& c) {
    DecoderConfig::Experts& experts = c.experts;
    std::uint32_t dense = 0, step = 1;
    VKFORMER_CHECK(read_counts(config, {{"n_routed_experts", &experts.count, usual.count, 1, 1024},
                                        {"num_experts_per_tok", &experts.per_token, usual.per_token, 1, 32},
                                        {"moe_intermediate_size", &experts.intermediate_size, usual.intermediate_size},
                                        {"n_shared_experts", &experts.shared_size, usual.shared, 0, 64},
                                        {"first_k_dense_replace", &dense, usual.dense, 0},
                                        {"moe_layer_freq", &step, 1}}));
    experts.shared_size *= experts.intermediate_size;
    if (experts.per_token > experts.count) return config.unsupported("num_experts_per_tok", "at most n_routed_experts");
    for (std::size_t i = 0; i < c.layers.size(); ++i) c.layers[i].has_experts = i >= dense && i % step == 0;
    return read_routing(config, usual, c);
}

namespace {

constexpr GroupedMixture kSecond = {.count = 64,
                                    .per_token = 0,
                                    .intermediate_size = 1407,
                                    .shared = 2,
                                    .dense = 0,
                                    .groups = 1,
                                    .kept_groups = 1,
                                    .scale = 1,
                                    .by_sigmoid = false};
constexpr GroupedMixture kThird = {.count = 256,
                                   .per_token = 8,
                                   .intermediate_size = 2048,
                                   .shared = 1,
                                   .dense = 3,
                                   .groups = 8,
                                   .kept_groups = 4,
                                   .scale = 2.5,
                                   .by_sigmoid = true};

Result<void> read_mixer(const WeightReader& read, const DecoderConfig& c, const LlamaLayout& layout,
                        const std::string& layer, std::size_t, DecoderWeights::Layer& l) {
    constexpr LatentNames kNames = {.query = "q_proj",
                                    .query_down = "q_a_proj",
                                    .query_norm = "q_a_layernorm",
                                    .query_up = "q_b_proj",
                                    .down = "kv_a_proj_with_mqa",
                                    .latent_norm = "kv_a_layernorm",
                                    .up = "kv_b_proj.weight",
                                    .output = "o_proj"};
    return read_latent_weights(read, c, kNames, layer + "self_attn.", layout, l);
}

/// `layout`: how the weights are called. `further`: layers behind the model's own.
Result<DecoderConfig> read_deepseek(const Config& config, const WeightReader& read, std::size_t further,
                                    LlamaLayout& layout) {
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    const bool is_third = type == "deepseek_v3";
    VKFORMER_TRY(const auto rotary_dim, config.unsigned_integer("qk_rope_head_dim", {.fallback = 64, .min = 1}));
    VKFORMER_TRY(DecoderConfig c, read_sizes(config, {.positions = is_third ? 4096u : 2048u, .head_dim = rotary_dim}));
    c.layers.resize(c.layers.size() + further);
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_act", "silu"));
    VKFORMER_CHECK(read_latent(config, read, is_third, c));
    VKFORMER_CHECK(read_grouped_mixture(config, is_third ? kThird : kSecond, c));
    layout = {.shared_expert = "shared_experts.", .weighs_shared = false, .read_mixer = read_mixer};
    if (is_third) {
        layout.experts.choice_bias = "gate.e_score_correction_bias";
    } else {
        VKFORMER_TRY(layout.feed_forward_bias, config.boolean("mlp_bias", false));
    }
    VKFORMER_TRY(layout.attention_bias, config.boolean("attention_bias", false));
    layout.output_bias = layout.attention_bias;
    VKFORMER_TRY(layout.tied, config.boolean("tie_word_embeddings", false));
    return c;
}

std::string prefix_of(const formats::Weights& weights) { return find_prefix(weights, "model.", "embed_tokens.weight"); }

}  // namespace

Result<DecoderParts> load_deepseek(const Config& config, const formats::Weights& weights) {
    const std::string prefix = prefix_of(weights);
    DecoderParts parts;
    LlamaLayout layout;
    VKFORMER_TRY(parts.config, read_deepseek(config, WeightReader(weights, prefix), 0, layout));
    VKFORMER_TRY(parts.weights, read_llama_weights(weights, parts.config, layout, prefix));
    return parts;
}

Result<DecoderParts> load_deepseek_head(const Config& config, const formats::Weights& weights,
                                        const DecoderWeights& model) {
    const WeightReader read(weights, prefix_of(weights));
    DecoderParts parts;
    DecoderConfig& c = parts.config;
    LlamaLayout layout;
    VKFORMER_TRY(c, read_deepseek(config, read, 1, layout));
    VKFORMER_TRY(parts.weights, read_next_layer_head(config, read, layout, model, c));
    return parts;
}

}  // namespace vkformer::models
