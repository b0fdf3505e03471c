// SPDX-License-Identifier: MIT
#include "decoding/decoder_steps.hpp"

#include <algorithm>

#include "core/try.hpp"

namespace vkformer::decoding {
namespace {

using graph::Value;

models::DecoderLayout layout_of(const DecoderSessionOptions& options, std::uint32_t len, bool extended) {
    return {.rows = options.rows,
            .len = len,
            .capacity = options.context,
            .dtype = options.dtype,
            .weights = options.weights,
            .cache = options.cache,
            .extended = extended};
}

/// Biases are an input that is written once, for a weight of that name may hold others; `logits` itself where there is nothing to do.
Result<Value> penalized(graph::Graph& graph, const DecoderSessionOptions& options, Value logits, RuleTensors& rules) {
    const Penalties& penalties = options.penalties;
    if (!penalties.counts() && penalties.bias.empty()) return logits;
    const std::uint64_t rows = graph.shape(logits)[0], vocab = graph.shape(logits)[1];
    graph::PenalizeOptions wanted = {
        .repetition = penalties.repetition, .presence = penalties.presence, .frequency = penalties.frequency};
    if (penalties.counts()) {
        VKFORMER_TRY(rules.counts, graph.state("token_counts", DType::i32, {rows, vocab}));
        wanted.counts = rules.counts;
    }
    if (!penalties.bias.empty()) {
        VKFORMER_TRY(wanted.bias, graph.input("logit_bias", DType::f32, {vocab}));
        rules.bias = wanted.bias;
    }
    return graph::penalize(graph, logits, wanted);
}

/// What the rows have read, kept beside keys and values: whoever appends those appends to this. Absent where nobody asks.
Result<Value> keep_sequences(graph::Graph& graph, const DecoderSessionOptions& options, Value tokens, Value starts,
                             std::uint32_t cache_rows = 0) {
    if (options.penalties.no_repeat_ngram == 0) return Value{};
    const std::uint64_t rows = graph.shape(tokens)[0], all = std::max<std::uint64_t>(rows, cache_rows);
    VKFORMER_TRY(const Value sequences, graph.state("sequences", DType::i32, {all, options.context}));
    Value seen = sequences;
    if (all != rows) {
        VKFORMER_TRY(seen, graph.reshape(sequences, {1, all * options.context}));  // as models::Decoder has its caches
    }
    VKFORMER_CHECK(graph::cache_append(graph, tokens, starts, seen));
    return sequences;
}

constexpr std::int32_t kNoToken = -1;  // the host ends sequences, for it looks at every token anyway

}  // namespace

Result<ChunkGraph> chunk_graph(const models::Decoder& model, const DecoderSessionOptions& options, std::uint32_t len,
                               bool extended, std::uint32_t cache_rows) {
    ChunkGraph chunk;
    VKFORMER_TRY(chunk.tokens, chunk.graph.input("tokens", DType::i32, {options.rows, len}));
    VKFORMER_TRY(chunk.starts, chunk.graph.input("chunk_starts", DType::i32, {options.rows}));
    models::DecoderLayout layout = layout_of(options, len, extended);
    layout.cache_rows = cache_rows;
    VKFORMER_CHECK(model.add_pass(chunk.graph, layout, chunk.tokens, chunk.starts, models::Logits::none));
    VKFORMER_CHECK(keep_sequences(chunk.graph, options, chunk.tokens, chunk.starts, cache_rows));
    return chunk;
}

Result<Value> add_rules(graph::Graph& graph, const DecoderSessionOptions& options, Value logits, Value tokens,
                        Value starts, RuleTensors& rules) {
    VKFORMER_TRY(const Value allowed, penalized(graph, options, logits, rules));
    VKFORMER_TRY(rules.sequences, keep_sequences(graph, options, tokens, starts));
    if (options.penalties.has_least()) {
        VKFORMER_TRY(rules.begins, graph.state("begins", DType::i32, {graph.shape(logits)[0]}));
    }
    if (!rules.sequences && !rules.begins) return allowed;
    graph::MaskLogitsOptions mask = {
        .begins = rules.begins, .ngram = options.penalties.no_repeat_ngram, .sequences = rules.sequences};
    if (rules.begins) {
        mask.late = options.penalties.ends;
        mask.late_steps = static_cast<std::int32_t>(options.penalties.min_tokens);
    }
    return graph::mask_logits(graph, allowed, starts, mask);
}

Result<void> write_biases(graph::Program& program, const RuleTensors& rules, const Penalties& penalties) {
    if (!rules.bias) return {};
    std::vector<float> bias(program.plan().graph.shape(rules.bias)[0], 0.0f);
    for (const auto& [token, value] : penalties.bias) bias[static_cast<std::size_t>(token)] = value;
    return program.write(rules.bias, std::span<const float>(bias));
}

Result<DecoderStepGraph> step_graph(const models::Decoder& model, const DecoderSessionOptions& options, bool extended) {
    DecoderStepGraph step;
    graph::Graph& graph = step.graph;
    const Shape rows = {options.rows};
    VKFORMER_TRY(step.states.tokens, graph.state("step_tokens", DType::i32, {options.rows, 1}));
    VKFORMER_TRY(step.states.starts, graph.state("starts", DType::i32, rows));
    VKFORMER_TRY(step.states.finished, graph.state("finished", DType::i32, rows));
    VKFORMER_TRY(step.states.history, graph.state("history", DType::i32, {options.context, options.rows}));
    VKFORMER_TRY(const auto pass, model.add_pass(graph, layout_of(options, 1, extended), step.states.tokens,
                                                 step.states.starts, models::Logits::all));
    graph.set_scope("choice");
    VKFORMER_TRY(const Value logits,
                 add_rules(graph, options, pass.logits, step.states.tokens, step.states.starts, step.rules));
    Value next;
    if (options.sample.temperature == 0) {
        VKFORMER_TRY(next, graph::arg_max(graph, logits));
    } else {
        VKFORMER_TRY(step.random, graph.state("random", DType::i32, {options.rows, 3}));
        VKFORMER_TRY(next, graph::sample(graph, logits, step.random, options.sample));
    }
    if (step.rules.counts)
        VKFORMER_CHECK(graph::count_tokens(graph, next, step.rules.counts, graph::TokenOrigin::generated));
    VKFORMER_CHECK(graph::greedy_step(graph, next, step.states, kNoToken, kNoToken));
    return step;
}

}  // namespace vkformer::decoding
