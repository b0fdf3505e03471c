// SPDX-License-Identifier: MIT
/// Probabilities to speech and silence, as faster-whisper 1.2 tells them apart.
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "core/ceil_div.hpp"
#include "vkformer/voice_activity.hpp"

namespace vkformer {
namespace {

constexpr std::size_t kFrame = VoiceActivityDetector::kFrameSamples;
constexpr std::size_t kSamplesPerMs = VoiceActivityDetector::kSampleRate / 1000;
constexpr std::size_t kShortestCut = 98 * kSamplesPerMs;  // silence in which speech that is too long may be cut

/// In float32, as the probabilities are: one that is as near to 0.7 as may be is at least 0.7.
float neg_threshold_of(const VadOptions& options) {
    const double usual = std::min(std::max(options.threshold - 0.15, 0.01), options.threshold);
    return static_cast<float>(options.neg_threshold.value_or(usual));
}

std::size_t samples_of(std::uint32_t ms) { return ms * kSamplesPerMs; }

/// Samples of speech after which it is cut.
double longest_speech(const VadOptions& options) {
    return VoiceActivityDetector::kSampleRate * options.max_speech_duration_s - static_cast<double>(kFrame) -
           2 * static_cast<double>(samples_of(options.speech_pad_ms));
}

/// What is wrong with the options; empty where nothing is.
std::string mistake_in(const VadOptions& options) {
    char text[160] = "";
    if (!(options.threshold >= 0 && options.threshold <= 1))
        std::snprintf(text, sizeof text, "threshold is %g, expected 0 to 1", options.threshold);
    else if (options.neg_threshold && !(*options.neg_threshold >= 0 && *options.neg_threshold <= options.threshold))
        std::snprintf(text, sizeof text, "neg_threshold is %g, expected 0 to the threshold, %g", *options.neg_threshold,
                      options.threshold);
    else if (!(longest_speech(options) > 0))
        std::snprintf(text, sizeof text, "max_speech_duration_s is %g, expected more than %g: a frame and two pads",
                      options.max_speech_duration_s, 0.032 + 0.002 * options.speech_pad_ms);
    return text;
}

/// What the frames so far have said.
class Scan {
public:
    explicit Scan(const VadOptions& options) : options_(options) {}

    /// `at`: the frame's first sample.
    void take(std::size_t at, float probability) {
        const bool is_speech = probability >= static_cast<float>(options_.threshold);
        if (is_speech && silence_) {
            silence_.reset();
            if (cut_ && resumed_ < *cut_) resumed_ = at;
        }
        if (!start_) {
            if (is_speech) start_ = at;
            return;
        }
        if (static_cast<double>(at - *start_) > longest_) {
            if (!cut_) return end(at);
            const bool is_resumed = resumed_ >= *cut_;
            const std::size_t resumed = resumed_;
            end(*cut_);
            if (!is_resumed) return;
            start_ = resumed;
        }
        if (probability >= neg_threshold_) return;
        if (!silence_) silence_ = at;
        if (at - *silence_ > kShortestCut) cut_ = silence_;
        if (at - *silence_ >= samples_of(options_.min_silence_duration_ms)) end(*silence_, shortest_);
    }

    std::vector<SampleRange> finish(std::size_t samples) {
        if (start_) end(samples, shortest_);
        return std::move(found_);
    }

private:
    /// Speech that is no longer than so many samples is none.
    void end(std::size_t at, std::size_t shortest = 0) {
        if (at - *start_ > shortest) found_.push_back({*start_, at});
        start_ = silence_ = cut_ = std::nullopt;
        resumed_ = 0;
    }

    const VadOptions& options_;
    float neg_threshold_ = neg_threshold_of(options_);
    double longest_ = longest_speech(options_);
    std::size_t shortest_ = samples_of(options_.min_speech_duration_ms);
    std::vector<SampleRange> found_;
    std::optional<std::size_t> start_;    // of the speech that has not ended
    std::optional<std::size_t> silence_;  // begin of the silence that may end it
    std::optional<std::size_t> cut_;      // begin of the last silence in it that is long enough for a cut
    std::size_t resumed_ = 0;             // where speech went on after that; before it: it has not
};

/// Sound at either side of speech; silence that is too short for two pads is halved.
void pad(std::vector<SampleRange>& speech, std::size_t pad, std::size_t samples) {
    for (std::size_t i = 0; i < speech.size(); ++i) {
        SampleRange& own = speech[i];
        if (i == 0) own.start -= std::min(own.start, pad);
        if (i + 1 == speech.size()) {
            own.end = std::min(samples, own.end + pad);
            continue;
        }
        const std::size_t silence = speech[i + 1].start - own.end, each = std::min(silence / 2, pad);
        own.end += each;
        speech[i + 1].start -= each;
    }
}

}  // namespace

Result<std::vector<SampleRange>> speech_timestamps(std::span<const float> probabilities, std::size_t samples,
                                                   const VadOptions& options) {
    std::string mistake = mistake_in(options);
    if (mistake.empty() && probabilities.size() != ceil_div(samples, kFrame))
        mistake = "not one probability for every 512 samples";
    if (!std::ranges::all_of(probabilities, [](float p) { return p >= 0 && p <= 1; }))
        mistake = "a probability is not 0 to 1";
    if (!mistake.empty()) return Error{ErrorCode::InvalidArgument, std::move(mistake)};
    Scan scan(options);
    for (std::size_t i = 0; i < probabilities.size(); ++i) scan.take(i * kFrame, probabilities[i]);
    std::vector<SampleRange> speech = scan.finish(samples);
    pad(speech, samples_of(options.speech_pad_ms), samples);
    return speech;
}

}  // namespace vkformer
