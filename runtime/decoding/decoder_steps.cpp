// SPDX-License-Identifier: MIT
#include "decoding/decoder_steps.hpp"

#include "core/try.hpp"

namespace vkformer::decoding {
namespace {

using graph::Value;

models::DecoderLayout layout_of(const DecoderSessionOptions& options, std::uint32_t len) {
    return {.rows = options.rows,
            .len = len,
            .capacity = options.context,
            .dtype = options.dtype,
            .weights = options.weights};
}

constexpr std::int32_t kNoToken = -1;  // the host ends sequences, for it looks at every token anyway

}  // namespace

Result<ChunkGraph> chunk_graph(const models::Decoder& model, const DecoderSessionOptions& options, std::uint32_t len) {
    ChunkGraph chunk;
    VKFORMER_TRY(chunk.tokens, chunk.graph.input("tokens", DType::i32, {options.rows, len}));
    VKFORMER_TRY(chunk.starts, chunk.graph.input("chunk_starts", DType::i32, {options.rows}));
    VKFORMER_CHECK(
        model.add_pass(chunk.graph, layout_of(options, len), chunk.tokens, chunk.starts, models::Logits::none));
    return chunk;
}

Result<DecoderStepGraph> step_graph(const models::Decoder& model, const DecoderSessionOptions& options) {
    DecoderStepGraph step;
    graph::Graph& graph = step.graph;
    const Shape rows = {options.rows};
    VKFORMER_TRY(step.states.tokens, graph.state("step_tokens", DType::i32, {options.rows, 1}));
    VKFORMER_TRY(step.states.starts, graph.state("starts", DType::i32, rows));
    VKFORMER_TRY(step.states.finished, graph.state("finished", DType::i32, rows));
    VKFORMER_TRY(step.states.history, graph.state("history", DType::i32, {options.context, options.rows}));
    VKFORMER_TRY(const auto pass, model.add_pass(graph, layout_of(options, 1), step.states.tokens, step.states.starts,
                                                 models::Logits::all));
    graph.set_scope("choice");
    Value next;
    if (options.sample.temperature == 0) {
        VKFORMER_TRY(next, graph::arg_max(graph, pass.logits));
    } else {
        VKFORMER_TRY(step.random, graph.state("random", DType::i32, {options.rows, 3}));
        VKFORMER_TRY(next, graph::sample(graph, pass.logits, step.random, options.sample));
    }
    VKFORMER_CHECK(graph::greedy_step(graph, next, step.states, kNoToken, kNoToken));
    return step;
}

}  // namespace vkformer::decoding
