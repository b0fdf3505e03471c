// SPDX-License-Identifier: MIT
/// How a model wants to be decoded: Hugging Face's `generation_config.json`, reduced to what this library does.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "formats/config.hpp"
#include "graph/ops.hpp"
#include "vkformer/result.hpp"

namespace vkformer::models {

/// Token −1: there is none. A plain value; change the fields to override what the model asks for.
struct GenerationConfig {
    std::int32_t decoder_start = -1;  ///< first input of the decoder
    std::int32_t eos = -1;            ///< ends a sequence
    std::int32_t pad = -1;            ///< what a finished row goes on with
    std::uint32_t beams = 1;          ///< 1: greedy
    std::uint32_t max_steps = 20;     ///< tokens to generate at most, the start token not counted
    double length_penalty = 1;        ///< a hypothesis of n tokens scores Σ log p / n^length_penalty
    graph::EarlyStopping early_stopping = graph::EarlyStopping::heuristic;
    std::vector<std::int32_t> banned;          ///< never chosen
    std::int32_t forced_first = -1;            ///< the only token allowed at the first step
    std::int32_t forced_last = -1;             ///< the only token allowed at step max_steps
    std::uint32_t min_steps = 0;               ///< tokens before which `eos` is not chosen
    std::uint32_t no_repeat_ngram = 0;         ///< > 0: no run of so many tokens comes twice, the start token counted
    std::uint32_t source_no_repeat_ngram = 0;  ///< > 0: nor does one that the source has
    bool renormalize = false;                  ///< scores are log-probabilities among the allowed tokens only

    friend bool operator==(const GenerationConfig&, const GenerationConfig&) = default;
};

enum class GenerationSource : std::uint8_t {
    generation_config,  ///< generation_config.json: a field that is not known is an error
    model_config,       ///< config.json of older models: only the fields that concern generation are looked at
};

/// Reads the fields as transformers 4.56 does. A field that changes what is generated and is not implemented (sampling,
/// penalties of repetition, banned phrases of several tokens, …) is refused by name unless its value does nothing.
/// `max_positions` bounds the default length; fields `read_elsewhere` are the caller's. Errors: CorruptFile, UnsupportedConfig.
Result<GenerationConfig> parse_generation_config(const formats::Config& config, GenerationSource source,
                                                 std::uint64_t max_positions,
                                                 std::span<const std::string_view> read_elsewhere = {});

/// The field of that name: true, false or "never". Errors: UnsupportedConfig.
Result<graph::EarlyStopping> read_early_stopping(const formats::Config& config);

/// generation_config.json of the folder or, without one, what config.json says. Errors: FileNotFound besides.
Result<GenerationConfig> load_generation_config(const std::filesystem::path& folder, std::uint64_t max_positions);

}  // namespace vkformer::models
