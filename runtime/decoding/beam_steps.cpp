// SPDX-License-Identifier: MIT
#include "decoding/beam_steps.hpp"

#include <algorithm>
#include <string>

#include "core/try.hpp"
#include "decoding/invalid.hpp"

namespace vkformer::decoding {
namespace {

using graph::Value;

models::DecoderLayout layout_of(const DecoderSessionOptions& options, const BeamRules& rules, Value adapters = {}) {
    return {.rows = rules.beams,
            .len = 1,
            .capacity = options.context,
            .dtype = options.dtype,
            .weights = options.weights,
            .cache = options.cache,
            .adapter_scales = adapters};
}

constexpr std::uint32_t kMostCandidates = 128;  // of graph::top_k

std::uint32_t candidates_of(const BeamRules& rules, std::size_t further_ends) {
    return static_cast<std::uint32_t>((2 + further_ends) * rules.beams);
}

}  // namespace

Result<void> check_beams(const BeamRules& rules, const DecoderSessionOptions& options) {
    if (rules.beams < 2 || rules.beams > graph::kMaxBeams)
        return invalid("a beam search with " + std::to_string(rules.beams) + " beams was asked for, it takes 2 to " +
                       std::to_string(graph::kMaxBeams));
    if (options.rows != 1)
        return invalid("a beam search continues prompts one by one, not " + std::to_string(options.rows) +
                       " together; leave out the batch");
    if (options.sample.temperature != 0)
        return invalid("a beam search looks for the likeliest sequence and draws nothing: the temperature must be 0");
    return {};
}

Result<void> check_ends(const BeamRules& rules, std::size_t ends) {
    const std::size_t further_ends = ends == 0 ? 0 : ends - 1;
    if (candidates_of(rules, further_ends) <= kMostCandidates) return {};
    return invalid("a search with " + std::to_string(rules.beams) + " beams was asked for, with " +
                   std::to_string(ends) + " tokens that end a sequence there are at most " +
                   std::to_string(kMostCandidates / (2 + further_ends)));
}

Result<BeamStepGraph> beam_step_graph(const models::Decoder& model, const DecoderSessionOptions& options,
                                      const BeamRules& rules, std::int32_t eos, std::uint32_t further_ends) {
    BeamStepGraph step;
    graph::Graph& graph = step.graph;
    const std::uint32_t beams = rules.beams;
    const BeamLayout layout = {.beams = beams, .history = options.context, .further_ends = further_ends};
    VKFORMER_TRY(const Value tokens, graph.state("step_tokens", DType::i32, {beams, 1}));
    VKFORMER_TRY(const Value starts, graph.state("starts", DType::i32, {beams}));
    VKFORMER_TRY(step.adapters, adapter_input(graph, model, options.adapters, "step_adapters", beams));
    VKFORMER_TRY(const auto pass,
                 model.add_pass(graph, layout_of(options, rules, step.adapters), tokens, starts, models::Logits::all));
    graph.set_scope("beam");
    VKFORMER_TRY(step.states, add_beam_states(graph, layout, tokens, starts));
    VKFORMER_TRY(const Value log_probs, graph::log_softmax(graph, pass.logits));
    VKFORMER_TRY(const Value scores, add_rules(graph, options, log_probs, tokens, starts, step.rules));
    const std::uint64_t vocab = graph.shape(scores)[1];
    const auto candidates =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(candidates_of(rules, further_ends), vocab));
    VKFORMER_TRY(const auto best, graph::top_k(graph, scores, candidates));
    VKFORMER_CHECK(graph::beam_step(graph, best.values, best.indices, step.states,
                                    {.beams = beams,
                                     .max_steps = options.context,
                                     .eos = eos,
                                     .length_penalty = rules.length_penalty,
                                     .early_stopping = rules.early_stopping}));
    VKFORMER_TRY(step.shared, graph.state("shared", DType::i32, {beams}));
    // beam_step has moved `starts` on, so it is the number of positions that the caches hold.
    std::vector<Value> caches = pass.caches;
    if (step.rules.sequences) caches.push_back(step.rules.sequences);
    for (const Value cache : caches)
        VKFORMER_CHECK(graph::cache_reorder(graph, cache, step.states.parents, starts, beams, step.shared));
    if (step.rules.counts) {  // one number per token of the vocabulary, which all go with the row
        VKFORMER_TRY(step.vocab_lengths, graph.input("vocab_lengths", DType::i32, {beams}));
        VKFORMER_CHECK(graph::cache_reorder(graph, step.rules.counts, step.states.parents, step.vocab_lengths, beams));
        VKFORMER_CHECK(graph::count_tokens(graph, tokens, step.rules.counts, graph::TokenOrigin::generated));
    }
    return step;
}

Result<SpreadGraph> spread_graph(const models::Decoder& model, const DecoderSessionOptions& options,
                                 const BeamRules& rules) {
    SpreadGraph spread;
    graph::Graph& graph = spread.graph;
    VKFORMER_TRY(spread.parents, graph.input("spread_parents", DType::i32, {rules.beams}));
    VKFORMER_TRY(spread.lengths, graph.input("spread_lengths", DType::i32, {rules.beams}));
    VKFORMER_TRY(std::vector<Value> caches, model.add_caches(graph, layout_of(options, rules)));
    if (options.penalties.asks_sequences()) {
        VKFORMER_TRY(const Value sequences, graph.state("sequences", DType::i32, {rules.beams, options.context}));
        caches.push_back(sequences);
    }
    graph.set_scope("spread");
    for (const Value cache : caches)
        VKFORMER_CHECK(graph::cache_reorder(graph, cache, spread.parents, spread.lengths, rules.beams));
    return spread;
}

}  // namespace vkformer::decoding
