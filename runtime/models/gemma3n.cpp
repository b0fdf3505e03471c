// SPDX-License-Identifier: MIT
// Gemma 3n (Gemma Team 2025), of its text part: Gemma 4's attention, shared caches and embeddings of each layer, with several hidden states
// of a token (AltUp), low-rank products beside attention (LAuReL), and gates of some layers of which most are 0.
#include "models/gemma3n.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <tuple>
#include <utility>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"
#include "models/gemma4.hpp"

namespace vkformer::models {
namespace {

using formats::Config;

constexpr Gemma4Names kEmbeddingNames = {.table = "embed_tokens_per_layer.weight",
                                         .projection = "per_layer_model_projection",
                                         .projection_norm = "per_layer_projection_norm",
                                         .embedding_gate = "per_layer_input_gate",
                                         .embedding_output = "per_layer_projection",
                                         .embedding_norm = "post_per_layer_input_norm",
                                         .scale = nullptr,
                                         .expert_norm = nullptr,
                                         .expert_post_norm = nullptr,
                                         .shared_post_norm = nullptr,
                                         .router_scale = nullptr,
                                         .expert_scales = nullptr};
constexpr Gemma3nNames kStreamNames = {.norm = "altup.router_norm.weight",
                                       .router = "altup.modality_router.weight",
                                       .predict = "altup.prediction_coefs.weight",
                                       .correct = "altup.correction_coefs.weight",
                                       .scale = "altup.correct_output_scale",
                                       .left = "laurel.linear_left",
                                       .right = "laurel.linear_right",
                                       .laurel_norm = "laurel.post_laurel_norm"};

constexpr const char* kOfEachLayer = "one for each layer";

/// Of the gates of each layer the part that is to be 0.
Result<std::vector<double>> read_sparsity(const Config& config, std::size_t layers) {
    constexpr const char* kField = "activation_sparsity_pattern";
    VKFORMER_TRY(std::vector<double> parts, config.reals(kField));
    if (!config.has(kField)) {
        parts.resize(layers);
        constexpr std::size_t kSparse = 10;
        if (layers > kSparse) std::fill_n(parts.begin(), kSparse, 0.95);
    }
    if (parts.size() != layers) return config.unsupported(kField, kOfEachLayer);
    for (const double part : parts)
        if (!(part >= 0 && part < 1)) return config.unsupported(kField, "parts from 0 to less than 1");
    return parts;
}

/// Of feed-forward layers.
Result<std::vector<std::int32_t>> read_inner_sizes(const Config& config, std::size_t layers) {
    constexpr const char* kField = "intermediate_size";
    constexpr std::int32_t kUsual = 16384, kMost = 1 << 20;
    VKFORMER_TRY(std::vector<std::int32_t> sizes, config.token_ids(kField));  // a list, or one for all
    if (sizes.size() <= 1) sizes.assign(layers, sizes.empty() ? kUsual : sizes.front());
    if (sizes.size() != layers) return config.unsupported(kField, kOfEachLayer);
    for (const std::int32_t size : sizes)
        if (size < 1 || size > kMost) return config.unsupported(kField, "1 to 1048576");
    return sizes;
}

/// z with Φ(z) = part, the part 0 < part < 1 as float32 has it.
float deviations_below(double part) {
    double low = -40, high = 40;
    for (int i = 0; i < 80; ++i) {
        const double z = (low + high) / 2;
        (std::erfc(-z / std::numbers::sqrt2) / 2 < static_cast<float>(part) ? low : high) = z;
    }
    return static_cast<float>(low);
}

struct Numbers {
    std::uint32_t window = 0, shared = 0, active = 0, laurel_rank = 0, tokens = 0, embedding_width = 0;
};
Result<Numbers> read_numbers(const Config& config, DecoderConfig& c) {
    struct Number {
        const char* field;
        std::uint32_t* value;
        std::uint32_t fallback, min, max;
    };
    Numbers n;
    for (const Number& one :
         {Number{"sliding_window", &n.window, 512, 1, 1u << 28}, Number{"num_kv_shared_layers", &n.shared, 15, 0, 4096},
          Number{"altup_num_inputs", &c.streams, 4, 2, 64}, Number{"altup_active_idx", &n.active, 0, 0, 1u << 28},
          Number{"laurel_rank", &n.laurel_rank, 64, 1, 1u << 20},
          Number{"hidden_size_per_layer_input", &n.embedding_width, 256, 1, 1u << 16},
          Number{"vocab_size_per_layer_input", &n.tokens, 262144, 1, 1u << 24}}) {
        VKFORMER_TRY(*one.value,
                     config.unsigned_integer(one.field, {.fallback = one.fallback, .min = one.min, .max = one.max}));
    }
    if (n.active != 0) return config.unsupported("altup_active_idx", "0");
    return n;
}

Result<void> read_gemma3n_attention(const Config& config, std::uint32_t window, std::uint32_t shared,
                                    DecoderConfig& c) {
    VKFORMER_TRY(std::vector<bool> slides, read_sliding_layers(config, c.layers.size()));
    if (is_null(config, "sliding_window")) return config.unsupported("sliding_window", "a number");
    constexpr std::size_t kUsual = 5;  // from one layer without a window to the next
    for (std::size_t i = 0; i < slides.size(); ++i) {
        if (!config.has("layer_types")) slides[i] = (i + 1) % kUsual != 0;
        c.layers[i].window = slides[i] ? window : 0;
        c.layers[i].rope = slides[i] ? 1 : 0;
    }
    if (shared >= c.layers.size() || !share_caches(c, shared))
        return config.unsupported("num_kv_shared_layers", "so few that each has a layer of its kind before them");
    VKFORMER_TRY(const Rope global, read_rope(config, c, {.theta = 1e6, .object = "full_attention"}));
    VKFORMER_TRY(const Rope local, read_rope(config, c,
                                             {.theta_name = "rope_local_base_freq",
                                              .object = "sliding_attention",
                                              .is_scaled_by_rope_scaling = false}));
    if (c.extended_positions > 0) return config.unsupported("rope_type", "default, linear, llama3, yarn, proportional");
    c.ropes = {global, local};
    return {};
}

Result<DecoderParts> load_gemma3n_text(const Config& config, const formats::Weights& weights,
                                       const std::string& prefix) {
    DecoderParts parts;
    DecoderConfig& c = parts.config;
    VKFORMER_TRY(c, read_sizes(config, {.positions = 32768, .head_dim = 256, .kv_heads = 2, .intermediate_size = 0}));
    const std::size_t layers = c.layers.size();
    c.embedding_scale = std::sqrt(static_cast<float>(c.hidden_size));
    c.attention_scale = 1;
    c.norms_values = true;
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_activation", "gelu_pytorch_tanh"));
    VKFORMER_TRY(const double cap, config.real("final_logit_softcapping", {.min = 1e-3, .max = 1e6}));
    c.logit_soft_cap = static_cast<float>(cap);
    VKFORMER_TRY(const Numbers n, read_numbers(config, c));
    VKFORMER_CHECK(read_gemma3n_attention(config, n.window, n.shared, c));
    VKFORMER_TRY(const auto sparse, read_sparsity(config, layers));
    VKFORMER_TRY(const auto inner, read_inner_sizes(config, layers));
    VKFORMER_TRY(const bool has_scale, config.boolean("altup_correct_scale", true));
    Gemma4Layout own = {.embedding_width = n.embedding_width};
    VKFORMER_TRY(own.attention_bias, config.boolean("attention_bias", false));

    LlamaLayout layout = with_gemma_norms({.feed_forward = false});
    layout.read_mixer = [](const WeightReader&, const DecoderConfig&, const LlamaLayout&, const std::string&,
                           std::size_t, DecoderWeights::Layer&) { return Result<void>(); };
    VKFORMER_TRY(layout.tied, config.boolean("tie_word_embeddings", true));
    DecoderWeights& w = parts.weights;
    VKFORMER_TRY(w, read_llama_weights(weights, c, layout, prefix));
    const WeightReader read(weights, prefix);
    const std::uint64_t d = c.hidden_size;
    for (std::size_t i = 0; i < layers; ++i) {
        const std::string name = "layers." + std::to_string(i) + ".", mlp = name + "mlp.";
        const auto width = static_cast<std::uint64_t>(inner[i]);
        DecoderWeights::Layer& l = w.layers[i];
        VKFORMER_CHECK(read_gemma4_attention(read, c, own, name + "self_attn.", c.layers[i], l));
        for (const auto& [part, what] : {std::pair{&l.gate, "gate_proj"}, std::pair{&l.up, "up_proj"}}) {
            VKFORMER_TRY(*part, read.projection(mlp + what, width, d, false));
        }
        VKFORMER_TRY(l.down, read.projection(mlp + "down_proj", d, width, false));
        if (sparse[i] > 0) l.gate_cutoff = deviations_below(sparse[i]);
        VKFORMER_CHECK(read_gemma4_extras(read, c, kEmbeddingNames, name, own.embedding_width, l));
        VKFORMER_CHECK(read_streams(read, c, kStreamNames, name, i, n.laurel_rank, has_scale, l.streams));
    }
    for (std::size_t i = 0; i + 1 < c.streams; ++i) {
        const std::string number = "projections." + std::to_string(i);
        VKFORMER_TRY(w.stream_inputs.emplace_back(), read.projection("altup_" + number, d, d, false));
        VKFORMER_TRY(w.stream_outputs.emplace_back(), read.projection("altup_unembed_" + number, d, d, false));
    }
    VKFORMER_CHECK(read_layer_embeddings(read, c, kEmbeddingNames, own.embedding_width, n.tokens, w));
    return parts;
}

}  // namespace

Result<void> read_streams(const WeightReader& read, const DecoderConfig& config, const Gemma3nNames& names,
                          const std::string& name, std::size_t index, std::uint64_t laurel_rank, bool has_scale,
                          StreamWeights& streams) {
    const std::size_t n = config.streams, d = config.hidden_size;
    VKFORMER_TRY(streams.left, read.projection(name + names.left, laurel_rank, d, false));
    VKFORMER_TRY(streams.right, read.projection(name + names.right, d, laurel_rank, false));
    VKFORMER_TRY(streams.laurel_norm, read.norm(name + names.laurel_norm, d));
    VKFORMER_TRY(TensorData scale, read.tensor(name + names.scale, {d}));  // there even where it is of no use
    scale.shape = {1, d};
    if (has_scale) streams.scale = std::move(scale);
    // The router sees norm(x) / d. Its weights have a share of that, for both are to be far from float16's least numbers.
    std::vector<float> gains, rows, p, c;
    for (const auto& [numbers, what, shape] :
         {std::tuple{&gains, names.norm, Shape{d}}, std::tuple{&rows, names.router, Shape{n, d}},
          std::tuple{&p, names.predict, Shape{n * n, n}}, std::tuple{&c, names.correct, Shape{n, n}}}) {
        VKFORMER_TRY(const TensorData tensor, read.tensor(name + what, shape));
        VKFORMER_TRY(*numbers, floats_of(tensor));
    }
    const float share = std::pow(static_cast<float>(d), -0.25f);
    for (float& gain : gains) gain *= share * share * share;
    for (float& weight : rows) weight *= share;
    streams.norm.gain = float_tensor({d}, std::move(gains));
    streams.router = float_tensor({n, d}, std::move(rows));

    const std::size_t before = index > 0 ? n + 1 : n, behind = n + 1;
    std::vector<float> predicts(n * before * n), predict_bias(n * before), corrects(n * behind * n),
        correct_bias(n * behind);
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t m = 0; m < n; ++m) {
            // p_i = h_i + Σ_j P_ij h_j, of which all but h_0 have e in them.
            for (std::size_t j = 0; j < n; ++j) {
                const float weight = p[(i * n + j) * n + m];
                predicts[(i * before + j) * n + m] = weight;
                if (j > 0 && before > n) predicts[(i * before + n) * n + m] += weight;
            }
            // h_i = p_i + (1 + c_i) (y − p_0)
            corrects[(i * behind + n) * n + m] = c[i * n + m];
            corrects[i * behind * n + m] = -c[i * n + m];
        }
        predict_bias[i * before + i] = 1;
        if (i > 0 && before > n) predict_bias[i * before + n] = 1;
        correct_bias[i * behind + n] = 1;
        correct_bias[i * behind] -= 1;
        correct_bias[i * behind + i] += 1;
    }
    streams.predict = float_tensor({n * before, n}, std::move(predicts));
    streams.predict_bias = float_tensor({n * before}, std::move(predict_bias));
    streams.correct = float_tensor({n * behind, n}, std::move(corrects));
    streams.correct_bias = float_tensor({n * behind}, std::move(correct_bias));
    return {};
}

Result<DecoderParts> load_gemma3n(const Config& config, const formats::Weights& weights) {
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    if (type == "gemma3n_text")
        return load_gemma3n_text(config, weights, find_prefix(weights, "model.", "embed_tokens.weight"));
    VKFORMER_TRY(const Config text, config.object("text_config"));  // beside towers, which are not read
    return load_gemma3n_text(text, weights, "model.language_model.");
}

}  // namespace vkformer::models
