// SPDX-License-Identifier: MIT
#include "decoding/speech_steps.hpp"

#include <vector>

#include "core/try.hpp"
#include "decoding/steps.hpp"
#include "decoding/token_rules.hpp"

namespace vkformer::decoding {

using graph::Value;

namespace {

/// Logits or log-probabilities under the rules, where `sequences` has the step's input already.
Result<Value> under_rules(graph::Graph& graph, Value x, const StepPlace& place, const SpeechRules& rules) {
    const models::GenerationConfig& generation = rules.generation;
    VKFORMER_TRY(x, add_biases(graph, x, place, generation.rules));
    VKFORMER_TRY(x, ban_words(graph, x, place, generation.rules));
    if (!generation.rules.banned.empty() || generation.no_repeat_ngram > 0) {
        VKFORMER_TRY(x, graph::mask_logits(graph, x, place.starts,
                                           {.banned = generation.rules.banned,
                                            .ngram = generation.no_repeat_ngram,
                                            .sequences = place.sequences}));
    }
    if (!rules.timestamps) return x;
    return graph::mask_timestamps(graph, x, place.starts, place.begins, place.sequences, *rules.timestamps);
}

}  // namespace

Result<SpeechStepGraph> speech_step_graph(const models::EncoderDecoder& model, const models::DecodeLayout& layout,
                                          const SpeechRules& rules, float temperature) {
    SpeechStepGraph step;
    graph::Graph& graph = step.graph;
    const Shape rows = {layout.rows()}, row_tokens = {layout.rows(), layout.max_steps};
    const Shape history = {layout.max_steps, layout.rows()};
    VKFORMER_TRY(step.states.tokens, graph.state("tokens", DType::i32, {layout.rows(), 1}));
    VKFORMER_TRY(step.states.starts, graph.state("starts", DType::i32, rows));
    VKFORMER_TRY(step.states.finished, graph.state("finished", DType::i32, rows));
    VKFORMER_TRY(step.states.history, graph.state("history", DType::i32, history));
    VKFORMER_TRY(step.given, graph.state("given", DType::i32, row_tokens));
    VKFORMER_TRY(step.begins, graph.state("begins", DType::i32, rows));
    VKFORMER_TRY(step.scores, graph.state("scores", DType::f32, history));
    VKFORMER_TRY(const Value sequences, graph.state("sequences", DType::i32, row_tokens));
    VKFORMER_TRY(const auto decoder, model.add_decoder_step(graph, layout, step.states.tokens, step.states.starts));
    step.source = decoder.source;
    step.logits = decoder.logits;
    graph.mark_output(step.logits);

    graph.set_scope("choice");
    VKFORMER_CHECK(graph::cache_append(graph, step.states.tokens, step.states.starts, sequences));
    const StepPlace place = {.starts = step.states.starts, .begins = step.begins, .sequences = sequences};
    VKFORMER_TRY(const Value logits, under_rules(graph, decoder.logits, place, rules));
    VKFORMER_TRY(const Value log_probs, graph::log_softmax(graph, logits));
    Value next;
    if (temperature == 0) {
        VKFORMER_TRY(next, graph::arg_max(graph, logits));
    } else {
        VKFORMER_TRY(step.random, graph.state("random", DType::i32, {layout.rows(), 3}));
        VKFORMER_TRY(next, graph::sample(graph, logits, step.random, {.temperature = temperature}));
    }
    VKFORMER_CHECK(graph::greedy_step(graph, next, step.states, rules.generation.eos, rules.generation.pad,
                                      {.given = step.given, .log_probs = log_probs, .scores = step.scores}));
    return step;
}

Result<SpeechBeamGraph> speech_beam_graph(const models::EncoderDecoder& model, const models::DecodeLayout& layout,
                                          const SpeechRules& rules) {
    SpeechBeamGraph step;
    graph::Graph& graph = step.graph;
    const std::uint32_t rows = layout.rows();
    VKFORMER_TRY(const Value tokens, graph.state("tokens", DType::i32, {rows, 1}));
    VKFORMER_TRY(const Value starts, graph.state("starts", DType::i32, {rows}));
    VKFORMER_TRY(step.begins, graph.state("begins", DType::i32, {rows}));
    VKFORMER_TRY(step.worth, graph.state("worth", DType::f32, {rows, layout.max_steps + 1, 1, 1}));
    VKFORMER_TRY(const Value sequences, graph.state("sequences", DType::i32, {rows, layout.max_steps}));
    VKFORMER_TRY(const auto decoder, model.add_decoder_step(graph, layout, tokens, starts));

    graph.set_scope("beam");
    VKFORMER_TRY(step.states, add_beam_states(graph, beam_layout(layout), tokens, starts));
    VKFORMER_CHECK(graph::cache_append(graph, tokens, starts, sequences));
    VKFORMER_TRY(const Value log_probs, graph::log_softmax(graph, decoder.logits));
    const StepPlace place = {.starts = starts, .begins = step.begins, .sequences = sequences};
    VKFORMER_TRY(const Value scores, under_rules(graph, log_probs, place, rules));
    std::vector<Value> caches = decoder.caches;
    caches.push_back(sequences);
    VKFORMER_CHECK(end_beam_step(graph, scores, step.states, layout.beams, rules.generation, caches));
    VKFORMER_TRY(const Value worth, graph.reshape(step.states.running_scores, {rows, 1, 1, 1}));
    VKFORMER_CHECK(graph::cache_append(graph, worth, starts, step.worth));
    return step;
}

}  // namespace vkformer::decoding
