// SPDX-License-Identifier: MIT
/// The graphs of a DecoderSession: a chunk of a prompt, and one step with the choice of the next token.
#pragma once

#include "decoding/decoder_session.hpp"

namespace vkformer::decoding {

struct ChunkGraph {
    graph::Graph graph;
    graph::Value tokens;  ///< input i32 [rows, len]
    graph::Value starts;  ///< input i32 [rows]
};
/// Appends the keys and values of `len` tokens per row to the caches; computes nothing else.
/// `extended`: of sequences beyond the model's max_positions.
Result<ChunkGraph> chunk_graph(const models::Decoder& model, const DecoderSessionOptions& options, std::uint32_t len,
                               bool extended = false);

struct DecoderStepGraph {
    graph::Graph graph;
    graph::GreedyStates states;
    graph::Value random;  ///< state i32 [rows, 3]; absent where nothing is drawn
    graph::Value counts;  ///< state i32 [rows, vocab] of count_tokens; absent where no penalty needs it
    graph::Value begins;  ///< state i32 [rows]: length of the prompt; absent without a least number of tokens
    graph::Value bias;    ///< input f32 [vocab], to be written once; absent without biases
};
Result<DecoderStepGraph> step_graph(const models::Decoder& model, const DecoderSessionOptions& options,
                                    bool extended = false);

}  // namespace vkformer::decoding
