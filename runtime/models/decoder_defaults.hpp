// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "graph/builders.hpp"
#include "vkformer/result.hpp"

namespace vkformer::models {

/// How the makers of a decoder-only model want it to be run.
struct DecoderDefaults {
    std::vector<std::int32_t> end_tokens;              ///< each ends a generation
    graph::SampleOptions sample = {.temperature = 0};  ///< greedy where nothing is said
    float repetition_penalty = 1;
    std::uint32_t no_repeat_ngram = 0;
    std::uint32_t min_new_tokens = 0;  ///< so many tokens come before an end token
    /// 1: no beam search. An error where one of a kind is asked for that is not done: it is told unless the user says how many.
    Result<std::uint32_t> beams = 1u;
    float length_penalty = 1;
    graph::EarlyStopping early_stopping = graph::EarlyStopping::heuristic;
};

/// generation_config.json of the folder, and config.json for what it does not say; transformers' own defaults (top_k 50) hold
/// where "do_sample" is on and a field is not there. Errors: CorruptFile.
Result<DecoderDefaults> load_decoder_defaults(const std::filesystem::path& folder);

}  // namespace vkformer::models
