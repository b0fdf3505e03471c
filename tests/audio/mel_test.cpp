// SPDX-License-Identifier: MIT
/// The log-mel spectrogram against Hugging Face's WhisperFeatureExtractor, and what convolutions make of it.
#include "audio/mel.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numbers>

#include "support/bounds.hpp"
#include "support/catch.h"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;

/// The reference transforms in float32: a sum of 400 products is off by some 20 · 2^-24, and a bin that lies 8 decades
/// below the loudest has lost most of its digits; what is compared is a logarithm, a quarter of it, of size one.
constexpr double kMelBound = 2e-5;

std::vector<float> tone(double hertz, std::size_t count, double rate) {
    std::vector<float> samples(count);
    for (std::size_t i = 0; i < count; ++i)
        samples[i] = static_cast<float>(std::sin(2 * std::numbers::pi * hertz * static_cast<double>(i) / rate));
    return samples;
}

Error refused_mel_config(const std::string& config) {
    const TemporaryFolder folder;
    std::ofstream(folder / "preprocessor_config.json") << config;
    const auto options = audio::read_mel_options(folder.path(), 80);
    REQUIRE_FALSE(options);
    return options.error();
}

}  // namespace

TEST_CASE("the spectrogram of half a minute is Hugging Face's", "[audio][golden]") {
    const std::uint32_t bins = GENERATE(80u, 128u);
    const Golden golden("speech/features.safetensors");
    const auto expected = golden.floats("bins" + std::to_string(bins));
    constexpr std::size_t kFrames = 3000, kEvery = 13;
    const auto all = audio::LogMel({.bins = bins}).spectrogram(golden.floats("clip"), kFrames);
    REQUIRE(all.size() == kFrames * bins);
    std::vector<float> found;
    for (std::size_t frame = 0; found.size() < expected.size(); frame += kEvery)
        for (std::size_t bin = 0; bin < bins; ++bin) found.push_back(all[frame * bins + bin]);
    CHECK(relative_error(std::span<const float>(found), std::span<const float>(expected)) < kMelBound);
}

TEST_CASE("the spectrograms of small models are Hugging Face's", "[audio][golden]") {
    const std::string name = GENERATE("whisper_d30_h3_h5", "whisper_d20_untied", "whisper_english", "whisper_texts");
    const Golden golden("speech/" + name + "/golden.safetensors");
    const Shape shape = golden.shape("input_features");
    const auto bins = static_cast<std::uint32_t>(shape[2]);
    const audio::LogMel mel(must(audio::read_mel_options(goldens_dir() / "speech" / name, bins)));
    std::vector<float> found;
    for (std::uint64_t clip = 0; clip < shape[0]; ++clip) {
        const auto one = mel.spectrogram(golden.floats("clip" + std::to_string(clip)), shape[1]);
        found.insert(found.end(), one.begin(), one.end());
    }
    const auto expected = golden.floats("input_features");
    REQUIRE(found.size() == expected.size());
    CHECK(relative_error(std::span<const float>(found), std::span<const float>(expected)) < kMelBound);
}

TEST_CASE("a tone is heard in the bin of its pitch, at any length, and silence at the floor", "[audio]") {
    const audio::LogMel mel({});
    std::size_t before = 0;
    for (const double hertz : {300.0, 900.0, 2500.0, 7000.0}) {
        CAPTURE(hertz);
        const auto frames = mel.spectrogram(tone(hertz, 16000, 16000), 100);
        const auto middle = frames.begin() + 50 * 80;
        const auto bin = static_cast<std::size_t>(std::max_element(middle, middle + 80) - middle);
        CHECK(bin > before);
        before = bin;
    }
    for (const std::size_t count : {0u, 1u, 199u, 201u, 16000u, 20000u}) {
        const auto frames = mel.spectrogram(std::vector<float>(count, 0), 100);
        CHECK(std::ranges::all_of(frames, [](float value) { return value == -1.5f; }));  // (log10(1e-10) + 4) / 4
    }
    // What lies behind the frames is heard by those whose windows reach it, the last two; alone, they hear their end reflected.
    constexpr std::ptrdiff_t kBefore = 98 * 80;
    const auto longer = mel.spectrogram(tone(440, 20000, 16000), 100),
               alone = mel.spectrogram(tone(440, 16000, 16000), 100);
    CHECK(std::equal(longer.begin(), longer.begin() + kBefore, alone.begin()));
    CHECK_FALSE(std::equal(longer.begin() + kBefore, longer.end(), alone.begin() + kBefore));
    CHECK(mel.spectrogram(std::vector<float>{0.5f}, 1).size() == 80);
}

TEST_CASE("windows hold the frames that two convolutions read", "[audio]") {
    constexpr std::size_t kBins = 3, kFrames = 6, kWidth = 3 * kBins + 1;
    std::vector<float> spectrogram(kFrames * kBins);
    for (std::size_t i = 0; i < spectrogram.size(); ++i) spectrogram[i] = static_cast<float>(i + 1);
    const auto windows = audio::windows_of(spectrogram, kBins);
    REQUIRE(windows.size() == kFrames / 2 * 3 * kWidth);
    for (std::size_t position = 0; position < kFrames / 2; ++position) {
        for (std::size_t tap = 0; tap < 3; ++tap) {
            CAPTURE(position, tap);
            const float* window = windows.data() + (position * 3 + tap) * kWidth;
            const auto output = static_cast<std::ptrdiff_t>(2 * position + tap) - 1;
            const bool is_inside = output >= 0 && output < static_cast<std::ptrdiff_t>(kFrames);
            CHECK(window[kWidth - 1] == (is_inside ? 1.0f : 0.0f));
            for (std::ptrdiff_t k = 0; k < 3; ++k) {
                const std::ptrdiff_t frame = output + k - 1;
                const bool is_there = is_inside && frame >= 0 && frame < static_cast<std::ptrdiff_t>(kFrames);
                const auto first = static_cast<float>(frame * static_cast<std::ptrdiff_t>(kBins) + 1);
                CHECK(window[static_cast<std::size_t>(k) * kBins] == (is_there ? first : 0.0f));
            }
        }
    }
}

TEST_CASE("preprocessors that hear otherwise are refused by name", "[audio][errors]") {
    CHECK_THAT(refused_mel_config(R"({"dither": 0.001})").message, ContainsSubstring("dither"));
    CHECK_THAT(refused_mel_config(R"({"padding_value": 1})").message, ContainsSubstring("padding_value"));
    CHECK_THAT(refused_mel_config(R"({"n_fft": 401})").message, ContainsSubstring("n_fft"));
    CHECK_THAT(refused_mel_config(R"({"feature_size": 81})").message, ContainsSubstring("80 mel bins"));
    CHECK_THAT(refused_mel_config(R"({"do_normalize": true})").message, ContainsSubstring("do_normalize"));
    CHECK_THAT(refused_mel_config(R"({"feature_extractor_type": "SpeechT5FeatureExtractor"})").message,
               ContainsSubstring("feature_extractor_type"));
    CHECK_THAT(refused_mel_config(R"({"hop_length": 0})").message, ContainsSubstring("hop_length"));
    CHECK_THAT(refused_mel_config(R"({"sampling_rate": 4000000000})").message, ContainsSubstring("sampling_rate"));
    const TemporaryFolder empty;
    CHECK(must(audio::read_mel_options(empty.path(), 128)).bins == 128);
}

}  // namespace vkformer::tests
