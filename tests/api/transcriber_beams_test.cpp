// SPDX-License-Identifier: MIT
/// Beam searches and prompts of models that hear, against Hugging Face's generate(num_beams=…, prompt_ids=…):
/// tests/goldens/speech/*/beams.json.
#include <cmath>
#include <fstream>
#include <limits>

#include <nlohmann/json.hpp>

#include "support/backends.hpp"
#include "support/catch.h"
#include "support/files.hpp"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/temporary_folder.hpp"
#include "vkformer/transcriber.hpp"

namespace vkformer::tests {
namespace {

using nlohmann::json;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

TranscriberOptions searching(const std::string& device, std::uint32_t beams) {
    TranscriberOptions options;
    options.device = device;
    options.plain_shaders = true;
    options.beams = beams;
    options.temperatures = {0};
    options.compression_ratio_threshold = kNoLimit;
    options.log_prob_threshold = -kNoLimit;
    options.no_speech_threshold = kNoLimit;
    return options;
}

/// A copy of a model folder whose generation_config.json has an entry's options of a search, but for its beams.
struct FolderOfEntry {
    TemporaryFolder folder;

    FolderOfEntry(const std::string& name, const json& asked) {
        std::filesystem::copy(speech_folder(name), folder.path(), std::filesystem::copy_options::recursive);
        json config = read_json(folder / "generation_config.json");
        for (const char* const field :
             {"length_penalty", "early_stopping", "renormalize_logits", "no_repeat_ngram_size"})
            if (asked.contains(field)) config[field] = asked[field];
        std::ofstream(folder / "generation_config.json") << config.dump();
    }
};

std::vector<float> sound_of(const std::string& name, const json& entry) {
    return Golden("speech/" + name + "/golden.safetensors").floats(entry["clip"].get<std::string>());
}

}  // namespace

TEST_CASE("beams find the texts of Hugging Face's search, and what they are worth", "[api][speech][beam][golden]") {
    const std::string device = GENERATE_COPY(from_range(device_names()));
    const std::string name = GENERATE("whisper_d20_untied", "whisper_texts", "whisper_times_414");
    const json golden = read_json(speech_folder(name) / "beams.json");
    REQUIRE_FALSE(golden["windows"].empty());
    const json config = read_json(speech_folder(name) / "generation_config.json");
    for (std::size_t i = 0; i < golden["windows"].size(); ++i) {
        if (device != "cpu" && i % 3 != 0) continue;
        const json &entry = golden["windows"][i], &asked = entry["options"];
        CAPTURE(device, name, entry["clip"].dump(), asked.dump());
        const FolderOfEntry changed(name, asked);
        TranscriberOptions options = searching(device, asked["num_beams"]);
        options.timestamps = false;
        options.language = asked.value("language", "");
        options.max_length = 24;
        Transcriber transcriber = must(Transcriber::load(changed.folder.path(), options));
        const auto found = must(transcriber.transcribe(sound_of(name, entry)));
        auto tokens = entry["tokens"].get<std::vector<std::int32_t>>();
        tokens.erase(tokens.begin(),
                     std::ranges::find(tokens, config["no_timestamps_token_id"].get<std::int32_t>()) + 1);
        const auto count = static_cast<double>(tokens.size());
        if (tokens.back() == config["eos_token_id"].get<std::int32_t>()) tokens.pop_back();
        REQUIRE(found.segments.size() == 1);
        CHECK(found.segments[0].tokens == tokens);
        const double penalty = asked.value("length_penalty", 1.0), score = entry["score"];
        CHECK(std::abs(found.segments[0].average_log_prob * std::pow(count, 1 - penalty) - score) <
              1e-4 * std::max(1.0, std::abs(score)));
    }
}

TEST_CASE("segments with times are those of Hugging Face's search and behind its prompts",
          "[api][speech][beam][golden]") {
    const std::string device = GENERATE_COPY(from_range(device_names()));
    const std::string name = GENERATE("whisper_times_414", "whisper_times_423");
    const json golden = read_json(speech_folder(name) / "beams.json");
    REQUIRE_FALSE(golden["timed"].empty());
    for (std::size_t i = 0; i < golden["timed"].size(); ++i) {
        if (device != "cpu" && i % 3 != 1) continue;
        if (!takes_case(device, 2)) continue;
        const json &entry = golden["timed"][i], &asked = entry["options"];
        CAPTURE(device, name, entry["clip"].dump(), asked.dump());
        const FolderOfEntry changed(name, asked);
        TranscriberOptions options = searching(device, asked["num_beams"]);
        options.condition_on_previous = asked.value("condition_on_prev_tokens", false);
        options.prompt = asked.value("prompt", "");
        Transcriber transcriber = must(Transcriber::load(changed.folder.path(), options));
        const auto samples = sound_of(name, entry);
        const auto found = must(transcriber.transcribe(samples));
        const double duration = static_cast<double>(samples.size()) / transcriber.sample_rate();
        REQUIRE(found.segments.size() == entry["segments"].size());
        for (std::size_t s = 0; s < found.segments.size(); ++s) {
            CAPTURE(s);
            const json& expected = entry["segments"][s];
            CHECK(found.segments[s].tokens == expected["tokens"].get<std::vector<std::int32_t>>());
            CHECK(std::abs(found.segments[s].start - std::min(expected["start"].get<double>(), duration)) < 1e-9);
            CHECK(std::abs(found.segments[s].end - std::min(expected["end"].get<double>(), duration)) < 1e-9);
        }
    }
}

TEST_CASE("the model folder's beams hold where none are given", "[api][speech][beam]") {
    const json entries = read_json(speech_folder("whisper_times_414") / "beams.json")["timed"];
    const json entry = *std::ranges::find_if(entries, [](const json& of) {
        return of["options"] == json{{"num_beams", 2}} && of["clip"] == "timed1";
    });
    TemporaryFolder folder;
    std::filesystem::copy(speech_folder("whisper_times_414"), folder.path(), std::filesystem::copy_options::recursive);
    json config = read_json(folder / "generation_config.json");
    config["num_beams"] = 2;
    std::ofstream(folder / "generation_config.json") << config.dump();
    const auto tokens = [&](std::uint32_t beams) {
        Transcriber transcriber = must(Transcriber::load(folder.path(), searching("cpu", beams)));
        return must(transcriber.transcribe(sound_of("whisper_times_414", entry))).segments.at(0).tokens;
    };
    const auto searched = entry["segments"][0]["tokens"].get<std::vector<std::int32_t>>();
    CHECK(tokens(0) == searched);
    CHECK(tokens(1) != searched);
}

TEST_CASE("windows that are searched together have the texts and words of each alone", "[api][speech][beam]") {
    const std::string device = GENERATE_COPY(from_range(device_names()));
    if (!takes_case(device, 3)) return;
    const Golden golden("speech/whisper_texts/golden.safetensors");
    std::vector<float> sound;  // three sentences, each in a window of its own
    for (const char* const clip : {"clip0", "clip1", "clip2"}) {
        auto samples = golden.floats(clip);
        samples.resize(8000);
        sound.insert(sound.end(), samples.begin(), samples.end());
    }
    TranscriberOptions options = searching(device, 3);
    options.timestamps = false;
    options.max_length = 24;
    options.word_timestamps = true;
    const auto heard = [&](std::uint32_t batch) {
        options.batch = batch;
        return must(must(Transcriber::load(speech_folder("whisper_texts"), options)).transcribe(sound)).segments;
    };
    const auto together = heard(4), alone = heard(1);
    REQUIRE(together.size() == alone.size());
    REQUIRE(together.size() > 2);
    for (std::size_t i = 0; i < alone.size(); ++i) {
        CAPTURE(device, i);
        CHECK(together[i].tokens == alone[i].tokens);
        REQUIRE_FALSE(alone[i].words.empty());
        REQUIRE(together[i].words.size() == alone[i].words.size());
        for (std::size_t w = 0; w < alone[i].words.size(); ++w) {
            CHECK(together[i].words[w].start == alone[i].words[w].start);
            CHECK(std::abs(together[i].words[w].probability - alone[i].words[w].probability) < 1e-4);
            CHECK(alone[i].words[w].probability > 0);
            CHECK(alone[i].words[w].probability <= 1);
        }
    }
}

// What is likely anyway, a search finds too: its tokens are worth there what they are without one.
TEST_CASE("words of a search have the probabilities of their tokens", "[api][speech][beam]") {
    const auto words = [&](std::uint32_t beams) {
        TranscriberOptions options = searching("cpu", beams);
        options.timestamps = false;
        options.max_length = 24;
        options.word_timestamps = true;
        Transcriber transcriber = must(Transcriber::load(speech_folder("whisper_texts"), options));
        return must(transcriber.transcribe(sound_of("whisper_texts", {{"clip", "clip0"}}))).segments.at(0).words;
    };
    const auto searched = words(4), likeliest = words(1);
    REQUIRE(searched.size() == likeliest.size());
    REQUIRE(searched.size() > 3);
    for (std::size_t w = 0; w < searched.size(); ++w) {
        CHECK(searched[w].text == likeliest[w].text);
        CHECK(std::abs(searched[w].probability - likeliest[w].probability) < 2e-3);
    }
}

// transformers' _need_fallback looks at sequences_scores: with a length penalty of 2 a fraction of the tokens' mean.
TEST_CASE("the threshold on log-probabilities looks at what a search says its text is worth", "[api][speech][beam]") {
    const auto temperature = [](double penalty) {
        const FolderOfEntry changed("whisper_times_414", {{"length_penalty", penalty}});
        TranscriberOptions options = searching("cpu", 4);
        options.timestamps = false;
        options.temperatures = {0, 1};
        options.log_prob_threshold = -0.5;
        Transcriber transcriber = must(Transcriber::load(changed.folder.path(), options));
        const auto segment =
            must(transcriber.transcribe(sound_of("whisper_times_414", {{"clip", "clip0"}}))).segments.at(0);
        if (segment.temperature == 0) CHECK(segment.average_log_prob < -0.5);
        return segment.temperature;
    };
    CHECK(temperature(1) == 1);
    CHECK(temperature(2) == 0);
}

TEST_CASE("a folder's max_length counts nothing of what stands before the start token", "[api][speech]") {
    const FolderOfEntry changed("whisper_times_414", {});
    json config = read_json(changed.folder / "generation_config.json");
    config["max_length"] = 14;
    std::ofstream(changed.folder / "generation_config.json") << config.dump();
    TranscriberOptions options = searching("cpu", 1);
    options.timestamps = false;
    const auto samples = sound_of("whisper_times_414", {{"clip", "clip0"}});
    Transcriber transcriber = must(Transcriber::load(changed.folder.path(), options));
    CHECK(must(transcriber.transcribe(samples)).segments.at(0).tokens.size() == 11);  // behind three that are given
    must(transcriber.choose_prompt("The cat, der Hund, nous voyons la mer. The cat, der Hund, nous voyons la mer."));
    const auto behind = must(transcriber.transcribe(samples)).segments.at(0).tokens.size();
    CHECK(behind > 0);
    CHECK(behind <= 11);
}

TEST_CASE("of several draws the likeliest is taken", "[api][speech][beam]") {
    const auto worth = [&](std::uint32_t beams, std::uint64_t seed = 3) {
        TranscriberOptions options = searching("cpu", beams);
        options.timestamps = false;
        options.max_length = 12;
        options.temperatures = {1};
        options.seed = seed;
        Transcriber transcriber = must(Transcriber::load(speech_folder("whisper_times_414"), options));
        return must(transcriber.transcribe(sound_of("whisper_times_414", {{"clip", "clip0"}})))
            .segments.at(0)
            .average_log_prob;
    };
    const double one = worth(1), two = worth(2), eight = worth(8);
    CHECK(two >= one);  // the first draw is the same
    CHECK(eight >= two);
    CHECK(eight > one);
    CHECK(worth(8) == eight);
    CHECK(worth(8, 1000) != eight);  // it is drawn, not searched for
}

TEST_CASE("no token comes twice where the folder says so, with and without beams", "[api][speech][beam]") {
    const std::uint32_t beams = GENERATE(1u, 2u);
    CAPTURE(beams);
    const auto repeats = [&](const json& asked) {
        const FolderOfEntry changed("whisper_times_414", asked);
        TranscriberOptions options = searching("cpu", beams);
        options.timestamps = false;
        options.max_length = 24;
        Transcriber transcriber = must(Transcriber::load(changed.folder.path(), options));
        auto tokens =
            must(transcriber.transcribe(sound_of("whisper_times_414", {{"clip", "clip0"}}))).segments.at(0).tokens;
        std::ranges::sort(tokens);
        return std::ranges::adjacent_find(tokens) != tokens.end();
    };
    CHECK(repeats(json::object()));
    CHECK_FALSE(repeats({{"no_repeat_ngram_size", 1}}));
}

TEST_CASE("a prompt is chosen from call to call, and comes before every window of text alone", "[api][speech]") {
    TranscriberOptions options = searching("cpu", 1);
    const json entries = read_json(speech_folder("whisper_times_414") / "beams.json")["timed"];
    const auto is = [](const json& of, bool has_prompt) {
        return of["options"].contains("prompt") == has_prompt && !of["options"].contains("condition_on_prev_tokens");
    };
    const json entry = *std::ranges::find_if(entries, [&](const json& of) { return is(of, true); });
    const auto samples = sound_of("whisper_times_414", entry);
    const auto expected = entry["segments"][0]["tokens"].get<std::vector<std::int32_t>>();
    Transcriber transcriber = must(Transcriber::load(speech_folder("whisper_times_414"), options));
    const auto first_tokens = [&](Transcriber& of) { return must(of.transcribe(samples)).segments.at(0).tokens; };
    const auto without = first_tokens(transcriber);
    CHECK(without != expected);
    must(transcriber.choose_prompt("\n " + entry["options"]["prompt"].get<std::string>() + " "));
    CHECK(first_tokens(transcriber) == expected);
    Transcriber twin = must(transcriber.twin());
    CHECK(first_tokens(twin) == expected);
    must(transcriber.choose_prompt(" "));
    CHECK(first_tokens(transcriber) == without);

    options.timestamps = false;
    options.max_length = 12;
    Transcriber windows = must(Transcriber::load(speech_folder("whisper_times_414"), options));
    const auto texts = [&] {
        std::vector<std::vector<std::int32_t>> all;
        for (const SpeechSegment& segment : must(windows.transcribe(samples)).segments) all.push_back(segment.tokens);
        return all;
    };
    const auto plain = texts();
    must(windows.choose_prompt("der Hund"));
    const auto prompted = texts();
    REQUIRE(plain.size() == prompted.size());
    for (std::size_t i = 0; i < plain.size(); ++i) CHECK(plain[i] != prompted[i]);
}

TEST_CASE("a prompt that is no text, and one for a model that takes none, are refused", "[api][speech][errors]") {
    Transcriber transcriber = must(Transcriber::load(speech_folder("whisper_times_414"), searching("cpu", 1)));
    for (const char* const prompt : {"so <|endoftext|>", "<|en|>", "<|0.40|> so"}) {
        CAPTURE(prompt);
        const auto chosen = transcriber.choose_prompt(prompt);
        REQUIRE_FALSE(chosen);
        CHECK(chosen.error().code == ErrorCode::InvalidArgument);
        CHECK(chosen.error().message == "the prompt has special tokens: give text alone");
    }
    CHECK_FALSE(transcriber.choose_prompt("\xff\xfe"));

    TemporaryFolder folder;
    std::filesystem::copy(speech_folder("whisper_texts"), folder.path(), std::filesystem::copy_options::recursive);
    json config = read_json(folder / "generation_config.json");
    config["suppress_tokens"] = nullptr;
    std::ofstream(folder / "generation_config.json") << config.dump();
    TranscriberOptions options = searching("cpu", 1);
    options.timestamps = false;
    options.prompt = "names";
    const auto loaded = Transcriber::load(folder.path(), options);
    REQUIRE_FALSE(loaded);
    CHECK(loaded.error().code == ErrorCode::InvalidArgument);
    CHECK(loaded.error().message.find("\"prev_sot_token_id\"") != std::string::npos);
    options.prompt.clear();
    must(Transcriber::load(folder.path(), options));
}

TEST_CASE("more beams than there are, are refused", "[api][speech][beam][errors]") {
    for (const std::uint32_t beams : {33u, 1u << 31}) {
        const auto loaded = Transcriber::load(speech_folder("whisper_texts"), searching("cpu", beams));
        REQUIRE_FALSE(loaded);
        CHECK(loaded.error().code == ErrorCode::InvalidArgument);
        CHECK(loaded.error().message.find("1 to 32") != std::string::npos);
    }
}

}  // namespace vkformer::tests
