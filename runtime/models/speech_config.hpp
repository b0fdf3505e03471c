// SPDX-License-Identifier: MIT
/// How a Whisper wants to be decoded: generation_config.json, with the tokens that say language and task.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/generation_config.hpp"

namespace vkformer::models {

struct SpeechConfig {
    GenerationConfig generation;             ///< max_steps counts the prefix
    std::vector<std::int32_t> banned_first;  ///< never chosen at the first step behind the prefix
    /// What the decoder is given behind decoder_start; −1: the likeliest of `languages`.
    std::vector<std::int32_t> prefix;
    std::map<std::string, std::int32_t> languages;  ///< "de" → its token; empty for a model of one language
    std::int32_t first_timestamp = -1;              ///< it and all above it stand for times; −1: not known
};

/// What was asked for; empty: what the folder says.
struct SpeechChoice {
    std::string language;  ///< "de" or "<|de|>"
    std::string task;      ///< "transcribe", "translate"
};

/// generation_config.json of the folder or, without one, what config.json says, as transformers 4.57 reads them for
/// greedy decoding without timestamps. Errors: FileNotFound, CorruptFile, UnsupportedConfig (return_timestamps, beams,
/// a field that is not known), InvalidArgument (a language or task that the model does not have).
Result<SpeechConfig> load_speech_config(const std::filesystem::path& folder, std::uint64_t max_positions,
                                        const SpeechChoice& choice);

}  // namespace vkformer::models
