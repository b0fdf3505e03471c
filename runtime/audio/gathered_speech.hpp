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
    double end_in_sound(double time) const { return in_sound(time, region_of(time, true)); }

    /// From times of samples() to those of the sound. A word lies in the region of its middle; a segment may reach over several.
    void restore(SpeechSegment& segment) const;

private:
    struct Region {
        SampleRange in_sound;
        std::size_t begin;  // in samples_
    };

    std::size_t sample_at(double time) const;
    Region region_of(double time, bool is_end) const;
    double in_sound(double time, const Region& region) const;

    std::uint32_t sample_rate_;
    std::vector<SampleRange> regions_;
    std::vector<float> samples_;
};

}  // namespace vkformer::audio
