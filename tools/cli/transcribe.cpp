// SPDX-License-Identifier: MIT
/// vkformer transcribe: speech in a sound file in, its text out.
#include <cstdio>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli.hpp"
#include "core/try.hpp"
#include "sound_file.hpp"
#include "vkformer/transcriber.hpp"

namespace vkformer::cli {
namespace {

struct TranscribeCommand {
    DeviceOptions device;
    std::string model;
    std::vector<std::string> files;
    std::string language, task;
    std::uint32_t batch = 0, max_length = 0;  // 0: not given
    bool json = false;
};

std::string as_json(const std::string& file, const Transcription& transcription) {
    nlohmann::json windows = nlohmann::json::array();
    for (const Transcript& window : transcription.windows)
        windows.push_back(
            {{"start", window.start}, {"end", window.end}, {"text", window.text}, {"tokens", window.tokens}});
    nlohmann::json object = {{"file", file}, {"text", transcription.text}, {"windows", std::move(windows)}};
    if (!transcription.language.empty()) object["language"] = transcription.language;
    return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<void> transcribe(Transcriber& transcriber, const TranscribeCommand& command, const std::string& file) {
    VKFORMER_TRY(const auto samples, read_sound_file(file, transcriber.sample_rate()));
    Transcriber::Progress progress;
    if (!command.device.quiet)
        progress = [](std::size_t done, std::size_t total) {
            show_progress(done < total ? std::to_string(done) + " of " + std::to_string(total) + " windows" : "");
        };
    auto transcription = transcriber.transcribe(samples, progress);
    if (!transcription) {
        Error error = std::move(transcription).error();
        error.message = file + ": " + error.message;
        return error;
    }
    return print((command.json ? as_json(file, *transcription) : transcription->text) + "\n");
}

Result<int> run(const TranscribeCommand& command) {
    VKFORMER_TRY(const auto folder, ModelOption{command.model}.find());
    TranscriberOptions options{
        .device = command.device.device,
        .precision = command.device.dtype_value() == DType::f16 ? Precision::f16 : Precision::f32,
        .language = command.language,
        .task = command.task,
        .max_length = command.max_length,
        .batch = command.batch,
        .plain_shaders = command.device.plain};
    VKFORMER_TRY(options.shader_variants, command.device.variants_by_op());
    if (!command.device.quiet) options.on_progress = show_progress;
    VKFORMER_TRY(Transcriber transcriber, Transcriber::load(folder, options));
    if (!command.device.quiet) std::fprintf(stderr, "vkformer: device: %s\n", transcriber.device().c_str());
    for (const std::string& file : command.files) VKFORMER_CHECK(transcribe(transcriber, command, file));
    return kOk;
}

}  // namespace

void add_transcribe(CLI::App& app, Action& action) {
    auto options = std::make_shared<TranscribeCommand>();
    CLI::App& command = *app.add_subcommand("transcribe", "Write down what is said in a sound file");
    command
        .add_option("file", options->files,
                    "WAV, FLAC, Ogg or other files that libsndfile reads, of any rate and number of channels")
        ->required();
    command.add_option("-m,--model", options->model, "Whisper folder of the Hugging Face layout")->required();
    command.add_option("--language", options->language,
                       "What is spoken: en, de, … (default: what the model folder says, else what the model hears)");
    command.add_option("--task", options->task,
                       "transcribe, or translate into English (default: what the model folder says)");
    command.add_option("--batch", options->batch, "Windows that are decoded together (default: up to 8)")
        ->check(CLI::Range(1u, 256u));
    command
        .add_option("--max-length", options->max_length,
                    "Tokens to generate for a window at most (default: what the model folder says)")
        ->check(CLI::Range(1u, 1u << 20));
    command.add_flag("--json", options->json,
                     "One JSON object per file: file, text, language, windows with start, end, text, tokens");
    options->device.add_device(command);
    options->device.add_dtype(command);
    command.footer(
        "Sound longer than the model's window of 30 s is cut where it is quiet, and each window is heard by itself. "
        "There are no timestamps but those of the windows.\n"
        "Examples:\n"
        "  vkformer transcribe --model whisper-tiny speech.wav\n"
        "  vkformer transcribe --model whisper-small --language de --task translate --json rede.flac");
    command.callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace vkformer::cli
