// SPDX-License-Identifier: MIT
/// vkformer transcribe: speech in a sound file in, its text out.
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli.hpp"
#include "core/paths.hpp"
#include "core/try.hpp"
#include "graph/builders.hpp"
#include "sound/subtitles.hpp"
#include "sound_file.hpp"
#include "vad_options.hpp"
#include "vkformer/transcriber.hpp"

namespace vkformer::cli {
namespace {

struct TranscribeCommand {
    DeviceOptions device;
    WeightsOption weights;
    VadOption vad;
    std::string model;
    std::vector<std::string> files;
    std::string language, task, prompt, format = "text";
    std::uint32_t batch = 0, max_length = 0, beams = 0;  // 0: not given
    std::vector<float> temperatures;          // none: as TranscriberOptions has them
    std::optional<double> compression_ratio_threshold, log_prob_threshold, no_speech_threshold;
    std::uint64_t seed = 0;
    bool json = false, no_timestamps = false, condition_on_previous = false, no_fallback = false,
         word_timestamps = false;
};

nlohmann::json as_json(const std::vector<SpokenWord>& words) {
    nlohmann::json list = nlohmann::json::array();
    for (const SpokenWord& word : words)
        list.push_back(
            {{"word", word.text}, {"start", word.start}, {"end", word.end}, {"probability", word.probability}});
    return list;
}

std::string as_json(const TranscribeCommand& command, const std::string& file, const Transcription& transcription) {
    nlohmann::json segments = nlohmann::json::array();
    for (const SpeechSegment& segment : transcription.segments) {
        segments.push_back({{"start", segment.start},
                            {"end", segment.end},
                            {"text", segment.text},
                            {"tokens", segment.tokens},
                            {"temperature", segment.temperature},
                            {"avg_logprob", segment.average_log_prob},
                            {"compression_ratio", segment.compression_ratio},
                            {"no_speech_prob", segment.no_speech}});
        if (command.word_timestamps) segments.back()["words"] = as_json(segment.words);
    }
    nlohmann::json object = {{"file", file}, {"text", transcription.text}, {"segments", std::move(segments)}};
    if (!transcription.language.empty()) object["language"] = transcription.language;
    return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string in_format(const TranscribeCommand& command, const std::string& file, const Transcription& transcription) {
    if (command.json) return as_json(command, file, transcription);
    if (command.format == "srt") return sound::as_srt(transcription);
    if (command.format == "vtt") return sound::as_vtt(transcription);
    return transcription.text + "\n";
}

Result<void> transcribe(Transcriber& transcriber, const TranscribeCommand& command, const std::string& file) {
    VKFORMER_TRY(const auto samples, read_sound_file(utf8_path(file), transcriber.sample_rate()));
    Transcriber::Progress progress;
    if (!command.device.quiet)
        progress = [](double done, double total) {
            const auto whole = [](double seconds) { return std::to_string(std::lround(seconds)); };
            show_progress(done < total ? whole(done) + " of " + whole(total) + " seconds" : "");
        };
    auto transcription = transcriber.transcribe(samples, progress);
    if (!transcription) {
        Error error = std::move(transcription).error();
        error.message = file + ": " + error.message;
        return error;
    }
    return print(in_format(command, file, *transcription));
}

Result<void> check(const TranscribeCommand& command) {
    const auto invalid = [](std::string message) { return Error{ErrorCode::InvalidArgument, std::move(message)}; };
    const bool has_times = command.format == "srt" || command.format == "vtt";
    if (has_times && command.json) return invalid("--json and --format " + command.format + " exclude each other");
    if (has_times && command.no_timestamps)
        return invalid("--format " + command.format + " needs timestamps: leave --no-timestamps out");
    if (has_times && command.files.size() > 1)
        return invalid("--format " + command.format + " is for one sound file, there are " +
                       std::to_string(command.files.size()));
    if (command.batch > 1 && !command.no_timestamps)
        return invalid("--batch is for --no-timestamps: with timestamps, a window begins where the one before it ends");
    if (command.word_timestamps && !command.json) return invalid("--word-timestamps shows in --json: give that, too");
    if (command.condition_on_previous && command.no_timestamps)
        return invalid("--condition-on-previous needs timestamps: leave --no-timestamps out");
    return {};
}

Result<int> run(const TranscribeCommand& command) {
    VKFORMER_CHECK(check(command));
    VKFORMER_TRY(const auto folder, ModelOption{command.model}.find());
    TranscriberOptions options{
        .device = command.device.device,
        .precision = command.device.dtype_value() == DType::f16 ? Precision::f16 : Precision::f32,
        .weights = command.weights.storage(),
        .language = command.language,
        .task = command.task,
        .timestamps = !command.no_timestamps,
        .max_length = command.max_length,
        .batch = command.batch,
        .beams = command.beams,
        .prompt = command.prompt,
        .compression_ratio_threshold = command.compression_ratio_threshold,
        .log_prob_threshold = command.log_prob_threshold,
        .no_speech_threshold = command.no_speech_threshold,
        .seed = command.seed,
        .word_timestamps = command.word_timestamps,
        .vad = utf8_path(command.vad.file),
        .vad_parameters = command.vad.parameters,
        .plain_shaders = command.device.plain};
    if (command.condition_on_previous) options.condition_on_previous = true;
    if (!command.temperatures.empty()) options.temperatures = command.temperatures;
    if (command.no_fallback) options.temperatures.resize(1);
    VKFORMER_TRY(options.shader_variants, command.device.variants_by_op());
    options.offload = command.device.offload();
    if (!command.device.quiet) options.on_progress = show_progress;
    VKFORMER_TRY(Transcriber transcriber, Transcriber::load(folder, options));
    VKFORMER_CHECK(command.device.heed(transcriber.notes()));
    if (!command.device.quiet) std::fprintf(stderr, "vkformer: device: %s\n", transcriber.device().c_str());
    for (const std::string& file : command.files) VKFORMER_CHECK(transcribe(transcriber, command, file));
    return kOk;
}

void add_rules(CLI::App& command, TranscribeCommand& options) {
    command.add_option("--prompt", options.prompt,
                       "Text that comes before what is said: names and words as they are to be spelled");
    command.add_flag("--condition-on-previous", options.condition_on_previous,
                     "Give the decoder the text before, so that names and style stay the same");
    command
        .add_option("--temperature", options.temperatures,
                    "What a window is decoded at, one after the other until its text is good (default: 0,0.2,…,1)")
        ->delimiter(',')
        ->allow_extra_args(false)  // what follows is a file
        ->check(CLI::Range(0.0f, 100.0f));
    command.add_flag("--no-fallback", options.no_fallback, "Only the first temperature");
    command
        .add_option(
            "-b,--beams", options.beams,
            "Beams of the search at temperature 0, and draws at others, of which the likeliest is taken (default: "
            "what the model folder says, else 1)")
        ->check(CLI::Range(1u, graph::kMaxBeams));
    command.add_option("--compression-ratio-threshold", options.compression_ratio_threshold,
                       "Text above it repeats itself (default: what the model folder says, else 1.35; inf: never)");
    command.add_option("--logprob-threshold", options.log_prob_threshold,
                       "Text below it is unlikely (default: what the model folder says, else -1; -inf: never)");
    command.add_option("--no-speech-threshold", options.no_speech_threshold,
                       "Unlikely text is none where silence is more probable (default: what the model folder says, "
                       "else 0.6; inf: never)");
    command.add_option("--seed", options.seed, "Of what is drawn at temperatures above 0 (default: 0)")
        ->check(CLI::NonNegativeNumber);
}

}  // namespace

void add_transcribe(CLI::App& app, Action& action) {
    auto options = std::make_shared<TranscribeCommand>();
    CLI::App& command = *app.add_subcommand("transcribe", "Write down what is said in a sound file");
    command
        .add_option("file", options->files,
                    "WAV, FLAC, Ogg or other files that libsndfile reads, of any rate and number of channels")
        ->required();
    command
        .add_option("-m,--model", options->model,
                    "Folder of a Whisper, Wav2Vec 2.0 or HuBERT of the Hugging Face layout")
        ->required();
    command.add_option("--language", options->language,
                       "What is spoken: en, de, … (default: what the model folder says, else what the model hears)");
    command.add_option("--task", options->task,
                       "transcribe, or translate into English (default: what the model folder says)");
    command.add_option("--format", options->format, "text; srt or vtt: subtitles (default: text)")
        ->check(CLI::IsMember({"text", "srt", "vtt"}));
    command.add_flag("--json", options->json,
                     "One JSON object per file: file, text, language, segments with start, end, text, tokens, "
                     "temperature, avg_logprob, compression_ratio, no_speech_prob");
    command.add_flag("--word-timestamps", options->word_timestamps,
                     "When each word was said: words with word, start, end, probability in each of --json's segments");
    command.add_flag("--no-timestamps", options->no_timestamps,
                     "Text alone: longer sound is cut where it is quiet, several windows are decoded together");
    command
        .add_option("--batch", options->batch,
                    "Windows that are decoded together without timestamps (default: up to 8)")
        ->check(CLI::Range(1u, 256u));
    command
        .add_option("--max-length", options->max_length,
                    "Tokens to generate for a window at most (default: what the model folder says)")
        ->check(CLI::Range(1u, 1u << 20));
    add_rules(command, *options);
    options->vad.add(command);
    options->device.add_device(command);
    options->device.add_strict(command);
    options->device.add_dtype(command);
    options->weights.add(command);
    command.footer(
        "Sound longer than the model's window of 30 s is heard window after window, each from where the last whole "
        "segment of the one before ends. A Wav2Vec 2.0 or HuBERT hears windows of 20 s that reach over one another, "
        "and "
        "takes no options of a decoder (language, task, temperatures, thresholds, lengths).\n"
        "Examples:\n"
        "  vkformer transcribe --model whisper-tiny speech.wav\n"
        "  vkformer transcribe --model whisper-small --format srt film.flac > film.srt\n"
        "  vkformer transcribe --model whisper-small --language de --task translate --json rede.flac\n"
        "  vkformer transcribe --model whisper-small --vad silero_vad_16k.safetensors --vad-speech-pad-ms 200 "
        "radio.ogg");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
