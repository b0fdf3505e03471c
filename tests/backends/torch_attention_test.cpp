// SPDX-License-Identifier: MIT
// Attention against PyTorch's scaled_dot_product_attention and nn.MultiheadAttention (tests/goldens/make_torch.py).
#include <cmath>

#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/catch.h"
#include "support/goldens.hpp"
#include "support/op_case.hpp"

namespace vkformer::tests {
namespace {

using graph::AttentionMask;
using graph::Value;

struct SdpaGraph {
    OpCase c;
    Value query, key, value;
    AttentionMask mask;
    float scale = 1;
};

SdpaGraph make_sdpa(const Golden& golden) {
    SdpaGraph s;
    const auto operand = [&](const std::string& name) {
        const Shape shape = golden.shape(name);
        return s.c.floats(name, DType::f32, swap_middle(shape), swap_middle(golden.floats(name), shape));
    };
    s.query = operand("query");
    s.key = operand("key");
    s.value = operand("value");
    s.scale = golden.has("scale") ? golden.floats("scale")[0]
                                  : 1 / std::sqrt(static_cast<float>(golden.shape("query").back()));
    s.mask.causal = golden.has("causal") || golden.has("window");
    if (golden.has("window")) s.mask.window = static_cast<std::uint32_t>(golden.ints("window")[0]);
    if (golden.has("key_lengths"))
        s.mask.key_lengths = s.c.ints("key_lengths", golden.shape("key_lengths"), golden.ints("key_lengths"));
    if (golden.has("mask")) {
        const Shape shape = golden.shape("mask");
        const Shape full = shape.rank() == 4 ? shape : Shape{1, 1, shape[0], shape[1]};
        s.mask.additive = s.c.floats("mask", DType::f32, full, golden.floats("mask"));
    }
    return s;
}

/// 1/√head_dim is a float attribute; where it is a power of two, double precision must agree as such.
double sdpa_bound(const graph::Backend& backend, float scale) {
    if (!is_double(backend)) return kLayerBound;
    int exponent;
    return std::frexp(scale, &exponent) == 0.5f ? kDoubleBound : kRoundedAttributeBound;
}

TEST_CASE("attention is PyTorch's, in one node and in three", "[golden][attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name =
        GENERATE("plain", "cross_lengths_differ", "value_width_differs", "causal", "causal_top_left", "additive",
                 "shared_additive", "lengths", "causal_lengths", "window", "grouped", "multi_query_causal", "own_scale",
                 "one_query_long_cache", "wide_head", "one_by_one");
    const Golden golden("torch/sdpa_" + name + ".safetensors");
    SdpaGraph s = make_sdpa(golden);
    CAPTURE(backend.name(), name);

    std::vector<Value> results = {s.c.expect(graph::attention(s.c.graph, s.query, s.key, s.value, s.mask, s.scale))};
    const auto scores = graph::attention_scores(s.c.graph, s.query, s.key, s.scale);
    REQUIRE(scores);
    const auto weights = graph::masked_softmax(s.c.graph, *scores, s.mask);
    REQUIRE(weights);
    results.push_back(s.c.expect(graph::weighted_sum(s.c.graph, *weights, s.value)));
    if (s.c.graph.shape(s.query)[1] == 1)  // splits of 16 keys: the last one is not full, and one sees no key at all
        results.push_back(s.c.expect(graph::decode_attention(s.c.graph, s.query, s.key, s.value, s.mask, s.scale, 16)));

    const std::vector<double> expected = swap_middle(golden.doubles("output"), golden.shape("output"));
    for (const Value result : results) {
        CAPTURE(s.c.graph.tensor(result).name);
        const std::vector<double> found = s.c.run_doubles(backend, result);
        CHECK(relative_error<double, double>(found, expected) < sdpa_bound(backend, s.scale));
        CHECK(worst_element_error<double, double>(found, expected) < 4 * sdpa_bound(backend, s.scale));
    }
}

TEST_CASE("multi-head attention is PyTorch's, with widths of their own for keys and values", "[golden][attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE("kdim_vdim", "same_width", "kdim_vdim_no_bias");
    const Golden golden("torch/multihead_" + name + ".safetensors");
    constexpr std::uint64_t kHeads = 5, kWidth = 20, kHeadDim = kWidth / kHeads;
    CAPTURE(backend.name(), name);

    OpCase c;
    const auto input = [&](const std::string& tensor) {
        return c.floats(tensor, DType::f32, golden.shape(tensor), golden.floats(tensor));
    };
    // in_proj_bias, and in_proj_weight where there is one, hold query, key and value one after the other
    const auto rows_of = [&](const std::string& tensor, std::size_t part) {
        const std::vector<float> all = golden.floats(tensor);
        const auto third = static_cast<std::ptrdiff_t>(all.size() / 3);
        const auto first = all.begin() + static_cast<std::ptrdiff_t>(part) * third;
        return std::vector<float>(first, first + third);
    };
    const auto project = [&](const std::string& tensor, const std::string& letter, std::size_t part) {
        const Shape shape = golden.shape(tensor);
        const Value weight = golden.has("model.in_proj_weight") ? c.floats("w_" + letter, DType::f32, {kWidth, kWidth},
                                                                           rows_of("model.in_proj_weight", part))
                                                                : input("model." + letter + "_proj_weight");
        Value bias;
        if (golden.has("model.in_proj_bias"))
            bias = c.floats("b_" + letter, DType::f32, {kWidth}, rows_of("model.in_proj_bias", part));
        const auto projected = graph::linear(c.graph, input(tensor), weight, bias);
        REQUIRE(projected);
        return *c.graph.reshape(*projected, {shape[0], shape[1], kHeads, kHeadDim});
    };
    const Value query = project("query", "q", 0), key = project("key", "k", 1), value = project("value", "v", 2);

    const Shape batch_keys = golden.shape("key_padding_mask");
    std::vector<float> padding = golden.floats("key_padding_mask");
    for (float& element : padding) element = element != 0 ? -std::numeric_limits<float>::infinity() : 0;
    const Value additive = c.floats("padding", DType::f32, {batch_keys[0], 1, 1, batch_keys[1]}, padding);

    const auto scores = graph::attention_scores(c.graph, query, key, 0.5f);  // 1/√4
    REQUIRE(scores);
    const Value weights = c.expect(graph::masked_softmax(c.graph, *scores, {.additive = additive}));
    const auto mixed = graph::weighted_sum(c.graph, weights, value);
    REQUIRE(mixed);
    const Shape q = golden.shape("query");
    const auto joined = c.graph.reshape(*mixed, {q[0], q[1], kWidth});
    REQUIRE(joined);
    Value out_bias;
    if (golden.has("model.out_proj.bias")) out_bias = input("model.out_proj.bias");
    const Value output = c.expect(graph::linear(c.graph, *joined, input("model.out_proj.weight"), out_bias));

    const double bound = is_double(backend) ? kDoubleBound : kLayerBound;
    const std::vector<double> found_weights = c.run_doubles(backend, weights);
    CHECK(relative_error<double, double>(found_weights, golden.doubles("weights_per_head")) < bound);
    const std::vector<double> found = c.run_doubles(backend, output);
    CHECK(relative_error<double, double>(found, golden.doubles("output")) < bound);
}

}  // namespace
}  // namespace vkformer::tests
