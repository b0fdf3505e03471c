// SPDX-License-Identifier: MIT
#include "models/vision_loading.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/try.hpp"
#include "models/encoder_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;

constexpr std::uint32_t kLargestSide = 1u << 14;  // pixels

}  // namespace

Result<Extent> read_extent(const Config& config, std::string_view name, std::uint32_t fallback) {
    const formats::Expect<std::uint32_t> expect = {.fallback = fallback, .min = 1, .max = kLargestSide};
    const auto single = config.unsigned_integer(name, expect);
    if (single) return Extent{*single, *single};
    const auto list = config.reals(name);
    if (!list) return single.error();  // neither a number nor a list of them
    const auto is_side = [](double side) { return side >= 1 && side <= kLargestSide && side == std::floor(side); };
    if (list->size() != 2 || !is_side((*list)[0]) || !is_side((*list)[1]))
        return config.unsupported(name, "a number of pixels, or a list of two: height and width");
    return Extent{static_cast<std::uint32_t>((*list)[0]), static_cast<std::uint32_t>((*list)[1])};
}

Result<void> read_image_sizes(const Config& config, std::uint32_t image, std::uint32_t patch, VisionConfig& c) {
    VKFORMER_TRY(const Extent whole, read_extent(config, "image_size", image));
    VKFORMER_TRY(const Extent part, read_extent(config, "patch_size", patch));
    VKFORMER_TRY(c.channels, config.unsigned_integer("num_channels", {.fallback = 3, .min = 1, .max = 1024}));
    c.image_height = whole.height, c.image_width = whole.width;
    c.patch_height = part.height, c.patch_width = part.width;
    const std::string required = c.required_size();
    if (!required.empty()) return config.unsupported("patch_size", required);
    return {};
}

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
    VKFORMER_TRY(const double eps, config.real("layer_norm_eps", {.fallback = defaults.norm_eps, .min = 0, .max = 1}));
    c.norm_eps = static_cast<float>(eps);
    VKFORMER_TRY(c.activation, read_activation(config, "hidden_act", defaults.activation));
    if (c.hidden_size % c.heads != 0)
        return config.unsupported("num_attention_heads", "a divisor of hidden_size = " + std::to_string(c.hidden_size));
    return {};
}

Result<Config> tower_config(const Config& config, const std::string& name) {
    return config.object(config.has(name + "_dict") ? name + "_dict" : name);
}

Result<std::vector<EncoderLayerWeights>> read_tower_layers(const WeightReader& read, const EncoderLayerConfig& c,
                                                           const TowerNames& names, const TowerBiases& biases) {
    const std::uint64_t d = c.hidden_size, inner = c.intermediate_size;
    std::vector<EncoderLayerWeights> layers(c.layers);
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const auto name = [&](std::string_view part) {
            return std::string(names.layer) + std::to_string(i) + "." + std::string(part);
        };
        const auto scale = [&](std::string_view factors, Projection& projection) -> Result<void> {
            if (factors.empty()) return {};
            VKFORMER_TRY(const TensorData data, read.tensor(name(factors), {d}));
            VKFORMER_TRY(const std::vector<float> values, floats_of(data));
            VKFORMER_TRY(projection, scaled_rows(projection, values));
            return {};
        };
        EncoderLayerWeights& l = layers[i];
        VKFORMER_TRY(l.query, read.projection(name(names.query), d, d, biases.query));
        VKFORMER_TRY(l.key, read.projection(name(names.key), d, d, biases.key));
        VKFORMER_TRY(l.value, read.projection(name(names.value), d, d, biases.value));
        VKFORMER_TRY(l.output, read.projection(name(names.output), d, d, biases.output));
        VKFORMER_CHECK(scale(names.attention_scale, l.output));
        VKFORMER_TRY(l.attention_norm, read.norm(name(names.attention_norm), d, true));
        const bool is_joined = names.gate == names.up;
        VKFORMER_TRY(l.up, read.projection(name(names.up), is_joined ? 2 * inner : inner, d, biases.feed_forward));
        if (is_joined) {
            l.gate = rows_of(l.up, 0, inner);
            l.up = rows_of(l.up, inner, inner);
        } else if (!names.gate.empty()) {
            VKFORMER_TRY(l.gate, read.projection(name(names.gate), inner, d, biases.feed_forward));
        }
        VKFORMER_TRY(l.down, read.projection(name(names.down), d, inner, biases.feed_forward));
        VKFORMER_CHECK(scale(names.feed_forward_scale, l.down));
        VKFORMER_TRY(l.feed_forward_norm, read.norm(name(names.feed_forward_norm), d, true));
    }
    return layers;
}

Result<Projection> scaled_rows(const Projection& projection, std::span<const float> factors) {
    const auto scaled = [&](const TensorData& data) -> Result<TensorData> {
        if (data.bytes.empty()) return data;
        VKFORMER_TRY(std::vector<float> values, floats_of(data));
        const std::size_t width = values.size() / factors.size();
        for (std::size_t i = 0; i < values.size(); ++i) values[i] *= factors[i / width];
        return float_tensor(data.shape, std::move(values));
    };
    Projection p;
    VKFORMER_TRY(p.weight, scaled(projection.weight));
    VKFORMER_TRY(p.bias, scaled(projection.bias));
    return p;
}

Result<float> read_scalar(const WeightReader& read, const std::string& name, const Shape& shape) {
    VKFORMER_TRY(const TensorData data, read.tensor(name, shape));
    float value = 0;
    VKFORMER_CHECK(convert(data.dtype, data.bytes, 0, std::span(&value, 1)));
    return value;
}

Result<double> read_logit_scale(const WeightReader& read, const Shape& shape) {
    VKFORMER_TRY(const float logarithm, read_scalar(read, "logit_scale", shape));
    constexpr float kLargestLogarithm = 50;  // models have 4.6; from 88 on its exponential is infinite
    if (std::abs(logarithm) > kLargestLogarithm)
        return Error{ErrorCode::CorruptFile, read.source() + ": logit_scale is " + formats::shown(logarithm) +
                                                 ", expected a logarithm from -50 to 50"};
    return std::exp(static_cast<double>(logarithm));
}

namespace {

Result<ProblemType> read_problem(const Config& config) {
    VKFORMER_TRY(const std::string problem, config.string("problem_type", "single_label_classification"));
    if (problem == "single_label_classification") return ProblemType::one_label;
    if (problem == "multi_label_classification") return ProblemType::many_labels;
    if (problem == "regression") return ProblemType::regression;
    return config.unsupported("problem_type", "single_label_classification, multi_label_classification, regression");
}

}  // namespace

Result<void> read_image_labels(const Config& config, VisionConfig& c) {
    VKFORMER_TRY(c.problem, read_problem(config));
    VKFORMER_TRY(const Config names, config.object("id2label"));
    const std::size_t count = names.names().size();
    if (count == 0) {
        VKFORMER_TRY(c.labels, config.unsigned_integer("num_labels", {.fallback = 2, .min = 1, .max = 1u << 20}));
        return {};
    }
    c.labels = static_cast<std::uint32_t>(count);
    for (std::size_t i = 0; i < count; ++i) {
        VKFORMER_TRY(auto name, names.string(std::to_string(i)));
        c.label_names.push_back(std::move(name));
    }
    return {};
}

Result<TensorData> read_patches(const WeightReader& read, const std::string& name, const VisionConfig& c) {
    VKFORMER_TRY(TensorData data, read.tensor(name, {c.hidden_size, c.channels, c.patch_height, c.patch_width}));
    data.shape = {c.hidden_size, c.patch_elements()};
    return data;
}

Result<TensorData> embed_places(const VisionConfig& c, const TensorData& positions,
                                const std::vector<TensorData>& special_tokens, const TensorData& bias) {
    VKFORMER_TRY(std::vector<float> table, floats_of(positions));
    const std::size_t width = c.hidden_size;
    const auto add_to = [&](std::size_t token, const std::vector<float>& addend) {
        for (std::size_t i = 0; i < width; ++i) table[token * width + i] += addend[i];
    };
    for (std::size_t token = 0; token < special_tokens.size(); ++token) {
        VKFORMER_TRY(const std::vector<float> special, floats_of(special_tokens[token]));
        add_to(token, special);
    }
    if (!bias.bytes.empty()) {
        VKFORMER_TRY(const std::vector<float> every, floats_of(bias));
        for (std::size_t token = special_tokens.size(); token < c.tokens(); ++token) add_to(token, every);
    }
    return float_tensor({c.tokens(), width}, std::move(table));
}

}  // namespace vkformer::models
