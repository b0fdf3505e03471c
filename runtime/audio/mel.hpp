// SPDX-License-Identifier: MIT
/// The log-mel spectrogram that Whisper hears (Radford et al. 2022, section 2.2), as transformers'
/// WhisperFeatureExtractor makes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "vkformer/result.hpp"

namespace vkformer::audio {

struct MelOptions {
    std::uint32_t sample_rate = 16000;  ///< Hz
    std::uint32_t window = 400;         ///< samples of a frame, and the length of its Fourier transform
    std::uint32_t hop = 160;            ///< samples from frame to frame
    std::uint32_t bins = 80;
};

/// feature_size, sampling_rate, n_fft and hop_length of a folder's preprocessor_config.json; without the file,
/// Whisper's with `bins`. Errors: CorruptFile, UnsupportedConfig (dither, another padding value).
Result<MelOptions> read_mel_options(const std::filesystem::path& folder, std::uint32_t bins);

/// Immutable and thread-safe.
class LogMel {
public:
    explicit LogMel(const MelOptions& options);

    const MelOptions& options() const noexcept { return options_; }

    /// `frames` frames of the samples, zeros behind their end: [frames, bins]. A frame is the power spectrum under a
    /// Hann window, centred on its sample, with the signal mirrored at both ends, in triangles on Slaney's mel scale;
    /// of that the logarithm, at most 8 decades below the loudest, (log10 + 4) / 4. Formed in double precision. The
    /// signal's end is that of the samples, or of the frames where that is later.
    std::vector<float> spectrogram(std::span<const float> samples, std::size_t frames) const;

private:
    MelOptions options_;
    std::vector<double> fourier_;  // [2 · frequencies, window]: cosines, then sines, under the window
    std::vector<double> filters_;  // [bins, frequencies]
};

/// What Seq2SeqWeights::Stem reads of a spectrogram [2 · positions, bins]: [positions, 3, 3 · bins + 1]. Convolution
/// output t = 2i − 1, 2i, 2i + 1 of position i needs frames t − 1, t, t + 1 and a one for the bias; frames outside are
/// zeros, and outputs outside are all zeros, the one included.
std::vector<float> windows_of(std::span<const float> spectrogram, std::size_t bins);

}  // namespace vkformer::audio
