// SPDX-License-Identifier: MIT
// Wav2Vec 2.0 (Baevski et al. 2020) and HuBERT (Hsu et al. 2021), fine-tuned for connectionist temporal classification.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/try.hpp"
#include "models/ctc_loading.hpp"
#include "models/vision_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::Weights;

constexpr TowerNames kCtcNames = {.layer = "encoder.layers.",
                                  .query = "attention.q_proj",
                                  .key = "attention.k_proj",
                                  .value = "attention.v_proj",
                                  .output = "attention.out_proj",
                                  .attention_norm = "layer_norm",
                                  .up = "feed_forward.intermediate_dense",
                                  .down = "feed_forward.output_dense",
                                  .feed_forward_norm = "final_layer_norm"};
constexpr TowerDefaults kCtcDefaults = {
    .hidden_size = 768, .intermediate_size = 3072, .heads = 12, .norm_eps = 1e-5, .activation = "gelu"};

/// Channels, taps and strides of the convolutions over the samples.
Result<void> read_convolutions(const Config& config, CtcConfig& c) {
    constexpr std::array<double, 7> kChannels = {512, 512, 512, 512, 512, 512, 512}, kStrides = {5, 2, 2, 2, 2, 2, 2},
                                    kTaps = {10, 3, 3, 3, 3, 2, 2};
    const auto read = [&](std::string_view name, std::span<const double> usual,
                          std::uint32_t CtcConfig::Convolution::*field) -> Result<void> {
        VKFORMER_TRY(std::vector<double> values, config.reals(name));
        if (values.empty()) values.assign(usual.begin(), usual.end());
        if (c.stem.empty()) c.stem.resize(values.size());
        const auto is_size = [](double value) { return value >= 1 && value <= 1 << 16 && value == std::floor(value); };
        if (values.size() != c.stem.size() || values.size() > 64 || !std::ranges::all_of(values, is_size))
            return config.unsupported(name, "as many positive integers as conv_dim has");
        for (std::size_t i = 0; i < values.size(); ++i) c.stem[i].*field = static_cast<std::uint32_t>(values[i]);
        return {};
    };
    VKFORMER_CHECK(read("conv_dim", kChannels, &CtcConfig::Convolution::channels));
    VKFORMER_CHECK(read("conv_kernel", kTaps, &CtcConfig::Convolution::taps));
    VKFORMER_CHECK(read("conv_stride", kStrides, &CtcConfig::Convolution::stride));
    double samples = 1;
    for (const CtcConfig::Convolution& convolution : c.stem) samples *= convolution.stride;
    if (samples > 1 << 20) return config.unsupported("conv_stride", "up to 1048576 samples from frame to frame");
    return {};
}

Result<CtcConfig> read_ctc_config(const Config& config) {
    VKFORMER_TRY(const auto architectures, config.strings("architectures"));
    if (!architectures.empty() && !architectures[0].ends_with("ForCTC"))
        return config.unsupported("architectures", "Wav2Vec2ForCTC, HubertForCTC");
    for (const std::string_view name : {"add_adapter", "conv_pos_batch_norm"}) {
        VKFORMER_TRY(const bool value, config.boolean(name, false));
        if (value) return config.unsupported(name, "false");
    }
    if (config.has("adapter_attn_dim")) return config.unsupported("adapter_attn_dim", "null");
    CtcConfig c;
    VKFORMER_CHECK(read_tower(config, kCtcDefaults, c));
    VKFORMER_CHECK(read_convolutions(config, c));
    VKFORMER_TRY(const bool is_stable, config.boolean("do_stable_layer_norm", false));
    if (!is_stable) c.norm_place = NormPlace::behind;
    VKFORMER_TRY(const std::string norm, config.string("feat_extract_norm", "group"));
    c.norms_over_time = norm == "group";
    if (!c.norms_over_time && norm != "layer") return config.unsupported("feat_extract_norm", "group, layer");
    VKFORMER_TRY(c.stem_activation, read_activation(config, "feat_extract_activation", "gelu"));
    VKFORMER_TRY(c.position_taps,
                 config.unsigned_integer("num_conv_pos_embeddings", {.fallback = 128, .min = 1, .max = 1u << 12}));
    VKFORMER_TRY(c.position_groups,
                 config.unsigned_integer("num_conv_pos_embedding_groups", {.fallback = 16, .min = 1, .max = 1u << 12}));
    if (c.hidden_size % c.position_groups != 0)
        return config.unsupported("num_conv_pos_embedding_groups", "a divisor of hidden_size");
    VKFORMER_TRY(c.vocab_size, config.unsigned_integer("vocab_size", {.fallback = 32, .min = 1, .max = 1u << 24}));
    return c;
}

/// A kernel [out, in, taps] of so many groups as CtcConvolution's parts, with a factor for each tap.
std::vector<TensorData> parts_of(std::span<const float> kernel, std::uint64_t out, std::uint64_t in, std::uint64_t taps,
                                 std::uint64_t groups, std::span<const float> factors) {
    const std::uint64_t most = taps_at_a_time(in);
    std::vector<TensorData> parts;
    for (std::uint64_t first = 0; first < taps; first += most) {
        const std::uint64_t count = std::min(most, taps - first);
        std::vector<float> part;
        part.reserve(out * count * in);
        for (std::uint64_t o = 0; o < out; ++o)
            for (std::uint64_t t = first; t < first + count; ++t)
                for (std::uint64_t i = 0; i < in; ++i)
                    part.push_back(kernel[(o * in + i) * taps + t] * (factors.empty() ? 1 : factors[t]));
        const Shape shape = groups > 1 ? Shape{groups, out / groups, count * in} : Shape{out, count * in};
        parts.push_back(float_tensor(shape, std::move(part)));
    }
    return parts;
}

Result<std::vector<float>> read_floats(const WeightReader& read, const std::string& name, const Shape& shape) {
    VKFORMER_TRY(const TensorData data, read.tensor(name, shape));
    return floats_of(data);
}

Result<void> read_stem(const WeightReader& read, const CtcConfig& c, bool has_bias, CtcWeights& w) {
    std::uint64_t in = 1;
    for (std::size_t i = 0; i < c.stem.size(); ++i) {
        const auto [out, taps, stride] = c.stem[i];
        const std::string name = "feature_extractor.conv_layers." + std::to_string(i);
        VKFORMER_TRY(const auto kernel, read_floats(read, name + ".conv.weight", {out, in, taps}));
        CtcConvolution convolution;
        VKFORMER_TRY(convolution.bias, read.bias(name + ".conv.bias", out, has_bias));
        if (i == 0 || !c.norms_over_time) {
            VKFORMER_TRY(convolution.norm, read.norm(name + ".layer_norm", out, true));
        }
        if (i == 0 && c.norms_over_time) {
            VKFORMER_TRY(w.first.gain, floats_of(convolution.norm.gain));
            VKFORMER_TRY(w.first.bias, floats_of(convolution.norm.bias));
            w.first.kernel = kernel;
        } else {
            convolution.parts = parts_of(kernel, out, in, taps, 1, {});
            w.stem.push_back(std::move(convolution));
        }
        in = out;
    }
    return {};
}

/// The kernel of a tap has the length that "g" says, and the direction of "v" (Salimans and Kingma 2016, eq. 2).
Result<CtcConvolution> read_positions(const WeightReader& read, const CtcConfig& c) {
    const std::string name = "encoder.pos_conv_embed.conv.";
    const bool is_old = read.has(name + "weight_g");
    const std::uint64_t d = c.hidden_size, in = d / c.position_groups, taps = c.position_taps;
    VKFORMER_TRY(std::vector<float> lengths,
                 read_floats(read, name + (is_old ? "weight_g" : "parametrizations.weight.original0"), {1, 1, taps}));
    VKFORMER_TRY(const std::vector<float> kernel,
                 read_floats(read, name + (is_old ? "weight_v" : "parametrizations.weight.original1"), {d, in, taps}));
    for (std::uint64_t t = 0; t < taps; ++t) {
        double squares = 0;
        for (std::uint64_t i = 0; i < d * in; ++i) squares += double{kernel[i * taps + t]} * kernel[i * taps + t];
        lengths[t] = static_cast<float>(lengths[t] / std::sqrt(squares));
        if (!std::isfinite(lengths[t]))
            return Error{ErrorCode::CorruptFile,
                         read.source() + ": " + name + "weight has a tap of zeros, which has no direction"};
    }
    CtcConvolution positions;
    positions.parts = parts_of(kernel, d, in, taps, c.position_groups, lengths);
    VKFORMER_TRY(positions.bias, read.tensor(name + "bias", {d}));
    return positions;
}

}  // namespace

Result<CtcModel> load_wav2vec2(const Config& config, const Weights& weights) {
    VKFORMER_TRY(const std::string type, config.string("model_type", "wav2vec2"));
    VKFORMER_TRY(CtcConfig c, read_ctc_config(config));
    VKFORMER_TRY(const bool has_bias, config.boolean("conv_bias", false));
    bool norms_features = true;
    if (type == "hubert") {
        VKFORMER_TRY(norms_features, config.boolean("feat_proj_layer_norm", true));
    }
    const WeightReader read(weights, type + "."), read_head(weights, "");
    const std::uint64_t d = c.hidden_size, features = c.stem.back().channels;
    CtcWeights w;
    VKFORMER_CHECK(read_stem(read, c, has_bias, w));
    if (norms_features) {
        VKFORMER_TRY(w.feature_norm, read.norm("feature_projection.layer_norm", features, true));
    }
    VKFORMER_TRY(w.features, read.projection("feature_projection.projection", d, features, true));
    VKFORMER_TRY(w.positions, read_positions(read, c));
    VKFORMER_TRY(w.norm, read.norm("encoder.layer_norm", d, true));
    VKFORMER_TRY(w.layers, read_tower_layers(read, c, kCtcNames));
    VKFORMER_TRY(w.head, read_head.projection("lm_head", c.vocab_size, d, true));
    return CtcModel(std::move(c), std::move(w));
}

}  // namespace vkformer::models
