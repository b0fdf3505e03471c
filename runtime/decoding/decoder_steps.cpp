// SPDX-License-Identifier: MIT
#include "decoding/decoder_steps.hpp"

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
Result<Value> penalized(DecoderStepGraph& step, Value logits, const DecoderSessionOptions& options) {
    const Penalties& penalties = options.penalties;
    if (!penalties.counts() && penalties.bias.empty()) return logits;
    const std::uint64_t vocab = step.graph.shape(logits).back();
    graph::PenalizeOptions wanted = {
        .repetition = penalties.repetition, .presence = penalties.presence, .frequency = penalties.frequency};
    if (penalties.counts()) {
        VKFORMER_TRY(step.counts, step.graph.state("token_counts", DType::i32, {options.rows, vocab}));
        wanted.counts = step.counts;
    }
    if (!penalties.bias.empty()) {
        VKFORMER_TRY(wanted.bias, step.graph.input("logit_bias", DType::f32, {vocab}));
        step.bias = wanted.bias;
    }
    return graph::penalize(step.graph, logits, wanted);
}

/// What the rows have read, kept beside keys and values: whoever appends those appends to this. Absent where nobody asks.
Result<Value> keep_sequences(graph::Graph& graph, const DecoderSessionOptions& options, Value tokens, Value starts) {
    if (options.penalties.no_repeat_ngram == 0) return Value{};
    VKFORMER_TRY(const Value sequences, graph.state("sequences", DType::i32, {options.rows, options.context}));
    VKFORMER_CHECK(graph::cache_append(graph, tokens, starts, sequences));
    return sequences;
}

constexpr std::int32_t kNoToken = -1;  // the host ends sequences, for it looks at every token anyway

}  // namespace

Result<ChunkGraph> chunk_graph(const models::Decoder& model, const DecoderSessionOptions& options, std::uint32_t len,
                               bool extended) {
    ChunkGraph chunk;
    VKFORMER_TRY(chunk.tokens, chunk.graph.input("tokens", DType::i32, {options.rows, len}));
    VKFORMER_TRY(chunk.starts, chunk.graph.input("chunk_starts", DType::i32, {options.rows}));
    VKFORMER_CHECK(model.add_pass(chunk.graph, layout_of(options, len, extended), chunk.tokens, chunk.starts,
                                  models::Logits::none));
    VKFORMER_CHECK(keep_sequences(chunk.graph, options, chunk.tokens, chunk.starts));
    return chunk;
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
    VKFORMER_TRY(Value logits, penalized(step, pass.logits, options));
    VKFORMER_TRY(const Value sequences, keep_sequences(graph, options, step.states.tokens, step.states.starts));
    if (options.penalties.has_least()) {
        VKFORMER_TRY(step.begins, graph.state("begins", DType::i32, rows));
    }
    if (sequences || step.begins) {
        graph::MaskLogitsOptions mask = {
            .begins = step.begins, .ngram = options.penalties.no_repeat_ngram, .sequences = sequences};
        if (step.begins) {
            mask.late = options.penalties.ends;
            mask.late_steps = static_cast<std::int32_t>(options.penalties.min_tokens);
        }
        VKFORMER_TRY(logits, graph::mask_logits(graph, logits, step.states.starts, mask));
    }
    Value next;
    if (options.sample.temperature == 0) {
        VKFORMER_TRY(next, graph::arg_max(graph, logits));
    } else {
        VKFORMER_TRY(step.random, graph.state("random", DType::i32, {options.rows, 3}));
        VKFORMER_TRY(next, graph::sample(graph, logits, step.random, options.sample));
    }
    if (step.counts) VKFORMER_CHECK(graph::count_tokens(graph, next, step.counts, graph::TokenOrigin::generated));
    VKFORMER_CHECK(graph::greedy_step(graph, next, step.states, kNoToken, kNoToken));
    return step;
}

}  // namespace vkformer::decoding
