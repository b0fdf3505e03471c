// SPDX-License-Identifier: MIT
#include "audio/gathered_speech.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace vkformer::audio {

GatheredSpeech::GatheredSpeech(std::span<const float> sound, std::vector<SampleRange> regions,
                               std::uint32_t sample_rate)
    : sample_rate_(sample_rate), regions_(std::move(regions)) {
    for (const SampleRange& region : regions_)
        samples_.insert(samples_.end(), sound.data() + region.start, sound.data() + region.end);
}

std::size_t GatheredSpeech::sample_at(double time) const {
    return static_cast<std::size_t>(std::max(std::llround(time * sample_rate_), 0ll));
}

GatheredSpeech::Region GatheredSpeech::region_of(double time, bool is_end) const {
    const std::size_t sample = sample_at(time) + (is_end ? 0 : 1);
    std::size_t begin = 0;
    for (std::size_t i = 0;; ++i) {
        const SampleRange& own = regions_[i];
        const std::size_t end = begin + (own.end - own.start);
        if (sample <= end || i + 1 == regions_.size()) return {own, begin};
        begin = end;
    }
}

double GatheredSpeech::in_sound(double time, const Region& region) const {
    const std::size_t sample = std::max(sample_at(time), region.begin);
    return static_cast<double>(std::min(region.in_sound.start + (sample - region.begin), region.in_sound.end)) /
           sample_rate_;
}

void GatheredSpeech::restore(SpeechSegment& segment) const {
    segment.start = in_sound(segment.start, region_of(segment.start, false));
    segment.end = std::max(segment.start, end_in_sound(segment.end));
    for (SpokenWord& word : segment.words) {
        const Region region = region_of((word.start + word.end) / 2, false);
        word.start = in_sound(word.start, region);
        word.end = in_sound(word.end, region);
    }
}

}  // namespace vkformer::audio
