// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "graph/builders.hpp"
#include "models/generation_config.hpp"
#include "vkformer/result.hpp"

namespace vkformer::models {

/// How the makers of a decoder-only model want it to be run.
struct DecoderDefaults {
    std::vector<std::int32_t> end_tokens;  ///< each ends a generation
    /// Greedy where nothing is said. An error where a rule is asked for that is not done: it is told unless the user says others.
    Result<graph::SampleOptions> sample = graph::SampleOptions{.temperature = 0};
    TokenRules rules;
    std::uint32_t max_new_tokens = 0;  ///< 0: not said
    std::uint32_t max_length = 0;      ///< tokens of prompt and answer, where max_new_tokens is not said; 0: not said
    std::vector<std::string> stop_strings;  ///< each ends an answer, and is no part of it
    float repetition_penalty = 1;
    std::uint32_t no_repeat_ngram = 0;
    std::uint32_t min_new_tokens = 0;  ///< so many tokens come before an end token
    /// 1: no beam search. An error where one of a kind is asked for that is not done: it is told unless the user says how many.
    Result<std::uint32_t> beams = 1u;
    float length_penalty = 1;
    graph::EarlyStopping early_stopping = graph::EarlyStopping::heuristic;
};

/// generation_config.json of the folder or, without one, what config.json says, which is also asked for end tokens that the former
/// lacks; transformers' own defaults (top_k 50) hold where "do_sample" is on and a field is not there. Fields that would change what
/// is generated and are not done are refused by name, tokens that are not below `vocab` too. Errors: CorruptFile, UnsupportedConfig.
Result<DecoderDefaults> load_decoder_defaults(const std::filesystem::path& folder, std::uint64_t vocab);

/// Its end tokens alone.
Result<std::vector<std::int32_t>> load_end_tokens(const std::filesystem::path& folder, std::uint64_t vocab);

}  // namespace vkformer::models
