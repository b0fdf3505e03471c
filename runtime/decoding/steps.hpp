// SPDX-License-Identifier: MIT
/// The graph of one decode step: the model's part, then the choice of the next tokens.
#pragma once

#include <cstdint>
#include <span>

#include "decoding/beam_states.hpp"
#include "graph/builders.hpp"
#include "models/encoder_decoder.hpp"
#include "models/generation_config.hpp"

namespace vkformer::decoding {

struct EncoderGraph {
    graph::Graph graph;
    models::SourceTensors source;
};
Result<EncoderGraph> encoder_graph(const models::EncoderDecoder& model, const models::DecodeLayout& layout);

struct StepGraph {
    graph::Graph graph;
    models::SourceTensors source;
    graph::GreedyStates greedy;  ///< with beams = 1
    graph::BeamStates beam;      ///< with beams > 1
    graph::Value source_tokens;  ///< state i32 [batch, source_len], −1 behind the end; absent where no rule reads them
};
/// Requires layout.beams > 1.
BeamLayout beam_layout(const models::DecodeLayout& layout) noexcept;
/// The end of a step of a search: of log-probabilities [rows, vocab] under the rules the best go on, and what is in the caches goes with
/// the rows. `generation`: its penalty, stopping, eos, max_steps and renormalize hold.
Result<void> end_beam_step(graph::Graph& graph, graph::Value scores, const graph::BeamStates& states,
                           std::uint32_t beams, const models::GenerationConfig& generation,
                           std::span<const graph::Value> caches);
/// layout.beams and layout.max_steps are the generation's.
Result<StepGraph> step_graph(const models::EncoderDecoder& model, const models::DecodeLayout& layout,
                             const models::GenerationConfig& generation);

}  // namespace vkformer::decoding
