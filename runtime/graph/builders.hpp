// SPDX-License-Identifier: MIT
/// The functions that build a graph. Each checks its operands, infers the result's shape and appends one node (or, where it
/// says so, a few). A mistake is an Error that names the op, the operand and both shapes; the graph is then unchanged.
/// Common errors: ShapeMismatch, UnsupportedDtype, InvalidArgument. Thread-safe on distinct graphs.
/// "float" below is f32 or f16, one and the same for all operands of an op; sums are always formed in f32.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "graph/graph.hpp"
#include "graph/pages.hpp"

namespace vkformer::graph {

// ---- embeddings -----------------------------------------------------------------------------------------------------

/// y[…, i] = scale · table[tokens[…], i]. tokens i32 [… ≤ 3 dims], table float [vocab, dim] → [… , dim] of dtype `result`, f32
/// or f16 (absent: the table's). table may also be bf16, `dim` a multiple of 32, or in a block format, `dim` a multiple of its
/// block (absent: f32): linear takes the same weight, so tied embeddings are uploaded once. Only the rows asked for are read.
/// A token outside 0 … vocab−1 gives a row of NaN. Scale √dim: Vaswani et al. 2017, section 3.4.
Result<Value> embedding(Graph& graph, Value tokens, Value table, float scale = 1, std::optional<DType> result = {});

/// y[b, i, :] = x[b, i, :] + table[starts[b] + i, :]. x float [batch, len, dim], table f32 [positions, dim],
/// starts i32 [batch] (absent: 0). A position outside the table gives a row of NaN. Serves learned tables and sinusoids.
Result<Value> positional_embedding(Graph& graph, Value x, Value table, Value starts = {});

struct PatchifyOptions {
    std::uint32_t patch_height = 1, patch_width = 1;
    std::uint32_t prefix = 0;  ///< rows of zeros before the patches: places for tokens that are no part of the image
    DType result = DType::f32;
};
/// Cuts images into patches that do not overlap, so that a linear is the patch embedding of Dosovitskiy et al. 2021, eq. 1:
///   y[b, prefix + i · columns + j, (c · patch_height + v) · patch_width + u]
///     = pixels[b, c, i · patch_height + v, j · patch_width + u],
/// rows = height / patch_height, columns = width / patch_width, both rounded down: what is left over at the bottom and on
/// the right is not read. The order within a patch is that of a convolution's weight [out, channels, patch_height,
/// patch_width]. pixels f32 [batch, channels, height, width] → [batch, prefix + rows · columns, channels · patch_height ·
/// patch_width] of dtype `result`, f32 or f16.
Result<Value> patchify(Graph& graph, Value pixels, const PatchifyOptions& options);

enum class SinusoidLayout : std::uint8_t {
    interleaved,  ///< sin, cos, sin, cos, …: Vaswani et al. 2017, section 3.5
    halves,       ///< all sines, then all cosines, the same angles: Marian and Hugging Face's MarianMT
};

/// The table of sinusoidal positions, f32 [positions, dim]: angle(p, k) = p / 10000^(2k/dim), computed in double precision.
/// A table and no shader arithmetic: Vulkan bounds the error of sin() by 2^-11 absolute, and only within ±π.
TensorData sinusoidal_table(std::uint64_t positions, std::uint64_t dim, SinusoidLayout layout);

/// Rotary position embedding: with p = starts[b] + i and θ_k the k-th frequency, every pair (u, v) of elements of x[b, i, h, :]
///   becomes (u · cos(p · θ_k) − v · sin(p · θ_k), v · cos(p · θ_k) + u · sin(p · θ_k)),
/// k = 0 … rotary_dim / 2 − 1; `pairing` says which two elements are pair k. Elements from rotary_dim on are copied. x float
/// [batch, len, heads, head_dim], table f32 [positions, rotary_dim] of rope_table, rotary_dim even and ≤ head_dim, starts i32
/// [batch] (absent: 0, and len ≤ positions). A position outside the table gives rows of NaN. Su et al. 2021, eq. 34.
Result<Value> rope(Graph& graph, Value x, Value table, Value starts, RopePairing pairing);

/// θ_k = base^(−2k / rotary_dim), k = 0 … rotary_dim / 2 − 1. base 10000: Su et al. 2021, section 3.2.2.
std::vector<double> rope_frequencies(std::uint64_t rotary_dim, double base);

/// The table for rope, f32 [positions, 2 · frequencies]: row p is scale · [cos(p · θ_0), cos(p · θ_1), … | sin(p · θ_0), …], formed
/// in double precision (no shader arithmetic: as for sinusoidal_table). Frequencies stretched for long contexts come as they are;
/// scale ≠ 1 is what YaRN (Peng et al. 2023, eq. 15) multiplies queries and keys with.
TensorData rope_table(std::uint64_t positions, std::span<const double> frequencies, double scale = 1);

// ---- products, elementwise, norms -----------------------------------------------------------------------------------

/// y = x · weightᵀ + bias. x float [… , in], weight float [out, in], bias float [out] (absent: 0) → [… , out] of dtype `result` (f32 or x's).
/// weight may also be bf16 or, with x f32, f16, `in` a multiple of 32, or in a block format, of its block; or float [batch, out, in], one for each x
/// of [batch, rows, in], or all for one [1, rows, in] → [batch, rows, out]. The passes fuse a following activation and add into the node.
Result<Value> linear(Graph& graph, Value x, Value weight, Value bias = {}, std::optional<DType> result = {});

/// Experts of an expert_linear.
inline constexpr std::uint64_t kMostExperts = 1024;
/// The products of a mixture of experts: each row of x with the matrices of the k experts that were chosen for it, and with no others.
/// y[r, j] = W_e · x[r] or, for x of rank 3, W_e · x[r, j], with e = experts[r, j]; an e outside 0 … count − 1 gives a row of NaN and reads
/// nothing. x float [rows, in] or [rows, k, in]; weight [count · out, in], the matrices one after the other, in every dtype that linear takes;
/// experts i32 [rows, k], as route_top_k gives them; count ≤ kMostExperts → [rows, k, out] of x's dtype. Shazeer et al. 2017, eq. 2; their
/// sum, weighted by the router, is weighted_sum's.
Result<Value> expert_linear(Graph& graph, Value x, Value weight, Value experts, std::uint64_t count);

/// y = f(x), elementwise, any shape. ReLU: max(x, 0), NaN stays NaN. gelu_erf: x·Φ(x); gelu_tanh: its tanh approximation
/// (Hendrycks and Gimpel 2016). silu: x·sigmoid(x) (Elfwing et al. 2018), "swish" in Marian. tanh and sigmoid as named.
/// gelu_quick: x·sigmoid(1.702 x) (Hendrycks and Gimpel 2016, section 2), as CLIP has it. relu_squared: max(x, 0)² (So et al. 2021).
Result<Value> activate(Graph& graph, Value x, Activation activation);

/// y = cap · tanh(x / cap), elementwise, any shape: x, bounded smoothly by ±cap. cap > 0. ±∞ give ±cap, NaN stays NaN.
/// Gemma 2's logits, cap 30: Gemma Team 2024 (arXiv 2408.00118), section 2.
Result<Value> soft_cap(Graph& graph, Value x, float cap);

/// y = f(gate) · up, elementwise: the gated linear units without their products (Shazeer 2020, eq. 5 and 6). f: silu (SwiGLU),
/// gelu_erf or gelu_tanh (GeGLU), relu (ReGLU), sigmoid (GLU), none (bilinear). gate and up float, equal shapes → that shape; or,
/// where up is absent, gate [… , 2 · width] holds both, the gates first → [… , width].
/// With a clamp: f(min(gate, limit)) · (clamp(up, −limit, limit) + up_shift), NaN stays NaN; with gelu_quick, limit 7 and up_shift 1 the
/// SwiGLU of gpt-oss (OpenAI 2025, arXiv 2508.10925).
Result<Value> gated_activation(Graph& graph, Value gate, Value up, Activation activation, const GateClamp& clamp = {});

/// y = scale · (a + b), elementwise, equal shapes and dtypes.
Result<Value> add(Graph& graph, Value a, Value b, float scale = 1);

/// y = [a | b] along the last dimension. a float [… , m], b [… , n] of a's dtype, all other dimensions equal → [… , m + n].
Result<Value> concat(Graph& graph, Value a, Value b);

/// y = gain · (x − mean(x)) / sqrt(var(x) + eps) + bias over the last dimension, biased variance (Ba et al. 2016).
/// x float [… , dim], gain and bias float [dim] (bias may be absent; gains of groups as of rms_norm). The passes fuse a preceding add.
Result<Value> layer_norm(Graph& graph, Value x, Value gain, Value bias, float eps);

/// y = (gain + gain_offset) · x / sqrt(mean(x²) + eps) over the last dimension. x float [… , dim], gain float [dim] (absent: 1), or
/// [groups, dim] for x [… , groups, dim].
/// gain_offset 1 is Gemma's way of storing gains. The passes fuse a preceding add into the node. Zhang and Sennrich 2019, eq. 4.
Result<Value> rms_norm(Graph& graph, Value x, Value gain, float eps, float gain_offset = 0);

/// y = max(x − mean(x) − deviations · sqrt(var(x)), 0) over the last dimension, biased variance: of a row of normally distributed x about the
/// part Φ(−deviations) is left, as with a top k that sorts nothing (Gemma 3n's sparse gates). x float [… , dim] → the same.
Result<Value> gaussian_top_k(Graph& graph, Value x, float deviations);

/// y = x · sqrt(mean(like²) / max(mean(x²), least)) over the last dimension: x with the magnitude of `like`. Both float, equal shapes and
/// dtypes; least > 0.
Result<Value> match_magnitude(Graph& graph, Value x, Value like, float least);

// ---- attention ------------------------------------------------------------------------------------------------------
// query [batch, query_len, heads, head_dim], key [batch, key_len, kv_heads, head_dim], value [batch, key_len, kv_heads,
// value_dim]: the layout in which projections come, so that nothing is ever transposed; heads is a multiple of kv_heads and
// head h reads key/value head h / (heads / kv_heads) (Ainslie et al. 2023). head_dim and value_dim ≤ 576 in attention and
// decode_attention, ≤ 4096 in the nodes that store the scores. All of one dtype, f32 or f16; in attention and decode_attention, key and
// value may both be q8_0 caches. With `pages`, i32 [batch, table_len], they are both in pages there, [pages, kPageLen, kv_heads, …]
// (graph/pages.hpp), and key_len is table_len · kPageLen: key j of sequence b lies in page pages[b, j / kPageLen]. Of the table only what
// leads to a key that the mask lets a query see means something. What names no page is read as the last one.
// The mask is documented at AttentionMask; a query that sees no key gets zeros, never NaN.
// soft_cap > 0 bounds the scores before the mask: score = soft_cap · tanh(scale · query · key / soft_cap) (Gemma Team 2024, arXiv
// 2408.00118, section 2); 0: none.

/// A bias of the scores by distance, for AttentionMask::additive: y[b, h, i, j] = table[h, clamp(j − (starts[b] + i), −reach, reach) +
/// reach]. table f32 [heads, 2 · reach + 1], from the key furthest behind the query to the one furthest before it; starts i32 [batch]
/// (absent: 0) → f32 [batch, heads, query_len, key_len], batch 1 without starts. Raffel et al. 2020, section 2.1, whose
/// logarithmic buckets are spelled out in the table.
Result<Value> relative_bias(Graph& graph, Value table, Value starts, std::uint64_t query_len, std::uint64_t key_len);

/// What distances add to the scores of queries and keys of the same texts, for AttentionMask::additive: y[b, h, i, j] =
/// c2p[h, b · len + i, r] + p2c[h, b · len + j, r], r = index[clamp(i − j, −reach, reach) + reach]. c2p and p2c, either of which may be
/// absent, f32 [1, heads, batch · len, rows]: what attention_scores makes of all queries (content to position) and of all keys
/// (position to content), as if they were one text, and of the projected rows of a table of distances; index i32 [2 · reach + 1] → f32
/// [batch, heads, len, len]. A number of the index that is no row is taken as the nearest one. He et al. 2021 (DeBERTa), section 3.1.
Result<Value> relative_scores(Graph& graph, Value c2p, Value p2c, Value index, std::uint64_t batch);

/// scores = scale · query · keyᵀ, capped: f32 [batch, heads, query_len, key_len].
Result<Value> attention_scores(Graph& graph, Value query, Value key, float scale, float soft_cap = 0);
/// scores[b, h, i, j] = Σ_d weight[h, d] · tanh(query[b, i, h, d] + key[b, j, h, d]): f32 [batch, heads, query_len, key_len].
/// query [batch, query_len, heads, dim] and key [batch, key_len, heads, dim] are what W_q q and W_k k gave (two linears); weight
/// [heads, dim], all of one dtype; dim ≤ 4096. The [query_len, key_len, dim] sums are never stored. Bahdanau et al. 2015,
/// appendix A.1.2; with the decoder's new state as the query it is Luong's "concat" score (Luong et al. 2015, eq. 8).
Result<Value> additive_scores(Graph& graph, Value query, Value key, Value weight);
/// weights = softmax over the keys of (scores + mask): f32, the shape of scores.
Result<Value> masked_softmax(Graph& graph, Value scores, const AttentionMask& mask = {});
/// The same over the keys of a window around a centre p of each query: those with |p − j| ≤ half_width and j < length; a query
/// whose window holds no key gets zeros. With `relative` (local-p), each weight is then multiplied by exp(−(j − p)² / 2σ²), σ =
/// half_width / 2, and not normalised again. half_width 1 to 2^20. Local attention: Luong et al. 2015, section 3.2, eq. 9 and 10.
/// A relative position that is NaN gives a row of NaN.
Result<Value> local_softmax(Graph& graph, Value scores, const LocalWindow& window);
/// y = weights · value: float [batch, query_len, heads, value_dim] of value's dtype.
Result<Value> weighted_sum(Graph& graph, Value weights, Value value);

/// The three above in one node with a one-pass softmax (Milakov and Gimelshein 2018); nothing of size query_len × key_len
/// is stored. Same operands, same result. Formula: Vaswani et al. 2017, eq. 1.
Result<Value> attention(Graph& graph, Value query, Value key, Value value, const AttentionMask& mask, float scale,
                        float soft_cap = 0, Value pages = {});

/// The same by the three nodes, for who wants the weights, too, an output of the graph; keys as the queries are stored, not in pages.
struct SeenWithWeights {
    Value seen, weights;  ///< weights: f32 [batch, heads, query_len, key_len]
};
Result<SeenWithWeights> attention_with_weights(Graph& graph, Value query, Value key, Value value,
                                               const AttentionMask& mask, float scale, float soft_cap = 0);

/// The same for query_len = 1 and a long cache: two nodes, one over splits (`split_keys` keys if all are seen), one that combines them
/// (Dao et al. 2023, "Flash-Decoding").
Result<Value> decode_attention(Graph& graph, Value query, Value key, Value value, const AttentionMask& mask,
                               float scale, std::uint32_t split_keys = 128, float soft_cap = 0, Value pages = {});

// ---- recurrent layers -----------------------------------------------------------------------------------------------
// LSTM (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000), σ = sigmoid:
//   c' = σ(f) · c + σ(i) · tanh(g),  h' = σ(o) · tanh(c')
// GRU (Cho et al. 2014, with the reset gate after the product, as cuDNN and PyTorch have it):
//   n = tanh(n_x + σ(r) · n_h),  h' = (1 − σ(z)) · n + σ(z) · h
// where every gate is the sum of what the input gives, W_ih x + b_ih, and of what the state gives, W_hh h + b_hh, but for
// the GRU's n, whose parts n_x and n_h stay apart. Gates come in PyTorch's order: i, f, g, o and r, z, n. The cell state c is
// f32 whatever the dtype, so that it does not lose what it has to remember.

/// Where a layer begins; each is optional and then 0.
struct RecurrentStart {
    Value hidden;   ///< float [batch, directions · hidden_dim]
    Value cell;     ///< f32 [batch, directions · hidden_dim]; LSTM only
    Value lengths;  ///< i32 [batch]: steps of each sequence, taken as 0 … len; absent: len
};
struct RecurrentResult {
    Value y;       ///< float [batch, len, directions · hidden_dim], the forward half first; zeros at steps ≥ length
    Value hidden;  ///< float [batch, directions · hidden_dim]: after the last step that was done
    Value cell;    ///< f32, like hidden; LSTM only
};
/// A whole layer. gates float [batch, len, directions · gates · hidden_dim] are W_ih x + b_ih (a linear, for all steps at once);
/// weight [directions · hidden_dim, gates · hidden_dim] is W_hh *transposed*, one direction after the other, so that neighbours
/// read neighbours; bias [directions · gates · hidden_dim] is b_hh (absent: 0). A backward layer starts at the last valid step and
/// ends at step 0. hidden_dim 1 to 1024.
Result<RecurrentResult> lstm_layer(Graph& graph, Value gates, Value weight, Value bias, Direction direction,
                                   const RecurrentStart& start = {});
Result<RecurrentResult> gru_layer(Graph& graph, Value gates, Value weight, Value bias, Direction direction,
                                  const RecurrentStart& start = {});

/// The state of a recurrent unit: hidden float [rows, hidden_dim]; cell f32 [rows, hidden_dim], LSTM only.
struct RecurrentState {
    Value hidden, cell;
};
/// One step. input_gates = W_ih x + b_ih, hidden_gates = W_hh h + b_hh: float [rows, gates · hidden_dim] (two linears), `from` the
/// state before it. The state after it goes to two new tensors or, where `into` is given, to those states of the graph, which may
/// be `from` itself. Any hidden_dim.
Result<RecurrentState> lstm_cell(Graph& graph, Value input_gates, Value hidden_gates, const RecurrentState& from,
                                 const RecurrentState& into = {});
Result<RecurrentState> gru_cell(Graph& graph, Value input_gates, Value hidden_gates, const RecurrentState& from,
                                const RecurrentState& into = {});

// ---- layers with a state of each sequence ---------------------------------------------------------------------------
// Their state is all that they know of the tokens before, f32 whatever the dtype.

/// Which of the tokens of a run are a sequence's, and where its state is. All are optional, i32 [batch] or, slots, [batch, 2].
struct StatePlace {
    Value starts;  ///< position of the first token; at 0 the state counts as zeros, whatever it holds. Absent: 0
    /// Tokens that are the sequence's, taken as 0 … len: those behind leave the state alone, and where there are none nothing is written.
    /// Absent: len
    Value counts;
    /// The row of the state that is read, and the one that is written; one that there is not counts as zeros, or nothing is kept. No sequence
    /// writes a row that another one reads or writes. Absent: b, b
    Value slots;
};

/// A depthwise causal convolution: y[b, t, c] = f(bias[c] + Σ_j weight[c, j] · u[b, t − taps + 1 + j, c]), where u[b, t] for t < 0 are
/// the last inputs of the run before, which the state keeps. u is x, float [batch, len, width], or, where it is gated, [before | behind
/// | channels], each `width` wide: then u = before · channels, and y is multiplied by `behind` (Liquid AI 2025, arXiv 2511.23404, section 2).
/// weight [width, taps] and bias [width] (absent: 0) of x's dtype, taps 2 to 8, state f32 [slots, taps − 1, width] → [batch, len, width].
Result<Value> short_convolution(Graph& graph, Value x, Value weight, Value bias, Value state, const StatePlace& place,
                                Activation activation, bool is_gated = false);

struct GatedDeltaOptions {
    std::uint32_t key_heads = 1;  ///< a divisor of the heads
    /// Which q and k head h has: those of h / (heads / key_heads), or with `in_turns` of h % key_heads, as GGUF files of Qwen 3.5 have it.
    bool in_turns = false;
    DType result = DType::f32;  ///< or f16
};
/// The gated delta rule (Yang, Kautz and Hatamizadeh 2024, eq. 10), token by token, S the state of a head [key_dim, value_dim]:
///   S ← α S,  S ← S + β k̂ (v − Sᵀ k̂)ᵀ,  y = Sᵀ q̂ / √key_dim
/// with q̂ = q / √(Σ q² + 1e-6), k̂ likewise, β = sigmoid(gates[h]), α = exp(−exp(decay[0, h]) · softplus(gates[heads + h] + decay[1, h])).
/// qkv f32 [batch, len, 2 · key_heads · key_dim + heads · value_dim] holds all q, then all k, then all v. gates f32 [batch, len, 2 · heads], decay f32 [2, heads], state f32 [slots, heads,
/// key_dim, value_dim], key_dim ≤ 256 → [batch, len, heads, value_dim] of dtype `result`; zeros behind `counts`. qkv is f32 whatever
/// comes of it: where little is left of Sᵀ q̂, the norm that follows makes it large again, and its error with it.
Result<Value> gated_delta_rule(Graph& graph, Value qkv, Value gates, Value decay, Value state, const StatePlace& place,
                               const GatedDeltaOptions& options);

struct SelectiveScanOptions {
    std::uint32_t groups = 1;                                  ///< a divisor of the heads, of which each has B and C
    float least_step = 0;                                      ///< of Δ
    float most_step = std::numeric_limits<float>::infinity();  ///< likewise
    DType result = DType::f32;                                 ///< or f16
};
/// Mamba-2's selective scan (Dao and Gu 2024, arXiv 2405.21060, section 6), token by token, S the state of a head [state_dim, head_dim]:
///   S ← exp(−exp(rates[0, h]) Δ) S + Δ B xᵀ,  y = Sᵀ C + rates[2, h] x
///   Δ = clamp(softplus(steps[h] + rates[1, h]), least_step, most_step)
/// with B and C those of group h / (heads / groups). xbc f32 [batch, len, heads · head_dim + 2 · groups · state_dim] holds x of all heads,
/// then all B, then all C; steps f32 [batch, len, heads], rates f32 [3, heads] (Mamba's A_log, dt_bias and D), state f32 [slots, heads,
/// state_dim, head_dim], state_dim ≤ 256 → [batch, len, heads, head_dim] of dtype `result`; zeros behind `counts`.
Result<Value> selective_scan(Graph& graph, Value xbc, Value steps, Value rates, Value state, const StatePlace& place,
                             const SelectiveScanOptions& options);

// ---- key/value cache ------------------------------------------------------------------------------------------------

/// cache[b, starts[b] + i] = x[b, i]. x [batch, len, heads, dim], cache a state [batch, capacity, heads, dim] of x's dtype or of q8_0,
/// where every 32 neighbours x become a float16 d = max |x| / 127 and integers round(x / d) (GGUF's block_q8_0; a block that holds a
/// NaN or an infinity becomes NaN); or tokens: x i32 [batch, len], cache i32 [batch, capacity]. starts i32 [batch] (absent: 0). Rows that would lie outside the cache are not written.
/// With `pages`, i32 [batch, table_len], the cache is in pages, [pages, kPageLen, …] (graph/pages.hpp), capacity is table_len · kPageLen,
/// and what would lie in a page that there is not is not written either. Of two rows that write
/// to one position of one page it is not said which stays.
Result<void> cache_append(Graph& graph, Value x, Value starts, Value cache, Value pages = {});

/// RMS norms of each head of the queries and keys before they are turned (Qwen 3, Gemma 3): gains float [head_dim] or both absent, eps and
/// gain_offset as rms_norm has them. `values`, which asks for gains of the others: each head of the values is normed as well, without gains
/// (Gemma 4).
struct HeadNorms {
    Value query_gain, key_gain;
    float eps = 1e-6f, gain_offset = 0;
    bool values = false;
};

/// What a product with the joined weights of query, key and value needs before attention, in one node: of the heads of qkv
/// [batch, len, heads + 2 · kv_heads, head_dim] the first are the query, turned as rope turns them; the next kv_heads, turned, are
/// appended to key_cache and the last, not turned, to value_cache, as cache_append does it. Both caches are states
/// [batch, capacity, kv_heads, head_dim], or with `pages` [pages, kPageLen, kv_heads, head_dim], of qkv's dtype, f32 or f16; table and
/// starts as rope has them, but an absent table turns nothing; `norms` come before the turns → query [batch, len, heads, head_dim].
Result<Value> split_qkv(Graph& graph, Value qkv, Value table, Value starts, Value key_cache, Value value_cache,
                        RopePairing pairing, const HeadNorms& norms = {}, Value pages = {});

/// cache[r, begins[r]:lengths[r]] = old cache[parents[r], begins[r]:lengths[r]] in place. cache a state of cache_append, its batch
/// the rows; parents, lengths and begins (absent: 0) i32 [rows]; the parent of a row lies in its group of `beams` rows (1 to
/// kMaxBeams; rows a multiple of it). Positions below begins[r], which a group may have in common, and those at or above lengths[r]
/// keep what they have. A parent outside its group leaves its row as it is.
inline constexpr std::uint32_t kMaxBeams = 32;
Result<void> cache_reorder(Graph& graph, Value cache, Value parents, Value lengths, std::uint32_t beams,
                           Value begins = {});

// ---- sequences to vectors -------------------------------------------------------------------------------------------

/// y[b, :] = what `pooling` makes of x[b, 0 … lengths[b] − 1, :]. x float [batch, len, dim], lengths i32 [batch], taken as
/// 0 … len (absent: len) → f32 [batch, dim]. What lies behind the length is not read; a sequence without tokens gives zeros.
Result<Value> pool(Graph& graph, Value x, Value lengths, Pooling pooling);

/// y = x / max(‖x‖₂, ~1e-12) over the last dimension: rms_norm with a constant gain. x f32 [… , dim] → the same.
Result<Value> l2_normalize(Graph& graph, Value x);

// ---- choosing tokens ------------------------------------------------------------------------------------------------

/// y = x − log Σ exp(x) over the last dimension. x float [rows, vocab] → f32.
Result<Value> log_softmax(Graph& graph, Value x);
/// The index of the largest element of each row, the lowest on ties; −1 of a row with a NaN. x f32 [rows, vocab] → i32 [rows].
Result<Value> arg_max(Graph& graph, Value x);
/// The k largest of each row in falling order, the lower index first on ties, NaN above everything. x f32 [rows, vocab],
/// 1 ≤ k ≤ min(vocab, 128) → values f32 [rows, k], indices i32 [rows, k].
struct TopKResult {
    Value values, indices;
};
Result<TopKResult> top_k(Graph& graph, Value x, std::uint32_t k);

struct RouteOptions {
    std::uint32_t k = 1;  ///< experts of a row: 1 to min(experts, 32)
    RouteScores scores = RouteScores::softmax;
    bool normalises = false;   ///< the weights of a row are divided by their sum
    float least_sum = 1e-20f;  ///< added to that sum, so that weights of 0 are no NaN
    float scale = 1;           ///< of the weights, after that
    Value bias;  ///< f32 [experts], optional: added to the scores where experts are chosen, and not to their weights
    RouteGroups groups;  ///< count a divisor of the experts, up to 64; kept · experts / count at least k
    float jitter = 0;    ///< of sparse_mixer, which has neither bias nor groups: 0 to 1e3
};
struct RouteResult {
    Value weights, indices;
};
/// The router of a mixture of experts. score = softmax(x) over a row, or sigmoid(x); chosen are the k experts with the largest score +
/// bias, in falling order, the lower index first on ties, NaN above everything; without a bias the order is that of x, which no rounding
/// levels. With groups they are chosen from those `kept` that come first, in the same order, by the sum of what their `best` best experts
/// are chosen by (with two of them the scores, without a bias too). x f32 [rows, experts] → weights f32 [rows, k], the scores of the chosen,
/// and indices i32 [rows, k]. With sparse_mixer the j-th chosen, x_j, has the score exp(x_j) / Σ_i exp(x_i) over the experts i that no earlier
/// choice took and whose logits are near: x_j − x_i ≤ 2 · jitter · max(|x_i|, x_j).
/// Softmax: Shazeer et al. 2017, eq. 3 to 5; normalised: Jiang et al. 2024 (Mixtral), section 2.1. Sigmoid with a bias: DeepSeek-AI 2024
/// (arXiv 2412.19437), eq. 12 to 16. Groups: DeepSeek-AI 2024 (arXiv 2405.04434), section 2.2.2, and of two best experts as in the code of
/// DeepSeek-V3. SparseMixer: Liu et al. 2024 (arXiv 2409.12136), as Phi-3.5-MoE has it.
Result<RouteResult> route_top_k(Graph& graph, Value x, const RouteOptions& options);

/// Which tokens `sample` keeps, in this order. Tokens with equal logits are kept or left together.
struct SampleOptions {
    float temperature =
        1;  ///< 0, or 1e-4 to 1e4: the logits are divided by it. 0: the choice is exactly that of arg_max
    std::uint32_t top_k = 0;  ///< those whose logit is at least the top_k-th largest; 0: all
    float top_p = 1;  ///< of these, those with less than top_p of the probability in larger ones; the likeliest always
    float min_p = 0;  ///< of these, those at least min_p times as probable as the likeliest
};
/// Draws a token of each row from softmax(x / temperature) over the kept tokens (top_p: Holtzman et al. 2020). x f32 [rows,
/// vocab], random a state i32 [rows, 3]: two words of seed, and the number of draws, which each run increments → i32 [rows]. A draw
/// depends on the row's logits, seed and number of draws and on nothing else, neither the row's place nor the device, but for
/// rounding where two tokens tie: Philox4x32-10 (Salmon et al. 2011) is computed, not remembered. A row with a NaN (−1), or
/// of nothing but −∞, gives what arg_max gives. settings: f32 [rows, 4], optional, not with `options`: temperature, top_k, top_p and min_p of
/// each row. Whoever writes them keeps to the ranges of SampleOptions: what lies outside gives some token of the row, and no error.
Result<Value> sample(Graph& graph, Value x, Value random, const SampleOptions& options = {}, Value settings = {});

/// What a generation forbids or forces, in the order of Hugging Face's processors.
struct MaskLogitsOptions {
    std::vector<std::int32_t> banned;  ///< never chosen
    std::int32_t forced_first = -1;    ///< the only one allowed after the start token; −1: any
    std::int32_t forced_last = -1;     ///< the only one allowed in the last step; −1: any
    std::int32_t last_start = -1;      ///< value of `starts` in the last step
    std::vector<std::int32_t> late;    ///< not chosen in a row's first late_steps steps: the end of a text, say
    std::uint32_t late_steps = 0;
    Value begins;  ///< i32 [rows], the position of a row's first token that is not given; absent: 1, behind the start
    std::uint32_t ngram = 0;  ///< > 0: never chosen is what would make a run of so many tokens come twice in its row
    std::uint32_t source_ngram = 0;  ///< > 0: nor what would make a run of so many tokens come that its source has
    Value sequences;  ///< with either: i32 [rows, capacity], a row's tokens at positions 0 … starts[row]
    Value source;     ///< with source_ngram: i32 [sources, len], −1 behind the end; rows / sources rows have one each
};
/// y = x with −∞ for what is forbidden, and 0 for a forced token with −∞ for all others.
/// x f32 [rows, vocab], starts i32 [rows] (position of the step's input token). A step's graph keeps `sequences` with cache_append
/// and, in a beam search, cache_reorder. Tokens outside the vocabulary are never chosen, and forbid nothing.
Result<Value> mask_logits(Graph& graph, Value x, Value starts, const MaskLogitsOptions& options);

struct TimestampOptions {
    std::int32_t first = 0;            ///< it and all above it stand for times, in order
    std::int32_t eos = 0;              ///< ends a row; below `first`, as all text
    std::int32_t latest_initial = -1;  ///< ≥ 0: the first token is at most first + latest_initial
};
/// y = x with −∞ for what Whisper's rules on timestamps forbid (Radford et al. 2022, section 4.5; Hugging Face's
/// WhisperTimeStampLogitsProcessor). Of a row's tokens from begins[row] on: the first is a time; times come in pairs, but for the
/// first and one before the end; a time is later than the one before, or the same as the first of its pair. Where the times that are
/// left are likelier together than the likeliest other token, it is one of them.
/// x f32 [rows, vocab], starts, begins i32 [rows], sequences i32 [rows, capacity] as of mask_logits.
Result<Value> mask_timestamps(Graph& graph, Value x, Value starts, Value begins, Value sequences,
                              const TimestampOptions& options);

/// Adds tokens to what `penalize` reads. tokens i32 [rows] or [rows, len], counts a state i32 [rows, vocab], all 0 before the
/// first token: an element holds how often its token was generated (origin generated adds 1 for each), and bit kInPrompt where
/// the prompt has it (origin prompt sets it). lengths i32 [rows], optional: only the first lengths[row] tokens of a row. A token
/// outside 0 … vocab−1 is passed over.
Result<void> count_tokens(Graph& graph, Value tokens, Value counts, TokenOrigin origin, Value lengths = {});

struct PenalizeOptions {
    float repetition =
        1;  ///< > 0; 1: none. Keskar et al. 2019, section 4.1, as Hugging Face has it: prompt and generated tokens
    float presence = 0;   ///< 0: none. OpenAI's definition: generated tokens only
    float frequency = 0;  ///< 0: none. likewise
    Value counts;         ///< a state of count_tokens; absent: all three must be none
    Value bias;           ///< f32 [vocab], or of each row its own, [rows, vocab]; optional
    /// f32 [rows, 3], optional, with counts: repetition, presence and frequency of each row; the fields must be none then.
    Value settings;
    /// i32 [rows, allowed_words(vocab)], optional: a token whose bit of its row is 0 gets −∞.
    Value allowed;
};
/// Changes logits in this order, that of vLLM:
///   1. x + bias;
///   2. for a token in the prompt or generated: divided by `repetition` where positive, multiplied with it where not;
///   3. for a token generated n ≥ 1 times: − presence − frequency · n.
/// x f32 [rows, vocab] → f32 [rows, vocab]. −∞ and NaN stay.
Result<Value> penalize(Graph& graph, Value x, const PenalizeOptions& options);

/// A phrase, and what is added to the logit of the token that would complete it; −∞ forbids it.
struct SequenceBias {
    std::vector<std::int32_t> tokens;  ///< one or more
    float bias = 0;
    friend bool operator==(const SequenceBias&, const SequenceBias&) = default;
};
/// y = x + the biases of the phrases that a token would complete, in their order, those of one token first: behind the n − 1 tokens
/// before, and at least one more, which is Hugging Face's rule (SequenceBiasLogitsProcessor); a phrase of one token always. x f32 [rows,
/// vocab], starts i32 [rows], sequences i32 [rows, capacity] as of mask_logits, asked for where a phrase has several tokens → f32 [rows,
/// vocab]. Errors: InvalidArgument (no phrases, one without tokens or with one outside 0 … vocab−1, a bias that is no number),
/// UnsupportedDtype, ShapeMismatch.
Result<Value> bias_sequences(Graph& graph, Value x, Value starts, std::span<const SequenceBias> phrases,
                             Value sequences = {});

/// Greedy choice of the next token, for rows of a batch. All are states but `next` (i32 [rows], from arg_max):
/// tokens i32 [rows, 1] (becomes the next step's input), starts i32 [rows] (incremented), finished i32 [rows] (set when eos
/// was chosen; a finished row emits pad), history i32 [capacity, rows] (history[starts] = the chosen token).
struct GreedyStates {
    Value tokens, starts, finished, history;
};
/// What else a row's steps may have. given i32 [rows, positions], optional: where given[row, starts[row] + 1] ≥ 0, it is the token
/// instead, and finishes nothing. log_probs f32 [rows, vocab] and scores, a state f32 [capacity, rows], both or none:
/// scores[starts] = log_probs of the chosen token, 0 for one that was given or is padding.
struct GreedyExtras {
    Value given, log_probs, scores;
};
Result<void> greedy_step(Graph& graph, Value next, const GreedyStates& states, std::int32_t eos, std::int32_t pad,
                         const GreedyExtras& extras = {});

/// One step of beam search for `batch` sequences with `beams` rows each (rows = batch · beams), with the rules of Hugging
/// Face generate (transformers 4.56). All are states but the two candidates.
struct BeamStates {
    Value tokens;   ///< i32 [rows, 1]: the next step's input
    Value starts;   ///< i32 [rows]: its position; incremented
    Value parents;  ///< i32 [rows]: the row each running hypothesis continues, for cache_reorder
    Value
        running_scores;  ///< f32 [rows]: sums of log-probabilities; start with 0 for the first beam, −1e9 for the others
    Value token_history;   ///< i32 [max_steps or more, rows]: token chosen at each step
    Value parent_history;  ///< as token_history: row it continues
    Value final_scores;    ///< f32 [rows]: of finished hypotheses, length-penalised, best first; start with −1e9
    Value final_steps;     ///< i32 [rows]: number of tokens of that hypothesis; 0: none
    Value final_rows;      ///< i32 [rows]: the row whose history precedes its last token
    Value final_tokens;    ///< i32 [rows]: its last token
    Value
        state;  ///< i32 [batch + 3 + n]: 1 for sequences that can improve, `done`, `step`, `limit`: tokens that this search
                ///< generates at most, n further end tokens
};
struct BeamOptions {
    std::uint32_t beams = 1;      ///< 1 to kMaxBeams
    std::uint32_t max_steps = 1;  ///< of any search's limit
    std::int32_t eos = 0;
    float length_penalty = 1;
    EarlyStopping early_stopping = EarlyStopping::heuristic;
};
/// candidate_scores f32 [rows, k], candidate_tokens i32 [rows, k]: the k best log-probabilities of each row, k ≥
/// min((2 + n) · beams, vocab): as many are looked at that enough are left that do not end.
Result<void> beam_step(Graph& graph, Value candidate_scores, Value candidate_tokens, const BeamStates& states,
                       const BeamOptions& options);

}  // namespace vkformer::graph
