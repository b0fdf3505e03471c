// SPDX-License-Identifier: MIT
#include "decoding/speech_steps.hpp"

#include "core/try.hpp"
#include "decoding/token_rules.hpp"

namespace vkformer::decoding {

using graph::Value;

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
    VKFORMER_TRY(Value logits, add_biases(graph, decoder.logits, place, rules.generation.rules));
    VKFORMER_TRY(logits, ban_words(graph, logits, place, rules.generation.rules));
    if (!rules.generation.rules.banned.empty() || rules.generation.no_repeat_ngram > 0) {
        VKFORMER_TRY(logits, graph::mask_logits(graph, logits, step.states.starts,
                                                {.banned = rules.generation.rules.banned,
                                                 .ngram = rules.generation.no_repeat_ngram,
                                                 .sequences = sequences}));
    }
    if (rules.timestamps) {
        VKFORMER_TRY(logits, graph::mask_timestamps(graph, logits, step.states.starts, step.begins, sequences,
                                                    *rules.timestamps));
    }
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

}  // namespace vkformer::decoding
