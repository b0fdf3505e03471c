// SPDX-License-Identifier: MIT
// The rotary positions of a decoder in a GGUF file, and how they are stretched.
#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/try.hpp"
#include "models/gguf_decoder_reader.hpp"

namespace vkformer::models {
namespace {

formats::Expect<double> yarn_turns(double usual) { return {.fallback = usual, .min = 1e-6, .max = 1e9}; }

}  // namespace

Result<void> GgufDecoderReader::read_ropes() {
    DecoderConfig& c = config();
    std::uint32_t width = c.head_dim;
    for (const DecoderConfig::Layer& layer : c.layers)  // those without a window turn by this rope
        if (layer.window == 0) width = c.head_dim_of(layer);
    VKFORMER_TRY(const auto rotary_dim,
                 file_.unsigned_integer(key("rope.dimension_count"), {.fallback = width, .min = 2, .max = width}));
    if (rotary_dim % 2 != 0) return file_.unsupported(key("rope.dimension_count"), "an even number");
    VKFORMER_TRY(const double theta,
                 file_.real(key("rope.freq_base"), {.fallback = architecture_.rope_theta, .min = 1, .max = 1e12}));
    Rope rope{.frequencies = graph::rope_frequencies(rotary_dim, theta), .pairing = architecture_.pairing};
    VKFORMER_CHECK(scale_rope(rope, theta));
    c.ropes = {rope};
    if (architecture_.window_rope_theta > 0 || !architecture_.stretches_windows) {
        const double usual = architecture_.stretches_windows ? architecture_.window_rope_theta : theta;
        VKFORMER_TRY(const double local,
                     file_.real(key("rope.freq_base_swa"), {.fallback = usual, .min = 1, .max = 1e12}));
        std::uint32_t local_dim = rotary_dim;
        if (architecture_.is_gemma4) {
            VKFORMER_TRY(local_dim, file_.unsigned_integer(key("rope.dimension_count_swa"),
                                                           {.fallback = c.head_dim, .min = 2, .max = c.head_dim}));
        }
        if (local_dim % 2 != 0) return file_.unsupported(key("rope.dimension_count_swa"), "an even number");
        c.ropes.push_back({.frequencies = graph::rope_frequencies(local_dim, local), .pairing = architecture_.pairing});
    }
    // llama.cpp takes the key for this where an architecture need not turn positions, and for nothing elsewhere.
    bool turns = true;
    if (architecture_.is_granite) {
        VKFORMER_TRY(turns, file_.boolean(key("rope.scaling.finetuned"), true));
    }
    const bool turns_windows_only = architecture_.turns_windows_only && c.largest_window() > 0;
    for (std::size_t i = 0; turns && i < c.layers.size(); ++i)
        if (architecture_.has_rope(i) && (!turns_windows_only || c.layers[i].window > 0) &&
            c.layers[i].mixer == DecoderConfig::Mixer::attention)
            c.layers[i].rope = c.ropes.size() > 1 && c.layers[i].window > 0 ? 1 : 0;
    return {};
}

Result<void> GgufDecoderReader::check_yarn(double factor) const {
    for (const auto& [name, usual, other] :
         {std::tuple{"yarn_ext_factor", 1.0, 1.0}, std::tuple{"yarn_attn_factor", 1.0, yarn_scale(factor, 1)},
          std::tuple{"yarn_log_multiplier", 0.0, 0.0}}) {
        const std::string whole = key("rope.scaling." + std::string(name));
        VKFORMER_TRY(const double found, file_.real(whole, {.fallback = usual}));
        if (found != usual && !(std::abs(found - other) < 1e-5))
            return file_.unsupported(whole, usual == 0 ? "0" : "1");
    }
    return {};
}

Result<void> GgufDecoderReader::scale_latent(double factor) {
    const std::string name = key("rope.scaling.yarn_log_multiplier");
    VKFORMER_TRY(const double multiplier, file_.real(name, {.fallback = 0, .min = 0, .max = 100}));
    if (multiplier == 0) return file_.unsupported(name, "a number above 0");
    const double scale = yarn_scale(factor, multiplier / 0.1);
    config().attention_scale *= static_cast<float>(scale * scale);
    return {};
}

Result<void> GgufDecoderReader::scale_rope(Rope& rope, double theta) {
    DecoderConfig& c = config();
    VKFORMER_TRY(const std::string type, file_.string(key("rope.scaling.type"), "none"));
    VKFORMER_TRY(const double factor, file_.real(key("rope.scaling.factor"), {.fallback = 1, .min = 1e-6, .max = 1e9}));
    VKFORMER_TRY(const auto original, file_.unsigned_integer(key("rope.scaling.original_context_length"),
                                                             {.fallback = c.max_positions, .min = 1}));
    if (type == "linear") {
        stretch_linear(rope, factor);
    } else if (type == "yarn") {
        VKFORMER_CHECK(architecture_.has_latent_attention ? scale_latent(factor) : check_yarn(factor));
        Yarn yarn{.theta = theta, .factor = factor, .context = static_cast<double>(original)};
        VKFORMER_TRY(yarn.fast, file_.real(key("rope.scaling.yarn_beta_fast"), yarn_turns(yarn.fast)));
        VKFORMER_TRY(yarn.slow, file_.real(key("rope.scaling.yarn_beta_slow"), yarn_turns(yarn.slow)));
        VKFORMER_TRY(yarn.truncates, file_.boolean(key("rope.scaling.yarn_truncate"), !architecture_.is_gpt_oss));
        stretch_yarn(rope, yarn);
        if (architecture_.has_latent_attention) rope.scale = 1;  // all of a head is scaled
    } else if (type != "none" && type != "longrope") {
        return file_.unsupported(key("rope.scaling.type"), "none, linear, yarn, longrope");
    }
    // Llama 3's scaling and LongRoPE come as a table of divisors.
    if (read_.has("rope_freqs.weight")) VKFORMER_CHECK(divide(rope, "rope_freqs.weight"));
    // A file with LongRoPE need not say so by its type.
    if (type == "longrope" || (architecture_.has_long_rope && file_.has(key("rope.scaling.attn_factor"))) ||
        read_.has("rope_factors_short.weight")) {
        VKFORMER_TRY(rope.scale, file_.real(key("rope.scaling.attn_factor"), {.fallback = 1, .min = 1e-3, .max = 1e3}));
        Rope extended = rope;
        VKFORMER_CHECK(divide(rope, "rope_factors_short.weight"));
        if (original < c.max_positions && read_.has("rope_factors_long.weight")) {
            VKFORMER_CHECK(divide(extended, "rope_factors_long.weight"));
            c.extended_ropes.push_back(std::move(extended));
            c.extended_positions = c.max_positions;
        }
        c.max_positions = std::min(c.max_positions, original);
    }
    return {};
}

Result<void> GgufDecoderReader::divide(Rope& rope, const std::string& name) {
    VKFORMER_TRY(const TensorData data, read_.tensor(name, {rope.frequencies.size()}));
    std::vector<float> factors(rope.frequencies.size());
    VKFORMER_CHECK(convert(data.dtype, data.bytes, 0, std::span(factors)));
    for (std::size_t k = 0; k < factors.size(); ++k) {
        if (!(factors[k] > 0) || !std::isfinite(factors[k]))
            return Error{ErrorCode::CorruptFile, file_.file_name() + ": " + name + " must hold positive numbers"};
        rope.frequencies[k] /= double{factors[k]};
    }
    return {};
}

}  // namespace vkformer::models
