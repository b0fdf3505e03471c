// SPDX-License-Identifier: MIT
#include "decoding/decoder_steps.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "core/try.hpp"
#include "decoding/token_rules.hpp"
#include "graph/share.hpp"

namespace vkformer::decoding {
namespace {

using graph::Value;

models::DecoderLayout layout_of(const DecoderSessionOptions& options, std::uint32_t len, bool extended,
                                Value state_slots, Value adapters) {
    return {.rows = options.rows,
            .len = len,
            .capacity = options.context,
            .dtype = options.dtype,
            .weights = options.weights,
            .cache = options.cache,
            .extended = extended,
            .adapter_scales = adapters,
            .slots = options.hands_over ? 3u : 2u,
            .state_slots = state_slots};
}

/// Biases are an input that is written once, for a weight of that name may hold others; `logits` itself where there is nothing to do.
Result<Value> penalized(graph::Graph& graph, const DecoderSessionOptions& options, Value logits, RuleTensors& rules) {
    const Penalties& penalties = options.penalties;
    if (!penalties.counts() && penalties.bias.empty() && !options.masks) return logits;
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
    if (options.masks) {
        VKFORMER_TRY(rules.allowed, graph.input("allowed", DType::i32, {rows, graph::allowed_words(vocab)}));
        wanted.allowed = rules.allowed;
    }
    return graph::penalize(graph, logits, wanted);
}

/// What the rows have read, kept beside keys and values: whoever appends those appends to this. Absent where nobody asks.
Result<Value> keep_sequences(graph::Graph& graph, const DecoderSessionOptions& options, Value tokens, Value starts,
                             std::uint32_t cache_rows = 0) {
    if (!options.penalties.asks_sequences()) return Value{};
    const std::uint64_t rows = graph.shape(tokens)[0], all = std::max<std::uint64_t>(rows, cache_rows);
    VKFORMER_TRY(const Value sequences, graph.state("sequences", DType::i32, {all, options.context}));
    Value seen = sequences;
    if (all != rows) {
        VKFORMER_TRY(seen, graph.reshape(sequences, {1, all * options.context}));  // as models::Decoder has its caches
    }
    VKFORMER_CHECK(graph::cache_append(graph, tokens, starts, seen));
    return sequences;
}

/// What DecoderSessionOptions::hands_over keeps, of each position: a state of the session and of the one whose model guesses.
Result<Value> hidden_states(graph::Graph& graph, const models::Decoder& model, const DecoderSessionOptions& options) {
    return graph.state("hidden_states", options.dtype, {1, options.context, 1, model.config().hidden_size});
}

/// Those of the tokens from `starts` on.
Result<void> keep_hidden(graph::Graph& graph, Value states, Value hidden, Value starts) {
    const Shape& shape = graph.shape(hidden);
    VKFORMER_TRY(const Value rows, graph.reshape(hidden, {shape[0], shape[1], 1, shape[2]}));
    return graph::cache_append(graph, rows, starts, states);
}

/// Those at positions i32 [rows, len].
Result<Value> handed_over(graph::Graph& graph, Value states, Value positions) {
    const Shape& shape = graph.shape(states);
    VKFORMER_TRY(const Value table, graph.reshape(states, {shape[1], shape[3]}));
    return graph::embedding(graph, positions, table);
}

Result<models::DecoderPass> add_pass(graph::Graph& graph, const models::Decoder& model,
                                     const DecoderSessionOptions& options, const models::DecoderLayout& layout,
                                     Value tokens, Value starts, models::Logits logits) {
    VKFORMER_TRY(auto pass, model.add_pass(graph, layout, tokens, starts, logits));
    if (!options.hands_over) return pass;
    VKFORMER_TRY(const Value states, hidden_states(graph, model, options));
    VKFORMER_CHECK(keep_hidden(graph, states, pass.hidden, starts));
    return pass;
}

/// What nobody draws by is as sample() asks for it all the same.
Result<void> check_shares(const graph::SampleOptions& options) {
    for (const auto& [name, share] : {std::pair("top_p", options.top_p), std::pair("min_p", options.min_p)})
        if (std::string wrong = graph::wrong_share(name, share); !wrong.empty())
            return Error{ErrorCode::InvalidArgument, std::move(wrong)};
    return {};
}

/// A token of each row of logits, drawn where the options draw: from a state of that name, `random`.
Result<Value> choose(graph::Graph& graph, const DecoderSessionOptions& options, Value logits, const std::string& name,
                     Value& random) {
    if (options.sample.temperature == 0) {
        VKFORMER_CHECK(check_shares(options.sample));
        return graph::arg_max(graph, logits);
    }
    VKFORMER_TRY(random, graph.state(name, DType::i32, {graph.shape(logits)[0], 3}));
    return graph::sample(graph, logits, random, options.sample);
}

}  // namespace

Result<Value> adapter_input(graph::Graph& graph, const models::Decoder& model, bool adapters, const std::string& name,
                            std::uint32_t rows) {
    if (!adapters) return Value{};
    return graph.input(name, DType::f32, {rows, model.weights().adapter_columns});
}

bool has_checkpoints(const models::Decoder& model, const DecoderSessionOptions& options) {
    return model.config().keeps_states() && options.rows == 1;
}

Result<ChunkGraph> chunk_graph(const models::Decoder& model, const DecoderSessionOptions& options, std::uint32_t len,
                               bool extended, std::uint32_t cache_rows) {
    ChunkGraph chunk;
    VKFORMER_TRY(chunk.tokens, chunk.graph.input("tokens", DType::i32, {options.rows, len}));
    VKFORMER_TRY(chunk.starts, chunk.graph.input("chunk_starts", DType::i32, {options.rows}));
    if (has_checkpoints(model, options)) {
        VKFORMER_TRY(chunk.slots, chunk.graph.input("chunk_slots", DType::i32, {options.rows, 2}));
    }
    VKFORMER_TRY(chunk.adapters, adapter_input(chunk.graph, model, options.adapters, "chunk_adapters", options.rows));
    models::DecoderLayout layout = layout_of(options, len, extended, chunk.slots, chunk.adapters);
    layout.cache_rows = cache_rows;
    if (model.config().keeps_states()) {
        VKFORMER_TRY(chunk.counts, chunk.graph.input("chunk_counts", DType::i32, {options.rows}));
        layout.counts = chunk.counts;
    }
    if (model.weights().handover) {
        VKFORMER_TRY(chunk.handed, chunk.graph.input("chunk_handed", DType::i32, {options.rows, len}));
        VKFORMER_TRY(const Value states, hidden_states(chunk.graph, model, options));
        VKFORMER_TRY(layout.handed, handed_over(chunk.graph, states, chunk.handed));
    }
    VKFORMER_CHECK(add_pass(chunk.graph, model, options, layout, chunk.tokens, chunk.starts, models::Logits::none));
    VKFORMER_CHECK(keep_sequences(chunk.graph, options, chunk.tokens, chunk.starts, cache_rows));
    return chunk;
}

Result<Value> add_rules(graph::Graph& graph, const DecoderSessionOptions& options, Value logits, Value tokens,
                        Value starts, RuleTensors& rules) {
    const Penalties& penalties = options.penalties;
    VKFORMER_TRY(rules.sequences, keep_sequences(graph, options, tokens, starts));
    if (penalties.asks_begins()) {
        VKFORMER_TRY(rules.begins, graph.state("begins", DType::i32, {graph.shape(logits)[0]}));
    }
    const StepPlace place = {.starts = starts, .begins = rules.begins, .sequences = rules.sequences};
    VKFORMER_TRY(logits, add_biases(graph, logits, place, penalties.rules));
    VKFORMER_TRY(Value allowed, penalized(graph, options, logits, rules));
    VKFORMER_TRY(allowed, ban_words(graph, allowed, place, penalties.rules));
    graph::MaskLogitsOptions mask = {.banned = penalties.rules.banned,
                                     .forced_first = penalties.rules.forced_first,
                                     .begins = rules.begins,
                                     .ngram = penalties.no_repeat_ngram,
                                     .sequences = rules.sequences};
    if (penalties.has_least()) {
        mask.late = penalties.ends;
        mask.late_steps = penalties.min_tokens;
    }
    if (!mask.banned.empty() || mask.forced_first >= 0 || mask.ngram > 0 || !mask.late.empty()) {
        VKFORMER_TRY(allowed, graph::mask_logits(graph, allowed, starts, mask));
    }
    if (penalties.rules.forced_last < 0) return allowed;
    VKFORMER_TRY(const LastStep last, force_last(graph, allowed, penalties.rules));
    rules.countdown = last.countdown;
    return last.logits;
}

Write biases_of(const Penalties& penalties, const RuleTensors& rules, std::uint64_t vocab) {
    std::vector<std::int32_t> words(vocab, std::bit_cast<std::int32_t>(0.0f));
    for (const auto& [token, value] : penalties.bias)
        words[static_cast<std::size_t>(token)] = std::bit_cast<std::int32_t>(value);
    return {rules.bias, std::move(words)};
}

void count_prompt(const Sequence& sequence, std::span<std::int32_t> row) {
    const std::size_t begin = sequence.prompt.size() - sequence.answered;
    for (std::size_t i = 0; i < sequence.prompt.size(); ++i) {
        std::int32_t& count = row[static_cast<std::size_t>(sequence.prompt[i])];
        if (i < begin)
            count |= graph::kInPrompt;
        else
            ++count;
    }
}

Result<CheckGraph> check_graph(const models::Decoder& model, const DecoderSessionOptions& options, std::uint32_t len) {
    CheckGraph check;
    graph::Graph& graph = check.graph;
    VKFORMER_TRY(check.tokens, graph.input("guess_tokens", DType::i32, {1, len}));
    VKFORMER_TRY(check.starts, graph.input("guess_starts", DType::i32, {1}));
    VKFORMER_TRY(check.positions, graph.input("guess_positions", DType::i32, {len}));
    VKFORMER_TRY(check.adapters, adapter_input(graph, model, options.adapters, "guess_adapters", 1));
    if (has_checkpoints(model, options)) {
        VKFORMER_TRY(check.counts, graph.input("guess_counts", DType::i32, {1}));
        VKFORMER_TRY(check.slots, graph.input("guess_slots", DType::i32, {1, 2}));
    }
    models::DecoderLayout layout = layout_of(options, len, false, check.slots, check.adapters);
    layout.counts = check.counts;
    VKFORMER_TRY(const auto pass,
                 add_pass(graph, model, options, layout, check.tokens, check.starts, models::Logits::all));
    graph.set_scope("choice");
    VKFORMER_TRY(const Value logits,
                 add_rules(graph, options, pass.logits, check.tokens, check.positions, check.rules));
    VKFORMER_TRY(check.chosen, choose(graph, options, logits, "guess_random." + std::to_string(len), check.random));
    graph.mark_output(check.chosen);
    return check;
}

Result<DecoderStepGraph> step_graph(const models::Decoder& model, const DecoderSessionOptions& options, bool extended) {
    DecoderStepGraph step;
    graph::Graph& graph = step.graph;
    const Shape rows = {options.rows};
    const std::string& scope = model.config().scope;
    VKFORMER_TRY(step.states.tokens, graph.state(scope + "step_tokens", DType::i32, {options.rows, 1}));
    VKFORMER_TRY(step.states.starts, graph.state(scope + "starts", DType::i32, rows));
    VKFORMER_TRY(step.states.finished, graph.state(scope + "finished", DType::i32, rows));
    VKFORMER_TRY(step.states.history, graph.state(scope + "history", DType::i32, {options.context, options.rows}));
    if (has_checkpoints(model, options)) {
        VKFORMER_TRY(step.slots, graph.state("state_slots", DType::i32, {options.rows, 2}));
    }
    VKFORMER_TRY(step.adapters, adapter_input(graph, model, options.adapters, "step_adapters", options.rows));
    models::DecoderLayout layout = layout_of(options, 1, extended, step.slots, step.adapters);
    Value handed;
    if (model.weights().handover) {
        VKFORMER_TRY(handed, hidden_states(graph, model, options));
        VKFORMER_TRY(const Value positions, graph.reshape(step.states.starts, {options.rows, 1}));
        VKFORMER_TRY(layout.handed, handed_over(graph, handed, positions));
    }
    VKFORMER_TRY(const auto pass,
                 add_pass(graph, model, options, layout, step.states.tokens, step.states.starts, models::Logits::all));
    graph.set_scope("choice");
    VKFORMER_TRY(const Value logits,
                 add_rules(graph, options, pass.logits, step.states.tokens, step.states.starts, step.rules));
    VKFORMER_TRY(const Value next, choose(graph, options, logits, scope + "random", step.random));
    if (step.rules.counts)
        VKFORMER_CHECK(graph::count_tokens(graph, next, step.rules.counts, graph::TokenOrigin::generated));
    if (options.log_probs) {
        VKFORMER_TRY(step.log_probs, add_log_probs(graph, pass.logits, step.states.history, *options.log_probs, ""));
    }
    VKFORMER_CHECK(
        graph::greedy_step(graph, next, step.states, kNoToken, kNoToken,
                           {.given = {}, .log_probs = step.log_probs.log_probs, .scores = step.log_probs.scores}));
    // For the token that was chosen, at the position that the step has moved on to: what the other model finds there takes its place.
    if (handed) VKFORMER_CHECK(keep_hidden(graph, handed, pass.hidden, step.states.starts));
    return step;
}

}  // namespace vkformer::decoding
