// SPDX-License-Identifier: MIT
#include "serve/speech_routes.hpp"

#include <algorithm>
#include <array>

#include "serve/fields.hpp"
#include "serve/form.hpp"
#include "serve/submit.hpp"
#include "sound/subtitles.hpp"

namespace vkformer::serve {
namespace {

using json = nlohmann::ordered_json;

struct Asked {
    std::optional<std::string> model;
    SoundFile file;
    std::string format = "json";
};

/// A form's values are texts; numbers are read from them.
void check_temperature(const std::string& text) {
    if (text != "0" && text != "0.0")
        throw Refusal(400, "only 0 is taken: higher ones follow where a window's text is not good", "temperature");
}

Asked read_form(const Request& request, bool translates) {
    static constexpr std::array<std::string_view, 5> kFormats = {"json", "text", "srt", "vtt", "verbose_json"};
    Asked asked;
    asked.file.task = translates ? "translate" : "transcribe";
    bool has_file = false;
    for (Part& part : parse_multipart(request)) {
        if (part.name == "file") {
            if (has_file) throw Refusal(400, "there are two", "file");
            has_file = true;
            asked.file.bytes = std::move(part.bytes);
        } else if (part.name == "model") {
            asked.model = part.bytes;
        } else if (part.name == "language" && !translates) {
            asked.file.language = part.bytes;
        } else if (part.name == "response_format") {
            if (std::ranges::find(kFormats, part.bytes) == kFormats.end())
                throw Refusal(400, "it is none of json, text, srt, vtt, verbose_json", "response_format");
            asked.format = part.bytes;
        } else if (part.name == "temperature") {
            check_temperature(part.bytes);
        } else if (part.name == "timestamp_granularities[]" || part.name == "timestamp_granularities") {
            if (part.bytes != "segment") throw Refusal(400, "only \"segment\" is taken", "timestamp_granularities");
        } else if (part.name == "stream") {
            if (part.bytes != "false") throw Refusal(400, "transcriptions are not streamed", "stream");
        } else {
            throw Refusal(400, "the server does not know this field", part.name);
        }
    }
    if (!has_file) throw Refusal(400, "it is missing", "file");
    return asked;
}

json verbose(const HeardFile& heard, const std::string& task) {
    json segments = json::array();
    for (const SpeechSegment& segment : heard.transcription.segments)
        segments.push_back({{"id", segments.size()},
                            {"seek", 0},
                            {"start", segment.start},
                            {"end", segment.end},
                            {"text", segment.text},
                            {"tokens", segment.tokens},
                            {"temperature", segment.temperature},
                            {"avg_logprob", segment.average_log_prob},
                            {"compression_ratio", segment.compression_ratio},
                            {"no_speech_prob", segment.no_speech}});
    return {{"task", task},
            {"language", heard.transcription.language},
            {"duration", heard.seconds},
            {"text", heard.transcription.text},
            {"segments", std::move(segments)}};
}

void hear_file(const ModelSet& models, const Call& call, bool translates) {
    Asked asked = read_form(call.request(), translates);
    SpeechModel& model = models.get<SpeechModel>(call, asked.model);
    std::vector<SoundFile> files;
    const std::string task = asked.file.task;
    files.push_back(std::move(asked.file));
    submit(model.calls(), call, std::move(files),
           [format = asked.format, task](const Call& of, const std::vector<HeardFile>& all) {
               const HeardFile& heard = all.front();
               const auto text = [&](std::string body) {
                   of.exchange().reply({.content_type = "text/plain; charset=utf-8", .body = std::move(body)});
               };
               if (format == "text") return text(heard.transcription.text + "\n");
               if (format == "srt") return text(sound::as_srt(heard.transcription));
               if (format == "vtt") return text(sound::as_vtt(heard.transcription));
               of.reply(format == "json" ? json{{"text", heard.transcription.text}} : verbose(heard, task));
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
