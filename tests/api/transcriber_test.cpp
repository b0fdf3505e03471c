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
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"

using namespace vkformer;
using namespace vkformer::tests;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

std::filesystem::path folder_of(const std::string& name) { return goldens_dir() / "speech" / name; }

json read_json(const std::filesystem::path& path) {
    std::ifstream file(path);
    return json::parse(file);
}

std::vector<float> clip_of(const std::string& name, int clip) {
    return Golden("speech/" + name + "/golden.safetensors").floats("clip" + std::to_string(clip));
}

TranscriberOptions options_for(const std::string& device) {
    TranscriberOptions options;
    options.device = device;
    options.plain_shaders = true;  // nothing is measured in tests
    return options;
}

/// A copy of a model folder with another value in its generation_config.json.
struct ChangedFolder {
    TemporaryFolder folder;

    ChangedFolder(const std::string& name, const std::string& field, const std::string& value) {
        std::filesystem::copy(folder_of(name), folder.path(), std::filesystem::copy_options::recursive);
        json config = read_json(folder / "generation_config.json");
        config[field] = json::parse(value);
        std::ofstream(folder / "generation_config.json") << config.dump();
    }
};

}  // namespace

TEST_CASE("transcriptions are those of Hugging Face, token for token", "[api][speech][golden]") {
    std::vector<std::string> devices = {"cpu"};
    devices.insert(devices.end(), vulkan_device_indices().begin(), vulkan_device_indices().end());
    const std::string device = GENERATE_COPY(from_range(devices));
    const std::string name = GENERATE("whisper_d30_h3_h5", "whisper_d20_untied", "whisper_english", "whisper_texts");
    const json entries = read_json(folder_of(name) / "generate.json");
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (device != "cpu" && i % 5 != 0) continue;
        const json& entry = entries[i];
        CAPTURE(device, name, entry.dump());
        TranscriberOptions options = options_for(device);
        options.language = entry["options"].value("language", "");
        options.task = entry["options"].value("task", "");
        options.max_length = entry["max_length"];
        Transcriber transcriber = must(Transcriber::load(folder_of(name), options));
        const auto clip = clip_of(name, entry["clip"]);
        const Transcription found = must(transcriber.transcribe(clip));
        REQUIRE(found.windows.size() == 1);
        CHECK(found.windows[0].tokens == entry["tokens"].get<std::vector<std::int32_t>>());
        CHECK(found.windows[0].text == entry["text"].get<std::string>());
        CHECK(found.windows[0].end == static_cast<double>(clip.size()) / transcriber.sample_rate());
        CHECK((found.language.empty() == (name == "whisper_english")));
        if (!options.language.empty()) CHECK(found.language == options.language);
    }
}

TEST_CASE("float16 hears the same", "[api][speech][golden]") {
    TranscriberOptions options = options_for("cpu");
    options.precision = Precision::f16;
    options.max_length = 24;
    Transcriber transcriber = must(Transcriber::load(folder_of("whisper_texts"), options));
    const json entries = read_json(folder_of("whisper_texts") / "generate.json");
    const auto found = must(transcriber.transcribe(clip_of("whisper_texts", 0)));
    CHECK(found.windows[0].tokens == entries[0]["tokens"].get<std::vector<std::int32_t>>());
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

    TranscriberOptions options = options_for("cpu");
    options.max_length = 24;
    options.batch = GENERATE(1u, 2u, 3u);
    Transcriber transcriber = must(Transcriber::load(folder_of("whisper_texts"), options));
    std::size_t windows = 0;
    const auto found = must(transcriber.transcribe(samples, [&](std::size_t done, std::size_t total) {
        CHECK(done <= total);
        windows = total;
    }));
    REQUIRE(found.windows.size() >= 2);
    CHECK(windows == found.windows.size());
    const auto cut = static_cast<std::size_t>(std::lround(found.windows[0].end * 8000));
    CHECK(cut > english.size());
    CHECK(cut < cut_after);
    CHECK(found.language == "en");  // of the first window, and so of all

    std::string text;
    for (const Transcript& window : found.windows) {
        const auto first = static_cast<std::size_t>(std::lround(window.start * 8000)),
                   last = static_cast<std::size_t>(std::lround(window.end * 8000));
        CHECK(last - first <= kWindow);
        const auto alone = must(transcriber.transcribe(std::span(samples).subspan(first, last - first)));
        text += window.text;
        if (alone.language == "en") CHECK(alone.windows[0].tokens == window.tokens);
    }
    CHECK(found.windows.back().end == static_cast<double>(samples.size()) / 8000);
    CHECK(text.find(found.text) != text.npos);
}

TEST_CASE("samples that cannot be heard are refused", "[api][speech][errors]") {
    Transcriber transcriber = must(Transcriber::load(folder_of("whisper_english"), options_for("cpu")));
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
        TranscriberOptions options = options_for("cpu");
        options.language = language;
        options.task = task;
        auto result = Transcriber::load(folder_of(name), options);
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
        {"return_timestamps", "true"},
        {"num_beams", "5"},
        {"do_sample", "true"},
        {"no_speech_threshold", "0.6"},
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
    const auto result = models::load_speech_config(changed.folder.path(), 80, {});
    REQUIRE_FALSE(result);
    const bool names = result.error().message.find(field) != std::string::npos ||
                       result.error().message.find("<|en|>") != std::string::npos;
    CHECK(names);
}

TEST_CASE("what the decoder is given follows config and choice", "[models][speech]") {
    const auto prefix = [](const std::string& name, const models::SpeechChoice& choice) {
        return must(models::load_speech_config(folder_of(name), 80, choice)).prefix.size();
    };
    CHECK(prefix("whisper_english", {}) == 1);
    CHECK(prefix("whisper_texts", {}) == 2);                                  // heard, no times
    CHECK(prefix("whisper_texts", {.language = "<|DE|>", .task = {}}) == 3);  // and the task
    CHECK(prefix("whisper_texts", {.language = {}, .task = "translate"}) == 3);
    const auto heard = must(models::load_speech_config(folder_of("whisper_d20_untied"), 80, {}));
    CHECK(heard.prefix.size() == 3);
    CHECK(heard.prefix[0] == -1);
    CHECK(heard.languages.size() == 3);
}

TEST_CASE("a folder that does not hear is no transcriber, and one that does is no translator",
          "[api][speech][errors]") {
    const auto text = Transcriber::load(goldens_dir() / "encoder_decoders/bart_d21_h3_h7", options_for("cpu"));
    REQUIRE_FALSE(text);
    CHECK_THAT(text.error().message, ContainsSubstring("whisper"));
    CHECK_FALSE(Transcriber::load(goldens_dir() / "no such folder", options_for("cpu")));
    const ChangedFolder changed("whisper_texts", "suppress_tokens", "[100000]");
    Transcriber banned = must(Transcriber::load(changed.folder.path(), options_for("cpu")));
    const auto result = banned.transcribe(std::vector<float>(100, 0.5f));
    REQUIRE_FALSE(result);
    CHECK(result.error().code == ErrorCode::InvalidArgument);
}
