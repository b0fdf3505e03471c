// SPDX-License-Identifier: MIT
/// The graphs of a decoder-only model's generation: a chunk of a prompt, and one step with the choice of the next token.
#pragma once

#include <string>

#include "decoding/decoder_options.hpp"
#include "decoding/log_probs.hpp"
#include "decoding/script.hpp"

namespace vkformer::decoding {

struct ChunkGraph {
    graph::Graph graph;
    graph::Value tokens;  ///< input i32 [rows, len]
    graph::Value starts;  ///< input i32 [rows]
    graph::Value counts;  ///< input i32 [rows], tokens that are the row's own; absent of a model that keeps no states
    graph::Value
        slots;  ///< input i32 [rows, 2], the states that are read and written; absent where there are no checkpoints
    graph::Value
        adapters;  ///< input f32, DecoderLayout::adapter_scales; absent without DecoderSessionOptions::adapters
    graph::Value handed;  ///< input i32 [rows, len], positions of the tokens; absent of a model without a handover
};

/// DecoderLayout::adapter_scales of so many rows, an input of that name; absent without `adapters`.
Result<graph::Value> adapter_input(graph::Graph& graph, const models::Decoder& model, bool adapters,
                                   const std::string& name, std::uint32_t rows);

/// Of a model that keeps states, for one row: there are two states, of which one may stay what it was while the other one goes on.
bool has_checkpoints(const models::Decoder& model, const DecoderSessionOptions& options);

/// Appends the keys and values of `len` tokens per row to the caches, and takes them into the states; computes nothing else.
/// `extended`: of sequences beyond the model's max_positions. `cache_rows`: as of models::DecoderLayout.
Result<ChunkGraph> chunk_graph(const models::Decoder& model, const DecoderSessionOptions& options, std::uint32_t len,
                               bool extended = false, std::uint32_t cache_rows = 0);

/// What the rules on tokens read.
struct RuleTensors {
    graph::Value counts;     ///< state i32 [rows, vocab] of count_tokens; absent where no penalty needs it
    graph::Value begins;     ///< state i32 [rows]: length of the prompt; absent where no rule asks
    graph::Value countdown;  ///< state i32 [rows, 1] of force_last; absent where nothing is forced
    graph::Value bias;       ///< input f32 [vocab], to be written once; absent without biases
    graph::Value
        allowed;  ///< input i32 [rows, allowed_words(vocab)] of graph::penalize; absent without DecoderSessionOptions::masks
    graph::Value sequences;  ///< state i32 [rows, context] of what the rows have read; absent where no rule asks
};
/// Logits or log-probabilities f32 [rows, vocab] with what options.penalties says; themselves where that is nothing. `tokens` and
/// `starts` are the step's input.
Result<graph::Value> add_rules(graph::Graph& graph, const DecoderSessionOptions& options, graph::Value logits,
                               graph::Value tokens, graph::Value starts, RuleTensors& rules);
/// What rules.bias holds.
Write biases_of(const Penalties& penalties, const RuleTensors& rules, std::uint64_t vocab);
/// What a row of rules.counts holds before the first step of a session.
void count_prompt(const Sequence& sequence, std::span<std::int32_t> row);

struct DecoderStepGraph {
    graph::Graph graph;
    graph::GreedyStates states;
    graph::Value random;    ///< state i32 [rows, 3]; absent where nothing is drawn
    graph::Value slots;     ///< state i32 [rows, 2], as ChunkGraph's
    graph::Value adapters;  ///< as ChunkGraph's
    RuleTensors rules;
    LogProbTensors log_probs;  ///< none without DecoderSessionOptions::log_probs
};
/// Guessed tokens behind one that was chosen, and what the model chooses behind each of them.
struct CheckGraph {
    graph::Graph graph;
    graph::Value tokens;     ///< input i32 [1, len]: the chosen one, then the guesses
    graph::Value starts;     ///< input i32 [1]: position of the first
    graph::Value positions;  ///< input i32 [len]: of each
    graph::Value random;     ///< state i32 [len, 3], the draw of each; absent where nothing is drawn
    graph::Value adapters;   ///< as ChunkGraph's
    graph::Value counts, slots;  ///< likewise
    graph::Value chosen;  ///< output i32 [len]: what a step would have chosen behind each, were those before it right
    RuleTensors rules;
};
/// Appends the keys and values of all to the caches: those of wrong guesses lie where the tokens that come in their place are written.
/// Requires check_guesses(model, options).
Result<CheckGraph> check_graph(const models::Decoder& model, const DecoderSessionOptions& options, std::uint32_t len);

Result<DecoderStepGraph> step_graph(const models::Decoder& model, const DecoderSessionOptions& options,
                                    bool extended = false);

}  // namespace vkformer::decoding
