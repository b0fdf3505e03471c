// SPDX-License-Identifier: MIT
/// Probabilities of speech against PyTorch's, speech and silence against faster-whisper's, and times of speech without silence.
#include "vkformer/voice_activity.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include <nlohmann/json.hpp>

#include "audio/gathered_speech.hpp"
#include "support/catch.h"
#include "support/refused.hpp"
#include "support/vad.hpp"

namespace vkformer::tests {
namespace {

using nlohmann::json;

constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();

VadOptions vad_options_of(const json& given) {
    VadOptions options;
    options.threshold = given.value("threshold", options.threshold);
    if (given.contains("neg_threshold")) options.neg_threshold = given["neg_threshold"];
    options.min_speech_duration_ms = given.value("min_speech_duration_ms", options.min_speech_duration_ms);
    options.max_speech_duration_s = given.value("max_speech_duration_s", options.max_speech_duration_s);
    options.min_silence_duration_ms = given.value("min_silence_duration_ms", options.min_silence_duration_ms);
    options.speech_pad_ms = given.value("speech_pad_ms", options.speech_pad_ms);
    return options;
}

/// Frames of speech (1) and silence (0), and as many samples as they have.
std::vector<SampleRange> regions_of(const std::vector<float>& frames, const VadOptions& options) {
    return must(speech_timestamps(frames, frames.size() * VoiceActivityDetector::kFrameSamples, options));
}

std::vector<float> frames_of(std::initializer_list<std::pair<std::size_t, float>> runs) {
    std::vector<float> frames;
    for (const auto& [count, probability] : runs) frames.insert(frames.end(), count, probability);
    return frames;
}

formats::NamedTensor& tensor_named(std::vector<formats::NamedTensor>& tensors, const std::string& name) {
    return *std::ranges::find(tensors, name, &formats::NamedTensor::name);
}

/// A tensor with its first element replaced.
TensorData with_first(const TensorData& tensor, float value) {
    const auto bytes = std::make_shared<std::vector<std::byte>>(tensor.bytes.begin(), tensor.bytes.end());
    std::memcpy(bytes->data(), &value, sizeof value);
    return {tensor.dtype, tensor.shape, *bytes, bytes};
}

void check_vad_refused(const std::function<void(std::vector<formats::NamedTensor>&)>& change, ErrorCode code,
                       const std::string& words) {
    const ChangedVad changed(change);
    const auto detector = VoiceActivityDetector::load(changed.path);
    check_refused(detector, code, words);
    CHECK_THAT(detector.error().message, Catch::Matchers::ContainsSubstring("changed.safetensors"));
}

}  // namespace

TEST_CASE("probabilities of speech are PyTorch's", "[vad][golden]") {
    const Golden golden("vad/golden.safetensors");
    const auto samples = golden.floats("samples");
    const auto expected = golden.doubles("probabilities");
    const auto detector = must(VoiceActivityDetector::load(vad_file()));
    const auto found = must(detector.probabilities(samples));
    REQUIRE(samples.size() % VoiceActivityDetector::kFrameSamples != 0);
    REQUIRE(found.size() == expected.size());
    double worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        CAPTURE(i, found[i], expected[i]);
        REQUIRE(std::abs(double{found[i]} - expected[i]) < 1e-5);  // sums of up to 387 products, four layers deep
        worst = std::max(worst, std::abs(double{found[i]} - expected[i]));
    }
    CAPTURE(worst);
    CHECK(*std::ranges::min_element(found) < 0.05f);
    CHECK(*std::ranges::max_element(found) > 0.95f);
    const auto copy = detector;  // of the same weights, without what was heard
    CHECK(must(copy.probabilities(samples)) == found);
}

TEST_CASE("what is asked of a detector has to be sound", "[vad][errors]") {
    const auto detector = must(VoiceActivityDetector::load(vad_file()));
    CHECK(must(detector.probabilities({})).empty());
    CHECK(must(detector.speech_timestamps({})).empty());
    CHECK(must(detector.probabilities(std::vector<float>(1))).size() == 1);
    CHECK(must(detector.probabilities(std::vector<float>(512))).size() == 1);
    CHECK(must(detector.probabilities(std::vector<float>(513))).size() == 2);
    for (const float bad : {kNoNumber, std::numeric_limits<float>::infinity()}) {
        std::vector<float> samples(2000);
        samples[1999] = bad;
        check_refused(detector.probabilities(samples), ErrorCode::InvalidArgument, "no finite numbers");
        check_refused(detector.speech_timestamps(samples), ErrorCode::InvalidArgument, "no finite numbers");
    }
    std::vector<float> loud(40000, 0.1f);
    for (std::size_t i = 33000; i < loud.size(); ++i) loud[i] = i % 2 == 0 ? 3e38f : -3e38f;
    check_refused(detector.probabilities(loud), ErrorCode::InvalidArgument, "too large");

    int questions = 0;
    const std::vector<float> long_sound(600 * 512);
    const auto stop = [&] { return ++questions == 2; };
    check_refused(detector.probabilities(long_sound, stop), ErrorCode::Cancelled, "stopped");
    check_refused(detector.speech_timestamps(long_sound, {}, [] { return true; }), ErrorCode::Cancelled, "stopped");
}

TEST_CASE("files of another network are refused", "[vad][errors]") {
    using Tensors = std::vector<formats::NamedTensor>;
    check_vad_refused([](Tensors& t) { std::erase_if(t, [](auto& n) { return n.name == "conv3.bias"; }); },
                      ErrorCode::MissingTensor, "conv3.bias is missing");
    check_vad_refused(
        [](Tensors& t) {
            tensor_named(t, "conv2.weight").data.shape = {64, 3, 128};
        },
        ErrorCode::ShapeMismatch, "conv2.weight has shape [64, 3, 128], expected [64, 128, 3]");
    check_vad_refused([](Tensors& t) { tensor_named(t, "final_conv.weight").data.shape = {128}; },
                      ErrorCode::ShapeMismatch, "final_conv.weight has shape [128], expected [1, 128, 1]");
    check_vad_refused([](Tensors& t) { tensor_named(t, "lstm_cell.bias_hh").data.dtype = DType::i32; },
                      ErrorCode::UnsupportedDtype, "lstm_cell.bias_hh is not of float32");
    for (const float bad : {kNoNumber, -std::numeric_limits<float>::infinity()})
        check_vad_refused(
            [&](Tensors& t) {
                auto& tensor = tensor_named(t, "stft_conv.weight");
                tensor.data = with_first(tensor.data, bad);
            },
            ErrorCode::CorruptFile, "stft_conv.weight is not finite");
    check_vad_refused(
        [](Tensors& t) {
            t.push_back({"conv5.bias", tensor_named(t, "conv4.bias").data});
        },
        ErrorCode::UnsupportedConfig, "conv5.bias is no tensor of Silero VAD");

    const TemporaryFolder folder;
    const std::string whole = read_file(vad_file());
    for (const std::size_t bytes : std::vector<std::size_t>{0, 7, 8, 500, whole.size() - 1}) {
        folder.write("cut.safetensors", whole.substr(0, bytes));
        CAPTURE(bytes);
        check_refused(VoiceActivityDetector::load(folder / "cut.safetensors"), ErrorCode::CorruptFile,
                      "cut.safetensors");
    }
    check_refused(VoiceActivityDetector::load(folder / "none"), ErrorCode::FileNotFound, "none");
    check_refused(VoiceActivityDetector::load(speech_folder("whisper_texts") / "model.safetensors"),
                  ErrorCode::MissingTensor, "stft_conv.weight");
}

TEST_CASE("speech and silence are faster-whisper's", "[vad][golden]") {
    for (const json& entry : read_json(goldens_dir() / "vad" / "timestamps.json")) {
        CAPTURE(entry["options"].dump(), entry["samples"].dump());
        const auto found = must(speech_timestamps(entry["probabilities"].get<std::vector<float>>(), entry["samples"],
                                                  vad_options_of(entry["options"])));
        json regions = json::array();
        for (const SampleRange& region : found) regions.push_back({region.start, region.end});
        CHECK(regions == entry["regions"]);
    }
}

TEST_CASE("speech begins, pauses, ends and is cut where the options say", "[vad]") {
    constexpr std::size_t kFrame = VoiceActivityDetector::kFrameSamples;
    const VadOptions plain{.min_silence_duration_ms = 100, .speech_pad_ms = 0};
    const auto frames = frames_of({{5, 0}, {10, 0.9f}, {4, 0.4f}, {2, 0.1f}, {3, 0.8f}, {6, 0}, {1, 0.5f}, {9, 0}});
    using Regions = std::vector<SampleRange>;
    // Between the thresholds speech goes on; two frames of silence are too few; 0.5 is speech.
    CHECK(regions_of(frames, plain) == Regions{{5 * kFrame, 24 * kFrame}, {30 * kFrame, 31 * kFrame}});
    VadOptions options = plain;
    options.min_speech_duration_ms = 32;  // no longer than this is too short
    CHECK(regions_of(frames, options) == Regions{{5 * kFrame, 24 * kFrame}});
    options = plain;
    options.neg_threshold = 0.45;
    CHECK(regions_of(frames, options).front() == SampleRange{5 * kFrame, 15 * kFrame});
    options = plain;
    options.speech_pad_ms = 64;  // two frames; the silence between has six, that at the begin five
    CHECK(regions_of(frames, options) == Regions{{3 * kFrame, 26 * kFrame}, {28 * kFrame, 33 * kFrame}});
    options.speech_pad_ms = 200;
    CHECK(regions_of(frames, options) == Regions{{0, 27 * kFrame}, {27 * kFrame, 31 * kFrame + 3200}});
    options = plain;
    options.min_silence_duration_ms = 2000;
    CHECK(regions_of(frames, options) == Regions{{5 * kFrame, 40 * kFrame}});
    options.max_speech_duration_s = 0.032 * 27.5;  // is passed in frame 32; the last long silence began in frame 24
    CHECK(regions_of(frames, options) == Regions{{5 * kFrame, 24 * kFrame}, {30 * kFrame, 40 * kFrame}});
    options.max_speech_duration_s = 0.032 * 11.5;
    CHECK(regions_of(frames_of({{20, 0.9f}}), options) == Regions{{0, 11 * kFrame}, {12 * kFrame, 20 * kFrame}});
    CHECK(regions_of(frames_of({{20, 0.3f}}), plain).empty());
    CHECK(regions_of({}, plain).empty());
}

TEST_CASE("what counts as speech has to make sense", "[vad][errors]") {
    const auto refused = [](const VadOptions& options, const std::string& words) {
        check_refused(speech_timestamps({}, 0, options), ErrorCode::InvalidArgument, words);
    };
    refused({.threshold = 1.5}, "threshold is 1.5, expected 0 to 1");
    refused({.threshold = -0.1}, "0 to 1");
    refused({.threshold = kNoNumber}, "0 to 1");
    refused({.neg_threshold = 0.6}, "neg_threshold is 0.6, expected 0 to the threshold, 0.5");
    refused({.neg_threshold = kNoNumber}, "neg_threshold");
    refused({.max_speech_duration_s = 0.83}, "is 0.83, expected more than 0.832: a frame and two pads");
    refused({.max_speech_duration_s = kNoNumber}, "two pads");
    refused({.max_speech_duration_s = -1, .speech_pad_ms = 0}, "more than 0.032");
    refused({.max_speech_duration_s = 100, .speech_pad_ms = 0xFFFFFFFFu}, "two pads");
    const std::vector<float> frames(3, 0.9f);
    must(speech_timestamps(frames, 1500, {.speech_pad_ms = 0xFFFFFFFFu}));
    check_refused(speech_timestamps(frames, 1537, {}), ErrorCode::InvalidArgument, "every 512 samples");
    check_refused(speech_timestamps(frames, 1024, {}), ErrorCode::InvalidArgument, "every 512 samples");
    for (const float wrong : {std::nanf(""), 1.5f, -0.1f})
        check_refused(speech_timestamps(std::vector{0.9f, wrong, 0.9f}, 1500, {}), ErrorCode::InvalidArgument,
                      "a probability");
    // Where all is speech, none of it is silence.
    CHECK(regions_of(frames_of({{2, 0.9f}, {3, 0}, {2, 0.9f}}),
                     {.threshold = 0, .min_silence_duration_ms = 0, .speech_pad_ms = 0}) ==
          std::vector<SampleRange>{{0, 7 * VoiceActivityDetector::kFrameSamples}});
}

TEST_CASE("times of speech without silence become those of the sound", "[vad]") {
    std::vector<float> sound(100);
    std::iota(sound.begin(), sound.end(), 0.0f);
    const audio::GatheredSpeech gathered(sound, {{10, 20}, {40, 45}, {90, 100}}, 10);
    REQUIRE(gathered.samples().size() == 25);
    CHECK(gathered.samples()[9] == 19);
    CHECK(gathered.samples()[10] == 40);
    CHECK(gathered.samples()[24] == 99);
    CHECK(gathered.end_in_sound(0.4) == 1.4);
    CHECK(gathered.end_in_sound(1.0) == 2.0);  // where two regions meet, the end of the first
    CHECK(gathered.end_in_sound(1.1) == 4.1);
    CHECK(gathered.end_in_sound(7) == 10.0);

    const auto restored = [&](double start, double end, std::vector<SpokenWord> words = {}) {
        SpeechSegment segment;
        segment.start = start;
        segment.end = end;
        segment.words = std::move(words);
        gathered.restore(segment);
        return segment;
    };
    const auto whole = restored(0, 2.5);
    CHECK((whole.start == 1.0 && whole.end == 10.0));
    const auto second = restored(1.0, 1.5);  // and for begins that of the second
    CHECK((second.start == 4.0 && second.end == 4.5));
    const auto nothing = restored(1.0, 1.0);
    CHECK(nothing.start <= nothing.end);
    // A word that reaches over a cut lies where its middle is.
    const auto words = restored(0.5, 1.4, {{" a", 0.5, 0.7, 1}, {" b", 0.7, 1.1, 1}, {" c", 1.1, 1.4, 1}}).words;
    CHECK((words[0].start == 1.5 && words[0].end == 1.7));
    CHECK((words[1].start == 1.7 && words[1].end == 2.0));
    CHECK((words[2].start == 4.1 && words[2].end == 4.4));
}

TEST_CASE("what is said beside a silence does not reach over it", "[vad]") {
    // A joint at 10.064 s, which is none of a Whisper's times, and one at 25.064 s.
    const std::vector<float> sound(16000 * 400);
    const audio::GatheredSpeech gathered(sound, {{0, 161024}, {4960000, 5200000}, {6000000, 6400000}}, 16000);
    const auto restored = [&](double start, double end, std::vector<SpokenWord> words = {}) {
        SpeechSegment segment;
        segment.start = start;
        segment.end = end;
        segment.words = std::move(words);
        gathered.restore(segment);
        return segment;
    };
    const auto before = restored(8.0, 10.08), behind = restored(10.06, 14.0);
    CHECK((before.start == 8.0 && before.end == 10.064));
    CHECK((behind.start == 310.0 && std::abs(behind.end - 313.936) < 1e-9));
    const auto over = restored(9.5, 14.0);  // half a second is no mistake
    CHECK((over.start == 9.5 && std::abs(over.end - 313.936) < 1e-9));
    const auto middle = restored(10.0, 25.2);  // a little on both sides
    CHECK((middle.start == 310.0 && middle.end == 325.0));
    const auto little = restored(10.04, 10.08);  // there is no more of it elsewhere
    CHECK((little.start <= little.end && little.end < 311));

    // Words stay in their segment, which begins and ends with them.
    const auto words = restored(10.08, 14.0, {{" a", 9.98, 10.06, 1}, {" b", 10.2, 10.5, 1}, {" c", 13.0, 14.4, 1}});
    CHECK((words.start == words.words.front().start && words.end == words.words.back().end));
    CHECK((words.words[0].start == 310.0 && words.words[0].end == 310.0));
    CHECK(std::abs(words.words[1].start - 310.136) < 1e-9);
}

}  // namespace vkformer::tests
