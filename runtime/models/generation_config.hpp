// SPDX-License-Identifier: MIT
/// How a model wants to be decoded: Hugging Face's `generation_config.json`, reduced to what this library does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/config.hpp"
#include "graph/builders.hpp"
#include "vkformer/result.hpp"

namespace vkformer::models {

/// What generation_config.json forbids, forces and prefers, whatever the model. Token −1: there is none.
struct TokenRules {
    std::vector<std::int32_t> banned;                     ///< never chosen
    std::vector<std::vector<std::int32_t>> banned_words;  ///< phrases of two and more tokens, of which none comes whole
    std::vector<std::int32_t> banned_first;               ///< not the first token of an answer
    std::vector<graph::SequenceBias> biases;              ///< added to logits before all else
    std::int32_t forced_first = -1;                       ///< the only token allowed behind a first one
    std::int32_t forced_last = -1;                        ///< the only token allowed where no further one is

    /// Whether a rule looks at the tokens before the one that is chosen.
    bool looks_back() const noexcept;
    /// Takes away the biases of this one token, for one of the caller's; those of longer phrases stay.
    void drop_bias(std::int32_t token);
    friend bool operator==(const TokenRules&, const TokenRules&) = default;
};

/// Token −1: there is none. A plain value; change the fields to override what the model asks for.
struct GenerationConfig {
    std::int32_t decoder_start = -1;  ///< first input of the decoder
    std::int32_t eos = -1;            ///< ends a sequence
    std::int32_t pad = -1;            ///< what a finished row goes on with
    std::uint32_t beams = 1;          ///< 1: greedy
    std::uint32_t max_steps = 20;     ///< tokens to generate at most, the start token not counted
    double length_penalty = 1;        ///< a hypothesis of n tokens scores Σ log p / n^length_penalty
    graph::EarlyStopping early_stopping = graph::EarlyStopping::heuristic;
    TokenRules rules;                          ///< forced_last: at step max_steps
    std::vector<std::string> stop_strings;     ///< each ends a text, and is no part of it; without beams only
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

/// Whether transformers reads such a field of generation_config.json, and in older models of config.json.
bool is_generation_field(std::string_view name);

/// Whether such a field, but for the tokens that end it, may change what a language model generates.
bool changes_language_models(std::string_view name);

/// Whose fields they are: some concern only the one, and some are done only for the one.
enum class GenerationKind : std::uint8_t { encoder_decoder, language_model };

/// What is not refused under one condition only.
struct GenerationUse {
    bool draws = true;     ///< a token is drawn: what changes only draws counts
    bool searches = true;  ///< there are beams: what changes only a search counts
};

/// Refuses by name what changes what is generated and is not done, unless its value does nothing. Of a generation_config.json a
/// field that nobody knows is refused too, but for those `read_elsewhere`. Errors: CorruptFile, UnsupportedConfig.
Result<void> check_generation_fields(const formats::Config& config, GenerationSource source, GenerationKind kind,
                                     GenerationUse use = {}, std::span<const std::string_view> read_elsewhere = {});

/// suppress_tokens, begin_suppress_tokens, bad_words_ids, sequence_bias, forced_bos_token_id and forced_eos_token_id. A ban of one of
/// `ends` alone is dropped, as generate() does. Errors: CorruptFile, UnsupportedConfig (a token that is not below `vocab`, a phrase
/// without tokens, a token that is forced and forbidden).
Result<TokenRules> read_token_rules(const formats::Config& config, std::span<const std::int32_t> ends,
                                    std::uint64_t vocab);

/// The tokens under `name`. Errors: CorruptFile, UnsupportedConfig (one that is not below `vocab`).
Result<std::vector<std::int32_t>> read_tokens(const formats::Config& config, std::string_view name,
                                              std::uint64_t vocab);

/// Texts that end a generation: one, or a list. Errors: CorruptFile (an empty one among them).
Result<std::vector<std::string>> read_stop_strings(const formats::Config& config);

/// Reads the fields of an encoder–decoder as transformers 4.56 and 5.12 do. `max_positions` bounds the default length, `vocab` the
/// tokens; fields `read_elsewhere` are the caller's. Errors: CorruptFile, UnsupportedConfig.
Result<GenerationConfig> parse_generation_config(const formats::Config& config, GenerationSource source,
                                                 std::uint64_t max_positions, std::uint64_t vocab,
                                                 std::span<const std::string_view> read_elsewhere = {});

/// The field of that name: true, false or "never". Errors: UnsupportedConfig.
Result<graph::EarlyStopping> read_early_stopping(const formats::Config& config);

/// generation_config.json of the folder or, without one, what config.json says. Errors: FileNotFound besides.
Result<GenerationConfig> load_generation_config(const std::filesystem::path& folder, std::uint64_t max_positions,
                                                std::uint64_t vocab);

}  // namespace vkformer::models
