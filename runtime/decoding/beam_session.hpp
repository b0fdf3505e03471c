// SPDX-License-Identifier: MIT
/// Beam search with a decoder-only model: the prompt is computed once, every step runs on the device.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "decoding/beam_states.hpp"
#include "decoding/decoder_session.hpp"
#include "decoding/decoder_steps.hpp"
#include "decoding/prompt_chunks.hpp"

namespace vkformer::decoding {

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
    graph::Value shared;  ///< state i32 [beams]: positions of the caches that are the same in all rows
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

struct BeamResult {
    BeamHypothesis best;
    FinishReason finish = FinishReason::none;
    std::uint32_t reused = 0;  ///< tokens of the prompt that the caches held already
};

/// Continues prompts one by one: token for token what Hugging Face's generate() returns with num_beams (transformers 4.57). Not
/// thread-safe. The backend and the model outlive the session.
class BeamSession {
public:
    /// Errors: InvalidArgument (several rows, a temperature, beams that are none or too many, a context beyond max_positions),
    /// and those of DecoderSession::create.
    static Result<BeamSession> create(graph::Backend& backend, const models::Decoder& model,
                                      const DecoderSessionOptions& options, const BeamRules& rules);

    /// One result per request, in their order; seeds do nothing. Errors: InvalidArgument (an empty or too long prompt, an unknown
    /// token, more stop tokens than a search with so many beams looks for; nothing has run then), and those of the backend.
    Result<std::vector<BeamResult>> run(std::span<const Request> requests);

    const DecoderSessionOptions& options() const noexcept { return options_; }
    const BeamRules& rules() const noexcept { return rules_; }
    /// Of the last run.
    const DecoderTimings& timings() const noexcept { return timings_; }
    /// For the next run. Errors: InvalidArgument (a bias of an unknown token).
    Result<void> set_penalties(const Penalties& penalties);

private:
    struct Spread;
    struct Step;

    BeamSession(graph::Backend& backend, const models::Decoder& model, const DecoderSessionOptions& options,
                const BeamRules& rules);
    Result<void> check(std::span<const Request> requests) const;
    BeamLayout layout(std::size_t further_ends) const noexcept;
    Result<std::uint32_t> fill_caches(std::span<const std::int32_t> context);
    Result<void> spread(std::size_t length);
    Result<Step*> step(const Request& request);
    Result<void> begin(Step& step, const Request& request, std::uint32_t max_steps);
    Result<void> run_steps(Step& step, std::uint32_t max_steps);
    Result<BeamResult> search(const Request& request);

    graph::Backend* backend_;
    const models::Decoder* model_;
    DecoderSessionOptions options_;
    BeamRules rules_;
    SessionStores stores_;
    PromptChunks chunks_;
    std::shared_ptr<Spread> spread_;
    std::shared_ptr<Step> step_;        // of the last request
    std::vector<std::int32_t> cached_;  // tokens whose keys and values all rows have, from position 0
    DecoderTimings timings_;
};

}  // namespace vkformer::decoding
