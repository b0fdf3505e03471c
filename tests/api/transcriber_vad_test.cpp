// SPDX-License-Identifier: MIT
/// Transcriptions of what is speech in a sound.
#include <cmath>

#include "support/catch.h"
#include "support/refused.hpp"
#include "support/vad.hpp"
#include "vkformer/transcriber.hpp"

namespace vkformer::tests {
namespace {

TranscriberOptions filtering_options(bool timestamps) {
    TranscriberOptions options;
    options.device = "cpu";
    options.plain_shaders = true;
    options.timestamps = timestamps;
    options.temperatures = {0};
    options.no_speech_threshold = std::numeric_limits<double>::infinity();
    options.log_prob_threshold = -std::numeric_limits<double>::infinity();
    options.max_length = 24;
    options.word_timestamps = true;
    options.vad = vad_file();
    return options;
}

std::vector<float> sound_with_silence() {
    return speech_between_silence(Golden("speech/whisper_times_414/golden.safetensors").floats("timed1"));
}

/// The samples of the regions one behind the other, and the sample of the sound that each of them is.
struct Joined {
    std::vector<float> samples;
    std::vector<std::size_t> places;

    Joined(const std::vector<float>& sound, const std::vector<SampleRange>& regions) {
        for (const auto& [start, end] : regions)
            for (std::size_t i = start; i < end; ++i) {
                samples.push_back(sound[i]);
                places.push_back(i);
            }
    }
    /// When in the sound the sample is that begins at this time.
    double begin(double time) const {
        return static_cast<double>(
                   places[std::min(static_cast<std::size_t>(std::lround(time * 16000)), places.size() - 1)]) /
               16000;
    }
    /// When the one ends that ends at this time.
    double end(double time) const {
        return static_cast<double>(places[static_cast<std::size_t>(std::lround(time * 16000)) - 1] + 1) / 16000;
    }
};

}  // namespace

TEST_CASE("speech is heard without the silence between, at the times of the whole sound", "[api][speech][vad]") {
    const bool timestamps = GENERATE(true, false);
    CAPTURE(timestamps);
    const SpeechModelAt16Khz model("whisper_times_414");
    const auto sound = sound_with_silence();
    const double duration = static_cast<double>(sound.size()) / 16000;
    Transcriber transcriber = must(Transcriber::load(model.folder.path(), filtering_options(timestamps)));
    double told = 0;
    const auto found = must(transcriber.transcribe(sound, [&](double done, double total) {
        CHECK(told < done);
        CHECK(total == duration);
        told = done;
    }));
    CHECK(told == duration);

    const auto regions = must(must(VoiceActivityDetector::load(vad_file())).speech_timestamps(sound, VadOptions{}));
    REQUIRE(regions.size() == 2);
    const Joined joined(sound, regions);
    must(transcriber.choose_vad(std::nullopt));
    const auto expected = must(transcriber.transcribe(joined.samples));
    CHECK(found.text == expected.text);
    CHECK(found.language == expected.language);
    REQUIRE(found.segments.size() == expected.segments.size());
    REQUIRE(found.segments.size() > 2);
    std::size_t words = 0, later = 0;
    for (std::size_t i = 0; i < found.segments.size(); ++i) {
        const SpeechSegment &ours = found.segments[i], &theirs = expected.segments[i];
        CAPTURE(i, theirs.start, theirs.end, ours.start, ours.end);
        CHECK(ours.tokens == theirs.tokens);
        if (theirs.words.empty() && theirs.start < theirs.end) {
            CHECK(std::abs(ours.start - joined.begin(theirs.start)) < 1e-9);
            CHECK(std::abs(ours.end - joined.end(theirs.end)) < 1e-9);
        }
        if (!theirs.words.empty()) CHECK((ours.start == ours.words.front().start && ours.end == ours.words.back().end));
        later += ours.start > theirs.start + 2;
        REQUIRE(ours.words.size() == theirs.words.size());
        for (const SpokenWord& word : ours.words) {
            CAPTURE(word.text, word.start, word.end);
            CHECK(word.start <= word.end);
            // in one of the regions
            CHECK(std::ranges::any_of(regions, [&](const SampleRange& region) {
                return word.start * 16000 > static_cast<double>(region.start) - 1e-3 &&
                       word.end * 16000 < static_cast<double>(region.end) + 1e-3;
            }));
            ++words;
        }
    }
    CHECK(words > 0);
    CHECK(later > 0);

    // The whole sound is another one, and options count.
    const auto whole = must(transcriber.transcribe(sound));
    CHECK(whole.segments.size() != found.segments.size());
    must(transcriber.choose_vad(VadOptions{.threshold = 1}));
    CHECK(must(transcriber.transcribe(sound)).segments.empty());
    must(transcriber.choose_vad(VadOptions{}));
    CHECK(must(transcriber.transcribe(sound)).segments.back().end == found.segments.back().end);
}

TEST_CASE("sound without speech has no text", "[api][speech][vad]") {
    const SpeechModelAt16Khz model("whisper_texts");
    TranscriberOptions options = filtering_options(GENERATE(true, false));
    if (options.timestamps) options.word_timestamps = false;
    options.language = GENERATE("", "de");
    const std::vector<float> silence(16000 * 3);
    Transcriber transcriber = must(Transcriber::load(model.folder.path(), options));
    std::vector<double> told;
    const auto found = must(transcriber.transcribe(silence, [&](double done, double total) {
        told.push_back(done);
        CHECK(done == total);
    }));
    CHECK(found.text.empty());
    CHECK(found.segments.empty());
    CHECK(found.language == options.language);
    CHECK(told == std::vector<double>{3});
    must(transcriber.choose_vad(std::nullopt));
    CHECK_FALSE(must(transcriber.transcribe(silence)).segments.empty());
}

TEST_CASE("voice activity that cannot be told is refused", "[api][speech][vad][errors]") {
    const SpeechModelAt16Khz model("whisper_texts");
    TranscriberOptions options = filtering_options(false);
    check_refused(Transcriber::load(speech_folder("whisper_texts"), options), ErrorCode::UnsupportedConfig,
                  "vad 16000");
    options.vad = "no_such_file";
    check_refused(Transcriber::load(model.folder.path(), options), ErrorCode::FileNotFound, "no_such_file");
    options.vad = vad_file();
    options.vad_parameters.threshold = 2;
    check_refused(Transcriber::load(model.folder.path(), options), ErrorCode::InvalidArgument, "threshold");
    options.vad_parameters = {};
    Transcriber transcriber = must(Transcriber::load(model.folder.path(), options));
    check_refused(transcriber.choose_vad(VadOptions{.threshold = 2}), ErrorCode::InvalidArgument, "threshold");
    CHECK(must(transcriber.transcribe(std::vector<float>(16000))).segments.empty());  // nothing has changed
    check_refused(transcriber.transcribe({}), ErrorCode::InvalidArgument, "no samples");
    options.vad.clear();
    options.vad_parameters.speech_pad_ms = 200;
    check_refused(Transcriber::load(model.folder.path(), options), ErrorCode::InvalidArgument, "without vad");
    options.vad_parameters = {};
    Transcriber without = must(Transcriber::load(model.folder.path(), options));
    check_refused(without.choose_vad(VadOptions{}), ErrorCode::InvalidArgument, "load with vad");
    must(without.choose_vad(std::nullopt));

    options.vad = vad_file();
    bool asked = false;
    options.should_stop = [&] { return asked; };
    Transcriber stopped = must(Transcriber::load(model.folder.path(), options));
    asked = true;
    check_refused(stopped.transcribe(std::vector<float>(16000)), ErrorCode::Cancelled, "stopped");
}

}  // namespace vkformer::tests
