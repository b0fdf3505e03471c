// SPDX-License-Identifier: MIT
#include "models/decoder_loading.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "core/try.hpp"
#include "formats/expect.hpp"

namespace vkformer::models {

using formats::Config;

// ---- config ---------------------------------------------------------------------------------------------------------

Result<DecoderConfig> read_sizes(const Config& config, const SizeDefaults& defaults) {
    const formats::Expect<std::uint32_t> count = {.min = 1, .max = 1u << 20};
    DecoderConfig c;
    VKFORMER_TRY(c.vocab_size, config.unsigned_integer("vocab_size", {.min = 1, .max = 1u << 24}));
    VKFORMER_TRY(c.hidden_size, config.unsigned_integer("hidden_size", count));
    if (defaults.intermediate_size != 0u) {
        VKFORMER_TRY(c.intermediate_size,
                     config.unsigned_integer("intermediate_size",
                                             {.fallback = defaults.intermediate_size, .min = 1, .max = 1u << 20}));
    }
    VKFORMER_TRY(c.heads, config.unsigned_integer("num_attention_heads", count));
    const std::uint32_t kv_heads = defaults.kv_heads > 0 ? defaults.kv_heads : c.heads;
    VKFORMER_TRY(c.kv_heads,
                 config.unsigned_integer("num_key_value_heads", {.fallback = kv_heads, .min = 1, .max = 1u << 20}));
    const std::uint32_t head_dim = defaults.head_dim > 0 ? defaults.head_dim : c.hidden_size / c.heads;
    VKFORMER_TRY(c.head_dim, config.unsigned_integer("head_dim", {.fallback = head_dim, .min = 1, .max = 1u << 16}));
    VKFORMER_TRY(c.max_positions, config.unsigned_integer("max_position_embeddings",
                                                          {.fallback = defaults.positions, .min = 1, .max = 1u << 28}));
    VKFORMER_TRY(const std::uint32_t layers,
                 config.unsigned_integer("num_hidden_layers", {.fallback = defaults.layers, .min = 1, .max = 4096}));
    VKFORMER_TRY(const double eps, config.real("rms_norm_eps", {.fallback = defaults.norm_eps, .min = 0, .max = 1}));
    if (!config.has("head_dim") && defaults.head_dim == 0 && c.hidden_size % c.heads != 0)
        return config.unsupported("num_attention_heads", "a divisor of hidden_size = " + std::to_string(c.hidden_size));
    if (c.heads % c.kv_heads != 0)
        return config.unsupported("num_key_value_heads",
                                  "a divisor of num_attention_heads = " + std::to_string(c.heads));
    c.norm_eps = static_cast<float>(eps);
    c.layers.assign(layers, {});
    c.attention_scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
    return c;
}

Result<void> read_step_limits(const Config& config, std::string_view field, DecoderConfig& c) {
    VKFORMER_TRY(const auto limits, config.range(field));
    if (!limits) return {};
    constexpr double kMost = 1e6;  // a step as long as that forgets all that was before
    if (!(limits->first >= 0 && limits->first <= kMost))
        return config.unsupported(field, "a least step of 0 to 1e6, and a largest one");
    c.scan.least_step = static_cast<float>(limits->first);
    if (limits->second <= kMost) c.scan.most_step = static_cast<float>(limits->second);
    return {};
}

Result<std::vector<bool>> read_layer_types(const Config& config, std::size_t layers, std::string_view other) {
    VKFORMER_TRY(const auto types, config.strings("layer_types"));
    std::vector<bool> found(layers, false);
    if (types.empty()) return found;
    if (types.size() != layers)
        return Error{ErrorCode::CorruptFile, config.file_name() + ": \"layer_types\" has " +
                                                 std::to_string(types.size()) + " entries, the model has " +
                                                 std::to_string(layers) + " layers"};
    for (std::size_t i = 0; i < layers; ++i) {
        found[i] = types[i] == other;
        if (!found[i] && types[i] != "full_attention")
            return config.unsupported("layer_types", "full_attention, " + std::string(other));
    }
    return found;
}

Result<std::vector<bool>> read_sliding_layers(const Config& config, std::size_t layers) {
    return read_layer_types(config, layers, "sliding_attention");
}

Result<std::vector<bool>> read_sliding_layers(const Config& config, std::size_t layers, std::uint32_t usual) {
    if (config.has("layer_types")) return read_sliding_layers(config, layers);
    VKFORMER_TRY(const auto pattern, config.unsigned_integer("sliding_window_pattern", {.fallback = usual, .min = 1}));
    std::vector<bool> slides(layers);
    for (std::size_t i = 0; i < layers; ++i) slides[i] = (i + 1) % pattern != 0;
    return slides;
}

bool is_null(const Config& config, std::string_view name) { return config.shown(name) == "null"; }

Result<std::uint32_t> read_window(const Config& config, const std::vector<bool>& slides, std::uint32_t fallback) {
    if (is_null(config, "sliding_window") && std::ranges::find(slides, true) != slides.end())
        return Error{ErrorCode::UnsupportedConfig,
                     config.file_name() + R"(: "sliding_window" is null, supported: a number where layers slide)"};
    return config.unsigned_integer("sliding_window", {.fallback = fallback, .min = 1, .max = 1u << 28});
}

// ---- rotary positions -----------------------------------------------------------------------------------------------

void stretch_linear(Rope& rope, double factor) {
    for (double& theta : rope.frequencies) theta /= factor;
}

void stretch_yarn(Rope& rope, const Yarn& yarn) {
    const double dim = 2 * static_cast<double>(rope.frequencies.size());
    const auto dim_that_turns = [&](double turns) {
        return dim * std::log(yarn.context / (turns * 2 * std::numbers::pi)) / (2 * std::log(yarn.theta));
    };
    double first = dim_that_turns(yarn.fast), last = dim_that_turns(yarn.slow);
    if (yarn.truncates) {
        first = std::floor(first);
        last = std::ceil(last);
    }
    first = std::max(first, 0.0);
    last = std::min(last, dim - 1);
    if (first == last) last += 0.001;
    for (std::size_t k = 0; k < rope.frequencies.size(); ++k) {
        const double stretch = std::clamp((static_cast<double>(k) - first) / (last - first), 0.0, 1.0);
        rope.frequencies[k] *= (1 - stretch) + stretch / yarn.factor;
    }
    rope.scale = yarn_scale(yarn.factor, 1);
}

namespace {

/// What the scaling functions read.
struct RopeFields : RopeSource {
    std::uint64_t rotary_dim;
};

Result<double> positive(const Config& config, std::string_view name, std::optional<double> fallback = {}) {
    return config.real(name, {.fallback = fallback, .min = 1e-6, .max = 1e9});
}

/// Llama 3.1 (Meta 2024): long waves are stretched, short ones kept, those between blended.
Result<void> scale_llama3(const RopeFields& fields, const DecoderConfig& decoder, Rope& rope) {
    VKFORMER_TRY(const double factor, positive(fields.scaling, "factor"));
    VKFORMER_TRY(const double low, positive(fields.scaling, "low_freq_factor"));
    VKFORMER_TRY(const double high, positive(fields.scaling, "high_freq_factor"));
    VKFORMER_TRY(const double context, positive(fields.scaling, "original_max_position_embeddings",
                                                static_cast<double>(decoder.max_positions)));
    for (double& theta : rope.frequencies) {
        const double turns = context * theta / (2 * std::numbers::pi);  // within the original context
        if (turns > high) continue;
        const double keep = turns < low ? 0 : (turns - low) / (high - low);
        theta = (1 - keep) * theta / factor + keep * theta;
    }
    return {};
}

Result<void> scale_yarn(const RopeFields& fields, const DecoderConfig& decoder, Rope& rope) {
    const Config& scaling = fields.scaling;
    Yarn yarn{.theta = fields.theta, .factor = 1, .context = 1};
    VKFORMER_TRY(yarn.factor, positive(scaling, "factor"));
    VKFORMER_TRY(yarn.context,
                 positive(scaling, "original_max_position_embeddings", static_cast<double>(decoder.max_positions)));
    VKFORMER_TRY(yarn.fast, positive(scaling, "beta_fast", 32));
    VKFORMER_TRY(yarn.slow, positive(scaling, "beta_slow", 1));
    VKFORMER_TRY(yarn.truncates, scaling.boolean("truncate", true));
    stretch_yarn(rope, yarn);
    const formats::Expect<double> weight = {.fallback = 0, .min = 0, .max = 1e3};
    VKFORMER_TRY(const double turned, scaling.real("mscale", weight));
    VKFORMER_TRY(const double all, scaling.real("mscale_all_dim", weight));
    if (turned > 0 && all > 0) rope.scale = yarn_scale(yarn.factor, turned) / yarn_scale(yarn.factor, all);
    VKFORMER_TRY(rope.scale, positive(scaling, "attention_factor", rope.scale));
    return {};
}

/// A factor for each frequency, which it is divided by.
Result<std::vector<double>> divided(const Config& scaling, std::string_view field, std::vector<double> frequencies) {
    VKFORMER_TRY(const auto factors, scaling.reals(field));
    if (factors.size() != frequencies.size())
        return scaling.unsupported(field, std::to_string(frequencies.size()) + " numbers");
    for (std::size_t k = 0; k < factors.size(); ++k) {
        if (!(factors[k] > 0)) return scaling.unsupported(field, "positive numbers");
        frequencies[k] /= factors[k];
    }
    return frequencies;
}

/// LongRoPE (Ding et al. 2024): short factors within the original context, long ones for sequences beyond it.
Result<void> scale_longrope(const RopeFields& fields, const Config& config, DecoderConfig& decoder, Rope& rope) {
    const Config& scaling = fields.scaling;
    const Config& holder = config.has("original_max_position_embeddings") ? config : scaling;
    VKFORMER_TRY(const auto context,
                 holder.unsigned_integer("original_max_position_embeddings",
                                         {.fallback = decoder.max_positions, .min = 2, .max = 1u << 28}));
    double factor = static_cast<double>(decoder.max_positions) / context;
    if (!holder.has("original_max_position_embeddings")) {
        VKFORMER_TRY(factor, positive(scaling, "factor"));
    } else if (scaling.has("factor") && !scaling.has("attention_factor")) {
        // transformers 4 goes by the ratio, 5 by the factor.
        VKFORMER_TRY(const double given, positive(scaling, "factor"));
        if (std::abs(given - factor) > 1e-6 * factor)
            return scaling.unsupported("factor", "max_position_embeddings / original_max_position_embeddings, here " +
                                                     formats::shown(factor) + " (versions of transformers disagree)");
    }
    const double usual = factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(context)));
    VKFORMER_TRY(rope.scale, positive(scaling, "attention_factor", usual));
    if (context < decoder.max_positions && scaling.has("long_factor")) {
        Rope extended = rope;
        VKFORMER_TRY(extended.frequencies, divided(scaling, "long_factor", rope.frequencies));
        decoder.extended_ropes.push_back(std::move(extended));
        decoder.extended_positions = decoder.max_positions;
    }
    VKFORMER_TRY(rope.frequencies, divided(scaling, "short_factor", rope.frequencies));
    decoder.max_positions = std::min(decoder.max_positions, context);
    return {};
}

constexpr std::string_view kProportional = "proportional";

/// How the positions turn that `fields` describe. Shrinks decoder.max_positions for LongRoPE, see read_rope.
Result<Rope> rope_of(const RopeFields& fields, const Config& config, DecoderConfig& decoder) {
    Rope rope;
    rope.frequencies = graph::rope_frequencies(fields.rotary_dim, fields.theta);
    const std::string& type = fields.type;
    if (type == "default") return rope;
    if (type == "linear") {
        VKFORMER_TRY(const double factor, positive(fields.scaling, "factor"));
        stretch_linear(rope, factor);
    } else if (type == "llama3") {
        VKFORMER_CHECK(scale_llama3(fields, decoder, rope));
    } else if (type == kProportional) {
        rope.frequencies = graph::rope_frequencies(decoder.head_dim, fields.theta);
        std::fill(rope.frequencies.begin() + static_cast<std::ptrdiff_t>(fields.rotary_dim / 2), rope.frequencies.end(),
                  0.0);
        VKFORMER_TRY(const double factor, positive(fields.scaling, "factor", 1));
        stretch_linear(rope, factor);
    } else if (type == "yarn") {
        VKFORMER_CHECK(scale_yarn(fields, decoder, rope));
    } else if (type == "longrope" || type == "su") {
        VKFORMER_CHECK(scale_longrope(fields, config, decoder, rope));
    } else {
        return fields.scaling.unsupported(fields.scaling.has("rope_type") ? "rope_type" : "type",
                                          "default, linear, llama3, yarn, longrope, proportional");
    }
    return rope;
}

/// Elements of a head that are turned.
Result<std::uint64_t> rotary_dim_of(const Config& config, const RopeSource& source, const DecoderConfig& decoder,
                                    bool turns_part, double usual) {
    const Config& holder = source.scaling.has("partial_rotary_factor") ? source.scaling : config;
    VKFORMER_TRY(const double share, holder.real("partial_rotary_factor", {.fallback = usual, .min = 0, .max = 1}));
    const bool is_proportional = source.type == kProportional;
    if (is_proportional && decoder.head_dim % 2 == 0)
        return 2 * static_cast<std::uint64_t>(share * decoder.head_dim / 2);
    if (!turns_part && share != 1 && source.type != "default")
        return holder.unsupported("partial_rotary_factor", "1 where positions are scaled (transformers fails there)");
    const auto dim = static_cast<std::uint64_t>((turns_part ? share : 1) * decoder.head_dim);
    if (dim == 0 || dim % 2 != 0)
        return config.unsupported("head_dim", "an even number of elements to turn, here " + std::to_string(dim));
    return dim;
}

/// Reads an object that is rope_parameters, a part of it, or rope_scaling.
Result<RopeSource> rope_source(const Config& config, const Config& object, const RopeDefaults& defaults) {
    VKFORMER_TRY(const double outer, positive(config, defaults.theta_name, defaults.theta));
    VKFORMER_TRY(const double theta, positive(object, "rope_theta", outer));
    VKFORMER_TRY(std::string type, object.string(object.has("rope_type") ? "rope_type" : "type", defaults.type));
    return RopeSource{object, std::move(type), theta};
}

/// What transformers 5 would pass over in silence where rope_scaling stands beside rope_parameters, which is `overridden`.
Result<void> refuse_contradictions(const Config& config, const Config& scaling, const RopeSource& overridden,
                                   const RopeDefaults& defaults) {
    if (!defaults.object.empty()) {  // there rope_scaling changes single fields of the object
        if (overridden.type == "default") return {};
        return config.unsupported("rope_scaling", "null where rope_parameters scales positions already");
    }
    const bool says_theta = scaling.has("rope_theta") || config.has("rope_theta");
    if (says_theta || overridden.theta == defaults.theta) return {};
    return config.unsupported("rope_scaling",
                              "an object with a \"rope_theta\" of its own, since that of rope_parameters, " +
                                  formats::shown(overridden.theta) +
                                  ", is not the usual one, and transformers 5 drops it where there is rope_scaling");
}

}  // namespace

Result<RopeSource> find_rope(const Config& config, const RopeDefaults& defaults) {
    VKFORMER_TRY(const Config parameters, config.object("rope_parameters"));
    VKFORMER_TRY(const Config scaling, config.object("rope_scaling"));
    const bool is_nested = !defaults.object.empty() && !parameters.is_empty();
    if (is_nested) {
        constexpr std::array<std::string_view, 2> kObjects = {"full_attention", "sliding_attention"};
        if (const auto others = parameters.unknown_names(kObjects); !others.empty())
            return parameters.unsupported(others.front(), "only the objects full_attention and sliding_attention");
    }
    VKFORMER_TRY(const Config object, is_nested ? parameters.object(defaults.object) : Result<Config>(parameters));
    VKFORMER_TRY(RopeSource source, rope_source(config, object, defaults));
    if (!defaults.is_scaled_by_rope_scaling || scaling.is_empty()) return source;
    VKFORMER_CHECK(refuse_contradictions(config, scaling, source, defaults));
    VKFORMER_TRY(RopeSource scaled, rope_source(config, scaling, defaults));
    if (is_nested && !scaling.has("rope_theta")) scaled.theta = source.theta;
    return scaled;
}

Result<Rope> read_rope(const Config& config, DecoderConfig& decoder, const RopeDefaults& defaults) {
    const auto rope_from = [&](const RopeSource& source, DecoderConfig& c) -> Result<Rope> {
        VKFORMER_TRY(const std::uint64_t dim,
                     rotary_dim_of(config, source, c, defaults.turns_part, defaults.turned_part));
        return rope_of({source, dim}, config, c);
    };
    VKFORMER_TRY(const RopeSource source, find_rope(config, defaults));
    if (config.has("rope_scaling") && config.has("rope_parameters") && defaults.object.empty()) {
        VKFORMER_TRY(const Config overridden, config.object("rope_parameters"));  // must make sense all the same
        VKFORMER_TRY(const RopeSource other, rope_source(config, overridden, defaults));
        DecoderConfig unused = decoder;
        VKFORMER_CHECK(rope_from(other, unused));
    }
    return rope_from(source, decoder);
}

}  // namespace vkformer::models
