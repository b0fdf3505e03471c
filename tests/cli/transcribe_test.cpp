// SPDX-License-Identifier: MIT
/// vkformer transcribe as a user runs it, on the CPU, with sound files good and bad.
#include <algorithm>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "cli/run_program.hpp"
#include "support/catch.h"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/noise.hpp"
#include "support/vad.hpp"
#include "support/wav.hpp"

#ifdef VKFORMER_CLI

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

constexpr const char* kTimedModel = "whisper_times_414";

std::vector<float> clip() { return Golden("speech/whisper_texts/golden.safetensors").floats("clip0"); }

Outcome transcribe(const std::string& rest, const std::string& model = "whisper_texts") {
    return run("transcribe -d cpu --plain --no-timestamps --max-length 24 -m " + speech_folder(model).string() + " " +
               rest);
}

std::filesystem::path write_sound(const TemporaryFolder& folder, const std::string& bytes) {
    const auto path = folder / "sound.wav";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
}

void check_sound_refused(const std::string& bytes, const std::string& message) {
    const TemporaryFolder folder;
    const Outcome outcome = transcribe(write_sound(folder, bytes).string());
    CAPTURE(outcome.err, message);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK_THAT(outcome.err, ContainsSubstring("sound.wav"));
    CHECK_THAT(outcome.err, ContainsSubstring(message));
}

}  // namespace

TEST_CASE("transcribe prints what is said", "[cli][speech]") {
    const TemporaryFolder folder;
    const std::string file = write_sound(folder, wav(clip(), 8000)).string();
    const Outcome plain = transcribe(file);
    CHECK(plain.exit_code == 0);
    CHECK(plain.out == "The cat sat on the mat.\n");
    CHECK_THAT(plain.err, ContainsSubstring("device: CPU"));
    CHECK(transcribe("--temperature 0,0.4 " + file).out == plain.out);

    const Outcome objects = transcribe("-q --json --language en --task translate " + file);
    REQUIRE(objects.exit_code == 0);
    CHECK(objects.err.empty());
    const json object = json::parse(objects.out);
    CHECK(object["file"] == file);
    CHECK(object["language"] == "en");
    REQUIRE(object["segments"].size() == 1);
    CHECK(object["segments"][0]["start"] == 0);
    CHECK(object["segments"][0]["temperature"] == 0);
    CHECK(object["segments"][0]["avg_logprob"].get<double>() > -1);
    CHECK(object["segments"][0]["end"] == static_cast<double>(clip().size()) / 8000);
    CHECK(object["text"] == "The cat sat on the mat.");
}

TEST_CASE("transcribe prints what CTC models hear", "[cli][ctc]") {
    const TemporaryFolder folder;
    const auto model = goldens_dir() / "ctc/wav2vec2_base";
    const json golden = read_json(model / "text.json");
    const std::string file = write_sound(folder, wav(noise_of(golden["samples"], 7), 1000)).string();
    const std::string command = "transcribe -q -d cpu --plain " + file + " -m ";
    CHECK(run(command + model.string()).out == golden["text"].get<std::string>() + "\n");
    const json object = json::parse(run(command + model.string() + " --json --word-timestamps").out);
    CHECK(object["text"] == golden["text"]);
    CHECK_FALSE(object.contains("language"));
    CHECK(object["segments"][0]["words"][0]["start"] == golden["words"][0]["start"]);
    CHECK_THAT(run(command + model.string() + " --format srt").out, ContainsSubstring("00:00:00,"));
    const Outcome refused = run(command + model.string() + " --language de");
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.err, ContainsSubstring("leave out language"));
    const auto blocks = folder / "blocks";
    CHECK(run("convert -q --dtype q8_0 " + model.string() + " " + blocks.string()).exit_code == 0);
    CHECK_THAT(run("inspect " + blocks.string()).out, ContainsSubstring("q8_0"));
    CHECK_FALSE(run(command + blocks.string()).out.empty());
    for (const char* const looks :
         {"validate --length 9 --model ", "bench model --length 9 --runs 2 --batch 2 --model "})
        CHECK(run(std::string(looks) + model.string() + " -d cpu -q").exit_code == 0);
}

TEST_CASE("transcribe writes subtitles", "[cli][speech]") {
    const TemporaryFolder folder;
    const auto samples = Golden(std::string("speech/") + kTimedModel + "/golden.safetensors").floats("timed1");
    const std::string file = write_sound(folder, wav(samples, 8000)).string();
    const auto in_format = [&](const std::string& format) {
        return run("transcribe -q -d cpu --plain --no-fallback --no-speech-threshold inf " + format + " -m " +
                   speech_folder(kTimedModel).string() + " " + file);
    };
    const Outcome objects = in_format("--json"), srt = in_format("--format srt"), vtt = in_format("--format vtt");
    REQUIRE(objects.exit_code == 0);
    const json segments = json::parse(objects.out)["segments"];
    REQUIRE(segments.size() > 1);
    const auto lines = [](const std::string& text) { return std::ranges::count(text, '\n'); };
    CHECK(lines(srt.out) == static_cast<std::ptrdiff_t>(4 * segments.size()));
    CHECK(lines(vtt.out) == static_cast<std::ptrdiff_t>(3 * segments.size() + 2));
    CHECK(vtt.out.starts_with("WEBVTT\n\n00:00:0"));
    CHECK(srt.out.starts_with("1\n00:00:0"));
    char time[64];
    const json& last = segments.back();
    std::snprintf(time, sizeof time, "00:00:%06.3f --> 00:00:%06.3f\n", last["start"].get<double>(),
                  last["end"].get<double>());
    CHECK_THAT(vtt.out, ContainsSubstring(time));
    std::string with_commas(time);
    std::ranges::replace(with_commas, '.', ',');
    CHECK_THAT(srt.out, ContainsSubstring(std::to_string(segments.size()) + "\n" + with_commas));

    CHECK_THAT(in_format("--format srt --no-timestamps").err, ContainsSubstring("--no-timestamps"));
    CHECK_THAT(in_format("--format srt --json").err, ContainsSubstring("--json"));
    CHECK_THAT(in_format("--format srt " + file).err, ContainsSubstring("one sound file"));
    CHECK_THAT(in_format("--batch 4").err, ContainsSubstring("--batch"));
    CHECK_THAT(in_format("--condition-on-previous --no-timestamps").err, ContainsSubstring("--condition-on-previous"));
    CHECK(in_format("--format tsv").exit_code != 0);
}

TEST_CASE("transcribe says when words are said", "[cli][speech]") {
    const TemporaryFolder folder;
    const std::string file = write_sound(folder, wav(clip(), 8000)).string();
    const Outcome outcome = transcribe("-q --json --word-timestamps " + file);
    REQUIRE(outcome.exit_code == 0);
    const json segment = json::parse(outcome.out)["segments"][0];
    REQUIRE(segment["words"].size() == 6);
    std::string joined;
    for (const json& word : segment["words"]) {
        CHECK(word.size() == 4);
        CHECK(word["probability"].get<double>() > 0.9);
        CHECK(word["start"].get<double>() <= word["end"].get<double>());
        CHECK(word["end"].get<double>() <= segment["end"].get<double>());
        joined += word["word"].get<std::string>();
    }
    CHECK(joined == segment["text"].get<std::string>());
    CHECK_FALSE(json::parse(transcribe("-q --json " + file).out)["segments"][0].contains("words"));
    CHECK_THAT(transcribe("--word-timestamps " + file).err, ContainsSubstring("--json"));
    const Outcome unknown = transcribe("--json --word-timestamps " + file, "whisper_d20_untied");
    CHECK(unknown.exit_code != 0);
    CHECK_THAT(unknown.err, ContainsSubstring("\"alignment_heads\" is missing"));
}

TEST_CASE("transcribe takes sound of any rate and number of channels", "[cli][speech]") {
    const TemporaryFolder folder;
    const Outcome stereo = transcribe(write_sound(folder, wav(clip(), 8000, 2)).string());
    CHECK(stereo.out == "The cat sat on the mat.\n");
    // Twice the rate: every sample twice is a fair copy of what lies far below the lower rate's limit.
    std::vector<float> doubled;
    for (const float sample : clip()) doubled.insert(doubled.end(), 2, sample);
    const Outcome fast = transcribe(write_sound(folder, wav(doubled, 16000)).string());
    CHECK(fast.exit_code == 0);
    CHECK_FALSE(fast.out.empty());
}

TEST_CASE("sound files that are none are refused with a reason", "[cli][speech][errors]") {
    const auto samples = clip();
    const std::string good = wav(samples, 8000);
    check_sound_refused("", "libsndfile");
    check_sound_refused("RIFF", "libsndfile");
    check_sound_refused(good.substr(0, 30), "libsndfile");
    check_sound_refused(std::string(2000, 'x'), "libsndfile");
    check_sound_refused(wav({}, 8000), "no samples");
    check_sound_refused(wav(samples, 0), "");
    check_sound_refused(wav(samples, 4'000'000'000u), "");
    check_sound_refused(wav(samples, 3), "cannot be converted");
    check_sound_refused(wav(samples, 8000, 1000),
                        "the header says 1000 channels at 8000 Hz; there may be up to 64 channels");
    const Outcome missing = transcribe("no_such_file.wav");
    CHECK(missing.exit_code == 2);
    CHECK_THAT(missing.err, ContainsSubstring("no_such_file.wav"));
}

TEST_CASE("a WAV file that ends early is heard as far as it goes", "[cli][speech]") {
    const TemporaryFolder folder;
    const std::string good = wav(clip(), 8000);
    const Outcome cut = transcribe(write_sound(folder, good.substr(0, good.size() - 501)).string());
    CHECK(cut.exit_code == 0);
    const std::string promised = std::to_string(2 * clip().size());
    CHECK_THAT(cut.err, ContainsSubstring("ends early: its header promises " + promised + " bytes of sound, it has " +
                                          std::to_string(2 * clip().size() - 501)));
    const Outcome claims = transcribe(write_sound(folder, wav(clip(), 8000, 1, 0xF0000000u)).string());
    CHECK(claims.out == "The cat sat on the mat.\n");
    CHECK_THAT(claims.err, ContainsSubstring("promises 4026531840 bytes of sound, it has " + promised));
    // What programs write into pipes, and what is whole.
    for (const std::uint32_t bytes : {0xFFFFFFFFu, 0u})
        CHECK_THAT(transcribe(write_sound(folder, wav(clip(), 8000, 1, bytes)).string()).err,
                   !ContainsSubstring("ends early"));
}

TEST_CASE("transcribe hears speech alone", "[cli][speech][vad]") {
    const SpeechModelAt16Khz model(kTimedModel);
    const auto samples =
        speech_between_silence(Golden(std::string("speech/") + kTimedModel + "/golden.safetensors").floats("timed1"));
    const TemporaryFolder folder;
    const std::string file = write_sound(folder, wav(samples, 16000)).string(),
                      vad = "--vad " + vad_file().string() + " ";
    const auto transcribed = [&](const std::string& rest) {
        return run("transcribe -q -d cpu --plain --no-fallback --no-speech-threshold inf --logprob-threshold=-inf -m " +
                   model.folder.path().string() + " " + rest);
    };
    const Outcome heard = transcribed(vad + "--json " + file);
    CAPTURE(heard.err);
    REQUIRE(heard.exit_code == 0);
    const json segments = json::parse(heard.out)["segments"];
    REQUIRE(segments.size() > 1);
    CHECK(segments.front()["start"].get<double>() < 0.5);
    CHECK(segments.back()["end"].get<double>() > 5);
    for (const json& segment : segments) {  // of which none begins in the middle of the silence
        const double start = segment["start"];
        CHECK((start < 2.2 || start > 4.2));
    }
    CHECK_THAT(transcribed(vad + "--format srt " + file).out, ContainsSubstring("00:00:05,"));
    // Of what is no speech there is no text.
    CHECK(transcribed(vad + "--vad-threshold 1 " + file).out == "\n");
    CHECK(transcribed(vad + "--vad-min-speech-duration-ms 60000 --format srt " + file).out.empty());
    const std::string many =
        "--vad-neg-threshold 0.3 --vad-max-speech-duration-s 0.5 --vad-min-silence-duration-ms 100 "
        "--vad-speech-pad-ms 30 ";
    CHECK(json::parse(transcribed(vad + many + "--json " + file).out)["segments"] != segments);

    const auto refused = [&](const std::string& rest, const std::string& words) {
        const Outcome outcome = transcribed(rest + " " + file);
        CHECK(outcome.exit_code != 0);
        CHECK_THAT(outcome.err, ContainsSubstring(words));
    };
    refused("--vad-threshold 0.4", "--vad");
    refused("--vad no_such_file", "no_such_file");
    refused("--vad ''", "no file");
    refused("--vad " + file, "sound.wav");
    refused(vad + "--vad-threshold 1.5", "0 to 1");
    refused(vad + "--vad-threshold much", "much");
    refused(vad + "--vad-speech-pad-ms -5", "-5");
    refused(vad + "--vad-max-speech-duration-s 0.5", "two pads");
    CHECK_THAT(transcribe(vad + file).err, ContainsSubstring("vad 16000"));
}

TEST_CASE("transcribe says what it needs and what it does not do", "[cli][speech][errors]") {
    const TemporaryFolder folder;
    const std::string file = write_sound(folder, wav(clip(), 8000)).string();
    CHECK_THAT(run("transcribe " + file).err, ContainsSubstring("--model"));
    CHECK_THAT(transcribe("").err, ContainsSubstring("file"));
    CHECK_THAT(transcribe("--timestamps " + file).err, ContainsSubstring("--timestamps"));
    CHECK_THAT(transcribe("--language xx " + file).err, ContainsSubstring("de, en, fr"));
    const Outcome text_model =
        run("transcribe -d cpu -m " + (goldens_dir() / "encoder_decoders/bart_d21_h3_h7").string() + " " + file);
    CHECK(text_model.exit_code == 2);
    CHECK_THAT(text_model.err, ContainsSubstring("supported: speech models (whisper, wav2vec2, hubert)"));
    const Outcome help = run("transcribe --help");
    CHECK(help.exit_code == 0);
    CHECK_THAT(help.out, ContainsSubstring("--language"));
}

}  // namespace vkformer::tests

#endif
