// SPDX-License-Identifier: MIT
/// The graphs of many sequences whose keys and values lie in pages: chunks of prompts, and one step with the choice of each sequence's
/// next token by its own rules.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <vector>

#include "decoding/batch_pages.hpp"
#include "decoding/decoder_options.hpp"
#include "decoding/decoder_steps.hpp"
#include "decoding/log_probs.hpp"

namespace vkformer::decoding {

struct BatchOptions {
    static constexpr std::uint32_t kMostRows = 64;
    /// Programs of steps that are kept, and bytes that they have of their own: more of either, and those that were used last stay.
    static constexpr std::size_t kKeptSteps = 32;
    static constexpr std::uint64_t kKeptStepBytes = std::uint64_t{256} << 20;
    std::uint32_t rows = 8;     ///< sequences that are decoded together at most
    std::uint32_t context = 0;  ///< as of DecoderSessionOptions; at most the model's max_positions
    /// Pages of graph::kPageLen tokens that the caches have, one of them nobody's; 0: for `rows` whole contexts, at most 32,768 tokens, but
    /// at least for one, or for what windows leave of one where all layers have them.
    std::uint32_t pages = 0;
    /// Those of layers with a window in a model that has others beside them; 0: for the windows and chunks of `rows` sequences and as many
    /// again, which are kept, or, where that is no less, the same pages as of the others.
    std::uint32_t window_pages = 0;
    std::uint32_t chunk = 256;  ///< tokens of prompts that are computed in one submit at most
    DType dtype = DType::f32;   ///< of activations
    models::WeightFormat weights = models::WeightFormat::as_computed;
    models::CacheFormat cache = models::CacheFormat::as_computed;
    models::TokenRules rules;          ///< of all sequences; none looks back at them
    std::vector<std::int32_t> ends{};  ///< what BatchSequence::min_tokens waits for
    std::uint32_t guesses = 0;         ///< tokens that look_up guesses for a sequence at a time at most
};

/// That layers of the model have with options as checked_batch_options gives them: first those of layers that see whole sequences, if any.
std::vector<PageKind> page_kinds(const models::Decoder& model, const BatchOptions& options);

/// Inputs i32 [rows, page_count(context)] of each of them.
using PageTables = std::array<graph::Value, kPageKinds>;

struct BatchChunkGraph {
    graph::Graph graph;
    graph::Value tokens;  ///< input i32 [rows, len]
    graph::Value starts;  ///< input i32 [rows]
    PageTables pages;
    // Absent of a model that keeps no states, inputs i32 [rows]:
    graph::Value counts;  ///< tokens that are the row's own
    graph::Value
        slots;  ///< which of BatchOptions::rows states is the row's; rows without a sequence: one that there is not
    graph::Value adapters;  ///< input f32, DecoderLayout::adapter_scales; absent where none counts
};
/// Of a chunk, by which its graph is made.
struct BatchChunkKind {
    std::uint32_t rows = 1, len = 1;
    bool adapters = false;  ///< those of a row count
    auto operator<=>(const BatchChunkKind&) const = default;
};
/// Appends the keys and values of `len` tokens per row to the caches.
Result<BatchChunkGraph> batch_chunk_graph(const models::Decoder& model, const BatchOptions& options,
                                          const BatchChunkKind& kind);

/// The same, with how likely each token makes the one that follows.
struct BatchScoreGraph {
    BatchChunkGraph chunk;
    GivenLogProbs given;  ///< of rows · len positions
};
Result<BatchScoreGraph> batch_score_graph(const models::Decoder& model, const BatchOptions& options,
                                          const BatchChunkKind& kind, std::uint32_t likeliest);

/// What the step of some sequences does: all that none of them asks for is left out.
struct BatchStepKind {
    std::uint32_t rows = 1;
    bool draws = false;           ///< a temperature above 0
    bool counts = false;          ///< a penalty that counts tokens
    bool biases = false;          ///< a bias of a sequence's own
    bool waits = false;           ///< tokens before an end
    bool masks = false;           ///< a constraint: there is a choice of tokens for each step
    bool adapters = false;        ///< adapters of a sequence count
    bool scores = false;          ///< the log-probability of what is chosen
    std::uint32_t likeliest = 0;  ///< with scores: of so many other tokens, too
    auto operator<=>(const BatchStepKind&) const = default;
};

struct BatchStepGraph {
    graph::Graph graph;
    graph::GreedyStates states;
    PageTables pages;
    graph::Value slots;     ///< as of BatchChunkGraph
    graph::Value adapters;  ///< likewise
    // Absent where the kind has no use for them:
    graph::Value random;     ///< state i32 [rows, 3]
    graph::Value sampling;   ///< input f32 [rows, 4] of graph::sample
    graph::Value counts;     ///< state i32 [rows, vocab] of graph::count_tokens
    graph::Value penalties;  ///< input f32 [rows, 3] of graph::penalize
    graph::Value biases;     ///< input f32 [rows, vocab]
    graph::Value allowed;    ///< input i32 [rows, allowed_words(vocab)] of graph::penalize
    graph::Value begins;     ///< input i32 [rows]: length of the prompt
    graph::Value ends;       ///< input i32 [rows]: position from which on an end may be chosen, less kLongestWait
    graph::Value countdown;  ///< state i32 [rows, 1] of force_last
    LogProbTensors log_probs;
};
inline constexpr std::int32_t kLongestWait = 1 << 30;
Result<BatchStepGraph> batch_step_graph(const models::Decoder& model, const BatchOptions& options,
                                        const BatchStepKind& kind);

}  // namespace vkformer::decoding
