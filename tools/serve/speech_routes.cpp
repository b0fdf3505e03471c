// SPDX-License-Identifier: MIT
#include "serve/speech_routes.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <set>
#include <string>

#include "serve/fields.hpp"
#include "serve/form.hpp"
#include "serve/submit.hpp"
#include "sound/subtitles.hpp"

namespace vkformer::serve {
namespace {

using json = nlohmann::ordered_json;

constexpr double kSeeksPerSecond = 100;  // frames of OpenAI's models

struct Asked {
    std::optional<std::string> model;
    SoundFile file;
    std::string format = "json";
    bool segments = false;  ///< are asked for, as words may be
};

/// A form's values are texts; numbers are read from them.
void check_temperature(const std::string& text) {
    double number = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number != 0)
        throw Refusal(400, "only 0 is taken: higher ones follow where a window's text is not good", "temperature");
}

Asked read_form(const Request& request, bool translates) {
    static constexpr std::array<std::string_view, 5> kFormats = {"json", "text", "srt", "vtt", "verbose_json"};
    Asked asked;
    asked.file.task = translates ? "translate" : "transcribe";
    bool has_file = false;
    std::set<std::string, std::less<>> seen;
    for (Part& part : parse_multipart(request)) {
        const bool is_list = part.name.starts_with("timestamp_granularities");
        if (!seen.insert(part.name).second && !is_list) throw Refusal(400, "there are two", part.name);
        if (part.name == "file") {
            has_file = true;
            asked.file.bytes = std::move(part.bytes);
        } else if (part.name == "model") {
            asked.model = part.bytes;
        } else if (part.name == "language" && !translates) {
            asked.file.language = part.bytes;
        } else if (part.name == "prompt") {
            asked.file.prompt = part.bytes;
        } else if (part.name == "response_format") {
            if (std::ranges::find(kFormats, part.bytes) == kFormats.end())
                throw Refusal(400, "it is none of json, text, srt, vtt, verbose_json", "response_format");
            asked.format = part.bytes;
        } else if (part.name == "temperature") {
            check_temperature(part.bytes);
        } else if (part.name == "timestamp_granularities[]" || part.name == "timestamp_granularities") {
            if (part.bytes != "segment" && part.bytes != "word")
                throw Refusal(400, "it is neither \"segment\" nor \"word\"", "timestamp_granularities");
            (part.bytes == "word" ? asked.file.word_timestamps : asked.segments) = true;
        } else if (part.name == "vad_filter") {
            if (part.bytes != "true" && part.bytes != "false")
                throw Refusal(400, "it is neither \"true\" nor \"false\"", "vad_filter");
            asked.file.vad_filter = part.bytes == "true";
        } else if (part.name == "stream") {
            if (part.bytes != "false") throw Refusal(400, "transcriptions are not streamed", "stream");
        } else {
            throw Refusal(400, "the server does not know this field", part.name);
        }
    }
    if (!has_file) throw Refusal(400, "it is missing", "file");
    if (asked.file.word_timestamps && asked.format != "verbose_json")
        throw Refusal(400, "times of words need the response_format \"verbose_json\"", "timestamp_granularities");
    asked.segments = asked.segments || !asked.file.word_timestamps;
    return asked;
}

/// As OpenAI's API has them: without the spaces that models write before them.
json words_of(const Transcription& transcription) {
    json words = json::array();
    for (const SpeechSegment& segment : transcription.segments)
        for (const SpokenWord& word : segment.words)
            words.push_back({{"word", word.text.substr(std::min(word.text.find_first_not_of(' '), word.text.size()))},
                             {"start", word.start},
                             {"end", word.end},
                             {"probability", word.probability}});
    return words;
}

json segments_of(const Transcription& transcription) {
    json segments = json::array();
    for (const SpeechSegment& segment : transcription.segments)
        segments.push_back({{"id", segments.size()},
                            {"seek", std::llround(segment.heard_from * kSeeksPerSecond)},
                            {"start", segment.start},
                            {"end", segment.end},
                            {"text", segment.text},
                            {"tokens", segment.tokens},
                            {"temperature", segment.temperature},
                            {"avg_logprob", segment.average_log_prob},
                            {"compression_ratio", segment.compression_ratio},
                            {"no_speech_prob", segment.no_speech}});
    return segments;
}

/// How a form wants its file written down.
struct Form {
    std::string format, task;
    bool segments, words;
};

json verbose(const HeardFile& heard, const Form& form) {
    json body = {{"task", form.task},
                 {"language", heard.transcription.language},
                 {"duration", heard.seconds},
                 {"text", heard.transcription.text}};
    if (form.words) body["words"] = words_of(heard.transcription);
    if (form.segments) body["segments"] = segments_of(heard.transcription);
    return body;
}

void hear_file(const ModelSet& models, const Call& call, bool translates) {
    Asked asked = read_form(call.request(), translates);
    SpeechModel& model = models.get<SpeechModel>(call, asked.model);
    std::vector<SoundFile> files;
    const Form wanted = {asked.format, asked.file.task, asked.segments, asked.file.word_timestamps};
    files.push_back(std::move(asked.file));
    submit(model.calls(), call, std::move(files), [wanted](const Call& of, const std::vector<HeardFile>& all) {
        const HeardFile& heard = all.front();
        const std::string& format = wanted.format;
        const auto text = [&](std::string body) {
            of.exchange().reply({.content_type = "text/plain; charset=utf-8", .body = std::move(body)});
        };
        if (format == "text") return text(heard.transcription.text + "\n");
        if (format == "srt") return text(sound::as_srt(heard.transcription));
        if (format == "vtt") return text(sound::as_vtt(heard.transcription));
        of.reply(format == "json" ? json{{"text", heard.transcription.text}} : verbose(heard, wanted));
    });
}

}  // namespace

std::vector<Route> speech_routes(const ModelSet& models, const Limits& limits) {
    const auto route = [&](std::string_view path, std::string_view summary, bool translates) {
        return Route{.method = "POST",
                     .path = path,
                     .body_bytes = limits.sound_bytes,
                     .is_work = true,
                     .summary = summary,
                     .takes = {"multipart/form-data"},
                     .gives = {"application/json", "text/plain"},
                     .answer = [&models, translates](const Call& call) { hear_file(models, call, translates); }};
    };
    return {route("/v1/audio/transcriptions", "What is said in a sound file, as OpenAI's API has it", false),
            route("/v1/audio/translations", "The same in English", true)};
}

}  // namespace vkformer::serve
