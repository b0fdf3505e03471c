// SPDX-License-Identifier: MIT
/// The graphs of one step of a decoder that writes down what an encoder heard: of single rows, and of a beam search.
#pragma once

#include <optional>
#include <vector>

#include "graph/builders.hpp"
#include "models/encoder_decoder.hpp"
#include "models/generation_config.hpp"

namespace vkformer::decoding {

struct SpeechRules {
    models::GenerationConfig generation;  ///< max_steps: the room of the caches; rules, no_repeat_ngram, eos, pad
    std::optional<graph::TimestampOptions> timestamps;  ///< absent: the tokens of times are tokens like others
};

struct SpeechStepGraph {
    graph::Graph graph;
    models::SourceTensors source;
    graph::GreedyStates states;
    graph::Value given;   ///< state i32 [rows, max_steps]: what the decoder is given, −1 behind
    graph::Value begins;  ///< state i32 [rows]: how much that is
    graph::Value scores;  ///< state f32 [max_steps, rows]: log-probabilities of what was chosen, under the rules
    graph::Value random;  ///< state i32 [rows, 3]; absent with temperature 0
    graph::Value logits;  ///< output f32 [rows, vocab]: before all rules
};
/// temperature 0: the likeliest token; else drawn.
Result<SpeechStepGraph> speech_step_graph(const models::EncoderDecoder& model, const models::DecodeLayout& layout,
                                          const SpeechRules& rules, float temperature);

struct SpeechBeamGraph {
    graph::Graph graph;
    graph::BeamStates states;
    graph::Value begins;  ///< as above
    /// State f32 [rows, max_steps + 1, 1, 1]: what a row's hypothesis was worth when it had its token at that position.
    graph::Value worth;
};
/// A step of layout.beams rows for each window, behind what SpeechStepGraph's rows were given: the two share tokens, starts, sequences and
/// caches. The rules change log-probabilities here, as in generate(), not logits.
Result<SpeechBeamGraph> speech_beam_graph(const models::EncoderDecoder& model, const models::DecodeLayout& layout,
                                          const SpeechRules& rules);

}  // namespace vkformer::decoding
