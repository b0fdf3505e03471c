// SPDX-License-Identifier: MIT
#include "decoding/steps.hpp"

#include <algorithm>
#include <vector>

#include "core/try.hpp"
#include "decoding/token_rules.hpp"

namespace vkformer::decoding {
namespace {

using graph::Graph;
using graph::Value;
using models::DecodeLayout;
using models::GenerationConfig;

/// The tokens of every row so far, the step's input included: a cache as that of the keys. Absent where nobody asks.
Result<Value> keep_sequences(Graph& graph, Value tokens, Value starts, const DecodeLayout& layout,
                             const GenerationConfig& generation) {
    if (generation.no_repeat_ngram == 0 && generation.source_no_repeat_ngram == 0 && !generation.rules.looks_back())
        return Value{};
    VKFORMER_TRY(const Value sequences, graph.state("sequences", DType::i32, {layout.rows(), layout.max_steps}));
    VKFORMER_CHECK(graph::cache_append(graph, tokens, starts, sequences));
    return sequences;
}

/// Biases, bans and a forced last token; `x` itself where there are none.
Result<Value> mask(StepGraph& step, Value x, Value starts, Value sequences, const DecodeLayout& layout,
                   const GenerationConfig& generation) {
    Graph& graph = step.graph;
    const models::TokenRules& rules = generation.rules;
    const StepPlace place = {.starts = starts, .begins = {}, .sequences = sequences};
    VKFORMER_TRY(x, add_biases(graph, x, place, rules));
    // A forced first token is given (EncoderDecoderScript): begin_suppress_tokens begin behind it, as in generate().
    const std::uint32_t first_steps = rules.forced_first >= 0 ? 2 : 1;
    VKFORMER_TRY(x, ban_words(graph, x, place, rules, first_steps));
    const bool has_late_end = generation.min_steps > 0 && generation.eos >= 0;
    const bool has_runs = generation.no_repeat_ngram > 0 || generation.source_no_repeat_ngram > 0;
    if (rules.banned.empty() && rules.forced_last < 0 && !has_late_end && !has_runs) return x;
    if (generation.source_no_repeat_ngram > 0) {
        VKFORMER_TRY(step.source_tokens, graph.state("source_tokens", DType::i32, {layout.batch, layout.source_len}));
    }
    return graph::mask_logits(graph, x, starts,
                              {.banned = rules.banned,
                               .forced_last = rules.forced_last,
                               .last_start = static_cast<std::int32_t>(generation.max_steps) - 1,
                               .late = has_late_end ? std::vector{generation.eos} : std::vector<std::int32_t>(),
                               .late_steps = generation.min_steps,
                               .ngram = generation.no_repeat_ngram,
                               .source_ngram = generation.source_no_repeat_ngram,
                               .sequences = sequences,
                               .source = step.source_tokens});
}

Result<void> add_greedy_step(StepGraph& step, Value logits, const DecodeLayout& layout,
                             const GenerationConfig& generation) {
    Graph& graph = step.graph;
    graph.set_scope("greedy");
    VKFORMER_TRY(step.greedy.finished, graph.state("finished", DType::i32, {layout.rows()}));
    VKFORMER_TRY(step.greedy.history, graph.state("history", DType::i32, {layout.max_steps, layout.rows()}));
    VKFORMER_TRY(const Value sequences,
                 keep_sequences(graph, step.greedy.tokens, step.greedy.starts, layout, generation));
    VKFORMER_TRY(const Value allowed, mask(step, logits, step.greedy.starts, sequences, layout, generation));
    VKFORMER_TRY(const Value next, graph::arg_max(graph, allowed));
    return graph::greedy_step(graph, next, step.greedy, generation.eos, generation.pad);
}

Result<void> add_beam_step(StepGraph& step, const models::EncoderDecoder::Step& decoder, const DecodeLayout& layout,
                           const GenerationConfig& generation) {
    Graph& graph = step.graph;
    graph::BeamStates& states = step.beam;
    graph.set_scope("beam");
    VKFORMER_TRY(states, add_beam_states(graph, beam_layout(layout), states.tokens, states.starts));
    VKFORMER_TRY(const Value log_probs, graph::log_softmax(graph, decoder.logits));
    VKFORMER_TRY(const Value sequences, keep_sequences(graph, states.tokens, states.starts, layout, generation));
    VKFORMER_TRY(const Value scores, mask(step, log_probs, states.starts, sequences, layout, generation));
    std::vector<Value> caches = decoder.caches;
    if (sequences) caches.push_back(sequences);
    return end_beam_step(graph, scores, states, layout.beams, generation, caches);
}

}  // namespace

BeamLayout beam_layout(const DecodeLayout& layout) noexcept {
    return {.batch = layout.batch, .beams = layout.beams, .history = layout.max_steps};
}

Result<void> end_beam_step(Graph& graph, Value scores, const graph::BeamStates& states, std::uint32_t beams,
                           const GenerationConfig& generation, std::span<const Value> caches) {
    if (generation.renormalize) {
        VKFORMER_TRY(scores, graph::log_softmax(graph, scores));
    }
    const auto candidates = static_cast<std::uint32_t>(std::min<std::uint64_t>(2 * beams, graph.shape(scores).back()));
    VKFORMER_TRY(const auto best, graph::top_k(graph, scores, candidates));
    VKFORMER_CHECK(graph::beam_step(graph, best.values, best.indices, states,
                                    {.beams = beams,
                                     .max_steps = generation.max_steps,
                                     .eos = generation.eos,
                                     .length_penalty = static_cast<float>(generation.length_penalty),
                                     .early_stopping = generation.early_stopping}));
    // beam_step has moved `starts` on, so it is the number of positions that the caches hold.
    for (const Value cache : caches)
        VKFORMER_CHECK(graph::cache_reorder(graph, cache, states.parents, states.starts, beams));
    return {};
}

Result<EncoderGraph> encoder_graph(const models::EncoderDecoder& model, const DecodeLayout& layout) {
    EncoderGraph encoder;
    VKFORMER_TRY(encoder.source, model.add_encoder(encoder.graph, layout));
    return encoder;
}

Result<StepGraph> step_graph(const models::EncoderDecoder& model, const DecodeLayout& layout,
                             const GenerationConfig& generation) {
    StepGraph step;
    VKFORMER_TRY(const Value tokens, step.graph.state("tokens", DType::i32, {layout.rows(), 1}));
    VKFORMER_TRY(const Value starts, step.graph.state("starts", DType::i32, {layout.rows()}));
    step.greedy.tokens = step.beam.tokens = tokens;
    step.greedy.starts = step.beam.starts = starts;
    VKFORMER_TRY(const auto decoder, model.add_decoder_step(step.graph, layout, tokens, starts));
    step.source = decoder.source;
    if (generation.beams == 1) {
        VKFORMER_CHECK(add_greedy_step(step, decoder.logits, layout, generation));
    } else {
        VKFORMER_CHECK(add_beam_step(step, decoder, layout, generation));
    }
    return step;
}

}  // namespace vkformer::decoding
