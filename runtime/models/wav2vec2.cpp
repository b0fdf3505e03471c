// SPDX-License-Identifier: MIT
// Wav2Vec 2.0 (Baevski et al. 2020) and HuBERT (Hsu et al. 2021), fine-tuned for connectionist temporal classification.
#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "core/first_error.hpp"
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
    constexpr std::pair<const char*, std::uint32_t CtcConfig::Convolution::*> kLists[] = {
        {"conv_dim", &CtcConfig::Convolution::channels},
        {"conv_kernel", &CtcConfig::Convolution::taps},
        {"conv_stride", &CtcConfig::Convolution::stride}};
    for (const auto& [name, field] : kLists) {
        VKFORMER_TRY(const std::vector<double> values, config.reals(name));
        if (c.stem.empty()) c.stem.resize(values.size());
        bool is_good = !values.empty() && values.size() == c.stem.size();
        double product = 1;
        for (std::size_t i = 0; i < values.size() && is_good; ++i) {
            product *= field == &CtcConfig::Convolution::stride ? values[i] : 1;
            is_good =
                values[i] >= 1 && values[i] <= 1024 * 16 && values[i] == std::floor(values[i]) && product < 1 << 20;
            c.stem[i].*field = static_cast<std::uint32_t>(values[i]);
        }
        if (!is_good) return config.unsupported(name, "as many positive integers as conv_dim has, none too large");
    }
    if (c.stem[0].taps > taps_at_a_time(1)) return config.unsupported("conv_kernel", "1024 samples at most");
    return {};
}

Result<void> read_ctc_config(const Config& config, CtcConfig& c) {
    VKFORMER_CHECK(read_tower(config, kCtcDefaults, c));
    VKFORMER_CHECK(read_convolutions(config, c));
    FirstError first;
    bool has_adapter = false, norms_batch = false, is_stable = false;
    for (const auto& [name, flag] : {std::pair{"add_adapter", &has_adapter},
                                     {"conv_pos_batch_norm", &norms_batch},
                                     {"do_stable_layer_norm", &is_stable}}) {
        first.set(*flag, config.boolean(name, false));
        if (*flag && flag != &is_stable) return config.unsupported(name, "false");
    }
    if (config.has("adapter_attn_dim")) return config.unsupported("adapter_attn_dim", "null");
    if (!is_stable) c.norm_place = NormPlace::behind;
    std::string norm = "layer";
    first.set(norm, config.string("feat_extract_norm", "group"));
    c.norms_over_time = norm == "group";
    if (!c.norms_over_time && norm != "layer") return config.unsupported("feat_extract_norm", "group, layer");
    first.set(c.stem_activation, read_activation(config, "feat_extract_activation", "gelu"));
    for (const auto& [name, size, usual] : {std::tuple{"num_conv_pos_embeddings", &c.position_taps, 128u},
                                            {"num_conv_pos_embedding_groups", &c.position_groups, 16u},
                                            {"vocab_size", &c.vocab_size, 32u}})
        first.set(*size, config.unsigned_integer(name, {.fallback = usual, .min = 1, .max = 1u << 20}));
    if (c.hidden_size % c.position_groups != 0)
        return config.unsupported("num_conv_pos_embedding_groups", "a divisor of hidden_size");
    return first.status();
}

/// What the model's tensors are read with. Where one is missing there is nothing in its place, and an error.
struct CtcReader {
    const WeightReader& read;
    FirstError first{};

    std::vector<float> floats(const std::string& name, const Shape& shape) {
        TensorData data;
        std::vector<float> values;
        first.set(data, read.tensor(name, shape));
        if (first.is_good()) first.set(values, floats_of(data));
        return values;
    }

    /// A kernel [out, in, taps] of so many groups as CtcConvolution's parts, with a factor for each tap.
    std::vector<Projection> parts_of(std::span<const float> kernel, std::uint64_t out, std::uint64_t in,
                                     std::uint64_t taps, std::uint64_t groups, std::span<const float> factors) {
        const std::uint64_t most = taps_at_a_time(in);
        std::vector<Projection> parts;
        for (std::uint64_t begin = 0; begin < taps && first.is_good(); begin += most) {
            const std::uint64_t columns = std::min(most, taps - begin) * in;
            std::vector<float> part(out * columns);
            for (std::uint64_t i = 0; i < part.size(); ++i) {
                const std::uint64_t tap = begin + i % columns / in;
                part[i] = kernel[(i / columns * in + i % in) * taps + tap] * (factors.empty() ? 1 : factors[tap]);
            }
            Shape shape = {groups, out / groups, columns};
            if (groups == 1) shape = {out, columns};
            parts.emplace_back().weight = float_tensor(shape, std::move(part));
        }
        return parts;
    }

    void stem(const CtcConfig& c, bool has_bias, CtcWeights& w) {
        std::uint64_t in = 1;
        w.stem.resize(c.stem.size());
        for (std::size_t i = 0; i < c.stem.size() && first.is_good(); ++i) {
            const auto [out, taps, stride] = c.stem[i];
            const std::string name = "feature_extractor.conv_layers." + std::to_string(i);
            const std::vector<float> kernel = floats(name + ".conv.weight", {out, in, taps});
            w.stem[i].parts = parts_of(kernel, out, in, taps, 1, {});
            if (i == 0 || !c.norms_over_time) first.set(w.stem[i].norm, read.norm(name + ".layer_norm", out, true));
            if (first.is_good()) first.set(w.stem[i].parts[0].bias, read.bias(name + ".conv.bias", out, has_bias));
            in = out;
        }
    }

    /// The kernel of a tap has the length that "g" says, and the direction of "v" (Salimans and Kingma 2016, eq. 2).
    void positions(const CtcConfig& c, CtcWeights& w) {
        const std::string name = "encoder.pos_conv_embed.conv.";
        const bool is_old = read.has(name + "weight_g");
        const std::uint64_t d = c.hidden_size, in = d / c.position_groups, taps = c.position_taps;
        std::vector<float> lengths =
            floats(name + (is_old ? "weight_g" : "parametrizations.weight.original0"), {1, 1, taps});
        const std::vector<float> kernel =
            floats(name + (is_old ? "weight_v" : "parametrizations.weight.original1"), {d, in, taps});
        for (std::uint64_t t = 0; t < taps && first.is_good(); ++t) {
            double squares = 0;
            for (std::uint64_t i = t; i < kernel.size(); i += taps) squares += double{kernel[i]} * kernel[i];
            lengths[t] = static_cast<float>(lengths[t] / std::sqrt(squares));
            if (!std::isfinite(lengths[t]))
                first.check(
                    Error{ErrorCode::CorruptFile, read.source() + ": " + name + "weight: zeros have no direction"});
        }
        w.positions.parts = parts_of(kernel, d, in, taps, c.position_groups, lengths);
        first.set(w.position_bias, read.tensor(name + "bias", {d}));
        w.position_bias.shape = {1, d};
    }
};

}  // namespace

Result<std::shared_ptr<CtcModel>> load_wav2vec2(const Config& config, const Weights& weights) {
    auto model = std::make_shared<CtcModel>();
    CtcConfig& c = model->config;
    CtcWeights& w = model->weights;
    VKFORMER_CHECK(read_ctc_config(config, c));
    std::string type;
    bool has_bias = false, norms_features = true;
    FirstError first;
    first.set(type, config.string("model_type", "wav2vec2"));
    first.set(has_bias, config.boolean("conv_bias", false));
    first.set(norms_features, config.boolean("feat_proj_layer_norm", true));
    const WeightReader read(weights, type + "."), read_head(weights, "");
    const std::uint64_t d = c.hidden_size, features = c.stem.back().channels;
    CtcReader tensors{read, std::move(first)};
    tensors.stem(c, has_bias, w);
    if (norms_features || type == "wav2vec2")  // which always does
        tensors.first.set(w.feature_norm, read.norm("feature_projection.layer_norm", features, true));
    tensors.first.set(w.features, read.projection("feature_projection.projection", d, features, true));
    tensors.positions(c, w);
    tensors.first.set(w.norm, read.norm("encoder.layer_norm", d, true));
    tensors.first.set(w.layers, read_tower_layers(read, c, kCtcNames));
    tensors.first.set(w.head, read_head.projection("lm_head", c.vocab_size, d, true));
    VKFORMER_CHECK(tensors.first.status());
    return model;
}

}  // namespace vkformer::models
