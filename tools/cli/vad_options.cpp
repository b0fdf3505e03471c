// SPDX-License-Identifier: MIT
#include "vad_options.hpp"

namespace vkformer::cli {

void VadOption::add(CLI::App& command) {
    CLI::Option* const vad =
        command.add_option("--vad", file,
                           "Hear speech alone, as Silero's network for voice activity tells it from "
                           "silence: silero_vad_16k.safetensors of the Python package silero-vad");
    vad->type_name("FILE")->check(CLI::Validator(
        [](const std::string& name) { return std::string(name.empty() ? "no file is named" : ""); }, ""));
    const auto add = [&](const char* name, auto& value, const char* meaning) {
        return command.add_option(name, value, meaning)->needs(vad);
    };
    add("--vad-threshold", parameters.threshold, "Probability from which on a frame of 32 ms is speech (default: 0.5)");
    add("--vad-neg-threshold", parameters.neg_threshold,
        "Probability below which speech may end (default: 0.15 less than the threshold, at least 0.01)");
    add("--vad-min-speech-duration-ms", parameters.min_speech_duration_ms,
        "Milliseconds; shorter speech is passed over (default: 0)")
        ->check(CLI::NonNegativeNumber);
    add("--vad-max-speech-duration-s", parameters.max_speech_duration_s,
        "Seconds; longer speech is cut, in silence where there is some (default: inf)");
    add("--vad-min-silence-duration-ms", parameters.min_silence_duration_ms,
        "Milliseconds; shorter silence does not end speech (default: 2000)")
        ->check(CLI::NonNegativeNumber);
    add("--vad-speech-pad-ms", parameters.speech_pad_ms,
        "Milliseconds of sound that are heard before and behind speech (default: 400)")
        ->check(CLI::NonNegativeNumber);
}

}  // namespace vkformer::cli
