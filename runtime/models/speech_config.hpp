// SPDX-License-Identifier: MIT
/// How a Whisper wants to be decoded: generation_config.json, with the tokens that say language and task.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/generation_config.hpp"

namespace vkformer::models {

/// A head of the decoder's cross-attention.
struct AlignmentHead {
    std::uint32_t layer = 0, head = 0;
    friend bool operator==(const AlignmentHead&, const AlignmentHead&) = default;
};

struct SpeechConfig {
    GenerationConfig generation;  ///< max_steps: the decoder's positions
    /// What the decoder is given behind decoder_start; −1: the likeliest of `languages`.
    std::vector<std::int32_t> prefix;
    std::map<std::string, std::int32_t> languages;  ///< "de" → its token; empty for a model of one language
    std::int32_t first_timestamp = -1;              ///< it and all above it stand for times; −1: not known
    std::int32_t latest_initial = -1;               ///< the first time is at most so many above it; −1: any
    std::int32_t no_speech = -1;                    ///< its probability at decoder_start says that nobody speaks
    std::int32_t previous = -1;                     ///< goes before the text of the windows before; −1: nothing does
    std::uint32_t max_length = 0;                   ///< tokens of the decoder, what it is given counted; 0: see next
    std::uint32_t max_new_tokens = 0;               ///< tokens to generate; 0: see max_length
    /// As the folder says; absent where it does not.
    std::optional<double> log_prob_threshold, no_speech_threshold, compression_ratio_threshold;
    std::optional<bool> conditions_on_previous;
    std::vector<AlignmentHead> alignment_heads;  ///< those that look at what is being said; empty: not known
    std::uint32_t median_filter_width = 7;       ///< of their weights over time, odd if check_alignment says nothing

    /// Tokens in all for a decoder that is given `given` of them, `before` of which stand before the start token and do not count in a
    /// folder's max_length; at most as many as it has positions.
    std::uint32_t length_for(std::size_t given, std::size_t before = 0) const noexcept;
};

/// What was asked for; empty: what the folder says.
struct SpeechChoice {
    std::string language;    ///< "de" or "<|de|>"
    std::string task;        ///< "transcribe", "translate"
    bool timestamps = true;  ///< false: the decoder is asked for text alone
};

/// generation_config.json of the folder or, without one, what config.json says, as transformers 4.57 reads them for
/// greedy decoding and beam search, and config.json's median_filter_width; return_timestamps is the caller's choice. Errors: FileNotFound, CorruptFile, UnsupportedConfig
/// (a field that is not known, timestamps of a model that has none), InvalidArgument (a language or task that the
/// model does not have).
Result<SpeechConfig> load_speech_config(const std::filesystem::path& folder, std::uint64_t max_positions,
                                        std::uint64_t vocab, const SpeechChoice& choice);

/// That what says when words were said is there and fits a decoder. Errors: InvalidArgument (names the field, not the folder).
Result<void> check_alignment(const SpeechConfig& speech, std::uint64_t layers, std::uint64_t heads);

}  // namespace vkformer::models
