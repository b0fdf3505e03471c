// SPDX-License-Identifier: MIT
#include "audio/gathered_speech.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace vkformer::audio {
namespace {

constexpr double kExact = 0.2;  // seconds: by so much times may be wrong

}  // namespace

GatheredSpeech::GatheredSpeech(std::span<const float> sound, std::vector<SampleRange> regions,
                               std::uint32_t sample_rate)
    : sample_rate_(sample_rate), regions_(std::move(regions)), begins_{0} {
    for (const SampleRange& region : regions_) begins_.push_back(begins_.back() + region.end - region.start);
    samples_.reserve(begins_.back());
    for (const SampleRange& region : regions_)
        samples_.insert(samples_.end(), sound.data() + region.start, sound.data() + region.end);
}

std::size_t GatheredSpeech::sample_at(double time) const {
    return static_cast<std::size_t>(std::max(std::llround(time * sample_rate_), 0ll));
}

std::size_t GatheredSpeech::region_of(std::size_t sample, bool is_end) const {
    std::size_t region = 0;
    while (region + 1 < regions_.size() && sample + (is_end ? 0 : 1) > begins_[region + 1]) ++region;
    return region;
}

double GatheredSpeech::in_sound(std::size_t sample, std::size_t region) const {
    sample = std::clamp(sample, begins_[region], begins_[region + 1]);
    return static_cast<double>(regions_[region].start + (sample - begins_[region])) / sample_rate_;
}

double GatheredSpeech::end_in_sound(double time) const {
    const std::size_t sample = sample_at(time);
    return in_sound(sample, region_of(sample, true));
}

void GatheredSpeech::restore(SpeechSegment& segment) const {
    const std::size_t heard_from = sample_at(segment.heard_from);
    segment.heard_from = in_sound(heard_from, region_of(heard_from, false));
    const std::size_t start = sample_at(segment.start), end = std::max(start, sample_at(segment.end));
    for (SpokenWord& word : segment.words) {
        const std::size_t middle = std::clamp(sample_at((word.start + word.end) / 2), start, end);
        const std::size_t region = region_of(middle, middle == end);
        word.start = in_sound(sample_at(word.start), region);
        word.end = in_sound(sample_at(word.end), region);
    }
    if (!segment.words.empty()) {
        segment.start = segment.words.front().start;
        segment.end = segment.words.back().end;
        return;
    }
    const std::size_t little = std::min(sample_at(kExact), (end - start) / 2);
    std::size_t first = region_of(start, false), last = std::max(first, region_of(end, true));
    while (first < last && begins_[first + 1] - start < little) ++first;
    while (first < last && end - begins_[last] < little) --last;
    segment.start = in_sound(start, first);
    segment.end = std::max(segment.start, in_sound(end, last));
}

}  // namespace vkformer::audio
