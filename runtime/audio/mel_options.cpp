// SPDX-License-Identifier: MIT
#include <string>
#include <string_view>

#include "audio/mel.hpp"
#include "core/try.hpp"
#include "formats/config.hpp"

namespace vkformer::audio {
namespace {

constexpr std::string_view kExtractor = "WhisperFeatureExtractor";

}  // namespace

Result<MelOptions> read_mel_options(const std::filesystem::path& folder, std::uint32_t bins) {
    VKFORMER_TRY(const auto config, formats::Config::open_if_present(folder / "preprocessor_config.json"));
    MelOptions o;
    VKFORMER_TRY(o.bins, config.unsigned_integer("feature_size", {.fallback = bins, .min = 1, .max = 1024}));
    VKFORMER_TRY(o.sample_rate,
                 config.unsigned_integer("sampling_rate", {.fallback = 16000, .min = 1000, .max = 1u << 20}));
    VKFORMER_TRY(o.window, config.unsigned_integer("n_fft", {.fallback = 400, .min = 16, .max = 1u << 14}));
    VKFORMER_TRY(o.hop, config.unsigned_integer("hop_length", {.fallback = 160, .min = 1, .max = 1u << 14}));
    VKFORMER_TRY(const double dither, config.real("dither", {.fallback = 0}));
    VKFORMER_TRY(const double padding, config.real("padding_value", {.fallback = 0}));
    VKFORMER_TRY(const bool normalizes, config.boolean("do_normalize", false));
    VKFORMER_TRY(const std::string type, config.string("feature_extractor_type", std::string(kExtractor)));
    if (type != kExtractor) return config.unsupported("feature_extractor_type", kExtractor);
    if (normalizes) return config.unsupported("do_normalize", "false");
    if (dither != 0) return config.unsupported("dither", "0");
    if (padding != 0) return config.unsupported("padding_value", "0");
    if (o.window % 2 != 0) return config.unsupported("n_fft", "an even number");
    if (o.bins != bins) return config.unsupported("feature_size", "the model's " + std::to_string(bins) + " mel bins");
    return o;
}

}  // namespace vkformer::audio
