// SPDX-License-Identifier: MIT
/// The operations of a graph: what each reads and writes, and its attributes. No arithmetic lives here. Where what an op makes of a row
/// depends on that row alone it says so (kIsRowWise): tensors that are larger than a device binds are cut along their rows then.
/// The builders that make them (and say shapes and formulas) are in graph/builders.hpp.
#pragma once

#include <array>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>
#include <variant>

namespace vkformer::graph {

/// Names a tensor of one Graph. A default-constructed Value is absent: an optional operand that was not given.
struct Value {
    static constexpr std::uint32_t kAbsent = std::numeric_limits<std::uint32_t>::max();
    std::uint32_t id = kAbsent;

    explicit operator bool() const noexcept { return id != kAbsent; }
    friend bool operator==(Value, Value) = default;
};

/// `scratch`: memory of the node's own, which means nothing to others; a state stays as it was made, zeros where the node leaves them.
enum class Access : std::uint8_t { read, write, read_write, scratch };

enum class Activation : std::uint8_t { none, relu, gelu_erf, gelu_tanh, silu, tanh, sigmoid, gelu_quick, relu_squared };

/// Which keys a query sees. Query i of sequence b stands at position p = starts[b] + i, key j at position j.
struct AttentionMask {
    bool causal = false;       ///< only keys j ≤ p
    std::uint32_t window = 0;  ///< only keys with |p − j| < window; 0: no window
    Value key_lengths;         ///< i32 [batch], optional: only keys j < key_lengths[b]
    Value starts;              ///< i32 [batch], optional: position of the first query; absent: 0
    Value additive;            ///< f32 [batch or 1, heads or 1, query_len or 1, key_len], optional: added to the scores
    /// f32 [heads], optional, in place of `additive`: one more score of each query, that of no key, whose weight goes to nothing
    /// (Xiao et al. 2023, "Efficient Streaming Language Models with Attention Sinks"; as gpt-oss has it).
    Value sinks;
};

// Every op lists its operands by name and access through `operands(self, visit)`, for values that may be absent too.

struct Embedding {
    static constexpr std::string_view kName = "embedding";
    Value tokens, table, y;
    float scale = 1;
    static void operands(auto& self, auto&& visit) {
        visit("tokens", self.tokens, Access::read);
        visit("table", self.table, Access::read);
        visit("y", self.y, Access::write);
    }
};

struct PositionalEmbedding {
    static constexpr std::string_view kName = "positional_embedding";
    Value x, table, starts, y;
    static void operands(auto& self, auto&& visit) {
        visit("x", self.x, Access::read);
        visit("table", self.table, Access::read);
        visit("starts", self.starts, Access::read);
        visit("y", self.y, Access::write);
    }
};

/// Rows of zeros, then the patches of an image as rows, from left to right and from top to bottom.
struct Patchify {
    static constexpr std::string_view kName = "patchify";
    Value pixels, y;
    std::uint32_t patch_height = 1, patch_width = 1;
    std::uint32_t prefix = 0;  ///< rows of zeros
    static void operands(auto& self, auto&& visit) {
        visit("pixels", self.pixels, Access::read);
        visit("y", self.y, Access::write);
    }
};

/// Rows of a product that are few: reading the weights is all its cost.
inline constexpr std::uint64_t kFewRows = 8;

/// What a product does to the rows of x before it multiplies them.
struct Prologue {
    enum class Kind : std::uint8_t {
        none,
        rms_norm,  ///< RmsNorm with gain, eps and gain_offset
    };
    Kind kind = Kind::none;
    Value gain{};  ///< [in]; absent: 1
    float eps = 0;
    float gain_offset = 0;

    explicit operator bool() const noexcept { return kind != Kind::none; }
};

/// What a product does with its sums: y = activation(sum + bias), and then what `end` says.
struct Epilogue {
    enum class End : std::uint8_t {
        none,
        residual,  ///< + residual
        /// y = activation(p[:, 0 … n − 1]) · p[:, n … 2n − 1] for sums p of width 2n: a gated unit, whose weight has the rows of the gate, then
        /// as many of its other half
        gate,
    };
    Value bias{};  ///< [out]; absent: none
    Activation activation = Activation::none;
    End end = End::none;
    Value residual{};  ///< with End::residual: as y

    /// The same with a residual, or as it is where that is absent.
    Epilogue plus(Value addend) const noexcept {
        Epilogue result = *this;
        result.residual = addend;
        if (addend) result.end = End::residual;
        return result;
    }
};

/// y = epilogue(prologue(x) · weightᵀ). Which prologue may be with which epilogue is for a backend to say: graph/fusion.hpp.
struct Linear {
    static constexpr std::string_view kName = "linear";
    Value x, weight, y;
    Prologue prologue{};
    Epilogue epilogue{};

    bool is_gated() const noexcept { return epilogue.end == Epilogue::End::gate; }
    /// Sums of products that are multiplied for an element of y: their relative errors add up.
    unsigned factors() const noexcept {
        return (epilogue.activation == Activation::relu_squared ? 2u : 1u) + (is_gated() ? 1u : 0u);
    }
    static void operands(auto& self, auto&& visit) {
        visit("x", self.x, Access::read);
        visit("norm_gain", self.prologue.gain, Access::read);
        visit("weight", self.weight, Access::read);
        visit("bias", self.epilogue.bias, Access::read);
        visit("residual", self.epilogue.residual, Access::read);
        visit("y", self.y, Access::write);
    }
};

/// y[r, j] = W_e · x[r], or W_e · x[r, j], with e = experts[r, j]: weight has the matrices W_0, W_1, … [out, in] one after the other.
struct ExpertLinear {
    static constexpr std::string_view kName = "expert_linear";
    Value x, weight, experts, y;
    static void operands(auto& self, auto&& visit) {
        visit("x", self.x, Access::read);
        visit("weight", self.weight, Access::read);
        visit("experts", self.experts, Access::read);
        visit("y", self.y, Access::write);
    }
};

struct Activate {
    static constexpr std::string_view kName = "activate";
    static constexpr bool kIsRowWise = true;
    Value x, y;
    Activation activation = Activation::none;
    static void operands(auto& self, auto&& visit) {
        visit("x", self.x, Access::read);
        visit("y", self.y, Access::write);
    }
};

/// y = cap · tanh(x / cap)
struct SoftCap {
    static constexpr std::string_view kName = "soft_cap";
    static constexpr bool kIsRowWise = true;
    Value x, y;
    float cap = 1;
    static void operands(auto& self, auto&& visit) {
        visit("x", self.x, Access::read);
        visit("y", self.y, Access::write);
    }
};

/// y = scale · (a + b)
struct Add {
    static constexpr std::string_view kName = "add";
    static constexpr bool kIsRowWise = true;
    Value a, b, y;
    float scale = 1;
    static void operands(auto& self, auto&& visit) {
        visit("a", self.a, Access::read);
        visit("b", self.b, Access::read);
        visit("y", self.y, Access::write);
    }
};

/// y = [a | b] along the last dimension.
struct Concat {
    static constexpr std::string_view kName = "concat";
    Value a, b, y;
    static void operands(auto& self, auto&& visit) {
        visit("a", self.a, Access::read);
        visit("b", self.b, Access::read);
        visit("y", self.y, Access::write);
    }
};

/// sum = x + residual, y = its norm; residual is optional, and so is sum, for later nodes that need it.
struct LayerNorm {
    static constexpr std::string_view kName = "layer_norm";
    static constexpr bool kIsRowWise = true;
    Value x, residual, gain, bias, sum, y;
    float eps = 1e-5f;
    static void operands(auto& self, auto&& visit) {
        visit("x", self.x, Access::read);
        visit("residual", self.residual, Access::read);
        visit("gain", self.gain, Access::read);
        visit("bias", self.bias, Access::read);
        visit("sum", self.sum, Access::write);
        visit("y", self.y, Access::write);
    }
};

/// As LayerNorm without mean and bias. gain is optional: 1.
struct RmsNorm {
    static constexpr std::string_view kName = "rms_norm";
    static constexpr bool kIsRowWise = true;
    Value x, residual, gain, sum, y;
    float eps = 1e-5f;
    float gain_offset = 0;  ///< added to every gain
    static void operands(auto& self, auto&& visit) {
        visit("x", self.x, Access::read);
        visit("residual", self.residual, Access::read);
        visit("gain", self.gain, Access::read);
        visit("sum", self.sum, Access::write);
        visit("y", self.y, Access::write);
    }
};

/// y = max(x − mean(x) − bound · deviation(x), 0) of each row or, with `like`, x as long as the rows of that: x · sqrt(mean(like²) /
/// max(mean(x²), bound)).
struct RowMoments {
    static constexpr std::string_view kName = "row_moments";
    static constexpr bool kIsRowWise = true;
    Value x, like, y;
    float bound = 0;
    static void operands(auto& self, auto&& visit) {
        visit("x", self.x, Access::read);
        visit("like", self.like, Access::read);
        visit("y", self.y, Access::write);
    }
};

/// Which two elements of a head are turned together.
enum class RopePairing : std::uint8_t {
    interleaved,  ///< 2k and 2k + 1: Su et al. 2021, GPT-J
    halves,       ///< k and k + rotary_dim / 2: GPT-NeoX, Llama as Hugging Face stores it
};

struct Rope {
    static constexpr std::string_view kName = "rope";
    Value x, table, starts, y;
    RopePairing pairing = RopePairing::halves;
    static void operands(auto& self, auto&& visit) {
        visit("x", self.x, Access::read);
        visit("table", self.table, Access::read);
        visit("starts", self.starts, Access::read);
        visit("y", self.y, Access::write);
    }
};

/// What the operands of a gate are kept within: gates are at most `limit`, and up lies within ±limit and gets `up_shift` added.
struct GateClamp {
    float limit = 0;  ///< 0: they are taken as they are
    float up_shift = 0;

    explicit operator bool() const noexcept { return limit > 0; }
};

/// y = activation(gate) · up. up is absent where gate is [gate | up] along its last dimension.
struct GatedActivation {
    static constexpr std::string_view kName = "gated_activation";
    static constexpr bool kIsRowWise = true;
    Value gate, up, y;
    Activation activation = Activation::silu;
    GateClamp clamp;
    static void operands(auto& self, auto&& visit) {
        visit("gate", self.gate, Access::read);
        visit("up", self.up, Access::read);
        visit("y", self.y, Access::write);
    }
};

struct AttentionScores {
    static constexpr std::string_view kName = "attention_scores";
    Value query, key, scores;
    float scale = 1;
    float soft_cap = 0;  ///< 0: none
    static void operands(auto& self, auto&& visit) {
        visit("query", self.query, Access::read);
        visit("key", self.key, Access::read);
        visit("scores", self.scores, Access::write);
    }
};

/// y[b, h, i, j] = table[h, distance], the distance from query i to key j shifted and clamped into the table.
struct RelativeBias {
    static constexpr std::string_view kName = "relative_bias";
    Value table, starts, y;
    static void operands(auto& self, auto&& visit) {
        visit("table", self.table, Access::read);
        visit("starts", self.starts, Access::read);
        visit("y", self.y, Access::write);
    }
};

/// y[b, h, i, j] = c2p[h, b · len + i, r] + p2c[h, b · len + j, r], with the row r that the index has for the distance i − j.
struct RelativeScores {
    static constexpr std::string_view kName = "relative_scores";
    Value c2p, p2c, index, y;
    static void operands(auto& self, auto&& visit) {
        visit("c2p", self.c2p, Access::read);
        visit("p2c", self.p2c, Access::read);
        visit("index", self.index, Access::read);
        visit("y", self.y, Access::write);
    }
};

struct MaskedSoftmax {
    static constexpr std::string_view kName = "masked_softmax";
    Value scores, weights;
    AttentionMask mask;
    static void operands(auto& self, auto&& visit) {
        visit("scores", self.scores, Access::read);
        visit("key_lengths", self.mask.key_lengths, Access::read);
        visit("starts", self.mask.starts, Access::read);
        visit("additive", self.mask.additive, Access::read);
        visit("sinks", self.mask.sinks, Access::read);
        visit("weights", self.weights, Access::write);
    }
};

struct AdditiveScores {
    static constexpr std::string_view kName = "additive_scores";
    Value query, key, weight, scores;
    static void operands(auto& self, auto&& visit) {
        visit("query", self.query, Access::read);
        visit("key", self.key, Access::read);
        visit("weight", self.weight, Access::read);
        visit("scores", self.scores, Access::write);
    }
};

/// The keys around a centre p, |p − j| ≤ half_width. Exactly one of `positions` and `relative` is present.
struct LocalWindow {
    std::uint32_t half_width = 0;
    Value positions;    ///< i32 [batch, query_len]: p = positions (Luong's local-m)
    Value relative;     ///< f32 [batch, query_len]: p = relative · length, and a Gaussian around p (Luong's local-p)
    Value key_lengths;  ///< i32 [batch], optional: only keys j < key_lengths[b], which is also the length; else key_len
};

struct LocalSoftmax {
    static constexpr std::string_view kName = "local_softmax";
    Value scores, weights;
    LocalWindow window;
    static void operands(auto& self, auto&& visit) {
        visit("scores", self.scores, Access::read);
        visit("positions", self.window.positions, Access::read);
        visit("relative", self.window.relative, Access::read);
        visit("key_lengths", self.window.key_lengths, Access::read);
        visit("weights", self.weights, Access::write);
    }
};

struct WeightedSum {
    static constexpr std::string_view kName = "weighted_sum";
    Value weights, value, y;
    static void operands(auto& self, auto&& visit) {
        visit("weights", self.weights, Access::read);
        visit("value", self.value, Access::read);
        visit("y", self.y, Access::write);
    }
};

/// pages: optional, where keys and values are caches in pages (graph/pages.hpp).
struct Attention {
    static constexpr std::string_view kName = "attention";
    Value query, key, value, pages, y;
    AttentionMask mask;
    float scale = 1;
    float soft_cap = 0;  ///< of the scores, before the mask; 0: none
    static void operands(auto& self, auto&& visit) {
        visit("query", self.query, Access::read);
        visit("key", self.key, Access::read);
        visit("value", self.value, Access::read);
        visit("pages", self.pages, Access::read);
        visit("key_lengths", self.mask.key_lengths, Access::read);
        visit("starts", self.mask.starts, Access::read);
        visit("additive", self.mask.additive, Access::read);
        visit("sinks", self.mask.sinks, Access::read);
        visit("y", self.y, Access::write);
    }
};

/// Attention of one query per sequence, whose keys are split: each split leaves its sums in `partial`, and the last of a head to be
/// done puts them together. partial: f32 [batch · heads, splits · (value_dim + 2) + 1], a state for the sake of its last column, which
/// counts the splits that are done and is 0 before and after. Per split the value_dim sums Σ exp(s − m) · value, then m, the largest
/// score s of the split, then Σ exp(s − m).
struct DecodeAttention {
    static constexpr std::string_view kName = "decode_attention";
    Value query, key, value, pages, partial, y;
    AttentionMask mask;
    float scale = 1;
    float soft_cap = 0;            ///< as Attention's
    std::uint32_t split_keys = 0;  ///< keys per split of a full cache: graph/splits.hpp
    static void operands(auto& self, auto&& visit) {
        visit("query", self.query, Access::read);
        visit("key", self.key, Access::read);
        visit("value", self.value, Access::read);
        visit("pages", self.pages, Access::read);
        visit("key_lengths", self.mask.key_lengths, Access::read);
        visit("starts", self.mask.starts, Access::read);
        visit("additive", self.mask.additive, Access::read);
        visit("sinks", self.mask.sinks, Access::read);
        visit("partial", self.partial, Access::scratch);
        visit("y", self.y, Access::write);
    }
};

enum class RecurrentUnit : std::uint8_t { lstm, gru };

/// Gates per hidden unit: input, forget, cell, output (LSTM); reset, update, new (GRU). The order of the rows is PyTorch's.
constexpr std::uint32_t gates_of(RecurrentUnit unit) noexcept { return unit == RecurrentUnit::lstm ? 4 : 3; }

enum class Direction : std::uint8_t { forward, backward, both };
constexpr std::uint32_t directions_of(Direction direction) noexcept { return direction == Direction::both ? 2 : 1; }

/// A layer over whole sequences. cell and initial_cell: LSTM only.
struct RecurrentLayer {
    static constexpr std::string_view kName = "recurrent_layer";
    Value gates, weight, bias, initial_hidden, initial_cell, lengths, y, hidden, cell;
    RecurrentUnit unit = RecurrentUnit::lstm;
    Direction direction = Direction::forward;
    static void operands(auto& self, auto&& visit) {
        visit("gates", self.gates, Access::read);
        visit("weight", self.weight, Access::read);
        visit("bias", self.bias, Access::read);
        visit("initial_hidden", self.initial_hidden, Access::read);
        visit("initial_cell", self.initial_cell, Access::read);
        visit("lengths", self.lengths, Access::read);
        visit("y", self.y, Access::write);
        visit("hidden", self.hidden, Access::write);
        visit("cell", self.cell, Access::write);
    }
};

/// One step, from products that are already there. cell, next_cell: LSTM only. The next states may be the old ones, in place.
struct RecurrentCell {
    static constexpr std::string_view kName = "recurrent_cell";
    Value input_gates, hidden_gates, hidden, cell, next_hidden, next_cell;
    RecurrentUnit unit = RecurrentUnit::lstm;
    static void operands(auto& self, auto&& visit) {
        visit("input_gates", self.input_gates, Access::read);
        visit("hidden_gates", self.hidden_gates, Access::read);
        visit("hidden", self.hidden, Access::read);
        visit("cell", self.cell, Access::read);
        visit("next_hidden", self.next_hidden, Access::write);
        visit("next_cell", self.next_cell, Access::write);
    }
};

/// A causal convolution of each channel over the tokens of a sequence, whose last ones stay in the state. is_gated: x is
/// [before | behind | channels], and so three times as wide.
struct ShortConvolution {
    static constexpr std::string_view kName = "short_convolution";
    Value x, weight, bias, starts, counts, slots, state, y;
    Activation activation = Activation::none;
    bool is_gated = false;
    static void operands(auto& self, auto&& visit) {
        visit("x", self.x, Access::read);
        visit("weight", self.weight, Access::read);
        visit("bias", self.bias, Access::read);
        visit("starts", self.starts, Access::read);
        visit("counts", self.counts, Access::read);
        visit("slots", self.slots, Access::read);
        visit("state", self.state, Access::read_write);
        visit("y", self.y, Access::write);
    }
};

/// Attention without a softmax: what a head has seen is a matrix, the state, that each token decays and corrects.
struct GatedDeltaRule {
    static constexpr std::string_view kName = "gated_delta_rule";
    Value qkv, gates, decay, starts, counts, slots, state, y;
    std::uint32_t key_heads = 1;
    bool heads_in_turns = false;  ///< head h has the keys of h % key_heads, and not of h / (heads / key_heads)
    static void operands(auto& self, auto&& visit) {
        visit("qkv", self.qkv, Access::read);
        visit("gates", self.gates, Access::read);
        visit("decay", self.decay, Access::read);
        visit("starts", self.starts, Access::read);
        visit("counts", self.counts, Access::read);
        visit("slots", self.slots, Access::read);
        visit("state", self.state, Access::read_write);
        visit("y", self.y, Access::write);
    }
};

/// Mamba-2: what a head has seen is a matrix, the state, that decays and to which each token is added. most_step may be ∞.
struct SelectiveScan {
    static constexpr std::string_view kName = "selective_scan";
    Value xbc, steps, rates, starts, counts, slots, state, y;
    std::uint32_t groups = 1;
    float least_step = 0, most_step = 0;
    static void operands(auto& self, auto&& visit) {
        visit("xbc", self.xbc, Access::read);
        visit("steps", self.steps, Access::read);
        visit("rates", self.rates, Access::read);
        visit("starts", self.starts, Access::read);
        visit("counts", self.counts, Access::read);
        visit("slots", self.slots, Access::read);
        visit("state", self.state, Access::read_write);
        visit("y", self.y, Access::write);
    }
};

/// pages: optional, where the cache is in pages (graph/pages.hpp).
struct CacheAppend {
    static constexpr std::string_view kName = "cache_append";
    Value x, starts, pages, cache;
    static void operands(auto& self, auto&& visit) {
        visit("x", self.x, Access::read);
        visit("starts", self.starts, Access::read);
        visit("pages", self.pages, Access::read);
        visit("cache", self.cache, Access::read_write);
    }
};

/// The queries of [queries | keys | values], turned; the keys, turned, and the values go into their caches. table is optional: no turn.
/// pages as CacheAppend's, of both caches.
struct SplitQkv {
    static constexpr std::string_view kName = "split_qkv";
    Value qkv, query_gain, key_gain, table, starts, pages, query, key_cache, value_cache;
    RopePairing pairing = RopePairing::halves;
    float norm_eps = 0;          ///< with gains
    float norm_gain_offset = 0;  ///< likewise
    bool norms_values = false;   ///< likewise, the heads of values too, whose gains are 1
    static void operands(auto& self, auto&& visit) {
        visit("qkv", self.qkv, Access::read);
        visit("query_gain", self.query_gain, Access::read);
        visit("key_gain", self.key_gain, Access::read);
        visit("table", self.table, Access::read);
        visit("starts", self.starts, Access::read);
        visit("pages", self.pages, Access::read);
        visit("query", self.query, Access::write);
        visit("key_cache", self.key_cache, Access::read_write);
        visit("value_cache", self.value_cache, Access::read_write);
    }
};

struct CacheReorder {
    static constexpr std::string_view kName = "cache_reorder";
    Value parents, begins, lengths, cache;  ///< begins absent: 0
    std::uint32_t beams = 1;                ///< rows per group; a row's parent is in its own group
    static void operands(auto& self, auto&& visit) {
        visit("parents", self.parents, Access::read);
        visit("begins", self.begins, Access::read);
        visit("lengths", self.lengths, Access::read);
        visit("cache", self.cache, Access::read_write);
    }
};

/// How the tokens of a sequence become one vector.
enum class Pooling : std::uint8_t {
    first,          ///< the first token: BERT's [CLS]
    last,           ///< the last valid token
    mean,           ///< Σ x[i] / n
    root_mean,      ///< Σ x[i] / √n
    weighted_mean,  ///< Σ (i + 1) · x[i] / Σ (i + 1)
    max,            ///< the largest of each column
};

struct Pool {
    static constexpr std::string_view kName = "pool";
    Value x, lengths, y;
    Pooling pooling = Pooling::mean;
    static void operands(auto& self, auto&& visit) {
        visit("x", self.x, Access::read);
        visit("lengths", self.lengths, Access::read);
        visit("y", self.y, Access::write);
    }
};

struct LogSoftmax {
    static constexpr std::string_view kName = "log_softmax";
    static constexpr bool kIsRowWise = true;
    Value x, y;
    static void operands(auto& self, auto&& visit) {
        visit("x", self.x, Access::read);
        visit("y", self.y, Access::write);
    }
};

struct ArgMax {
    static constexpr std::string_view kName = "arg_max";
    Value x, y;
    static void operands(auto& self, auto&& visit) {
        visit("x", self.x, Access::read);
        visit("y", self.y, Access::write);
    }
};

struct TopK {
    static constexpr std::string_view kName = "top_k";
    Value x, values, indices;
    static void operands(auto& self, auto&& visit) {
        visit("x", self.x, Access::read);
        visit("values", self.values, Access::write);
        visit("indices", self.indices, Access::write);
    }
};

/// How the router of a mixture of experts makes scores of its logits.
enum class RouteScores : std::uint8_t {
    softmax,
    sigmoid,
    sparse_mixer,  ///< of each chosen expert the softmax over those logits behind the experts before it that are near its own
};

/// Neighbours among the experts are a group; those of a row are chosen from the groups that come first by their `best` best experts.
struct RouteGroups {
    std::uint32_t count = 1;  ///< 1: all experts are one group, from which they are chosen
    std::uint32_t kept = 1;   ///< groups of a row
    std::uint32_t best = 1;   ///< experts of a group, 1 or 2, the sum of whose places it is chosen by
    friend bool operator==(const RouteGroups&, const RouteGroups&) = default;
};

/// The k best experts of each row of logits, and their weights. bias is optional.
struct RouteTopK {
    static constexpr std::string_view kName = "route_top_k";
    Value x, bias, weights, indices;
    RouteScores scores = RouteScores::softmax;
    bool normalises = false;  ///< the weights of a row sum up to `scale`
    float scale = 1;
    float least_sum = 1e-20f;  ///< added to the sum that weights are divided by, so that weights of 0 are no NaN
    RouteGroups groups;
    float jitter = 0;  ///< of sparse_mixer: which logits are near
    static void operands(auto& self, auto&& visit) {
        visit("x", self.x, Access::read);
        visit("bias", self.bias, Access::read);
        visit("weights", self.weights, Access::write);
        visit("indices", self.indices, Access::write);
    }
};

/// A token at random; random: i32 [rows, 3], seed (two words) and draws so far. 0, or 1 for top_p: no such rule.
/// Columns of Sample::settings and of Penalize::settings: what the fields of these names are for one row.
inline constexpr std::size_t kRowTemperature = 0, kRowTopK = 1, kRowTopP = 2, kRowMinP = 3, kSampleSettings = 4;
inline constexpr std::size_t kRowRepetition = 0, kRowPresence = 1, kRowFrequency = 2, kPenalizeSettings = 3;

/// settings: f32 [rows, kSampleSettings], optional: of each row in place of the fields.
struct Sample {
    static constexpr std::string_view kName = "sample";
    Value x, random, settings, y;
    float temperature = 1;
    std::uint32_t top_k = 0;
    float top_p = 1;
    float min_p = 0;
    static void operands(auto& self, auto&& visit) {
        visit("x", self.x, Access::read);
        visit("random", self.random, Access::read_write);
        visit("settings", self.settings, Access::read);
        visit("y", self.y, Access::write);
    }
};

/// What generation forbids and forces; token −1: nothing.
struct MaskLogits {
    static constexpr std::string_view kName = "mask_logits";
    Value x, starts, banned, late, begins, sequences, source, y;
    std::int32_t forced_first = -1;  ///< the only token allowed where starts[row] == 0
    std::int32_t forced_last = -1;   ///< the only token allowed where starts[row] == last_start
    std::int32_t last_start = -1;    ///< start of the last step before the length limit
    std::int32_t late_steps = 0;     ///< `late` is not allowed where starts[row] + 1 − begins[row] < late_steps
    std::uint32_t ngram =
        0;  ///< no run of so many tokens comes twice in sequences[row, 0 … starts[row]] and what follows
    std::uint32_t source_ngram = 0;  ///< no run of so many tokens of source[row / (rows / sources)] comes there
    static void operands(auto& self, auto&& visit) {
        visit("x", self.x, Access::read);
        visit("starts", self.starts, Access::read);
        visit("banned", self.banned, Access::read);
        visit("late", self.late, Access::read);
        visit("begins", self.begins, Access::read);
        visit("sequences", self.sequences, Access::read);
        visit("source", self.source, Access::read);
        visit("y", self.y, Access::write);
    }
};

/// Whisper's rules on the tokens that stand for times: `first` and all above it. begins: where a row's own tokens begin.
struct MaskTimestamps {
    static constexpr std::string_view kName = "mask_timestamps";
    Value x, starts, begins, sequences, y;
    std::int32_t first = 0;
    std::int32_t eos = 0;
    std::int32_t latest_initial = -1;  ///< the first token is at most first + latest_initial; −1: any time
    static void operands(auto& self, auto&& visit) {
        visit("x", self.x, Access::read);
        visit("starts", self.starts, Access::read);
        visit("begins", self.begins, Access::read);
        visit("sequences", self.sequences, Access::read);
        visit("y", self.y, Access::write);
    }
};

/// Where a token of a row comes from.
enum class TokenOrigin : std::uint8_t { prompt, generated };

/// What a row has of a token, an element of `counts`: how often it was generated and, in this bit, whether the prompt has it.
inline constexpr std::int32_t kInPrompt = std::int32_t{1} << 30;

struct CountTokens {
    static constexpr std::string_view kName = "count_tokens";
    Value tokens, lengths, counts;
    TokenOrigin origin = TokenOrigin::generated;
    static void operands(auto& self, auto&& visit) {
        visit("tokens", self.tokens, Access::read);
        visit("lengths", self.lengths, Access::read);
        visit("counts", self.counts, Access::read_write);
    }
};

/// What makes the tokens of a row likelier or less likely; counts and bias are optional.
/// settings: f32 [rows, kPenalizeSettings], optional: of each row in place of the fields.
/// allowed: i32 [rows, allowed_words(vocab)], optional: bit i % 32 of word i / 32 is 0 where a row may not have token i.
struct Penalize {
    static constexpr std::string_view kName = "penalize";
    Value x, counts, bias, settings, allowed, y;
    float repetition =
        1;  ///< of tokens in the prompt or generated: what positive logits are divided by, others multiplied with
    float presence = 0;   ///< subtracted from the logits of generated tokens
    float frequency = 0;  ///< subtracted from them as often as they were generated
    static void operands(auto& self, auto&& visit) {
        visit("x", self.x, Access::read);
        visit("counts", self.counts, Access::read);
        visit("bias", self.bias, Access::read);
        visit("settings", self.settings, Access::read);
        visit("allowed", self.allowed, Access::read);
        visit("y", self.y, Access::write);
    }
};
/// Words of a row of Penalize::allowed.
constexpr std::uint64_t allowed_words(std::uint64_t vocab) noexcept { return (vocab + 31) / 32; }

/// Elements of a row of BiasSequences::phrases: the last token, where the tokens before it begin in `tokens`, how many those are.
inline constexpr std::size_t kPhraseLast = 0, kPhraseBegin = 1, kPhraseLen = 2, kPhraseWords = 3;

/// What makes a token likelier or less likely that completes a phrase. sequences and tokens: absent where all phrases are one token.
struct BiasSequences {
    static constexpr std::string_view kName = "bias_sequences";
    Value x, starts, sequences;
    Value phrases;  ///< i32 [phrases, kPhraseWords], in rising order of the last tokens
    Value tokens, biases, y;
    static void operands(auto& self, auto&& visit) {
        visit("x", self.x, Access::read);
        visit("starts", self.starts, Access::read);
        visit("sequences", self.sequences, Access::read);
        visit("phrases", self.phrases, Access::read);
        visit("tokens", self.tokens, Access::read);
        visit("biases", self.biases, Access::read);
        visit("y", self.y, Access::write);
    }
};

struct GreedyStep {
    static constexpr std::string_view kName = "greedy_step";
    Value next, given, log_probs, tokens, starts, finished, history, scores;
    std::int32_t eos = 0, pad = 0;
    static void operands(auto& self, auto&& visit) {
        visit("next", self.next, Access::read);
        visit("given", self.given, Access::read);
        visit("log_probs", self.log_probs, Access::read);
        visit("tokens", self.tokens, Access::read_write);
        visit("starts", self.starts, Access::read_write);
        visit("finished", self.finished, Access::read_write);
        visit("history", self.history, Access::read_write);
        visit("scores", self.scores, Access::read_write);
    }
};

/// Hugging Face's rule: stop when `beams` hypotheses are finished (always), when no running one looks better (heuristic),
/// or only when none can become better (never).
enum class EarlyStopping : std::uint8_t { heuristic, always, never };

struct BeamStep {
    static constexpr std::string_view kName = "beam_step";
    Value candidate_scores, candidate_tokens;                   // from top_k over each row
    Value tokens, starts, parents;                              // the next step's input
    Value running_scores, token_history, parent_history;        // running hypotheses
    Value final_scores, final_steps, final_rows, final_tokens;  // finished hypotheses
    Value state;                                                // per sequence and global flags
    std::uint32_t beams = 1;
    std::uint32_t max_steps = 0;
    std::int32_t eos = 0;
    float length_penalty = 1;
    EarlyStopping early_stopping = EarlyStopping::heuristic;
    static void operands(auto& self, auto&& visit) {
        visit("candidate_scores", self.candidate_scores, Access::read);
        visit("candidate_tokens", self.candidate_tokens, Access::read);
        visit("tokens", self.tokens, Access::read_write);
        visit("starts", self.starts, Access::read_write);
        visit("parents", self.parents, Access::read_write);
        visit("running_scores", self.running_scores, Access::read_write);
        visit("token_history", self.token_history, Access::read_write);
        visit("parent_history", self.parent_history, Access::read_write);
        visit("final_scores", self.final_scores, Access::read_write);
        visit("final_steps", self.final_steps, Access::read_write);
        visit("final_rows", self.final_rows, Access::read_write);
        visit("final_tokens", self.final_tokens, Access::read_write);
        visit("state", self.state, Access::read_write);
    }
};

/// The list of all ops, in the order in which they are shown: X(Op) for each. What there is one of for every op is declared by it.
// clang-format off
#define VKFORMER_OPS(X)                                                                                                \
    X(Embedding) X(PositionalEmbedding) X(Patchify) X(Linear) X(ExpertLinear) X(Activate) X(SoftCap) X(Add) X(Concat)  \
    X(LayerNorm) X(RmsNorm) X(RowMoments) X(Rope) X(GatedActivation) X(RelativeBias) X(RelativeScores)                 \
    X(AttentionScores) X(AdditiveScores) X(MaskedSoftmax) X(LocalSoftmax) X(WeightedSum) X(Attention) X(DecodeAttention)\
    X(RecurrentLayer) X(RecurrentCell) X(ShortConvolution) X(GatedDeltaRule) X(SelectiveScan) X(CacheAppend)           \
    X(SplitQkv) X(CacheReorder) X(Pool) X(LogSoftmax) X(ArgMax) X(TopK) X(RouteTopK) X(Sample) X(MaskLogits)           \
    X(MaskTimestamps) X(CountTokens) X(Penalize) X(BiasSequences) X(GreedyStep) X(BeamStep)
// clang-format on

namespace detail {
template <class None, class... Ops>
using VariantBehind = std::variant<Ops...>;
}  // namespace detail
#define VKFORMER_BEHIND_COMMA(Op) , Op
using Op = detail::VariantBehind<void VKFORMER_OPS(VKFORMER_BEHIND_COMMA)>;
namespace detail {
enum class OpIndex : std::ptrdiff_t { none = -1 VKFORMER_OPS(VKFORMER_BEHIND_COMMA) };
/// No part of visit_op, since the message of an assertion names its function, here with all types.
inline void assert_op_holds_one() noexcept { assert(false && "an op that holds nothing"); }

}  // namespace detail
#undef VKFORMER_BEHIND_COMMA

/// function(the op that the variant holds): as std::visit, of a variant with so many kinds in a fraction of the code.
template <class Function, class AnyOp>
requires std::same_as<std::remove_const_t<AnyOp>, Op>
decltype(auto) visit_op(Function&& function, AnyOp& op) {
    switch (static_cast<detail::OpIndex>(op.index())) {
#define VKFORMER_VISIT_CASE(Kind) \
    case detail::OpIndex::Kind: return function(*std::get_if<Kind>(&op));
        VKFORMER_OPS(VKFORMER_VISIT_CASE)
#undef VKFORMER_VISIT_CASE
    case detail::OpIndex::none: break;
    }
    detail::assert_op_holds_one();
    return function(*std::get_if<0>(&op));
}

inline std::string_view op_name(const Op& op) noexcept {
    return visit_op([](const auto& o) { return o.kName; }, op);
}

/// What an op lists by `operands`, absent ones too, for code that is the same for all ops: the visit of the variant is compiled once.
template <class V>
class OperandList {
public:
    struct Operand {
        std::string_view name;
        V* value;  ///< in the op
        Access access;
    };
    const Operand* begin() const noexcept { return operands_.data(); }
    const Operand* end() const noexcept { return operands_.data() + count_; }
    void add(std::string_view name, V& value, Access access) noexcept {
        assert(count_ < operands_.size());
        operands_[count_++] = {name, &value, access};
    }

private:
    std::array<Operand, 16> operands_{};
    std::size_t count_ = 0;
};
OperandList<const Value> operands_of(const Op& op) noexcept;
OperandList<Value> operands_of(Op& op) noexcept;

/// Calls visit(name, value, access) for every operand that is present; of an op that is not const with Value&, so that a pass can replace
/// operands.
void for_each_operand(auto& op, auto&& visit) {
    for (const auto& [name, value, access] : operands_of(op))
        if (*value) visit(name, *value, access);
}

}  // namespace vkformer::graph
