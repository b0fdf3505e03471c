// SPDX-License-Identifier: MIT
#include "decoding/batch_steps.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "core/try.hpp"
#include "decoding/token_rules.hpp"

namespace vkformer::decoding {
namespace {

using graph::Value;

models::DecoderLayout layout_of(const BatchOptions& options, std::uint32_t rows, std::uint32_t len,
                                const PageTables& pages, Value slots, Value adapters) {
    return {.rows = rows,
            .len = len,
            .capacity = options.context,
            .dtype = options.dtype,
            .weights = options.weights,
            .cache = options.cache,
            .pages = options.pages,
            .page_table = pages[0],
            .window_pages = options.window_pages,
            .window_table = pages[1],
            .adapter_scales = adapters,
            .slots = options.rows,
            .state_slots = slots};
}

/// Absent of a model that keeps no states.
Result<Value> state_slots(graph::Graph& graph, const models::Decoder& model, std::uint32_t rows) {
    if (!model.config().keeps_states()) return Value{};
    return graph.input("state_slots", DType::i32, {rows, 2});
}

Result<PageTables> page_tables(graph::Graph& graph, const BatchOptions& options, std::uint32_t rows) {
    const Shape shape = {rows, graph::page_count(options.context)};
    PageTables tables;
    VKFORMER_TRY(tables[0], graph.input("pages", DType::i32, shape));
    if (options.window_pages > 0) {
        VKFORMER_TRY(tables[1], graph.input("window_pages", DType::i32, shape));
    }
    return tables;
}

/// With the sequences' own penalties and biases.
Result<Value> penalized(BatchStepGraph& step, const BatchStepKind& kind, Value logits) {
    if (!kind.counts && !kind.biases && !kind.masks) return logits;
    graph::Graph& graph = step.graph;
    const Shape shape = graph.shape(logits);
    if (kind.counts) {
        VKFORMER_TRY(step.counts, graph.state("token_counts." + std::to_string(kind.rows), DType::i32, shape));
        VKFORMER_TRY(step.penalties, graph.input("penalties", DType::f32, {shape[0], graph::kPenalizeSettings}));
    }
    if (kind.biases) {
        VKFORMER_TRY(step.biases, graph.input("logit_biases", DType::f32, shape));
    }
    if (kind.masks) {
        VKFORMER_TRY(step.allowed, graph.input("allowed", DType::i32, {shape[0], graph::allowed_words(shape[1])}));
    }
    return graph::penalize(
        graph, logits,
        {.counts = step.counts, .bias = step.biases, .settings = step.penalties, .allowed = step.allowed});
}

/// With the rules of all sequences.
Result<Value> ruled(BatchStepGraph& step, const BatchOptions& options, const BatchStepKind& kind, Value logits) {
    graph::Graph& graph = step.graph;
    const models::TokenRules& rules = options.rules;
    const StepPlace place = {.starts = step.states.starts, .begins = step.begins, .sequences = {}};
    VKFORMER_TRY(logits, add_biases(graph, logits, place, rules));
    VKFORMER_TRY(logits, penalized(step, kind, logits));
    VKFORMER_TRY(logits, ban_words(graph, logits, place, rules));
    graph::MaskLogitsOptions mask = {.banned = rules.banned, .forced_first = rules.forced_first};
    if (kind.waits) {
        VKFORMER_TRY(step.ends, graph.input("ends", DType::i32, {kind.rows}));
        mask.begins = step.ends;
        mask.late = options.ends;
        mask.late_steps = kLongestWait;
    }
    if (!mask.banned.empty() || mask.forced_first >= 0 || !mask.late.empty()) {
        VKFORMER_TRY(logits, graph::mask_logits(graph, logits, step.states.starts, mask));
    }
    if (rules.forced_last < 0) return logits;
    VKFORMER_TRY(const LastStep last, force_last(graph, logits, rules));
    step.countdown = last.countdown;
    return last.logits;
}

/// f32 [rows · len, vocab], absent with Logits::none.
Result<Value> add_chunk(BatchChunkGraph& chunk, const models::Decoder& model, const BatchOptions& options,
                        const BatchChunkKind& kind, models::Logits logits) {
    const std::uint32_t rows = kind.rows, len = kind.len;
    VKFORMER_TRY(chunk.tokens, chunk.graph.input("tokens", DType::i32, {rows, len}));
    VKFORMER_TRY(chunk.starts, chunk.graph.input("starts", DType::i32, {rows}));
    VKFORMER_TRY(chunk.pages, page_tables(chunk.graph, options, rows));
    VKFORMER_TRY(chunk.slots, state_slots(chunk.graph, model, rows));
    VKFORMER_TRY(chunk.adapters, adapter_input(chunk.graph, model, kind.adapters, "adapters", rows));
    models::DecoderLayout layout = layout_of(options, rows, len, chunk.pages, chunk.slots, chunk.adapters);
    if (chunk.slots) {
        VKFORMER_TRY(chunk.counts, chunk.graph.input("counts", DType::i32, {rows}));
        layout.counts = chunk.counts;
    }
    VKFORMER_TRY(const auto pass, model.add_pass(chunk.graph, layout, chunk.tokens, chunk.starts, logits));
    return pass.logits;
}

}  // namespace

std::vector<PageKind> page_kinds(const models::Decoder& model, const BatchOptions& options) {
    const models::DecoderConfig& config = model.config();
    const std::uint32_t window = config.largest_window();
    if (!config.has_full_attention()) return {{.pages = options.pages, .window = window}};
    if (options.window_pages == 0) return {{.pages = options.pages}};
    return {{.pages = options.pages}, {.pages = options.window_pages, .window = window}};
}

Result<BatchChunkGraph> batch_chunk_graph(const models::Decoder& model, const BatchOptions& options,
                                          const BatchChunkKind& kind) {
    BatchChunkGraph chunk;
    VKFORMER_CHECK(add_chunk(chunk, model, options, kind, models::Logits::none));
    return chunk;
}

Result<BatchScoreGraph> batch_score_graph(const models::Decoder& model, const BatchOptions& options,
                                          const BatchChunkKind& kind, std::uint32_t likeliest) {
    BatchScoreGraph made;
    VKFORMER_TRY(const Value logits, add_chunk(made.chunk, model, options, kind, models::Logits::all));
    VKFORMER_TRY(made.given, add_given_log_probs(made.chunk.graph, logits, likeliest));
    return made;
}

Result<BatchStepGraph> batch_step_graph(const models::Decoder& model, const BatchOptions& options,
                                        const BatchStepKind& kind) {
    BatchStepGraph step;
    graph::Graph& graph = step.graph;
    const Shape rows = {kind.rows};
    const std::string size = "." + std::to_string(kind.rows);  // steps of other sizes share the caches alone
    VKFORMER_TRY(step.states.tokens, graph.state("step_tokens" + size, DType::i32, {kind.rows, 1}));
    VKFORMER_TRY(step.states.starts, graph.state("starts" + size, DType::i32, rows));
    VKFORMER_TRY(step.states.finished, graph.state("finished" + size, DType::i32, rows));
    VKFORMER_TRY(step.states.history, graph.state("history" + size, DType::i32, {options.context, kind.rows}));
    VKFORMER_TRY(step.pages, page_tables(graph, options, kind.rows));
    VKFORMER_TRY(step.slots, state_slots(graph, model, kind.rows));
    if (!options.rules.banned_first.empty()) {
        VKFORMER_TRY(step.begins, graph.input("begins", DType::i32, rows));
    }
    VKFORMER_TRY(step.adapters, adapter_input(graph, model, kind.adapters, "adapters", kind.rows));
    VKFORMER_TRY(const auto pass,
                 model.add_pass(graph, layout_of(options, kind.rows, 1, step.pages, step.slots, step.adapters),
                                step.states.tokens, step.states.starts, models::Logits::all));
    graph.set_scope("choice");
    VKFORMER_TRY(const Value logits, ruled(step, options, kind, pass.logits));
    Value next;
    if (kind.draws) {
        VKFORMER_TRY(step.random, graph.state("random" + size, DType::i32, {kind.rows, 3}));
        VKFORMER_TRY(step.sampling, graph.input("sampling", DType::f32, {kind.rows, graph::kSampleSettings}));
        VKFORMER_TRY(next, graph::sample(graph, logits, step.random, {}, step.sampling));
    } else {
        VKFORMER_TRY(next, graph::arg_max(graph, logits));
    }
    if (step.counts) VKFORMER_CHECK(graph::count_tokens(graph, next, step.counts, graph::TokenOrigin::generated));
    if (kind.scores) {
        VKFORMER_TRY(step.log_probs, add_log_probs(graph, pass.logits, step.states.history, kind.likeliest, size));
    }
    VKFORMER_CHECK(
        graph::greedy_step(graph, next, step.states, kNoToken, kNoToken,
                           {.given = {}, .log_probs = step.log_probs.log_probs, .scores = step.log_probs.scores}));
    return step;
}

}  // namespace vkformer::decoding
