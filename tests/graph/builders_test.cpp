// SPDX-License-Identifier: MIT
#include "graph/builders.hpp"

#include <limits>

#include "support/builder_case.hpp"

namespace vkformer::tests {
namespace {

using graph::Activation;
using graph::AttentionMask;
using graph::Graph;
using graph::Value;

TEST_CASE("builders infer shapes and dtypes", "[builders]") {
    Inputs in;
    Graph& g = in.graph;
    const auto check = [&](Result<Value> value, DType dtype, const Shape& shape) {
        const Value made = must(std::move(value));
        CHECK(to_string(g.shape(made)) == to_string(shape));
        CHECK(g.dtype(made) == dtype);
    };
    check(embedding(g, in(i32, {2, 5}), in(f16, {11, 6})), f16, {2, 5, 6});
    check(embedding(g, in(i32, {}), in(f32, {11, 6})), f32, {6});
    check(embedding(g, in(i32, {3}), in(f32, {11, 6}), 1, f16), f16, {3, 6});
    check(positional_embedding(g, in(f16, {2, 5, 6}), in(f32, {9, 6}), in(i32, {2})), f16, {2, 5, 6});
    check(linear(g, in(f16, {2, 5, 6}), in(f16, {7, 6}), in(f16, {7})), f16, {2, 5, 7});
    check(linear(g, in(f16, {6}), in(f16, {7, 6}), {}, f32), f32, {7});
    check(activate(g, in(f16, {2, 5}), Activation::silu), f16, {2, 5});
    check(soft_cap(g, in(f16, {2, 5}), 30), f16, {2, 5});
    check(relative_bias(g, in(f32, {3, 9}), {}, 4, 7), f32, {1, 3, 4, 7});
    check(relative_bias(g, in(f32, {3, 9}), in(i32, {2}), 1, 7), f32, {2, 3, 1, 7});
    check(add(g, in(f32, {2, 5}), in(f32, {2, 5})), f32, {2, 5});
    check(layer_norm(g, in(f32, {2, 5}), in(f32, {5}), {}, 1e-5f), f32, {2, 5});

    const Value query = in(f16, {2, 4, 6, 8}), key = in(f16, {2, 9, 3, 8}), value = in(f16, {2, 9, 3, 5});
    check(attention_scores(g, query, key, 0.5f), f32, {2, 6, 4, 9});
    check(masked_softmax(g, in(f32, {2, 6, 4, 9}), {.additive = in(f32, {1, 6, 1, 9})}), f32, {2, 6, 4, 9});
    check(weighted_sum(g, in(f32, {2, 6, 4, 9}), value), f16, {2, 4, 6, 5});
    check(attention(g, query, key, value, {.key_lengths = in(i32, {2}), .starts = in(i32, {2})}, 1), f16, {2, 4, 6, 5});
    check(decode_attention(g, in(f16, {2, 1, 6, 8}), key, value, {.causal = true}, 1, 4), f16, {2, 1, 6, 5});
    const auto& decode = std::get<graph::DecodeAttention>(g.nodes().back().op);
    CHECK(to_string(g.shape(decode.partial)) == "[12, 22]");  // 9 keys in 3 splits; 5 values, m, sum; their count
    CHECK(g.dtype(decode.partial) == f32);
    check(decode_attention(g, in(f16, {2, 1, 6, 8}), key, value, {}, 1, 4), f16,
          {2, 1, 6, 5});  // with the same partial
    CHECK(std::get<graph::DecodeAttention>(g.nodes().back().op).partial == decode.partial);

    check(pool(g, in(f16, {3, 5, 11}), in(i32, {3}), graph::Pooling::mean), f32, {3, 11});
    check(log_softmax(g, in(f16, {3, 11})), f32, {3, 11});
    check(arg_max(g, in(f32, {3, 11})), i32, {3});
    const auto top = must(top_k(g, in(f32, {3, 11}), 11));
    CHECK(to_string(g.shape(top.values)) == "[3, 11]");
    CHECK(g.dtype(top.indices) == i32);
    check(penalize(g, in(f32, {3, 11}), {.repetition = 2, .counts = in(i32, {3, 11}), .bias = in(f32, {11})}), f32,
          {3, 11});
    const graph::SequenceBias phrases[] = {{.tokens = {10}, .bias = 1}, {.tokens = {3, 4}, .bias = -1}};
    check(bias_sequences(g, in(f32, {3, 11}), in(i32, {3}), phrases, in(i32, {3, 7})), f32, {3, 11});
    check(mask_timestamps(g, in(f32, {3, 11}), in(i32, {3}), in(i32, {3}), in(i32, {3, 7}), {.first = 6, .eos = 5}),
          f32, {3, 11});
    check(mask_logits(g, in(f32, {3, 11}), in(i32, {3}), {.banned = {10}, .forced_last = 0, .last_start = 4}), f32,
          {3, 11});
}

TEST_CASE("every float operand has one dtype", "[builders]") {
    Inputs in;
    CHECK_REFUSED(in, linear(in.graph, in(f16, {4, 6}), in(f32, {7, 6})), kDtype,
                  "linear: weight has dtype f32, expected f16 (as x)");
    CHECK_REFUSED(in, linear(in.graph, in(f32, {4, 6}), in(f32, {7, 6}), in(f16, {7})), kDtype,
                  "linear: bias has dtype f16, expected f32 (as x)");
    CHECK_REFUSED(in, linear(in.graph, in(i32, {4, 6}), in(f32, {7, 6})), kDtype,
                  "linear: x has dtype i32, expected f32 or f16");
    CHECK_REFUSED(in, linear(in.graph, in(f32, {4, 6}), in(f32, {7, 6}), {}, f16), kDtype,
                  "linear: the result has dtype f16, expected f32 or that of x, f32");
    CHECK_REFUSED(in, add(in.graph, in(f32, {4}), in(f16, {4})), kDtype, "add: b has dtype f16, expected f32 (as a)");
    CHECK_REFUSED(in, layer_norm(in.graph, in(f16, {4}), in(f32, {4}), {}, 0), kDtype,
                  "layer_norm: gain has dtype f32, expected f16 (as x)");
    CHECK_REFUSED(in, arg_max(in.graph, in(f16, {3, 4})), kDtype, "arg_max: x has dtype f16, expected f32");
}

TEST_CASE("embeddings refuse what does not fit", "[builders]") {
    Inputs in;
    CHECK_REFUSED(in, embedding(in.graph, in(f32, {4}), in(f32, {5, 6})), kDtype,
                  "embedding: tokens has dtype f32, expected i32");
    CHECK_REFUSED(in, embedding(in.graph, in(i32, {4}), in(f32, {5})), kShape,
                  "embedding: table has shape [5], expected 2 dimensions [vocab, dim]");
    CHECK_REFUSED(in, embedding(in.graph, in(i32, {1, 2, 3, 4}), in(f32, {5, 6})), kShape,
                  "embedding: tokens has shape [1, 2, 3, 4], expected at most 3 dimensions");
    CHECK_REFUSED(in, embedding(in.graph, in(i32, {4}), in(f32, {5, 6}), 1, i32), kDtype,
                  "embedding: the result has dtype i32, expected f32 or f16");
    CHECK_REFUSED(in, embedding(in.graph, in(i32, {4}), in(i32, {5, 6})), kDtype,
                  "embedding: table has dtype i32, expected f32 or f16");
    CHECK_REFUSED(in, embedding(in.graph, {}, in(f32, {5, 6})), kInvalid, "embedding: tokens is absent");
    CHECK_REFUSED(in, embedding(in.graph, Value{1000}, in(f32, {5, 6})), kInvalid,
                  "embedding: tokens is no tensor of this graph");
    // 2^31 elements: an index of 31 bits no longer reaches the last one
    CHECK_REFUSED(in, embedding(in.graph, in(i32, {1 << 20}), in(f32, {5, 2048})), kInvalid,
                  "embedding: shape [1048576, 2048] must have 1 to 2147483647 elements");

    CHECK_REFUSED(in, relative_bias(in.graph, in(f32, {4, 6}), {}, 3, 3), kShape,
                  "relative_bias: table has shape [4, 6], expected an odd number of distances, 0 in the middle");
    CHECK_REFUSED(in, positional_embedding(in.graph, in(f32, {4, 6}), in(f32, {5, 6})), kShape,
                  "positional_embedding: x has shape [4, 6], expected 3 dimensions [batch, len, dim]");
    CHECK_REFUSED(in, positional_embedding(in.graph, in(f32, {2, 4, 6}), in(f32, {5, 7})), kShape,
                  "positional_embedding: table has shape [5, 7], expected [5, 6] (dim of x)");
    CHECK_REFUSED(in, positional_embedding(in.graph, in(f16, {2, 4, 6}), in(f16, {5, 6})), kDtype,
                  "positional_embedding: table has dtype f16, expected f32");
    CHECK_REFUSED(in, positional_embedding(in.graph, in(f32, {2, 4, 6}), in(f32, {5, 6}), in(i32, {3})), kShape,
                  "positional_embedding: starts has shape [3], expected [2] (batch of x)");
}

TEST_CASE("a table of positions that no graph could hold is not even made", "[builders]") {
    const TensorData table = graph::sinusoidal_table(std::uint64_t{1} << 40, 4, graph::SinusoidLayout::halves);
    CHECK(table.bytes.empty());
    Graph g;
    CHECK_FALSE(g.weight("positions", table, f32));
}

TEST_CASE("linear, elementwise ops and layer_norm refuse what does not fit", "[builders]") {
    Inputs in;
    CHECK_REFUSED(in, linear(in.graph, in(f32, {4, 6}), in(f32, {7, 5})), kShape,
                  "linear: weight has shape [7, 5], expected [7, 6] (in of x)");
    CHECK_REFUSED(in, linear(in.graph, in(f32, {4, 6}), in(f32, {7, 6, 1, 6})), kShape,
                  "linear: weight has shape [7, 6, 1, 6], expected 2 dimensions [out, in]");
    CHECK_REFUSED(in, linear(in.graph, in(f32, {4, 6}), in(f32, {4, 7, 6})), kShape,
                  "linear: x has shape [4, 6], expected 3 dimensions [batch, rows, in]");
    CHECK_REFUSED(in, linear(in.graph, in(f32, {2, 3, 6}), in(f32, {4, 7, 6})), kShape,
                  "linear: x has shape [2, 3, 6], expected [4, 3, 6] (batch of weight, or 1)");
    CHECK_REFUSED(in, linear(in.graph, in(f32, {4, 3, 6}), in(f32, {4, 7, 5})), kShape,
                  "linear: weight has shape [4, 7, 5], expected [4, 7, 6] (in of x)");
    CHECK_REFUSED(in, linear(in.graph, in(f32, {4, 6}), in(f32, {7, 6}), in(f32, {6})), kShape,
                  "linear: bias has shape [6], expected [7] (out of weight)");
    CHECK_REFUSED(in, linear(in.graph, in(f32, {}), in(f32, {7, 6})), kShape,
                  "linear: x has shape [], expected at least 1 dimension");
    CHECK_REFUSED(in, activate(in.graph, in(f32, {4}), Activation::none), kInvalid,
                  "activate: the activation is none, expected a function");
    CHECK_REFUSED(in, add(in.graph, in(f32, {4, 6}), in(f32, {6})), kShape,
                  "add: b has shape [6], expected [4, 6] (as a)");
    CHECK_REFUSED(in, layer_norm(in.graph, in(f32, {4, 6}), in(f32, {4}), {}, 0), kShape,
                  "layer_norm: gain has shape [4], expected [6] (dim of x)");
    CHECK_REFUSED(in, layer_norm(in.graph, in(f32, {4, 6}), in(f32, {6}), in(f32, {5}), 0), kShape,
                  "layer_norm: bias has shape [5], expected [6] (dim of x)");
    CHECK_REFUSED(in, layer_norm(in.graph, in(f32, {4, 6}), in(f32, {6}), {}, -1), kInvalid,
                  "layer_norm: eps is -1.000000, expected ≥ 0");
    CHECK_REFUSED(in, layer_norm(in.graph, in(f32, {4, 6}), in(f32, {6}), {}, std::numeric_limits<float>::quiet_NaN()),
                  kInvalid, "layer_norm: eps is nan, expected ≥ 0");
}

TEST_CASE("attention refuses what does not fit", "[builders]") {
    Inputs in;
    Graph& g = in.graph;
    const Value query = in(f32, {1, 4, 8, 128}), key = in(f32, {1, 512, 8, 128}), value = in(f32, {1, 512, 8, 64});
    CHECK_REFUSED(in, attention(g, query, in(f32, {1, 512, 8, 96}), value, {}, 1), kShape,
                  "attention: key has shape [1, 512, 8, 96], expected [1, 512, 8, 128] (head_dim of query)");
    CHECK_REFUSED(in, attention(g, query, in(f32, {2, 512, 8, 128}), value, {}, 1), kShape,
                  "attention: key has shape [2, 512, 8, 128], expected [1, 512, 8, 128] (batch of query)");
    CHECK_REFUSED(
        in, attention(g, query, key, in(f32, {1, 511, 8, 64}), {}, 1), kShape,
        "attention: value has shape [1, 511, 8, 64], expected [1, 512, 8, 64] (batch, key_len and kv_heads of key)");
    CHECK_REFUSED(in, attention(g, query, in(f32, {1, 512, 3, 128}), in(f32, {1, 512, 3, 64}), {}, 1), kShape,
                  "attention: heads is 8, expected a multiple of kv_heads, 3");
    CHECK_REFUSED(in, attention(g, in(f32, {1, 4, 8, 577}), in(f32, {1, 5, 8, 577}), in(f32, {1, 5, 8, 4}), {}, 1),
                  kInvalid, "attention: head_dim is 577, expected 1 to 576");
    CHECK_REFUSED(in, attention(g, query, key, in(f32, {1, 512, 8, 600}), {}, 1), kInvalid,
                  "attention: value_dim is 600, expected 1 to 576");
    CHECK_REFUSED(in, attention(g, in(f32, {4, 8, 128}), key, value, {}, 1), kShape,
                  "attention: query has shape [4, 8, 128], expected 4 dimensions [batch, query_len, heads, head_dim]");
    CHECK_REFUSED(in, attention(g, query, in(f16, {1, 512, 8, 128}), value, {}, 1), kDtype,
                  "attention: key has dtype f16, expected f32 (as query)");
    CHECK_REFUSED(in, attention(g, query, key, in(f16, {1, 512, 8, 64}), {}, 1), kDtype,
                  "attention: value has dtype f16, expected f32 (as key)");
    CHECK_REFUSED(in, attention_scores(g, query, in(f32, {1, 9, 8, 127}), 1), kShape,
                  "attention_scores: key has shape [1, 9, 8, 127], expected [1, 9, 8, 128] (head_dim of query)");
    CHECK_REFUSED(
        in, weighted_sum(g, in(f32, {1, 8, 4, 511}), value), kShape,
        "weighted_sum: value has shape [1, 512, 8, 64], expected [1, 511, 8, 64] (batch and key_len of weights)");
    CHECK_REFUSED(in, weighted_sum(g, in(f32, {1, 7, 4, 512}), value), kShape,
                  "weighted_sum: heads is 7, expected a multiple of kv_heads, 8");
    CHECK_REFUSED(in, weighted_sum(g, in(f16, {1, 8, 4, 512}), value), kDtype,
                  "weighted_sum: weights has dtype f16, expected f32");
    // scores of 2^31 elements
    CHECK_REFUSED(in, attention_scores(g, in(f32, {1, 65536, 1, 8}), in(f32, {1, 32768, 1, 8}), 1), kInvalid,
                  "attention_scores: shape [1, 1, 65536, 32768] must have 1 to 2147483647 elements");
}

TEST_CASE("masks refuse what does not fit", "[builders]") {
    Inputs in;
    Graph& g = in.graph;
    const Value scores = in(f32, {2, 3, 4, 5});
    CHECK_REFUSED(in, masked_softmax(g, in(f16, {2, 3, 4, 5})), kDtype,
                  "masked_softmax: scores has dtype f16, expected f32");
    CHECK_REFUSED(in, masked_softmax(g, scores, {.key_lengths = in(i32, {3})}), kShape,
                  "masked_softmax: key_lengths has shape [3], expected [2] (batch)");
    CHECK_REFUSED(in, masked_softmax(g, scores, {.key_lengths = in(f32, {2})}), kDtype,
                  "masked_softmax: key_lengths has dtype f32, expected i32");
    CHECK_REFUSED(in, masked_softmax(g, scores, {.starts = in(i32, {2, 1})}), kShape,
                  "masked_softmax: starts has shape [2, 1], expected [2] (batch)");
    CHECK_REFUSED(in, masked_softmax(g, scores, {.additive = in(f32, {2, 2, 4, 5})}), kShape,
                  "masked_softmax: additive mask has shape [2, 2, 4, 5], expected [2, 3, 4, 5] "
                  "(batch, heads and query_len may also be 1)");
    CHECK_REFUSED(in, masked_softmax(g, scores, {.additive = in(f32, {1, 1, 1, 1})}), kShape,
                  "masked_softmax: additive mask has shape [1, 1, 1, 1], expected [1, 1, 1, 5] "
                  "(batch, heads and query_len may also be 1)");
    CHECK_REFUSED(in, masked_softmax(g, scores, {.additive = in(f16, {1, 1, 1, 5})}), kDtype,
                  "masked_softmax: additive mask has dtype f16, expected f32");
    CHECK_REFUSED(
        in, masked_softmax(g, scores, {.additive = in(f32, {4, 5})}), kShape,
        "masked_softmax: additive mask has shape [4, 5], expected 4 dimensions [batch, heads, query_len, key_len]");
}

TEST_CASE("sinks refuse what does not fit", "[builders]") {
    Inputs in;
    const Value query = in(f32, {2, 1, 6, 8}), key = in(f32, {2, 5, 3, 8});
    const Value sinks = in(f32, {6});
    CHECK(attention(in.graph, query, key, key, {.sinks = sinks}, 1));
    CHECK(decode_attention(in.graph, query, key, key, {.sinks = sinks}, 1));
    CHECK_REFUSED(in, attention(in.graph, query, key, key, {.sinks = in(f32, {3})}, 1), kShape,
                  "attention: sinks has shape [3], expected [6] (heads of query)");
    CHECK_REFUSED(in, attention(in.graph, query, key, key, {.sinks = in(f16, {6})}, 1), kDtype,
                  "attention: sinks has dtype f16, expected f32");
    CHECK_REFUSED(in,
                  decode_attention(in.graph, query, key, key, {.additive = in(f32, {1, 1, 1, 5}), .sinks = sinks}, 1),
                  kInvalid, "decode_attention: expected an additive mask or sinks, not both");
    CHECK(masked_softmax(in.graph, in(f32, {2, 6, 1, 5}), {.sinks = sinks}));
    CHECK_REFUSED(in,
                  masked_softmax(in.graph, in(f32, {2, 6, 1, 5}), {.additive = in(f32, {1, 1, 1, 5}), .sinks = sinks}),
                  kInvalid, "masked_softmax: expected an additive mask or sinks, not both");
    CHECK_REFUSED(in, masked_softmax(in.graph, in(f32, {2, 5, 1, 5}), {.sinks = sinks}), kShape,
                  "masked_softmax: sinks has shape [6], expected [5] (heads of query)");
}

TEST_CASE("decode_attention refuses what does not fit", "[builders]") {
    Inputs in;
    const Value key = in(f32, {2, 9, 3, 8}), value = in(f32, {2, 9, 3, 5});
    CHECK_REFUSED(in, decode_attention(in.graph, in(f32, {2, 2, 6, 8}), key, value, {}, 1), kShape,
                  "decode_attention: query has shape [2, 2, 6, 8], expected [2, 1, 6, 8] (one query per sequence)");
    CHECK_REFUSED(in, decode_attention(in.graph, in(f32, {2, 1, 6, 8}), key, value, {}, 1, 0), kInvalid,
                  "decode_attention: split_keys is 0, expected 1 to 2147483647");
    // the partial results are too large, the result is not
    CHECK_REFUSED(in,
                  decode_attention(in.graph, in(f32, {1, 1, 1 << 24, 1}), in(f32, {1, 1 << 10, 1, 1}),
                                   in(f32, {1, 1 << 10, 1, 2}), {}, 1, 1),
                  kInvalid,
                  "decode_attention.partial_16777216x32x2: shape [16777216, 129] must have 1 to 2147483647 elements");
}

TEST_CASE("caches refuse what does not fit", "[builders]") {
    Inputs in;
    Graph& g = in.graph;
    const Value cache = in.state(f16, {4, 9, 2, 5});
    must(cache_append(g, in(f16, {4, 1, 2, 5}), in(i32, {4}), cache));
    CHECK_REFUSED(in, cache_append(g, in(f16, {3, 1, 2, 5}), {}, cache), kShape,
                  "cache_append: cache has shape [4, 9, 2, 5], expected [3, 9, 2, 5] (batch, heads and dim of x)");
    CHECK_REFUSED(in, cache_append(g, in(f32, {4, 1, 2, 5}), {}, cache), kDtype,
                  "cache_append: cache has dtype f16, expected f32 (as x)");
    const Value input = in(f16, {4, 9, 2, 5});
    CHECK_REFUSED(in, cache_append(g, in(f16, {4, 1, 2, 5}), {}, input), kInvalid,
                  "cache_append: cache (" + g.tensor(input).name + ") is no state, but the op updates it");
    CHECK_REFUSED(in, cache_append(g, cache, {}, cache), kInvalid,
                  "cache_append: x and cache are the same tensor (state0)");
    CHECK_REFUSED(in, cache_append(g, in(i32, {4, 1, 2, 5}), {}, cache), kShape,
                  "cache_append: x has shape [4, 1, 2, 5], expected 2 dimensions [batch, len]");
    CHECK_REFUSED(in, cache_append(g, in(i32, {4, 1}), {}, cache), kDtype,
                  "cache_append: cache has dtype f16, expected i32 (as x)");
    CHECK_REFUSED(in, cache_append(g, in(f16, {4, 1, 2, 5}), in(i32, {3}), cache), kShape,
                  "cache_append: starts has shape [3], expected [4] (batch of x)");

    const Value values = in.state(f16, {4, 9, 2, 5});
    const auto split = [&](Value qkv, Value table, Value keys) {
        return split_qkv(g, qkv, table, {}, keys, values, graph::RopePairing::halves);
    };
    must(split(in(f16, {4, 1, 5, 5}), in(f32, {9, 4}), cache));
    CHECK_REFUSED(in, split(in(f16, {4, 1, 4, 5}), {}, cache), kShape,
                  "split_qkv: qkv has shape [4, 1, 4, 5], expected more than 4 heads (twice those of key_cache)");
    CHECK_REFUSED(in, split(in(f16, {4, 1, 5, 6}), {}, cache), kShape,
                  "split_qkv: key_cache has shape [4, 9, 2, 5], expected [4, 9, 2, 6] (batch and dim of qkv)");
    CHECK_REFUSED(in, split(in(f32, {4, 1, 5, 5}), {}, cache), kDtype,
                  "split_qkv: key_cache has dtype f16, expected f32 (as qkv)");
    CHECK_REFUSED(in, split(in(f16, {4, 1, 5, 5}), in(f32, {9, 6}), cache), kShape,
                  "split_qkv: table has shape [9, 6], expected an even rotary_dim of at most 5 (head_dim of qkv)");
    CHECK_REFUSED(in, split(in(f16, {4, 1, 5, 5}), {}, values), kInvalid,
                  "split_qkv: key_cache and value_cache are the same tensor (" + g.tensor(values).name + ")");
    CHECK_REFUSED(in, split(in(f16, {4, 1, 5, 5}), {}, input), kInvalid,
                  "split_qkv: key_cache (" + g.tensor(input).name + ") is no state, but the op updates it");

    const auto normed = [&](Value query_gain, Value key_gain, float eps) {
        return split_qkv(g, in(f16, {4, 1, 5, 5}), {}, {}, cache, values, graph::RopePairing::halves,
                         {.query_gain = query_gain, .key_gain = key_gain, .eps = eps});
    };
    const Value gain = in(f16, {5});
    must(normed(gain, gain, 0));
    CHECK_REFUSED(in, normed(gain, {}, 0), kInvalid, "split_qkv: key_gain is absent");
    CHECK_REFUSED(in, normed(in(f32, {5}), gain, 0), kDtype,
                  "split_qkv: query_gain has dtype f32, expected f16 (as qkv)");
    CHECK_REFUSED(in, normed(gain, in(f16, {4}), 0), kShape,
                  "split_qkv: key_gain has shape [4], expected [5] (dim of qkv)");
    CHECK_REFUSED(in, normed(gain, gain, -1), kInvalid, "split_qkv: eps is -1.000000, expected ≥ 0");

    const Value parents = in(i32, {4}), lengths = in(i32, {4});
    must(cache_reorder(g, cache, parents, lengths, 2));
    CHECK_REFUSED(in, cache_reorder(g, cache, in(i32, {3}), lengths, 2), kShape,
                  "cache_reorder: parents has shape [3], expected [4] (rows of cache)");
    CHECK_REFUSED(in, cache_reorder(g, cache, parents, in(i32, {1}), 2), kShape,
                  "cache_reorder: lengths has shape [1], expected [4] (rows of cache)");
    CHECK_REFUSED(in, cache_reorder(g, cache, parents, lengths, 2, in(i32, {2})), kShape,
                  "cache_reorder: begins has shape [2], expected [4] (rows of cache)");
    CHECK_REFUSED(in, cache_reorder(g, cache, parents, lengths, 2, in(f32, {4})), kDtype,
                  "cache_reorder: begins has dtype f32, expected i32");
    CHECK_REFUSED(in, cache_reorder(g, cache, parents, lengths, 3), kShape,
                  "cache_reorder: cache has shape [4, 9, 2, 5], expected a multiple of beams, 3, as its rows");
    CHECK_REFUSED(in, cache_reorder(g, cache, parents, lengths, 33), kInvalid,
                  "cache_reorder: beams is 33, expected 1 to 32");
    CHECK_REFUSED(in, cache_reorder(g, input, parents, lengths, 2), kInvalid,
                  "cache_reorder: cache (" + g.tensor(input).name + ") is no state, but the op updates it");
}

TEST_CASE("the choice of tokens refuses what does not fit", "[builders]") {
    Inputs in;
    Graph& g = in.graph;
    const Value x = in(f32, {3, 7}), starts = in(i32, {3});
    CHECK_REFUSED(in, pool(g, in(f32, {3, 7}), {}, graph::Pooling::max), kShape,
                  "pool: x has shape [3, 7], expected 3 dimensions [batch, len, dim]");
    CHECK_REFUSED(in, pool(g, in(f32, {3, 2, 7}), in(i32, {2}), graph::Pooling::max), kShape,
                  "pool: lengths has shape [2], expected [3] (batch of x)");
    CHECK_REFUSED(in, l2_normalize(g, in(f16, {3, 7})), kDtype, "l2_normalize: x has dtype f16, expected f32");
    CHECK_REFUSED(in, log_softmax(g, in(f32, {3, 2, 7})), kShape,
                  "log_softmax: x has shape [3, 2, 7], expected 2 dimensions [rows, vocab]");
    CHECK_REFUSED(in, top_k(g, x, 8), kInvalid, "top_k: k is 8, expected 1 to 7");
    CHECK_REFUSED(in, top_k(g, x, 0), kInvalid, "top_k: k is 0, expected 1 to 7");
    CHECK_REFUSED(in, top_k(g, in(f32, {3, 1000}), 129), kInvalid, "top_k: k is 129, expected 1 to 128");
    CHECK_REFUSED(in, mask_logits(g, x, starts, {.banned = {1, 7}}), kInvalid,
                  "mask_logits: banned token is 7, expected 0 to 6");
    CHECK_REFUSED(in, mask_logits(g, x, starts, {.forced_first = -2}), kInvalid,
                  "mask_logits: forced_first token is -2, expected 0 to 6");
    CHECK_REFUSED(in, mask_logits(g, x, starts, {.forced_last = 99, .last_start = 1}), kInvalid,
                  "mask_logits: forced_last token is 99, expected 0 to 6");
    CHECK_REFUSED(in, mask_logits(g, x, starts, {.forced_last = 2}), kInvalid,
                  "mask_logits: forced_last needs last_start, which is -1");
    CHECK_REFUSED(in, mask_logits(g, x, starts, {.late = {7}, .late_steps = 1}), kInvalid,
                  "mask_logits: late token is 7, expected 0 to 6");
    CHECK_REFUSED(in, mask_logits(g, x, starts, {.ngram = 2}), kInvalid, "mask_logits: sequences is absent");
    CHECK_REFUSED(in, mask_logits(g, x, starts, {.ngram = 2, .sequences = in(i32, {2, 9})}), kShape,
                  "mask_logits: sequences has shape [2, 9], expected [3, 9] (rows of x)");
    CHECK_REFUSED(in, mask_logits(g, x, starts, {.begins = in(i32, {4})}), kShape,
                  "mask_logits: begins has shape [4], expected [3] (rows of x)");
    CHECK_REFUSED(in, mask_logits(g, x, starts, {.source_ngram = 2}), kInvalid, "mask_logits: sequences is absent");
    CHECK_REFUSED(
        in, mask_logits(g, x, starts, {.source_ngram = 2, .sequences = in(i32, {3, 9}), .source = in(i32, {2, 9})}),
        kShape, "mask_logits: source has shape [2, 9], expected a divisor of the 3 rows of x as its rows");
    const Value sequences = in(i32, {3, 9});
    CHECK_REFUSED(in, mask_timestamps(g, x, starts, in(i32, {2}), sequences, {.first = 5}), kShape,
                  "mask_timestamps: begins has shape [2], expected [3] (rows of x)");
    CHECK_REFUSED(in, mask_timestamps(g, x, starts, starts, in(i32, {2, 9}), {.first = 5}), kShape,
                  "mask_timestamps: sequences has shape [2, 9], expected [3, 9] (rows of x)");
    CHECK_REFUSED(in, mask_timestamps(g, x, starts, starts, sequences, {.first = 7}), kInvalid,
                  "mask_timestamps: first token is 7, expected 0 to 6");
    CHECK_REFUSED(in, mask_timestamps(g, x, starts, starts, sequences, {.first = 5, .eos = 5}), kInvalid,
                  "mask_timestamps: eos token is 5, expected 0 to 4");
    CHECK_REFUSED(in, mask_logits(g, x, in(i32, {2}), {}), kShape,
                  "mask_logits: starts has shape [2], expected [3] (rows of x)");
}

TEST_CASE("penalize and count_tokens refuse what does not fit", "[builders]") {
    Inputs in;
    Graph& g = in.graph;
    const Value x = in(f32, {3, 7}), counts = in.state(i32, {3, 7}), tokens = in(i32, {3, 4});
    CHECK_REFUSED(in, penalize(g, x, {.repetition = 0, .counts = counts}), kInvalid,
                  "penalize: repetition is 0.000000, expected a positive number");
    CHECK_REFUSED(in, penalize(g, x, {.presence = std::numeric_limits<float>::infinity(), .counts = counts}), kInvalid,
                  "penalize: presence is inf, expected a finite number");
    CHECK_REFUSED(in, penalize(g, x, {.frequency = 1}), kInvalid,
                  "penalize: counts is absent, but there are penalties");
    CHECK_REFUSED(in, penalize(g, x, {.counts = in(i32, {3, 8})}), kShape,
                  "penalize: counts has shape [3, 8], expected [3, 7] (as x)");
    CHECK_REFUSED(in, penalize(g, x, {.bias = in(f32, {3})}), kShape,
                  "penalize: bias has shape [3], expected [7] (vocab of x)");
    using graph::TokenOrigin;
    CHECK_REFUSED(in, count_tokens(g, in(i32, {2, 4}), counts, TokenOrigin::prompt), kShape,
                  "count_tokens: counts has shape [3, 7], expected [2, 7] (rows of tokens)");
    CHECK_REFUSED(in, count_tokens(g, in(i32, {1, 3, 4}), counts, TokenOrigin::prompt), kShape,
                  "count_tokens: tokens has shape [1, 3, 4], expected [rows] or [rows, len]");
    CHECK_REFUSED(in, count_tokens(g, tokens, in(i32, {3, 7}), TokenOrigin::generated), kInvalid,
                  "count_tokens: counts (input7) is no state, but the op updates it");
    CHECK_REFUSED(in, count_tokens(g, tokens, counts, TokenOrigin::prompt, in(i32, {2})), kShape,
                  "count_tokens: lengths has shape [2], expected [3] (rows of tokens)");
}

TEST_CASE("soft caps are positive numbers", "[builders]") {
    Inputs in;
    const Value query = in(f32, {1, 1, 2, 4}), key = in(f32, {1, 3, 2, 4});
    CHECK_REFUSED(in, soft_cap(in.graph, query, 0), kInvalid, "soft_cap: cap is 0.000000, expected a positive number");
    CHECK_REFUSED(in, attention_scores(in.graph, query, key, 1, -1), kInvalid,
                  "attention_scores: soft_cap is -1.000000, expected a positive number, or 0 for none");
    CHECK_REFUSED(in, attention(in.graph, query, key, key, {}, 1, std::numeric_limits<float>::quiet_NaN()), kInvalid,
                  "attention: soft_cap is nan, expected a positive number, or 0 for none");
    CHECK_REFUSED(in, decode_attention(in.graph, query, key, key, {}, 1, 8, -2), kInvalid,
                  "decode_attention: soft_cap is -2.000000, expected a positive number, or 0 for none");
}

TEST_CASE("bias_sequences refuses what does not fit", "[builders]") {
    Inputs in;
    const Value x = in(f32, {3, 7}), starts = in(i32, {3}), sequences = in(i32, {3, 9});
    using Phrases = std::vector<graph::SequenceBias>;
    const auto refused = [&](const Phrases& phrases, Value rows, ErrorCode code, const std::string& message) {
        CHECK_REFUSED(in, bias_sequences(in.graph, x, starts, phrases, rows), code, message);
    };
    const Phrases good = {{.tokens = {1, 2}, .bias = 1}, {.tokens = {6}, .bias = 2}};
    must(bias_sequences(in.graph, x, starts, good, sequences));
    refused({}, sequences, kInvalid, "bias_sequences: there are no phrases");
    refused({{.tokens = {}, .bias = 1}}, sequences, kInvalid, "bias_sequences: a phrase has no tokens");
    refused({{.tokens = {7, 1}, .bias = 1}}, sequences, kInvalid, "bias_sequences: phrase token is 7, expected 0 to 6");
    refused({{.tokens = {1, -1}, .bias = 1}}, sequences, kInvalid,
            "bias_sequences: phrase token is -1, expected 0 to 6");
    refused({{.tokens = {1}, .bias = std::numeric_limits<float>::quiet_NaN()}}, sequences, kInvalid,
            "bias_sequences: a bias is not a number");
    refused(good, {}, kInvalid, "bias_sequences: sequences is absent");
    refused(good, in(i32, {2, 9}), kShape, "bias_sequences: sequences has shape [2, 9], expected [3, 9] (rows of x)");
    CHECK_REFUSED(in, bias_sequences(in.graph, x, in(i32, {2}), good, sequences), kShape,
                  "bias_sequences: starts has shape [2], expected [3] (rows of x)");
}

TEST_CASE("two lists of banned tokens are two weights, one list is one", "[builders]") {
    Inputs in;
    const Value x = in(f32, {3, 7}), starts = in(i32, {3});
    const auto banned_of = [&](std::vector<std::int32_t> banned) {
        must(mask_logits(in.graph, x, starts, {.banned = std::move(banned)}));
        const Value weight = std::get<graph::MaskLogits>(in.graph.nodes().back().op).banned;
        return in.graph.tensor(weight).name;
    };
    CHECK(banned_of({1, 2}) == banned_of({1, 2}));
    CHECK(banned_of({1, 2}) != banned_of({1, 3}));
    must(mask_logits(in.graph, x, starts, {.forced_first = 1}));
    CHECK_FALSE(std::get<graph::MaskLogits>(in.graph.nodes().back().op).banned);
}

TEST_CASE("greedy_step refuses what does not fit", "[builders]") {
    Inputs in;
    const Value next = in(i32, {3});
    const graph::GreedyStates good{.tokens = in.state(i32, {3, 1}),
                                   .starts = in.state(i32, {3}),
                                   .finished = in.state(i32, {3}),
                                   .history = in.state(i32, {9, 3})};
    must(greedy_step(in.graph, next, good, 1, 0));
    const auto refused = [&](auto member, Value value, ErrorCode code, const std::string& message) {
        graph::GreedyStates states = good;
        states.*member = value;
        CHECK_REFUSED(in, greedy_step(in.graph, next, states, 1, 0), code, message);
    };
    refused(&graph::GreedyStates::tokens, in.state(i32, {3}), kShape,
            "greedy_step: tokens has shape [3], expected [3, 1] (rows of next)");
    refused(&graph::GreedyStates::history, in.state(i32, {9, 4}), kShape,
            "greedy_step: history has shape [9, 4], expected [9, 3] (rows of next)");
    refused(&graph::GreedyStates::finished, good.starts, kInvalid,
            "greedy_step: starts and finished are the same tensor (state2)");
    refused(&graph::GreedyStates::finished, {}, kInvalid, "greedy_step: finished is absent");
    refused(&graph::GreedyStates::starts, in.state(f32, {3}), kDtype,
            "greedy_step: starts has dtype f32, expected i32");
    refused(&graph::GreedyStates::starts, next, kInvalid,
            "greedy_step: starts (input0) is no state, but the op updates it");
    CHECK_REFUSED(in, greedy_step(in.graph, next, good, 1, 0, {.given = in(i32, {4, 9})}), kShape,
                  "greedy_step: given has shape [4, 9], expected [3, 9] (rows of next)");
    CHECK_REFUSED(in, greedy_step(in.graph, next, good, 1, 0, {.log_probs = in(f32, {3, 9})}), kInvalid,
                  "greedy_step: scores is absent");
    CHECK_REFUSED(
        in, greedy_step(in.graph, next, good, 1, 0, {.log_probs = in(f32, {3, 9}), .scores = in.state(f32, {3, 9})}),
        kShape, "greedy_step: scores has shape [3, 9], expected [9, 3] (as history)");
}

TEST_CASE("beam_step refuses what does not fit", "[builders]") {
    Inputs in;
    const Value scores = in(f32, {6, 6}), tokens = in(i32, {6, 6});
    const auto row = [&] { return in.state(i32, {6}); };
    const graph::BeamStates good{.tokens = in.state(i32, {6, 1}),
                                 .starts = row(),
                                 .parents = row(),
                                 .running_scores = in.state(f32, {6}),
                                 .token_history = in.state(i32, {5, 6}),
                                 .parent_history = in.state(i32, {5, 6}),
                                 .final_scores = in.state(f32, {6}),
                                 .final_steps = row(),
                                 .final_rows = row(),
                                 .final_tokens = row(),
                                 .state = in.state(i32, {5})};
    const graph::BeamOptions options{.beams = 3, .max_steps = 5};
    must(beam_step(in.graph, scores, tokens, good, options));
    const auto refused = [&](auto member, Value value, ErrorCode code, const std::string& message) {
        graph::BeamStates states = good;
        states.*member = value;
        CHECK_REFUSED(in, beam_step(in.graph, scores, tokens, states, options), code, message);
    };
    const Value no_state = in(f32, {6});
    refused(&graph::BeamStates::token_history, in.state(i32, {4, 6}), kShape,
            "beam_step: token_history has shape [4, 6], expected [5, 6] (max_steps and rows)");
    refused(&graph::BeamStates::state, in.state(i32, {4}), kShape,
            "beam_step: state has shape [4], expected [5] (batch + 3)");
    refused(&graph::BeamStates::state, in.state(i32, {9}), kShape,  // four more tokens that end
            "beam_step: candidate_scores has shape [6, 6], expected at least 18 candidates per row (6 · beams)");
    refused(&graph::BeamStates::final_scores, row(), kDtype, "beam_step: final_scores has dtype i32, expected f32");
    refused(&graph::BeamStates::running_scores, no_state, kInvalid,
            "beam_step: running_scores (" + in.graph.tensor(no_state).name + ") is no state, but the op updates it");
    refused(
        &graph::BeamStates::final_tokens, good.final_rows, kInvalid,
        "beam_step: final_rows and final_tokens are the same tensor (" + in.graph.tensor(good.final_rows).name + ")");
    refused(&graph::BeamStates::parents, {}, kInvalid, "beam_step: parents is absent");

    const auto with = [&](const graph::BeamOptions& other) { return beam_step(in.graph, scores, tokens, good, other); };
    CHECK_REFUSED(in, with({.beams = 4, .max_steps = 5}), kShape,
                  "beam_step: candidate_scores has shape [6, 6], expected a multiple of beams, 4, as its rows");
    CHECK_REFUSED(in, with({.beams = 0, .max_steps = 5}), kInvalid, "beam_step: beams is 0, expected 1 to 32");
    CHECK_REFUSED(in, with({.beams = 3, .max_steps = 0}), kInvalid,
                  "beam_step: max_steps is 0, expected 1 to 2147483647");
    CHECK_REFUSED(in, beam_step(in.graph, in(f32, {6, 5}), in(i32, {6, 5}), good, options), kShape,
                  "beam_step: candidate_scores has shape [6, 5], expected at least 6 candidates per row (2 · beams)");
    CHECK_REFUSED(in, beam_step(in.graph, scores, in(i32, {6, 7}), good, options), kShape,
                  "beam_step: candidate_tokens has shape [6, 7], expected [6, 6] (as candidate_scores)");
    // fewer candidates are enough where they are the whole vocabulary
    const auto all = must(top_k(in.graph, in(f32, {6, 4}), 4));
    must(beam_step(in.graph, all.values, all.indices, good, options));
    const auto some = must(top_k(in.graph, in(f32, {6, 7}), 4));
    CHECK_REFUSED(in, beam_step(in.graph, some.values, some.indices, good, options), kShape,
                  "beam_step: candidate_scores has shape [6, 4], expected at least 6 candidates per row (2 · beams)");
}

TEST_CASE("patchify infers the number of patches and refuses what does not fit", "[builders]") {
    Inputs in;
    Graph& g = in.graph;
    const Value y = must(patchify(g, in(f32, {2, 3, 33, 20}),
                                  {.patch_height = 16, .patch_width = 5, .prefix = 2, .result = DType::f16}));
    CHECK(to_string(g.shape(y)) == to_string(Shape{2, 2 + 2 * 4, 3 * 16 * 5}));
    CHECK(g.dtype(y) == f16);
    const Value pixels = in(f32, {1, 3, 8, 8});
    CHECK_REFUSED(in, patchify(g, in(f16, {1, 3, 8, 8}), {}), kDtype, "patchify: pixels has dtype f16, expected f32");
    CHECK_REFUSED(in, patchify(g, in(f32, {3, 8, 8}), {}), kShape,
                  "patchify: pixels has shape [3, 8, 8], expected 4 dimensions [batch, channels, height, width]");
    CHECK_REFUSED(in, patchify(g, pixels, {.patch_height = 9}), kInvalid,
                  "patchify: patch_height is 9, expected 1 to 8");
    CHECK_REFUSED(in, patchify(g, pixels, {.patch_width = 0}), kInvalid, "patchify: patch_width is 0, expected 1 to 8");
    CHECK_REFUSED(in, patchify(g, pixels, {.prefix = 0xFFFFFFFF}), kInvalid,
                  "patchify: prefix is 4294967295, expected 0 to 2147483647");
    CHECK_REFUSED(in, patchify(g, pixels, {.result = DType::i32}), kDtype,
                  "patchify: result is i32, expected f32 or f16");
}

}  // namespace
}  // namespace vkformer::tests
