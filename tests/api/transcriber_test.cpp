// SPDX-License-Identifier: MIT
/// Sound in, text out, against Hugging Face's WhisperFeatureExtractor, generate() and tokenizer.
#include "vkformer/transcriber.hpp"

#include <cmath>
#include <fstream>
#include <limits>

#include <nlohmann/json.hpp>

#include "models/speech_config.hpp"
#include "support/backends.hpp"
#include "support/catch.h"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

std::vector<float> clip_of(const std::string& name, int clip) {
    return Golden("speech/" + name + "/golden.safetensors").floats("clip" + std::to_string(clip));
}

constexpr const char* kTimed = "whisper_times_414";  // of several windows, with timestamps
constexpr double kNever = std::numeric_limits<double>::infinity();

/// No thresholds and one temperature, as generate() has them where nothing is said.
TranscriberOptions transcriber_options(const std::string& device, bool timestamps = false) {
    TranscriberOptions options;
    options.device = device;
    options.plain_shaders = true;  // nothing is measured in tests
    options.timestamps = timestamps;
    options.temperatures = {0};
    options.compression_ratio_threshold = kNever;
    options.log_prob_threshold = -kNever;
    options.no_speech_threshold = kNever;
    return options;
}

/// What is generated in an entry of generate.json: its tokens behind the one that asks for no times, without the end token.
std::vector<std::int32_t> generated(const std::string& name, const json& entry) {
    const json config = read_json(speech_folder(name) / "generation_config.json");
    auto tokens = entry["tokens"].get<std::vector<std::int32_t>>();
    tokens.erase(tokens.begin(), std::ranges::find(tokens, config["no_timestamps_token_id"].get<std::int32_t>()) + 1);
    if (!tokens.empty() && tokens.back() == config["eos_token_id"].get<std::int32_t>()) tokens.pop_back();
    return tokens;
}

/// A copy of a model folder with another value in its generation_config.json.
struct ChangedFolder {
    TemporaryFolder folder;

    ChangedFolder(const std::string& name, const std::string& field, const std::string& value) {
        std::filesystem::copy(speech_folder(name), folder.path(), std::filesystem::copy_options::recursive);
        json config = read_json(folder / "generation_config.json");
        config[field] = json::parse(value);
        std::ofstream(folder / "generation_config.json") << config.dump();
    }
};

}  // namespace

TEST_CASE("transcriptions are those of Hugging Face, token for token", "[api][speech][golden]") {
    const std::string device = GENERATE_COPY(from_range(device_names()));
    const std::string name = GENERATE("whisper_d30_h3_h5", "whisper_d20_untied", "whisper_english", "whisper_texts");
    const json entries = read_json(speech_folder(name) / "generate.json");
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (device != "cpu" && i % 5 != 0) continue;
        const json& entry = entries[i];
        CAPTURE(device, name, entry.dump());
        TranscriberOptions options = transcriber_options(device);
        options.language = entry["options"].value("language", "");
        options.task = entry["options"].value("task", "");
        options.max_length = entry["max_length"];
        Transcriber transcriber = must(Transcriber::load(speech_folder(name), options));
        const auto clip = clip_of(name, entry["clip"]);
        const Transcription found = must(transcriber.transcribe(clip));
        REQUIRE(found.segments.size() == 1);
        CHECK(found.segments[0].tokens == generated(name, entry));
        CHECK(found.segments[0].text == entry["text"].get<std::string>());
        CHECK(found.segments[0].end == static_cast<double>(clip.size()) / transcriber.sample_rate());
        CHECK((found.language.empty() == (name == "whisper_english")));
        if (!options.language.empty()) CHECK(found.language == options.language);
    }
}

TEST_CASE("segments with times are those of Hugging Face, whatever the rules", "[api][speech][golden]") {
    const std::string device = GENERATE_COPY(from_range(device_names()));
    const std::string name = GENERATE("whisper_times_414", "whisper_times_423");
    const json entries = read_json(speech_folder(name) / "timed.json");
    const Golden golden("speech/" + name + "/golden.safetensors");
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (device != "cpu" && i % 3 != 1) continue;
        if (!takes_case(device, 2)) continue;
        const json &entry = entries[i], &asked = entry["options"];
        CAPTURE(device, name, asked.dump());
        TranscriberOptions options = transcriber_options(device, true);
        if (asked.contains("temperature")) options.temperatures = asked["temperature"].get<std::vector<float>>();
        options.compression_ratio_threshold = asked.value("compression_ratio_threshold", kNever);
        options.log_prob_threshold = asked.value("logprob_threshold", -kNever);
        options.no_speech_threshold = asked.value("no_speech_threshold", kNever);
        options.condition_on_previous = asked.value("condition_on_prev_tokens", false);
        options.max_length = asked.value("max_new_tokens", 0u);
        Transcriber transcriber = must(Transcriber::load(speech_folder(name), options));
        const auto clip = golden.floats("timed" + std::to_string(entry["clip"].get<int>()));
        double told = 0;
        const auto found = must(transcriber.transcribe(clip, [&](double done, double total) {
            CHECK(told < done);
            CHECK(done <= total);
            told = done;
        }));
        const double duration = static_cast<double>(clip.size()) / transcriber.sample_rate();
        CHECK(told == duration);
        REQUIRE(found.segments.size() == entry["segments"].size());
        for (std::size_t s = 0; s < found.segments.size(); ++s) {
            CAPTURE(s);
            const json& expected = entry["segments"][s];
            CHECK(found.segments[s].tokens == expected["tokens"].get<std::vector<std::int32_t>>());
            CHECK(std::abs(found.segments[s].start - std::min(expected["start"].get<double>(), duration)) < 1e-9);
            CHECK(std::abs(found.segments[s].end - std::min(expected["end"].get<double>(), duration)) < 1e-9);
            // Every window that was decoded again was so at the last temperature there is.
            const bool is_again = entry["again"] == entry["windows"];
            if (entry["again"] == 0 || is_again) CHECK(found.segments[s].temperature == options.temperatures[is_again]);
        }
    }
}

/// A clip's segments with the times of their words, as words.json has them.
void check_words(const Transcription& found, const json& segments, double seconds_of_position, double error) {
    REQUIRE(found.segments.size() == segments.size());
    for (std::size_t s = 0; s < segments.size(); ++s) {
        CAPTURE(s);
        const SpeechSegment& segment = found.segments[s];
        REQUIRE(segment.tokens == segments[s]["tokens"].get<std::vector<std::int32_t>>());
        const json& words = segments[s]["words"];
        REQUIRE(segment.words.size() == words.size());
        std::string joined;
        for (std::size_t w = 0; w < words.size(); ++w) {
            const SpokenWord& word = segment.words[w];
            CAPTURE(w, word.text, word.start, word.end);
            CHECK(word.text == words[w][0].get<std::string>());
            CHECK(std::abs(word.probability - words[w][3].get<double>()) < error);
            CHECK(std::abs((word.end - word.start) -
                           seconds_of_position * (words[w][2].get<double>() - words[w][1].get<double>())) < 1e-9);
            // Positions are counted from the begin of the window, which is that of its first segment's.
            const double positions = word.start / seconds_of_position - words[w][1].get<double>();
            CHECK(std::abs(positions - std::round(positions)) < 1e-6);
            if (s == 0) CHECK(std::abs(positions) < 1e-6);
            joined += word.text;
        }
        CHECK(joined == segment.text);
    }
}

TEST_CASE("words have Hugging Face's times and probabilities", "[api][speech][golden]") {
    const std::string device = GENERATE_COPY(from_range(device_names()));
    const std::string name = GENERATE("whisper_texts", "whisper_times_414", "whisper_times_423");
    const bool is_timed = name != "whisper_texts";
    TranscriberOptions options = transcriber_options(device, is_timed);
    options.word_timestamps = true;
    options.precision = GENERATE(Precision::f32, Precision::f16);
    if (is_timed && options.precision == Precision::f16) return;  // its text may be another one
    if (!takes_case(device, 2)) return;
    if (!is_timed) options.max_length = 24;
    Transcriber transcriber = must(Transcriber::load(speech_folder(name), options));
    const Golden golden("speech/" + name + "/golden.safetensors");
    for (const json& entry : read_json(speech_folder(name) / "words.json")) {
        CAPTURE(device, name, entry["clip"].dump());
        const auto found = must(transcriber.transcribe(golden.floats(entry["clip"].get<std::string>())));
        check_words(found, entry["segments"], is_timed ? 0.02 : 0.04,
                    options.precision == Precision::f32 ? 1e-5 : 5e-3);
    }
}

TEST_CASE("times of words change no text, and windows that are heard together have those of each alone",
          "[api][speech]") {
    const Golden golden("speech/whisper_texts/golden.safetensors");
    std::vector<float> sound;  // three sentences, each in a window of its own
    for (const char* const clip : {"clip0", "clip1", "clip2"}) {
        auto samples = golden.floats(clip);
        samples.resize(8000);
        sound.insert(sound.end(), samples.begin(), samples.end());
    }
    sound.resize(sound.size() - 71);  // no whole number of positions
    TranscriberOptions options = transcriber_options("cpu");
    options.max_length = 24;
    const auto heard = [&](std::uint32_t batch, bool words) {
        options.batch = batch;
        options.word_timestamps = words;
        return must(must(Transcriber::load(speech_folder("whisper_texts"), options)).transcribe(sound)).segments;
    };
    const auto without = heard(2, false), together = heard(2, true), alone = heard(1, true);
    REQUIRE(together.size() > 2);
    REQUIRE(together.size() == alone.size());
    REQUIRE(together.size() == without.size());
    for (std::size_t i = 0; i < together.size(); ++i) {
        CHECK(together[i].tokens == without[i].tokens);
        CHECK(without[i].words.empty());
        REQUIRE_FALSE(together[i].words.empty());
        REQUIRE(together[i].words.size() == alone[i].words.size());
        for (std::size_t w = 0; w < alone[i].words.size(); ++w) {
            CHECK(together[i].words[w].start == alone[i].words[w].start);
            CHECK(std::abs(together[i].words[w].probability - alone[i].words[w].probability) < 1e-6);
            CHECK(together[i].words[w].end == alone[i].words[w].end);
            CHECK(together[i].words[w].start >= together[i].start);
            CHECK(together[i].words[w].end <= together[i].end);
        }
    }
}

TEST_CASE("times of words need heads that the model has", "[api][speech][errors]") {
    TranscriberOptions options = transcriber_options("cpu");
    options.max_length = 24;
    const auto clip = clip_of("whisper_texts", 0);
    Transcriber without = must(Transcriber::load(speech_folder("whisper_d30_h3_h5"), options));
    const auto refused = without.choose_word_timestamps(true);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::InvalidArgument);
    CHECK_THAT(refused.error().message, ContainsSubstring("\"alignment_heads\" is missing"));
    must(without.choose_word_timestamps(false));

    options.word_timestamps = true;
    CHECK_FALSE(Transcriber::load(speech_folder("whisper_d30_h3_h5"), options));
    CHECK(refused.error().message.find(speech_folder("whisper_d30_h3_h5").string()) == std::string::npos);
    for (const auto& [heads, message] : {std::pair{"[[1, 0]]", "has head 0 of layer 1, which the decoder has not"},
                                         {"[[0, 4]]", "has head 4 of layer 0, which the decoder has not"},
                                         {"[[0, 1], [0, 2], [0, 1]]", "has head 1 of layer 0 twice"},
                                         {"[[0, 1], [0]]", "pairs of a layer and a head"},
                                         {"[[0, null]]", "pairs of a layer and a head"}}) {
        const ChangedFolder changed("whisper_texts", "alignment_heads", heads);
        CAPTURE(heads);
        const auto loaded = Transcriber::load(changed.folder.path(), options);
        REQUIRE_FALSE(loaded);
        CHECK_THAT(loaded.error().message, ContainsSubstring(message));
    }
    const ChangedFolder even("whisper_texts", "median_filter_width", "7");
    json config = read_json(even.folder / "config.json");
    config["median_filter_width"] = 8;
    std::ofstream(even.folder / "config.json") << config.dump();
    const auto unusable = Transcriber::load(even.folder.path(), options);
    REQUIRE_FALSE(unusable);
    CHECK_THAT(unusable.error().message, ContainsSubstring("\"median_filter_width\" is no odd number"));
    options.word_timestamps = false;
    must(Transcriber::load(even.folder.path(), options));
    options.word_timestamps = true;

    Transcriber transcriber = must(Transcriber::load(speech_folder("whisper_texts"), options));
    CHECK(must(transcriber.transcribe(clip)).segments[0].words.size() == 6);
    must(transcriber.choose_word_timestamps(false));
    CHECK(must(transcriber.transcribe(clip)).segments[0].words.empty());
}

TEST_CASE("text that is never good is drawn at every temperature, the same for the same seed", "[api][speech]") {
    TranscriberOptions options = transcriber_options("cpu", true);
    options.temperatures = {0, 0.4f, 1};
    options.log_prob_threshold = 1;
    const auto clip = Golden(std::string("speech/") + kTimed + "/golden.safetensors").floats("timed0");
    const auto tokens = [&](std::uint64_t seed) {
        options.seed = seed;
        Transcriber transcriber = must(Transcriber::load(speech_folder(kTimed), options));
        std::vector<std::vector<std::int32_t>> all;
        for (const SpeechSegment& segment : must(transcriber.transcribe(clip)).segments) {
            CHECK(segment.temperature == 1);
            CHECK(segment.average_log_prob < 0);
            CHECK(segment.no_speech > 0);
            all.push_back(segment.tokens);
        }
        return all;
    };
    const auto first = tokens(1);
    CHECK(first == tokens(1));
    CHECK((first != tokens(7) || first != tokens(8)));
}

TEST_CASE("the model folder's thresholds hold where none are given", "[api][speech]") {
    const ChangedFolder changed(kTimed, "logprob_threshold", "1");
    TranscriberOptions options = transcriber_options("cpu", true);
    options.temperatures = {0, 1e-4f};
    const auto clip = Golden(std::string("speech/") + kTimed + "/golden.safetensors").floats("timed0");
    const auto temperature = [&] {
        Transcriber transcriber = must(Transcriber::load(changed.folder.path(), options));
        return must(transcriber.transcribe(clip)).segments.at(0).temperature;
    };
    CHECK(temperature() == 0);
    options.log_prob_threshold.reset();
    CHECK(temperature() == 1e-4f);
}

TEST_CASE("silence at the end of short sound is not heard", "[api][speech]") {
    Transcriber transcriber = must(Transcriber::load(speech_folder(kTimed), transcriber_options("cpu", true)));
    auto clip = Golden(std::string("speech/") + kTimed + "/golden.safetensors").floats("timed0");
    clip.resize(clip.size() / 3);
    const auto found = must(transcriber.transcribe(clip));
    REQUIRE_FALSE(found.segments.empty());
    const double duration = static_cast<double>(clip.size()) / transcriber.sample_rate();
    for (const SpeechSegment& segment : found.segments) CHECK(segment.end <= duration);
}

TEST_CASE("float16 hears the same", "[api][speech][golden]") {
    TranscriberOptions options = transcriber_options("cpu");
    options.precision = Precision::f16;
    options.max_length = 24;
    Transcriber transcriber = must(Transcriber::load(speech_folder("whisper_texts"), options));
    const json entries = read_json(speech_folder("whisper_texts") / "generate.json");
    const auto found = must(transcriber.transcribe(clip_of("whisper_texts", 0)));
    CHECK(found.segments[0].tokens == generated("whisper_texts", entries[0]));
}

TEST_CASE("long sound is cut where it is quiet, and every window is heard by itself", "[api][speech]") {
    // English with a pause, German up to the end: a second fits into a window.
    const auto english = clip_of("whisper_texts", 0), german = clip_of("whisper_texts", 1);
    constexpr std::size_t kWindow = 8000;
    std::vector<float> samples = english;
    samples.resize(english.size() + 1000, 0);
    const std::size_t cut_after = samples.size();
    samples.insert(samples.end(), german.begin(), german.end());
    REQUIRE(samples.size() > kWindow);

    TranscriberOptions options = transcriber_options("cpu");
    options.max_length = 24;
    options.batch = GENERATE(1u, 2u, 3u);
    Transcriber transcriber = must(Transcriber::load(speech_folder("whisper_texts"), options));
    double told = 0;
    const auto found = must(transcriber.transcribe(samples, [&](double done, double total) {
        CHECK(done <= total);
        told = done;
    }));
    REQUIRE(found.segments.size() >= 2);
    CHECK(told == static_cast<double>(samples.size()) / 8000);
    const auto cut = static_cast<std::size_t>(std::lround(found.segments[0].end * 8000));
    CHECK(cut > english.size());
    CHECK(cut < cut_after);
    CHECK(found.language == "en");  // of the first window, and so of all

    std::string text;
    for (const SpeechSegment& window : found.segments) {
        const auto first = static_cast<std::size_t>(std::lround(window.start * 8000)),
                   last = static_cast<std::size_t>(std::lround(window.end * 8000));
        CHECK(last - first <= kWindow);
        const auto alone = must(transcriber.transcribe(std::span(samples).subspan(first, last - first)));
        text += window.text;
        if (alone.language == "en") CHECK(alone.segments[0].tokens == window.tokens);
    }
    CHECK(found.segments.back().end == static_cast<double>(samples.size()) / 8000);
    CHECK(text.find(found.text) != text.npos);
}

TEST_CASE("samples that cannot be heard are refused", "[api][speech][errors]") {
    Transcriber transcriber = must(Transcriber::load(speech_folder("whisper_english"), transcriber_options("cpu")));
    CHECK(transcriber.sample_rate() == 8000);
    const auto none = transcriber.transcribe({});
    REQUIRE_FALSE(none);
    CHECK(none.error().code == ErrorCode::InvalidArgument);
    const std::vector<float> broken = {0, std::numeric_limits<float>::quiet_NaN()};
    CHECK_FALSE(transcriber.transcribe(broken));
    CHECK(transcriber.transcribe(std::vector<float>{0.25f}));
}

TEST_CASE("languages and tasks that a model lacks are refused by name", "[api][speech][errors]") {
    const auto refused = [](const std::string& name, const std::string& language, const std::string& task) {
        TranscriberOptions options = transcriber_options("cpu");
        options.language = language;
        options.task = task;
        auto result = Transcriber::load(speech_folder(name), options);
        REQUIRE_FALSE(result);
        CHECK(result.error().code == ErrorCode::InvalidArgument);
        return result.error().message;
    };
    CHECK_THAT(refused("whisper_texts", "klingon", ""), ContainsSubstring("\"klingon\", but de, en, fr"));
    CHECK_THAT(refused("whisper_texts", "", "sing"), ContainsSubstring("transcribe, translate"));
    CHECK_THAT(refused("whisper_english", "de", ""), ContainsSubstring("one language"));
    CHECK_THAT(refused("whisper_english", "", "translate"), ContainsSubstring("one language"));
}

TEST_CASE("generation configs of speech that are not done are refused by name", "[models][speech][errors]") {
    const auto [field, value] = GENERATE(table<std::string, std::string>({
        {"num_beams", "33"},
        {"forced_bos_token_id", "5"},
        {"forced_eos_token_id", "5"},
        {"min_length", "5"},
        {"min_new_tokens", "5"},
        {"encoder_no_repeat_ngram_size", "3"},
        {"max_initial_timestamp_index", "-1"},
        {"do_sample", "true"},
        {"no_speech_threshold", "\"high\""},
        {"condition_on_prev_tokens", "1"},
        {"forced_decoder_ids", "[[2, 5]]"},
        {"forced_decoder_ids", "[[1, null], [2, null]]"},
        {"forced_decoder_ids", "[[1]]"},
        {"lang_to_id", R"({"<|en|>": "x"})"},
        {"lang_to_id", R"({"<|en|>": -4})"},
        {"no_timestamps_token_id", "4000000000"},
        {"max_length", "3"},
    }));
    CAPTURE(field, value);
    const ChangedFolder changed("whisper_texts", field, value);
    const auto result = models::load_speech_config(changed.folder.path(), 80, 1 << 16,
                                                   {.language = {}, .task = {}, .timestamps = false});
    REQUIRE_FALSE(result);
    const bool names = result.error().message.find(field) != std::string::npos ||
                       result.error().message.find("<|en|>") != std::string::npos;
    CHECK(names);
}

TEST_CASE("a max_length of 20 counts what the decoder is given, where it is said", "[models][speech]") {
    const auto load = [](const char* value) {
        const ChangedFolder changed("whisper_texts", "max_length", value);
        return must(models::load_speech_config(changed.folder.path(), 80, 1 << 16, {}));
    };
    CHECK(load("20").max_length == 20);
    CHECK(load("20").max_new_tokens == 0);
    CHECK(load("null").max_new_tokens == 20);
}

TEST_CASE("what the decoder is given follows config and choice", "[models][speech]") {
    const auto prefix = [](const std::string& name, models::SpeechChoice choice) {
        const auto timed = must(models::load_speech_config(speech_folder(name), 80, 1 << 16, choice)).prefix.size();
        choice.timestamps = false;
        const auto plain = must(models::load_speech_config(speech_folder(name), 80, 1 << 16, choice)).prefix.size();
        CHECK(plain == timed + 1);
        return plain;
    };
    CHECK(prefix("whisper_english", {}) == 1);
    CHECK(prefix("whisper_texts", {}) == 2);                                  // heard, no times
    CHECK(prefix("whisper_texts", {.language = "<|DE|>", .task = {}}) == 3);  // and the task
    CHECK(prefix("whisper_texts", {.language = {}, .task = "translate"}) == 3);
    const auto heard = must(models::load_speech_config(speech_folder("whisper_d20_untied"), 80, 1 << 16, {}));
    CHECK(heard.prefix.size() == 2);
    CHECK(heard.prefix[0] == -1);
    CHECK(heard.languages.size() == 3);
}

TEST_CASE("a folder that does not hear is no transcriber, and one that does is no translator",
          "[api][speech][errors]") {
    const auto text = Transcriber::load(goldens_dir() / "encoder_decoders/bart_d21_h3_h7", transcriber_options("cpu"));
    REQUIRE_FALSE(text);
    CHECK_THAT(text.error().message, ContainsSubstring("whisper"));
    CHECK_FALSE(Transcriber::load(goldens_dir() / "no such folder", transcriber_options("cpu")));
    const ChangedFolder changed("whisper_texts", "suppress_tokens", "[100000]");
    const auto banned = Transcriber::load(changed.folder.path(), transcriber_options("cpu"));
    REQUIRE_FALSE(banned);
    CHECK(banned.error().code == ErrorCode::UnsupportedConfig);
    CHECK_THAT(banned.error().message, ContainsSubstring("suppress_tokens"));
}

}  // namespace vkformer::tests
