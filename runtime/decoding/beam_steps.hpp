// SPDX-License-Identifier: MIT
/// The graphs of a decoder-only model's beam search: one step of all beams, and what gives the prompt's keys and values to all of them.
#pragma once

#include <cstdint>

#include "decoding/beam_states.hpp"
#include "decoding/decoder_steps.hpp"

namespace vkformer::decoding {

/// The length penalties that beam searches take are this large at most, on either side of 0.
inline constexpr float kMostLengthPenalty = 100;

struct BeamRules {
    std::uint32_t beams = 2;  ///< up to graph::kMaxBeams
    float length_penalty = 1;
    graph::EarlyStopping early_stopping = graph::EarlyStopping::heuristic;
};

/// Errors: InvalidArgument (several rows, a temperature, beams that are none or too many).
Result<void> check_beams(const BeamRules& rules, const DecoderSessionOptions& options);
/// Errors: InvalidArgument (more tokens that end a sequence than a search with so many beams looks for).
Result<void> check_ends(const BeamRules& rules, std::size_t ends);

struct BeamStepGraph {
    graph::Graph graph;
    graph::BeamStates states;
    RuleTensors rules;
    graph::Value adapters;  ///< as of ChunkGraph
    graph::Value shared;    ///< state i32 [beams]: positions of the caches that are the same in all rows
    graph::Value
        vocab_lengths;  ///< input i32 [beams], to be written once: the vocabulary's size; absent without counts
};
/// One step of all beams of a sequence, in searches of at most options.context tokens; `eos` and so many `further_ends` end a hypothesis.
Result<BeamStepGraph> beam_step_graph(const models::Decoder& model, const DecoderSessionOptions& options,
                                      const BeamRules& rules, std::int32_t eos, std::uint32_t further_ends);

/// Gives all rows of the caches what the parents have.
struct SpreadGraph {
    graph::Graph graph;
    graph::Value parents, lengths;  ///< inputs i32 [beams]
};
Result<SpreadGraph> spread_graph(const models::Decoder& model, const DecoderSessionOptions& options,
                                 const BeamRules& rules);

}  // namespace vkformer::decoding
