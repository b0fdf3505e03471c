// SPDX-License-Identifier: MIT
// DINOv2 (Oquab et al. 2023, arXiv 2304.07193), with registers too (Darcet et al. 2024, arXiv 2309.16588), and DINOv3 (Siméoni et al.
// 2025, arXiv 2508.10104): encoders of images that were taught without labels. They take images of any size: the positions of DINOv2 are
// interpolated, those of DINOv3 are angles.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "core/try.hpp"
#include "models/encoder_loading.hpp"
#include "models/vision_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::Weights;

// ---- places ---------------------------------------------------------------------------------------------------------

/// What a place of the result is made of: places and their weights, whose sum is 1.
using Taps = std::vector<std::pair<std::size_t, double>>;

/// How a line of `in` places becomes one of `out`: cubic convolution (Keys 1981, eq. 4), as PyTorch's interpolate has it. `smooths`: with
/// a window that widens where the line shrinks ("antialias"), which then has another a, and leaves out what lies beyond the ends; without,
/// the last place stands for what does.
std::vector<Taps> line_taps(std::uint32_t in, std::uint32_t out, bool smooths) {
    const double a = smooths ? -0.5 : -0.75, scale = static_cast<double>(in) / out;
    const double stretch = smooths ? std::max(scale, 1.0) : 1.0;
    const auto cubic = [a](double x) {
        const double t = std::abs(x);
        if (t < 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
        return t < 2 ? (((t - 5) * t + 8) * t - 4) * a : 0;
    };
    std::vector<Taps> lines(out);
    for (std::uint32_t i = 0; i < out; ++i) {
        const double centre = (i + 0.5) * scale - 0.5;
        double sum = 0;
        for (double j = std::ceil(centre - 2 * stretch); j <= centre + 2 * stretch; ++j) {
            const double inside = std::clamp(j, 0.0, in - 1.0);
            if (smooths && inside != j) continue;
            lines[i].emplace_back(static_cast<std::size_t>(inside), cubic((j - centre) / stretch));
            sum += lines[i].back().second;
        }
        for (auto& [place, weight] : lines[i]) weight /= sum;
    }
    return lines;
}

/// values [outer, in, inner] → [outer, lines.size(), inner]
std::vector<float> resampled(const std::vector<float>& values, std::size_t in, std::size_t inner,
                             const std::vector<Taps>& lines) {
    std::vector<float> result;
    for (std::size_t first = 0; first < values.size(); first += in * inner)
        for (const Taps& taps : lines)
            for (std::size_t k = 0; k < inner; ++k) {
                double sum = 0;
                for (const auto& [place, weight] : taps)
                    sum += weight * static_cast<double>(values[first + place * inner + k]);
                result.push_back(static_cast<float>(sum));
            }
    return result;
}

/// The tokens that an image of any size has.
struct SpecialTokens {
    std::vector<TensorData> special;
    TensorData bias;  ///< of the patches' product
};

Result<SpecialTokens> read_special_tokens(const WeightReader& read, const VisionConfig& c, const std::string& patches) {
    const std::uint64_t d = c.hidden_size, registers = c.special_tokens - 1;
    SpecialTokens tokens;
    VKFORMER_TRY(const TensorData class_token, read.tensor("embeddings.cls_token", {1, 1, d}));
    tokens.special.push_back(class_token);
    if (registers > 0) {
        VKFORMER_TRY(TensorData rows, read.tensor("embeddings.register_tokens", {1, registers, d}));
        rows.shape = {registers, d};
        for (std::uint64_t i = 0; i < registers; ++i) tokens.special.push_back(rows_of(rows, i, 1));
    }
    VKFORMER_TRY(tokens.bias, read.tensor(patches + ".bias", {d}));
    return tokens;
}

/// The table of positions, one for the class token and then those of a square of patches, for any size of image.
Result<VisionPlaces> interpolated(const VisionConfig& c, const SpecialTokens& tokens, const TensorData& table,
                                  std::uint32_t side, bool smooths) {
    VKFORMER_TRY(const std::vector<float> values, floats_of(table));
    const std::size_t d = c.hidden_size;
    const auto patches_at = values.begin() + static_cast<std::ptrdiff_t>(d);
    std::vector<float> patches(patches_at, values.end());
    // The axis that has fewer places afterwards first, so that what lies between is no larger than it must be.
    const auto rows = line_taps(side, c.patch_rows(), smooths), columns = line_taps(side, c.patch_columns(), smooths);
    if (rows.size() < columns.size()) {
        patches = resampled(patches, side, side * d, rows);
        patches = resampled(patches, side, d, columns);
    } else {
        patches = resampled(patches, side, d, columns);
        patches = resampled(patches, side, columns.size() * d, rows);
    }
    std::vector<float> positions(values.begin(), patches_at);
    positions.resize(c.special_tokens * d);  // registers have no place
    positions.insert(positions.end(), patches.begin(), patches.end());
    VisionPlaces places;
    VKFORMER_TRY(places.positions,
                 embed_places(c, float_tensor({c.tokens(), d}, std::move(positions)), tokens.special, tokens.bias));
    return places;
}

/// No positions but the angles by which queries and keys are turned: the first half of a head's pairs by a patch's row, the second by its
/// column, each from −1 to 1 over the image. Special tokens are not turned.
Result<VisionPlaces> turned(const VisionConfig& c, const SpecialTokens& tokens, double base) {
    const std::uint64_t d = c.hidden_size, head_dim = d / c.heads, quarter = head_dim / 4;
    std::vector<float> turns(c.tokens() * head_dim);
    for (std::uint32_t token = 0; token < c.tokens(); ++token)
        for (std::uint64_t pair = 0; pair < head_dim / 2; ++pair) {
            double angle = 0;
            if (token >= c.special_tokens) {
                const std::uint32_t patch = token - c.special_tokens;
                const std::uint32_t row = patch / c.patch_columns(), column = patch % c.patch_columns();
                const double place = pair < quarter ? (row + 0.5) / c.patch_rows() : (column + 0.5) / c.patch_columns();
                const double exponent = 4.0 * static_cast<double>(pair % quarter) / static_cast<double>(head_dim);
                angle = 2 * std::numbers::pi * (2 * place - 1) / std::pow(base, exponent);
            }
            turns[token * head_dim + pair] = static_cast<float>(std::cos(angle));
            turns[token * head_dim + head_dim / 2 + pair] = static_cast<float>(std::sin(angle));
        }
    VisionPlaces places;
    VKFORMER_TRY(places.positions, embed_places(c, float_tensor({c.tokens(), d}, std::vector<float>(c.tokens() * d)),
                                                tokens.special, tokens.bias));
    places.turns = float_tensor({c.tokens(), head_dim}, std::move(turns));
    return places;
}

// ---- DINOv2 ---------------------------------------------------------------------------------------------------------

constexpr TowerNames kDinov2Names = {.layer = "encoder.layer.",
                                     .query = "attention.attention.query",
                                     .key = "attention.attention.key",
                                     .value = "attention.attention.value",
                                     .output = "attention.output.dense",
                                     .attention_norm = "norm1",
                                     .up = "mlp.fc1",
                                     .down = "mlp.fc2",
                                     .feed_forward_norm = "norm2",
                                     .attention_scale = "layer_scale1.lambda1",
                                     .feed_forward_scale = "layer_scale2.lambda1"};
constexpr TowerDefaults kDinov2 = {
    .hidden_size = 768, .intermediate_size = 3072, .heads = 12, .norm_eps = 1e-6, .activation = "gelu"};

/// The feed-forward layers' size, which mlp_ratio says, and their kind.
Result<TowerNames> read_feed_forward(const Config& config, VisionConfig& c) {
    VKFORMER_TRY(const double ratio, config.real("mlp_ratio", {.fallback = 4, .min = 1.0 / 1024, .max = 1024}));
    VKFORMER_TRY(const bool is_gated, config.boolean("use_swiglu_ffn", false));
    c.intermediate_size = static_cast<std::uint32_t>(c.hidden_size * ratio);
    TowerNames names = kDinov2Names;
    if (is_gated) {
        c.activation = graph::Activation::silu;
        c.intermediate_size = (static_cast<std::uint32_t>(std::uint64_t{c.intermediate_size} * 2 / 3) + 7) / 8 * 8;
        names.gate = names.up = "mlp.weights_in";
        names.down = "mlp.weights_out";
    }
    if (c.intermediate_size == 0) return config.unsupported("mlp_ratio", "a number that leaves no layer empty");
    return names;
}

Result<void> read_dinov2_classifier(const Config& config, const Weights& weights, VisionConfig& c, VisionWeights& w) {
    VKFORMER_TRY(const auto architectures, config.strings("architectures"));
    const bool classifies = std::ranges::any_of(
        architectures, [](const std::string& name) { return name.ends_with("ForImageClassification"); });
    if (!classifies) return {};
    VKFORMER_CHECK(read_image_labels(config, c));
    c.classifies_patches = true;
    VKFORMER_TRY(Projection head,
                 WeightReader(weights, "").projection("classifier", c.labels, std::uint64_t{2} * c.hidden_size, true));
    w.heads.push_back(std::move(head));
    return {};
}

// ---- DINOv3 ---------------------------------------------------------------------------------------------------------

constexpr TowerDefaults kDinov3 = {
    .hidden_size = 384, .intermediate_size = 1536, .heads = 6, .norm_eps = 1e-5, .activation = "gelu"};

Result<TowerNames> read_dinov3_names(const Config& config) {
    VKFORMER_TRY(const bool is_gated, config.boolean("use_gated_mlp", false));
    return TowerNames{.layer = "layer.",
                      .query = "attention.q_proj",
                      .key = "attention.k_proj",
                      .value = "attention.v_proj",
                      .output = "attention.o_proj",
                      .attention_norm = "norm1",
                      .gate = is_gated ? "mlp.gate_proj" : "",
                      .up = "mlp.up_proj",
                      .down = "mlp.down_proj",
                      .feed_forward_norm = "norm2",
                      .attention_scale = "layer_scale1.lambda1",
                      .feed_forward_scale = "layer_scale2.lambda1"};
}

Result<TowerBiases> read_dinov3_biases(const Config& config) {
    TowerBiases biases;
    VKFORMER_TRY(biases.query, config.boolean("query_bias", true));
    VKFORMER_TRY(biases.key, config.boolean("key_bias", false));
    VKFORMER_TRY(biases.value, config.boolean("value_bias", true));
    VKFORMER_TRY(biases.output, config.boolean("proj_bias", true));
    VKFORMER_TRY(biases.feed_forward, config.boolean("mlp_bias", true));
    return biases;
}

constexpr std::uint32_t kMostRegisters = 1024;

}  // namespace

Result<VisionEncoder> load_dinov2(const Config& config, const Weights& weights) {
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    const bool has_registers = type == "dinov2_with_registers";
    VisionConfig c;
    VKFORMER_CHECK(read_tower(config, kDinov2, c));
    VKFORMER_TRY(const TowerNames names, read_feed_forward(config, c));
    if (has_registers) {
        VKFORMER_TRY(const auto registers,
                     config.unsigned_integer("num_register_tokens", {.fallback = 4, .max = kMostRegisters}));
        c.special_tokens += registers;
    }
    VKFORMER_CHECK(read_image_sizes(config, 224, has_registers ? 16 : 14, c));
    VKFORMER_TRY(const bool qkv_bias, config.boolean("qkv_bias", true));
    const std::uint32_t side = c.patch_rows();
    if (c.patch_columns() != side) return config.unsupported("image_size", "a square of patches");

    const WeightReader read(weights, find_prefix(weights, type + ".", "embeddings.cls_token"));
    const std::string patches = "embeddings.patch_embeddings.projection";
    VisionWeights w;
    VKFORMER_TRY(w.patches, read_patches(read, patches + ".weight", c));
    VKFORMER_TRY(const SpecialTokens tokens, read_special_tokens(read, c, patches));
    VKFORMER_TRY(const TensorData table,
                 read.tensor("embeddings.position_embeddings", {1, std::uint64_t{side} * side + 1, c.hidden_size}));
    w.places_of = [=](const VisionConfig& size) { return interpolated(size, tokens, table, side, has_registers); };
    VKFORMER_TRY(w.places, w.places_of(c));
    VKFORMER_TRY(w.layers, read_tower_layers(read, c, names, {.query = qkv_bias, .key = qkv_bias, .value = qkv_bias}));
    VKFORMER_TRY(w.final_norm, read.norm("layernorm", c.hidden_size, true));
    VKFORMER_CHECK(read_dinov2_classifier(config, weights, c, w));
    return VisionEncoder(std::move(c), std::move(w));
}

Result<VisionEncoder> load_dinov3(const Config& config, const Weights& weights) {
    VisionConfig c;
    VKFORMER_CHECK(read_tower(config, kDinov3, c));
    VKFORMER_TRY(const auto registers,
                 config.unsigned_integer("num_register_tokens", {.fallback = 0, .max = kMostRegisters}));
    c.special_tokens += registers;
    VKFORMER_CHECK(read_image_sizes(config, 224, 16, c));
    if (c.hidden_size / c.heads % 4 != 0)
        return config.unsupported("num_attention_heads", "heads of a multiple of 4 numbers");
    VKFORMER_TRY(const double base, config.real("rope_theta", {.fallback = 100, .min = 1, .max = 1e12}));

    const WeightReader read(weights, "");
    VKFORMER_TRY(const TowerNames names, read_dinov3_names(config));
    VKFORMER_TRY(const TowerBiases biases, read_dinov3_biases(config));
    const std::string patches = "embeddings.patch_embeddings";
    VisionWeights w;
    VKFORMER_TRY(w.patches, read_patches(read, patches + ".weight", c));
    VKFORMER_TRY(const SpecialTokens tokens, read_special_tokens(read, c, patches));
    // First, since matrices that a file has are what the widths are bounded by.
    VKFORMER_TRY(w.layers, read_tower_layers(read, c, names, biases));
    w.places_of = [=](const VisionConfig& size) { return turned(size, tokens, base); };
    VKFORMER_TRY(w.places, w.places_of(c));
    VKFORMER_TRY(w.final_norm, read.norm("norm", c.hidden_size, true));
    return VisionEncoder(std::move(c), std::move(w));
}

}  // namespace vkformer::models
