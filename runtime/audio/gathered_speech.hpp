// SPDX-License-Identifier: MIT
/// The speech of a sound without the silence between, and when it was said in the sound.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "vkformer/transcriber.hpp"
#include "vkformer/voice_activity.hpp"

namespace vkformer::audio {

/// Immutable. Times are seconds.
class GatheredSpeech {
public:
    /// `regions`: at least one, in order, without overlap, within the sound.
    GatheredSpeech(std::span<const float> sound, std::vector<SampleRange> regions, std::uint32_t sample_rate);

    const std::vector<float>& samples() const noexcept { return samples_; }

    /// When in the sound what ends here in samples() ends: where two regions meet, the end of the first.
    double end_in_sound(double time) const;

    /// From times of samples() to those of the sound. A segment may reach over several regions, but for what of one at either end is
    /// shorter than times are exact. A word lies in one region, that of its middle; a segment that has words begins and ends with them.
    void restore(SpeechSegment& segment) const;

private:
    std::size_t sample_at(double time) const;
    /// The region of what ends, or begins, at this sample of samples().
    std::size_t region_of(std::size_t sample, bool is_end) const;
    double in_sound(std::size_t sample, std::size_t region) const;

    std::uint32_t sample_rate_;
    std::vector<SampleRange> regions_;
    std::vector<std::size_t> begins_;  // of the regions in samples_, and its end
    std::vector<float> samples_;
};

}  // namespace vkformer::audio
