// SPDX-License-Identifier: MIT
// The builders of concat and of the attentions of Bahdanau and Luong.
#include "support/builder_case.hpp"

namespace vkformer::tests {
namespace {

using graph::Graph;
using graph::Value;

TEST_CASE("builders of the attention family infer shapes and dtypes", "[builders]") {
    Inputs in;
    Graph& g = in.graph;
    const auto check = [&](Result<Value> value, DType dtype, const Shape& shape) {
        const Value made = must(std::move(value));
        CHECK(to_string(g.shape(made)) == to_string(shape));
        CHECK(g.dtype(made) == dtype);
    };
    check(concat(g, in(f16, {2, 5, 6}), in(f16, {2, 5, 1})), f16, {2, 5, 7});
    check(concat(g, in(f32, {3}), in(f32, {4})), f32, {7});
    check(additive_scores(g, in(f16, {2, 4, 3, 8}), in(f16, {2, 9, 3, 8}), in(f16, {3, 8})), f32, {2, 3, 4, 9});
    check(additive_scores(g, in(f32, {1, 1, 1, 4096}), in(f32, {1, 2, 1, 4096}), in(f32, {1, 4096})), f32,
          {1, 1, 1, 2});
    check(relative_scores(g, in(f32, {1, 3, 8, 6}), {}, in(i32, {7}), 2), f32, {2, 3, 4, 4});
    const Value scores = in(f32, {2, 3, 4, 9}), lengths = in(i32, {2});
    check(local_softmax(g, scores, {.half_width = 1, .positions = in(i32, {2, 4})}), f32, {2, 3, 4, 9});
    check(local_softmax(g, scores, {.half_width = 1u << 20, .relative = in(f32, {2, 4}), .key_lengths = lengths}), f32,
          {2, 3, 4, 9});
    check(activate(g, in(f16, {2, 5}), graph::Activation::tanh), f16, {2, 5});
    check(activate(g, in(f32, {2, 5}), graph::Activation::sigmoid), f32, {2, 5});
    // the nodes that store the scores take wider heads than those that do not
    check(attention_scores(g, in(f16, {1, 2, 1, 4096}), in(f16, {1, 3, 1, 4096}), 1), f32, {1, 1, 2, 3});
    check(weighted_sum(g, in(f32, {1, 1, 2, 3}), in(f16, {1, 3, 1, 4096})), f16, {1, 2, 1, 4096});
}

TEST_CASE("concat refuses what does not fit", "[builders]") {
    Inputs in;
    Graph& g = in.graph;
    CHECK_REFUSED(in, concat(g, in(i32, {4}), in(i32, {4})), kDtype, "concat: a has dtype i32, expected f32 or f16");
    CHECK_REFUSED(in, concat(g, in(f32, {4}), in(f16, {4})), kDtype, "concat: b has dtype f16, expected f32 (as a)");
    CHECK_REFUSED(in, concat(g, in(f32, {}), in(f32, {4})), kShape,
                  "concat: a has shape [], expected at least 1 dimension");
    CHECK_REFUSED(in, concat(g, in(f32, {4}), in(f32, {})), kShape,
                  "concat: b has shape [], expected at least 1 dimension");
    CHECK_REFUSED(in, concat(g, in(f32, {2, 3, 4}), in(f32, {2, 2, 5})), kShape,
                  "concat: b has shape [2, 2, 5], expected [2, 3, 5] (as a but for the last)");
    CHECK_REFUSED(in, concat(g, in(f32, {6, 4}), in(f32, {2, 3, 5})), kShape,
                  "concat: b has shape [2, 3, 5], expected [6, 5] (as a but for the last)");
    CHECK_REFUSED(in, concat(g, {}, in(f32, {4})), kInvalid, "concat: a is absent");
    CHECK_REFUSED(in, concat(g, in(f32, {4}), {}), kInvalid, "concat: b is absent");
    // each fits, both together do not
    CHECK_REFUSED(in, concat(g, in(f32, {1, 1 << 30}), in(f32, {1, 1 << 30})), kInvalid,
                  "concat: shape [1, 2147483648] must have 1 to 2147483647 elements");
}

TEST_CASE("additive_scores refuses what does not fit", "[builders]") {
    Inputs in;
    Graph& g = in.graph;
    const Value query = in(f32, {2, 4, 3, 8}), key = in(f32, {2, 9, 3, 8}), weight = in(f32, {3, 8});
    CHECK_REFUSED(in, additive_scores(g, in(i32, {2, 4, 3, 8}), key, weight), kDtype,
                  "additive_scores: query has dtype i32, expected f32 or f16");
    CHECK_REFUSED(in, additive_scores(g, query, in(f16, {2, 9, 3, 8}), weight), kDtype,
                  "additive_scores: key has dtype f16, expected f32 (as query)");
    CHECK_REFUSED(in, additive_scores(g, query, key, in(f16, {3, 8})), kDtype,
                  "additive_scores: weight has dtype f16, expected f32 (as query)");
    CHECK_REFUSED(in, additive_scores(g, in(f32, {2, 4, 8}), key, weight), kShape,
                  "additive_scores: query has shape [2, 4, 8], expected 4 dimensions [batch, query_len, heads, dim]");
    CHECK_REFUSED(in, additive_scores(g, query, in(f32, {2, 9, 24}), weight), kShape,
                  "additive_scores: key has shape [2, 9, 24], expected 4 dimensions [batch, key_len, heads, dim]");
    for (const Shape& other : {Shape{1, 9, 3, 8}, Shape{2, 9, 1, 8}, Shape{2, 9, 3, 7}})
        CHECK_REFUSED(in, additive_scores(g, query, in(f32, other), weight), kShape,
                      "additive_scores: key has shape " + to_string(other) +
                          ", expected [2, 9, 3, 8] (batch, heads and dim of query)");
    for (const Shape& other : {Shape{8}, Shape{1, 8}, Shape{3, 7}})
        CHECK_REFUSED(
            in, additive_scores(g, query, key, in(f32, other)), kShape,
            "additive_scores: weight has shape " + to_string(other) + ", expected [3, 8] (heads and dim of query)");
    CHECK_REFUSED(in, additive_scores(g, query, key, {}), kInvalid, "additive_scores: weight is absent");
    CHECK_REFUSED(in, additive_scores(g, in(f32, {1, 1, 1, 4097}), in(f32, {1, 1, 1, 4097}), in(f32, {1, 4097})),
                  kInvalid, "additive_scores: dim is 4097, expected 1 to 4096");
    CHECK_REFUSED(in, additive_scores(g, in(f32, {1, 65536, 1, 8}), in(f32, {1, 32768, 1, 8}), in(f32, {1, 8})),
                  kInvalid, "additive_scores: shape [1, 1, 65536, 32768] must have 1 to 2147483647 elements");
}

TEST_CASE("relative_scores refuses what does not fit", "[builders]") {
    Inputs in;
    Graph& g = in.graph;
    const Value c2p = in(f32, {1, 3, 8, 6}), index = in(i32, {7});
    CHECK_REFUSED(in, relative_scores(g, {}, {}, index, 2), kInvalid, "relative_scores: c2p is absent");
    CHECK_REFUSED(in, relative_scores(g, c2p, {}, {}, 2), kInvalid, "relative_scores: index is absent");
    CHECK_REFUSED(in, relative_scores(g, in(f16, {1, 3, 8, 6}), {}, index, 2), kDtype,
                  "relative_scores: c2p has dtype f16, expected f32");
    CHECK_REFUSED(in, relative_scores(g, in(f32, {3, 8, 6}), {}, index, 2), kShape,
                  "relative_scores: c2p has shape [3, 8, 6], expected 4 dimensions [1, heads, batch · len, rows]");
    for (const Shape& other : {Shape{2, 3, 8, 6}, Shape{1, 2, 8, 6}, Shape{1, 3, 9, 6}, Shape{1, 3, 8, 5}})
        CHECK_REFUSED(in, relative_scores(g, c2p, in(f32, other), index, 2), kShape,
                      "relative_scores: p2c has shape " + to_string(other) + ", expected [1, 3, 8, 6] (as c2p)");
    CHECK_REFUSED(
        in, relative_scores(g, {}, in(f32, {2, 3, 8, 6}), index, 2), kShape,
        "relative_scores: p2c has shape [2, 3, 8, 6], expected [1, 3, 8, 6] (one text, whole texts of the batch)");
    for (const auto& [batch, rows] : {std::pair{0, 0}, {3, 6}, {9, 0}})
        CHECK_REFUSED(in, relative_scores(g, c2p, c2p, index, batch), kShape,
                      "relative_scores: c2p has shape [1, 3, 8, 6], expected [1, 3, " + std::to_string(rows) +
                          ", 6] (one text, whole texts of the batch)");
    CHECK_REFUSED(in, relative_scores(g, c2p, {}, in(f32, {7}), 2), kDtype,
                  "relative_scores: index has dtype f32, expected i32");
    CHECK_REFUSED(in, relative_scores(g, c2p, {}, in(i32, {7, 1}), 2), kShape,
                  "relative_scores: index has shape [7, 1], expected 1 dimension [distances]");
    CHECK_REFUSED(in, relative_scores(g, c2p, {}, in(i32, {6}), 2), kShape,
                  "relative_scores: index has shape [6], expected [7] (an odd number, distance 0 in the middle)");
    CHECK_REFUSED(in, relative_scores(g, in(f32, {1, 1, 65536, 1}), {}, index, 1), kInvalid,
                  "relative_scores: shape [1, 1, 65536, 65536] must have 1 to 2147483647 elements");
}

TEST_CASE("local_softmax refuses what does not fit", "[builders]") {
    Inputs in;
    Graph& g = in.graph;
    const Value scores = in(f32, {2, 3, 4, 9}), positions = in(i32, {2, 4}), relative = in(f32, {2, 4});
    CHECK_REFUSED(in, local_softmax(g, in(f16, {2, 3, 4, 9}), {.half_width = 1, .positions = positions}), kDtype,
                  "local_softmax: scores has dtype f16, expected f32");
    CHECK_REFUSED(
        in, local_softmax(g, in(f32, {2, 4, 9}), {.half_width = 1, .positions = positions}), kShape,
        "local_softmax: scores has shape [2, 4, 9], expected 4 dimensions [batch, heads, query_len, key_len]");
    CHECK_REFUSED(in, local_softmax(g, scores, {.positions = positions}), kInvalid,
                  "local_softmax: half_width is 0, expected 1 to 1048576");
    CHECK_REFUSED(in, local_softmax(g, scores, {.half_width = (1u << 20) + 1, .positions = positions}), kInvalid,
                  "local_softmax: half_width is 1048577, expected 1 to 1048576");
    CHECK_REFUSED(in, local_softmax(g, scores, {.half_width = 1}), kInvalid,
                  "local_softmax: expected either positions or relative positions");
    CHECK_REFUSED(in, local_softmax(g, scores, {.half_width = 1, .positions = positions, .relative = relative}),
                  kInvalid, "local_softmax: expected either positions or relative positions");
    CHECK_REFUSED(in, local_softmax(g, scores, {.half_width = 1, .positions = relative}), kDtype,
                  "local_softmax: positions has dtype f32, expected i32");
    CHECK_REFUSED(in, local_softmax(g, scores, {.half_width = 1, .positions = in(i32, {2})}), kShape,
                  "local_softmax: positions has shape [2], expected [2, 4] (batch and query_len of scores)");
    CHECK_REFUSED(in, local_softmax(g, scores, {.half_width = 1, .relative = in(f16, {2, 4})}), kDtype,
                  "local_softmax: relative has dtype f16, expected f32");
    CHECK_REFUSED(in, local_softmax(g, scores, {.half_width = 1, .relative = in(f32, {2, 9})}), kShape,
                  "local_softmax: relative has shape [2, 9], expected [2, 4] (batch and query_len of scores)");
    CHECK_REFUSED(in, local_softmax(g, scores, {.half_width = 1, .positions = positions, .key_lengths = in(f32, {2})}),
                  kDtype, "local_softmax: key_lengths has dtype f32, expected i32");
    CHECK_REFUSED(in, local_softmax(g, scores, {.half_width = 1, .positions = positions, .key_lengths = in(i32, {3})}),
                  kShape, "local_softmax: key_lengths has shape [3], expected [2] (batch)");
}

TEST_CASE("the nodes that store the scores have limits of their own", "[builders]") {
    Inputs in;
    Graph& g = in.graph;
    CHECK_REFUSED(in, attention_scores(g, in(f32, {1, 1, 1, 4097}), in(f32, {1, 1, 1, 4097}), 1), kInvalid,
                  "attention_scores: head_dim is 4097, expected 1 to 4096");
    CHECK_REFUSED(in, weighted_sum(g, in(f32, {1, 1, 1, 2}), in(f32, {1, 2, 1, 4097})), kInvalid,
                  "weighted_sum: value_dim is 4097, expected 1 to 4096");
}

}  // namespace
}  // namespace vkformer::tests
