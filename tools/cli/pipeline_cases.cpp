// SPDX-License-Identifier: MIT
#include "pipeline_cases.hpp"

#include "core/try.hpp"
#include "graph/builders.hpp"

namespace vkformer::cli {
namespace {

using graph::Activation;
using graph::AttentionMask;
using graph::Direction;
using graph::Graph;
using graph::Pooling;
using graph::RecurrentState;
using graph::RopePairing;
using graph::TokenOrigin;
using graph::Value;

/// Makes the operands of one case; the first failure is kept, and what comes after it is of no use.
class Operands {
public:
    Operands(Graph& graph, DType dtype) : graph_(graph), dtype_(dtype) {}
    Value floats(Shape shape) { return keep(graph_.input(next_name(), dtype_, std::move(shape))); }
    Value singles(Shape shape) { return keep(graph_.input(next_name(), DType::f32, std::move(shape))); }
    Value ints(Shape shape) { return keep(graph_.input(next_name(), DType::i32, std::move(shape))); }
    Value state(DType dtype, Shape shape) { return keep(graph_.state(next_name(), dtype, std::move(shape))); }
    Value state(Shape shape) { return state(dtype_, std::move(shape)); }
    Value int_state(Shape shape) { return state(DType::i32, std::move(shape)); }

    /// The result of a builder, which the host could read.
    void output(Result<Value> value) {
        const Value v = keep(std::move(value));
        if (v) graph_.mark_output(v);
    }
    Value keep(Result<Value> value) {
        if (value) return *value;
        if (done_) done_ = std::move(value).error();
        return {};
    }
    void keep(Result<void> done) {
        if (done_ && !done) done_ = std::move(done);
    }
    Result<void> done() const { return done_; }

private:
    std::string next_name() { return "operand" + std::to_string(count_++); }
    Graph& graph_;
    DType dtype_;
    std::uint32_t count_ = 0;
    Result<void> done_;
};

constexpr std::uint64_t kRows = 512;     // of a prefill
constexpr std::uint64_t kHidden = 4096;  // Llama 3.1 8B
constexpr std::uint64_t kVocab = 32000;
constexpr std::uint64_t kContext = 4096;  // keys of a decode step

template <std::uint64_t rows, bool epilogue>
Result<void> build_linear(Graph& graph, DType dtype) {
    Operands o(graph, dtype);
    const Value x = o.floats({rows, kHidden}), weight = o.floats({kHidden, kHidden});
    const Value bias = epilogue ? o.floats({kHidden}) : Value{};
    const Value product = o.keep(linear(graph, x, weight, bias));
    if (!epilogue) {
        o.output(product);
        return o.done();
    }
    const Value activated = o.keep(activate(graph, product, Activation::gelu_tanh));
    o.output(add(graph, activated, o.floats({rows, kHidden})));
    return o.done();
}

template <std::uint64_t rows>
Result<void> build_logits(Graph& graph, DType dtype) {
    Operands o(graph, dtype);
    const Value x = o.floats({rows, kHidden}), weight = o.floats({kVocab, kHidden});
    o.output(linear(graph, x, weight, {}, DType::f32));
    return o.done();
}

/// What a layer of a decoder begins with, and its gated unit.
template <std::uint64_t rows, bool gated>
Result<void> build_normed(Graph& graph, DType dtype) {
    Operands o(graph, dtype);
    const Value x = o.keep(rms_norm(graph, o.floats({rows, kHidden}), o.floats({kHidden}), 1e-5f));
    const Value product = o.keep(linear(graph, x, o.floats({kHidden, kHidden})));
    o.output(gated ? gated_activation(graph, product, {}, Activation::silu) : product);
    return o.done();
}

/// So few tiles that the depth may be cut into parts.
template <std::uint64_t rows>
Result<void> build_small_grid(Graph& graph, DType dtype) {
    constexpr std::uint64_t kOut = 512;
    Operands o(graph, dtype);
    const Value x = o.floats({rows, kHidden}), weight = o.floats({kOut, kHidden});
    o.output(linear(graph, x, weight));
    if (dtype == DType::f16) o.output(linear(graph, x, weight, {}, DType::f32));
    return o.done();
}

/// Weights in block formats; their contents do not matter to a compiler.
template <std::uint64_t rows, DType stored>
Result<void> build_quantized(Graph& graph, DType dtype) {
    constexpr std::uint64_t kWidth = 1024;
    const auto blocks = std::make_shared<const std::vector<std::byte>>(bytes_of(stored, kWidth * kWidth));
    Operands o(graph, dtype);
    const Value x = o.floats({rows, kWidth});
    const Value weight = o.keep(graph.weight(
        "weight", {.dtype = stored, .shape = {kWidth, kWidth}, .bytes = *blocks, .owner = blocks}, stored));
    o.output(linear(graph, x, weight));
    if (dtype == DType::f16) o.output(linear(graph, x, weight, {}, DType::f32));
    return o.done();
}

/// With weights in block formats.
template <std::uint64_t rows, DType stored>
Result<void> build_small_grid_quantized(Graph& graph, DType dtype) {
    constexpr std::uint64_t kOut = 512;
    const auto blocks = std::make_shared<const std::vector<std::byte>>(bytes_of(stored, kOut * kHidden));
    Operands o(graph, dtype);
    const Value weight = o.keep(
        graph.weight("weight", {.dtype = stored, .shape = {kOut, kHidden}, .bytes = *blocks, .owner = blocks}, stored));
    o.output(linear(graph, o.floats({rows, kHidden}), weight));
    return o.done();
}

/// With weights in block formats.
template <std::uint64_t rows, DType stored>
Result<void> build_normed_quantized(Graph& graph, DType dtype) {
    constexpr std::uint64_t kWidth = 1024;
    const auto blocks = std::make_shared<const std::vector<std::byte>>(bytes_of(stored, kWidth * kWidth));
    Operands o(graph, dtype);
    const Value x = o.keep(rms_norm(graph, o.floats({rows, kWidth}), o.floats({kWidth}), 1e-5f));
    const Value weight = o.keep(graph.weight(
        "weight", {.dtype = stored, .shape = {kWidth, kWidth}, .bytes = *blocks, .owner = blocks}, stored));
    o.output(gated_activation(graph, o.keep(linear(graph, x, weight)), {}, Activation::silu));
    return o.done();
}

template <DType stored>
Result<void> build_embedding_of(Graph& graph, DType dtype) {
    constexpr std::uint64_t kWidth = 1024;
    const auto blocks = std::make_shared<const std::vector<std::byte>>(bytes_of(stored, kWidth * kWidth));
    Operands o(graph, dtype);
    const Value table = o.keep(
        graph.weight("table", {.dtype = stored, .shape = {kWidth, kWidth}, .bytes = *blocks, .owner = blocks}, stored));
    o.output(embedding(graph, o.ints({1, kRows}), table, 32, dtype));
    if (dtype != stored) return o.done();
    o.output(embedding(graph, o.ints({1, kRows}), table, 32, dtype == DType::f16 ? DType::f32 : DType::f16));
    return o.done();
}

/// Odd widths take other variants where loads of four are used.
Result<void> build_linear_odd(Graph& graph, DType dtype) {
    Operands o(graph, dtype);
    const Value x = o.floats({kRows, 333}), weight = o.floats({333, 333});
    o.output(linear(graph, x, weight));
    return o.done();
}

template <std::uint64_t query_len, std::uint64_t head_dim>
Result<void> build_attention(Graph& graph, DType dtype) {
    Operands o(graph, dtype);
    const Value query = o.floats({1, query_len, 32, head_dim});
    const Value key = o.floats({1, kRows, 8, head_dim}), value = o.floats({1, kRows, 8, head_dim});
    o.output(attention(graph, query, key, value, {.causal = true, .starts = o.ints({1})}, 0.125f));
    return o.done();
}

Result<void> build_attention_padded(Graph& graph, DType dtype) {
    Operands o(graph, dtype);
    const Value query = o.floats({4, kRows, 8, 64}), key = o.floats({4, kRows, 8, 64}),
                value = o.floats({4, kRows, 8, 64});
    o.output(attention(graph, query, key, value, {.key_lengths = o.ints({4})}, 0.125f));
    return o.done();
}

template <std::uint64_t head_dim>
Result<void> build_decode_attention(Graph& graph, DType dtype) {
    Operands o(graph, dtype);
    const Value query = o.floats({1, 1, 32, head_dim});
    const Value key = o.floats({1, kContext, 8, head_dim}), value = o.floats({1, kContext, 8, head_dim});
    o.output(decode_attention(graph, query, key, value, {.causal = true, .starts = o.ints({1})}, 0.125f));
    return o.done();
}

/// A prefill and a decode step against a cache in blocks.
template <std::uint64_t head_dim>
Result<void> build_attention_q8(Graph& graph, DType dtype) {
    Operands o(graph, dtype);
    const Value key = o.state(DType::q8_0, {1, kContext, 8, head_dim});
    const Value value = o.state(DType::q8_0, {1, kContext, 8, head_dim});
    const AttentionMask mask{.causal = true, .starts = o.ints({1})};
    o.output(attention(graph, o.floats({1, kRows, 32, head_dim}), key, value, mask, 0.125f));
    o.output(decode_attention(graph, o.floats({1, 1, 32, head_dim}), key, value, mask, 0.125f));
    return o.done();
}

/// Gemma 2's, whose scores are capped.
Result<void> build_capped_attention(Graph& graph, DType dtype) {
    constexpr float kCap = 50;
    Operands o(graph, dtype);
    const Value query = o.floats({1, kRows, 16, 64}), last = o.floats({1, 1, 16, 64});
    const Value key = o.floats({1, kRows, 8, 64}), value = o.floats({1, kRows, 8, 64});
    o.output(attention(graph, query, key, value, {.causal = true}, 0.125f, kCap));
    o.output(decode_attention(graph, last, key, value, {.causal = true, .starts = o.ints({1})}, 0.125f, 128, kCap));
    o.output(attention_scores(graph, last, key, 0.125f, kCap));
    return o.done();
}

/// The three nodes whose weights can be read back.
Result<void> build_attention_in_three(Graph& graph, DType dtype) {
    Operands o(graph, dtype);
    const Value query = o.floats({1, kRows, 32, 64});
    const Value key = o.floats({1, kRows, 8, 64}), value = o.floats({1, kRows, 8, 64});
    const Value scores = o.keep(attention_scores(graph, query, key, 0.125f));
    const Value weights = o.keep(masked_softmax(graph, scores, {.causal = true}));
    o.output(weighted_sum(graph, weights, value));
    return o.done();
}

Result<void> build_additive_attention(Graph& graph, DType dtype) {
    Operands o(graph, dtype);
    const Value query = o.floats({8, 1, 1, 512}), key = o.floats({8, 64, 1, 512});
    const Value scores = o.keep(additive_scores(graph, query, key, o.floats({1, 512})));
    o.output(masked_softmax(graph, scores, {.key_lengths = o.ints({8})}));
    return o.done();
}

Result<void> build_local_attention(Graph& graph, DType dtype) {
    Operands o(graph, dtype);
    const Value scores = o.keep(attention_scores(graph, o.floats({8, 1, 1, 512}), o.floats({8, 64, 1, 512}), 1));
    o.output(
        local_softmax(graph, scores, {.half_width = 8, .relative = o.singles({8, 1}), .key_lengths = o.ints({8})}));
    return o.done();
}

template <bool residual>
Result<void> build_layer_norm(Graph& graph, DType dtype) {
    Operands o(graph, dtype);
    Value x = o.floats({kRows, 1024});
    if (residual) {
        x = o.keep(add(graph, x, o.floats({kRows, 1024})));
        o.output(x);
    }
    o.output(layer_norm(graph, x, o.floats({1024}), o.floats({1024}), 1e-5f));
    return o.done();
}

template <bool residual>
Result<void> build_rms_norm(Graph& graph, DType dtype) {
    Operands o(graph, dtype);
    Value x = o.floats({kRows, kHidden});
    if (residual) {
        x = o.keep(add(graph, x, o.floats({kRows, kHidden})));
        o.output(x);
    }
    o.output(rms_norm(graph, x, o.floats({kHidden}), 1e-5f));
    return o.done();
}

/// Rows that are no multiples of 4: fewer variants, other shaders.
Result<void> build_odd_rows(Graph& graph, DType dtype) {
    Operands o(graph, dtype);
    const Value x = o.floats({kRows, 333});
    o.output(layer_norm(graph, x, o.floats({333}), o.floats({333}), 1e-5f));
    o.output(rms_norm(graph, x, o.floats({333}), 1e-5f));
    o.output(log_softmax(graph, x));
    o.output(masked_softmax(graph, o.singles({1, 8, 333, 333}), {.causal = true}));
    o.output(gated_activation(graph, x, o.floats({kRows, 333}), Activation::silu));
    return o.done();
}

template <std::uint64_t len>
Result<void> build_rope(Graph& graph, DType dtype) {
    constexpr std::uint64_t kHeads = 32, kHeadDim = 128;
    Operands o(graph, dtype);
    const Value x = o.floats({1, len, kHeads, kHeadDim}), table = o.singles({kContext, kHeadDim});
    o.output(rope(graph, x, table, o.ints({1}), RopePairing::halves));
    return o.done();
}

Result<void> build_gated_activation(Graph& graph, DType dtype) {
    constexpr std::uint64_t kWidth = 14336;
    Operands o(graph, dtype);
    o.output(gated_activation(graph, o.floats({kRows, kWidth}), o.floats({kRows, kWidth}), Activation::silu));
    return o.done();
}

Result<void> build_sample(Graph& graph, DType) {
    Operands o(graph, DType::f32);
    const Value counts = o.int_state({1, kVocab});
    const Value logits = o.keep(penalize(
        graph, o.keep(soft_cap(graph, o.singles({1, kVocab}), 30)),
        {.repetition = 1.1f, .presence = 0.5f, .frequency = 0.5f, .counts = counts, .bias = o.singles({kVocab})}));
    const Value next = o.keep(sample(graph, logits, o.int_state({1, 3}), {.top_k = 40, .top_p = 0.9f}));
    o.keep(count_tokens(graph, next, counts, TokenOrigin::generated));
    o.output(next);
    return o.done();
}

Result<void> build_pool(Graph& graph, DType dtype) {
    Operands o(graph, dtype);
    o.output(pool(graph, o.floats({32, 128, 1024}), o.ints({32}), Pooling::mean));
    return o.done();
}

Result<void> build_patchify(Graph& graph, DType dtype) {
    Operands o(graph, dtype);
    o.output(patchify(graph, o.singles({1, 3, 224, 224}),
                      {.patch_height = 16, .patch_width = 16, .prefix = 1, .result = dtype}));
    return o.done();
}

Result<void> build_embedding(Graph& graph, DType dtype) {
    Operands o(graph, dtype);
    const Value x = o.keep(embedding(graph, o.ints({1, kRows}), o.floats({kVocab, 1024}), 32));
    o.output(positional_embedding(graph, x, o.singles({kRows, 1024}), o.ints({1})));
    return o.done();
}

Result<void> build_elementwise(Graph& graph, DType dtype) {
    Operands o(graph, dtype);
    const Value x = o.floats({kRows, 1024}), y = o.floats({kRows, 1024});
    o.output(activate(graph, x, Activation::silu));
    o.output(soft_cap(graph, x, 30));
    o.output(add(graph, x, y));
    o.output(concat(graph, x, y));
    o.output(relative_bias(graph, o.singles({16, 257}), o.ints({1}), kRows, kRows));
    return o.done();
}

template <bool is_lstm>
Result<void> build_recurrent(Graph& graph, DType dtype) {
    constexpr std::uint64_t kBatch = 32, kLength = 64, kUnits = 512, kGates = is_lstm ? 4 : 3;
    Operands o(graph, dtype);
    const Value gates = o.floats({kBatch, kLength, kGates * kUnits}), weight = o.floats({kUnits, kGates * kUnits});
    const auto layer = is_lstm ? lstm_layer(graph, gates, weight, o.floats({kGates * kUnits}), Direction::forward)
                               : gru_layer(graph, gates, weight, o.floats({kGates * kUnits}), Direction::forward);
    if (!layer) return layer.error();
    graph.mark_output(layer->y);
    const Value input_gates = o.floats({kBatch, kGates * kUnits}), hidden_gates = o.floats({kBatch, kGates * kUnits});
    const RecurrentState from{.hidden = o.floats({kBatch, kUnits}),
                              .cell = is_lstm ? o.singles({kBatch, kUnits}) : Value{}};
    const auto cell =
        is_lstm ? lstm_cell(graph, input_gates, hidden_gates, from) : gru_cell(graph, input_gates, hidden_gates, from);
    if (!cell) return cell.error();
    graph.mark_output(cell->hidden);
    return o.done();
}

Result<void> build_cache(Graph& graph, DType dtype) {
    Operands o(graph, dtype);
    const Value cache = o.state({4, 512, 8, 64});
    o.keep(cache_append(graph, o.floats({4, 1, 8, 64}), o.ints({4}), cache));
    o.keep(cache_reorder(graph, cache, o.ints({4}), o.ints({4}), 4, o.ints({4})));
    const Value blocks = o.state(DType::q8_0, {4, 512, 8, 64});
    o.keep(cache_append(graph, o.floats({4, 1, 8, 64}), o.ints({4}), blocks));
    o.keep(cache_reorder(graph, blocks, o.ints({4}), o.ints({4}), 4));
    o.keep(split_qkv(graph, o.floats({4, 1, 24, 64}), o.singles({512, 64}), o.ints({4}), cache,
                     o.state({4, 512, 8, 64}), RopePairing::halves));
    return o.done();
}

Result<void> build_greedy(Graph& graph, DType dtype) {
    Operands o(graph, dtype);
    const Value starts = o.int_state({4});
    const Value logits = o.keep(mask_logits(graph, o.singles({4, kVocab}), starts, {.banned = {0, 1}}));
    const Value timed = o.keep(mask_timestamps(graph, logits, starts, o.ints({4}), o.ints({4, 448}),
                                               {.first = kVocab / 2, .eos = kVocab / 2 - 9}));
    const graph::SequenceBias phrases[] = {{.tokens = {7}, .bias = 1}, {.tokens = {8, 9, 7}, .bias = -1}};
    const Value biased = o.keep(bias_sequences(graph, timed, starts, phrases, o.ints({4, 448})));
    const Value next = o.keep(arg_max(graph, biased));
    o.keep(greedy_step(graph, next,
                       {.tokens = o.int_state({4, 1}),
                        .starts = starts,
                        .finished = o.int_state({4}),
                        .history = o.int_state({64, 4})},
                       2, 0));
    return o.done();
}

Result<void> build_beams(Graph& graph, DType dtype) {
    constexpr std::uint64_t kBatch = 2, kBeams = 4, kBeamRows = kBatch * kBeams, kSteps = 64;
    Operands o(graph, dtype);
    const Value scores = o.keep(log_softmax(graph, o.floats({kBeamRows, kVocab})));
    const auto best = top_k(graph, scores, 2 * kBeams);
    if (!best) return best.error();
    o.keep(beam_step(graph, best->values, best->indices,
                     {.tokens = o.int_state({kBeamRows, 1}),
                      .starts = o.int_state({kBeamRows}),
                      .parents = o.int_state({kBeamRows}),
                      .running_scores = o.state(DType::f32, {kBeamRows}),
                      .token_history = o.int_state({kSteps, kBeamRows}),
                      .parent_history = o.int_state({kSteps, kBeamRows}),
                      .final_scores = o.state(DType::f32, {kBeamRows}),
                      .final_steps = o.int_state({kBeamRows}),
                      .final_rows = o.int_state({kBeamRows}),
                      .final_tokens = o.int_state({kBeamRows}),
                      .state = o.int_state({kBatch + 3})},
                     {.beams = kBeams, .max_steps = kSteps, .eos = 2}));
    return o.done();
}

}  // namespace

std::vector<PipelineCase> pipeline_cases() {
    return {
        {"linear 1 row, 4096 → 4096", build_linear<1, false>},
        {"linear 1 row, 4096 → 4096, bias, GELU, residual", build_linear<1, true>},
        {"linear 4 rows, 4096 → 4096", build_linear<4, false>},
        {"linear 8 rows, 4096 → 4096", build_linear<8, false>},
        {"linear 1 row of an RMS norm, 4096 → 4096", build_normed<1, false>},
        {"gated linear 1 row of an RMS norm, 4096 → 2048", build_normed<1, true>},
        {"gated linear 4 rows of an RMS norm, 4096 → 2048", build_normed<4, true>},
        {"gated linear 512 rows of an RMS norm, 4096 → 2048", build_normed<512, true>},
        {"linear 512 rows, 4096 → 4096", build_linear<512, false>},
        {"linear 512 rows, 4096 → 4096, bias, GELU, residual", build_linear<512, true>},
        {"linear 512 rows, 333 → 333", build_linear_odd},
        {"linear 16 rows, 4096 → 512, float32 result", build_small_grid<16>},
        {"linear 1 row, 4096 → 512, float32 result", build_small_grid<1>},
        {"logits 1 row, 4096 → 32000", build_logits<1>},
        {"logits 512 rows, 4096 → 32000", build_logits<512>},
        {"linear 1 row, q8_0", build_quantized<1, DType::q8_0>},
        {"linear 1 row, q4_0", build_quantized<1, DType::q4_0>},
        {"linear 1 row, q4_k", build_quantized<1, DType::q4_k>},
        {"linear 1 row, q5_k", build_quantized<1, DType::q5_k>},
        {"linear 1 row, q6_k", build_quantized<1, DType::q6_k>},
        {"linear 8 rows, q8_0", build_quantized<8, DType::q8_0>},
        {"linear 8 rows, q4_0", build_quantized<8, DType::q4_0>},
        {"linear 8 rows, q4_k", build_quantized<8, DType::q4_k>},
        {"linear 8 rows, q6_k", build_quantized<8, DType::q6_k>},
        {"linear 1 row, bf16", build_quantized<1, DType::bf16>},
        {"gated linear 1 row of an RMS norm, q8_0", build_normed_quantized<1, DType::q8_0>},
        {"gated linear 1 row of an RMS norm, q4_0", build_normed_quantized<1, DType::q4_0>},
        {"gated linear 512 rows of an RMS norm, q8_0", build_normed_quantized<512, DType::q8_0>},
        {"linear 512 rows, q8_0", build_quantized<512, DType::q8_0>},
        {"linear 512 rows, q4_0", build_quantized<512, DType::q4_0>},
        {"linear 512 rows, q4_k", build_quantized<512, DType::q4_k>},
        {"linear 512 rows, q6_k", build_quantized<512, DType::q6_k>},
        {"linear 16 rows, 4096 → 512, q8_0", build_small_grid_quantized<16, DType::q8_0>},
        {"linear 1 row, 4096 → 512, q8_0", build_small_grid_quantized<1, DType::q8_0>},
        {"attention 512 queries, head size 64, causal", build_attention<512, 64>},
        {"attention 512 queries, head size 128, causal", build_attention<512, 128>},
        {"attention 512 queries, head size 256, causal", build_attention<512, 256>},
        {"attention 512 queries, head size 80, causal", build_attention<512, 80>},
        {"attention 16 queries, head size 64, causal", build_attention<16, 64>},
        {"attention 1 query, head size 64, causal", build_attention<1, 64>},
        {"attention 512 queries, head size 64, padding", build_attention_padded},
        {"decode attention 4096 keys, head size 64", build_decode_attention<64>},
        {"decode attention 4096 keys, head size 128", build_decode_attention<128>},
        {"attention to a q8_0 cache, head size 64", build_attention_q8<64>},
        {"attention to a q8_0 cache, head size 128", build_attention_q8<128>},
        {"attention and decode attention, capped scores", build_capped_attention},
        {"attention in three nodes, head size 64", build_attention_in_three},
        {"additive attention, width 512", build_additive_attention},
        {"local attention, window 17", build_local_attention},
        {"layer norm, width 1024", build_layer_norm<false>},
        {"layer norm of a sum, width 1024", build_layer_norm<true>},
        {"RMS norm, width 4096", build_rms_norm<false>},
        {"RMS norm of a sum, width 4096", build_rms_norm<true>},
        {"norms, softmax and gates, width 333", build_odd_rows},
        {"rotary embedding 512 tokens, head size 128", build_rope<512>},
        {"rotary embedding 1 token, head size 128", build_rope<1>},
        {"SwiGLU, width 14336", build_gated_activation},
        {"penalties and sample, vocabulary 32000", build_sample},
        {"embedding and positions, width 1024", build_embedding},
        {"pooling 128 tokens, width 1024", build_pool},
        {"patches of 16 × 16 of an image of 224 × 224", build_patchify},
        {"embedding of f32, width 1024", build_embedding_of<DType::f32>},
        {"embedding of f16, width 1024", build_embedding_of<DType::f16>},
        {"embedding of bf16, width 1024", build_embedding_of<DType::bf16>},
        {"embedding of q8_0, width 1024", build_embedding_of<DType::q8_0>},
        {"embedding of q4_k, width 1024", build_embedding_of<DType::q4_k>},
        {"embedding of q6_k, width 1024", build_embedding_of<DType::q6_k>},
        {"elementwise, width 1024", build_elementwise},
        {"LSTM, 512 units", build_recurrent<true>},
        {"GRU, 512 units", build_recurrent<false>},
        {"key/value cache, 8 heads of 64", build_cache},
        {"greedy step with timestamps, vocabulary 32000", build_greedy},
        {"beam step, 4 beams", build_beams},
    };
}

}  // namespace vkformer::cli
