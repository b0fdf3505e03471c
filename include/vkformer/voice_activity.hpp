// SPDX-License-Identifier: MIT
/// Where in a sound somebody speaks, by Silero's network for voice activity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "vkformer/export.h"
#include "vkformer/result.hpp"

namespace vkformer {

/// How probabilities become speech and silence: names, defaults and meaning are those of faster-whisper 1.2's VadOptions; what has no
/// meaning is refused.
struct VadOptions {
    double threshold = 0.5;  ///< 0 to 1; a frame at least as probable is speech
    /// A frame less probable ends speech, one between the two goes on as the frame before. None: threshold − 0.15, at least 0.01
    /// or the threshold.
    std::optional<double> neg_threshold{};
    std::uint32_t min_speech_duration_ms = 0;  ///< shorter speech is passed over
    /// Seconds. Longer speech is cut where the last silence of more than 98 ms in it began, else as late as may be. More than
    /// a frame and the two pads.
    double max_speech_duration_s = std::numeric_limits<double>::infinity();
    std::uint32_t min_silence_duration_ms = 2000;  ///< shorter silence does not end speech
    std::uint32_t speech_pad_ms = 400;  ///< of sound that is kept at either side; half the silence where it is shorter

    friend bool operator==(const VadOptions&, const VadOptions&) = default;
};

/// Samples of a sound, the first and the one behind the last.
struct SampleRange {
    std::size_t start = 0, end = 0;
    friend bool operator==(const SampleRange&, const SampleRange&) = default;
};

/// Silero VAD of versions 5 and 6 for 16 kHz, on the calling thread of the CPU. The file is the user's:
/// silero_vad/data/silero_vad_16k.safetensors of the package silero-vad 6.2 (PyPI, MIT licence). Immutable and thread-safe; copies
/// share the weights.
class VKFORMER_API VoiceActivityDetector {
public:
    static constexpr std::uint32_t kSampleRate = 16000;  ///< samples per second that it hears
    static constexpr std::size_t kFrameSamples = 512;    ///< of one probability
    static constexpr std::size_t kContextSamples = 64;   ///< before its own that a frame hears

    /// Errors: FileNotFound, CorruptFile (no safetensors, a weight that is no finite number), MissingTensor, ShapeMismatch,
    /// UnsupportedDtype (other than F32), UnsupportedConfig (a tensor that is not of this network).
    static Result<VoiceActivityDetector> load(const std::filesystem::path& file);

    /// How probable speech is in each frame, the last filled up with zeros: [⌈samples / 512⌉]. One channel of 16 kHz, full scale ±1.
    /// should_stop is asked from time to time. Errors: InvalidArgument (a sample that is no finite number, or samples so
    /// large that there is no probability), Cancelled.
    Result<std::vector<float>> probabilities(std::span<const float> samples,
                                             const std::function<bool()>& should_stop = {}) const;

    /// Where somebody speaks, in order, without overlap. Errors: those of probabilities(); InvalidArgument (options).
    Result<std::vector<SampleRange>> speech_timestamps(std::span<const float> samples, const VadOptions& options = {},
                                                       const std::function<bool()>& should_stop = {}) const;

private:
    struct Network;
    explicit VoiceActivityDetector(std::shared_ptr<const Network> network) noexcept : network_(std::move(network)) {}
    std::shared_ptr<const Network> network_;
};

/// The same by the probabilities of a sound of so many samples. Errors: InvalidArgument (options outside their range, a number of
/// probabilities that is not ⌈samples / 512⌉, one that is not 0 to 1).
VKFORMER_API Result<std::vector<SampleRange>> speech_timestamps(std::span<const float> probabilities,
                                                                std::size_t samples, const VadOptions& options = {});

}  // namespace vkformer
