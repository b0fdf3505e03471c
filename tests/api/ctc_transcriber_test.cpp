// SPDX-License-Identifier: MIT
/// Transcriber with models of connectionist temporal classification, against Hugging Face's feature extractor and tokenizer.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include <nlohmann/json.hpp>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/noise.hpp"
#include "support/refused.hpp"
#include "support/temporary_folder.hpp"
#include "vkformer/transcriber.hpp"

namespace vkformer::tests {
namespace {

using nlohmann::json;

std::filesystem::path ctc_folder(const std::string& name) { return goldens_dir() / "ctc" / name; }

TranscriberOptions ctc_options(const std::string& device = "cpu") {
    TranscriberOptions options;
    options.device = device;
    options.plain_shaders = true;  // nothing is measured in tests
    return options;
}

/// A copy of a folder with some fields of one of its files changed.
struct ChangedCtc {
    TemporaryFolder folder;

    ChangedCtc(const std::string& name, const std::string& file, const json& fields) {
        std::filesystem::copy(ctc_folder(name), folder.path(), std::filesystem::copy_options::recursive);
        json config = read_json(folder.path() / file);
        config.merge_patch(fields);
        std::ofstream(folder.path() / file) << config.dump();
    }
    Result<Transcriber> load() const { return Transcriber::load(folder.path(), ctc_options()); }
};

}  // namespace

TEST_CASE("CTC models write what Hugging Face's pipeline writes", "[api][ctc][golden]") {
    const std::string device = GENERATE_COPY(from_range(device_names()));
    const std::string name =
        GENERATE("wav2vec2_base", "wav2vec2_large", "wav2vec2_taps", "hubert_large", "hubert_plain");
    CAPTURE(device, name);
    const json golden = read_json(ctc_folder(name) / "text.json");
    TranscriberOptions options = ctc_options(device);
    options.timestamps = false;
    options.word_timestamps = true;
    auto transcriber = must(Transcriber::load(ctc_folder(name), options));
    CHECK(transcriber.sample_rate() == 1000);
    CHECK(transcriber.notes().empty());
    const auto sound = noise_of(golden["samples"], 7);
    const auto found = must(transcriber.transcribe(sound));
    CHECK(found.text == golden["text"].get<std::string>());
    CHECK(found.language.empty());
    REQUIRE(found.segments.size() == 1);
    CHECK(found.segments[0].end == found.segments[0].words.back().end);
    const auto& words = found.segments[0].words;
    REQUIRE(words.size() == golden["words"].size());
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i) {
        CAPTURE(i);
        CHECK(std::abs(words[i].start - golden["words"][i]["start"].get<double>()) < 1e-9);
        CHECK(std::abs(words[i].end - golden["words"][i]["end"].get<double>()) < 1e-9);
        CHECK(words[i].probability > 0);
        CHECK(words[i].probability <= 1);
        text += words[i].text;
    }
    if (name != "wav2vec2_taps") CHECK(text == found.segments[0].text);  // which is cleaned up as a whole
    // Bounds that are shown stand at the text's begin, too, and in no segment.
    CHECK(found.segments[0].text == (name == "hubert_plain" ? found.text.substr(1) : found.text));
}

TEST_CASE("long sounds are heard in windows that reach over one another", "[api][ctc][golden]") {
    const std::string device = GENERATE_COPY(from_range(device_names()));
    const std::string name = GENERATE("wav2vec2_base", "wav2vec2_large");
    CAPTURE(device, name);
    const json golden = read_json(ctc_folder(name) / "text.json")["long"];
    TranscriberOptions options = ctc_options(device);
    options.timestamps = false;
    auto transcriber = must(Transcriber::load(ctc_folder(name), options));
    std::vector<double> done;
    const auto found = must(transcriber.transcribe(noise_of(golden["samples"], 8),
                                                   [&](double seconds, double) { done.push_back(seconds); }));
    CHECK(found.text == golden["text"].get<std::string>());
    CHECK(done.size() == 4);
    CHECK(done.back() == 47.123);
    auto twin = must(transcriber.twin());
    CHECK(must(twin.transcribe(noise_of(3100, 7))).text ==
          read_json(ctc_folder(name) / "text.json")["text"].get<std::string>());
}

TEST_CASE("CTC segments end with pauses, and are not long", "[api][ctc]") {
    TranscriberOptions options = ctc_options();
    options.word_timestamps = true;
    auto transcriber = must(Transcriber::load(ctc_folder("wav2vec2_large"), options));
    const auto sound = noise_of(47123, 8);
    const auto found = must(transcriber.transcribe(sound));
    REQUIRE(found.segments.size() > 3);
    std::string text;
    for (std::size_t i = 0; i < found.segments.size(); ++i) {
        const SpeechSegment& segment = found.segments[i];
        CAPTURE(i, segment.start, segment.end);
        REQUIRE_FALSE(segment.words.empty());
        CHECK(segment.start == segment.words.front().start);
        CHECK(segment.end == segment.words.back().end);
        if (segment.words.size() > 1) CHECK(segment.words.end()[-2].end - segment.start < 10);
        CHECK(segment.average_log_prob < 0);
        for (std::size_t w = 1; w < segment.words.size(); ++w)
            CHECK(segment.words[w].start - segment.words[w - 1].end < 1);
        if (i + 1 < found.segments.size()) {
            const bool is_pause = found.segments[i + 1].start - segment.end >= 1;
            CHECK((is_pause || segment.end - segment.start >= 10));
        }
        text += segment.text;
    }
    CHECK(text == found.text);
    must(transcriber.choose_word_timestamps(false));
    CHECK(must(transcriber.transcribe(sound)).segments[0].words.empty());
    // Nothing is said in a sound that is shorter than a frame.
    const auto none = must(transcriber.transcribe(std::span(sound).first(20)));
    CHECK(none.text.empty());
    CHECK(none.segments.empty());
}

TEST_CASE("a CTC segment ends where nothing is said for a second", "[api][ctc]") {
    const std::string name = GENERATE("wav2vec2_base", "hubert_large");
    auto transcriber = must(Transcriber::load(ctc_folder(name), ctc_options()));
    for (const std::size_t silence : {800, 3000}) {
        std::vector<float> sound = noise_of(2000, 7);
        const auto more = noise_of(2000, 8);
        sound.resize(sound.size() + silence);
        sound.insert(sound.end(), more.begin(), more.end());
        const auto segments = must(transcriber.transcribe(sound)).segments;
        CAPTURE(name, silence);
        REQUIRE(segments.size() == (silence < 1000 ? 1 : 2));
        if (segments.size() == 2) CHECK(segments[1].start - segments[0].end >= 1);
    }
}

TEST_CASE("what only Whisper can be asked for is refused by name", "[api][ctc]") {
    const auto refused = [](auto&& set, const std::string& words) {
        TranscriberOptions options = ctc_options();
        set(options);
        check_refused(Transcriber::load(ctc_folder("wav2vec2_base"), options), ErrorCode::InvalidArgument, words);
    };
    refused([](auto& o) { o.language = "de"; }, "leave out language");
    refused([](auto& o) { o.task = "translate"; }, "leave out task");
    refused([](auto& o) { o.max_length = 3; }, "leave out max_length");
    refused([](auto& o) { o.condition_on_previous = false; }, "leave out condition_on_previous");
    refused([](auto& o) { o.beams = 2; }, "leave out beams");
    refused([](auto& o) { o.prompt = "names"; }, "leave out prompt");
    refused([](auto& o) { o.temperatures = {0.5f}; }, "leave out temperatures");
    refused([](auto& o) { o.compression_ratio_threshold = 2; }, "leave out compression_ratio_threshold");
    refused([](auto& o) { o.log_prob_threshold = -1; }, "leave out log_prob_threshold");
    refused([](auto& o) { o.no_speech_threshold = 1; }, "leave out no_speech_threshold");
    refused([](auto& o) { o.seed = 1; }, "leave out seed");
    refused([](auto& o) { o.timestamps = false, o.batch = 2; }, "leave out batch");
    auto transcriber = must(Transcriber::load(ctc_folder("wav2vec2_base"), ctc_options()));
    CHECK(transcriber.choose("", "transcribe"));
    check_refused(transcriber.choose("en", ""), ErrorCode::InvalidArgument, "leave out language");
    check_refused(transcriber.choose("", "translate"), ErrorCode::InvalidArgument, "leave out task");
}

TEST_CASE("what is not done of CTC folders is refused by name", "[api][ctc]") {
    const auto refused = [](const std::string& file, const json& fields, const std::string& words) {
        const ChangedCtc changed("wav2vec2_base", file, fields);
        check_refused(changed.load(), ErrorCode::UnsupportedConfig, words);
    };
    refused("preprocessor_config.json", {{"feature_extractor_type", "WhisperFeatureExtractor"}},
            "feature_extractor_type");
    refused("tokenizer_config.json", {{"tokenizer_class", "Wav2Vec2PhonemeCTCTokenizer"}},
            "Wav2Vec2PhonemeCTCTokenizer");
    refused("tokenizer_config.json", {{"target_lang", "eng"}}, "target_lang");
    const ChangedCtc nested("wav2vec2_base", "vocab.json", {{"eng", {{"A", 1}}}});
    check_refused(nested.load(), ErrorCode::CorruptFile, "vocab.json: \"eng\"");
    refused("config.json", {{"conv_stride", {5, 2, 512}}}, "less than three seconds");
}

}  // namespace vkformer::tests
