// SPDX-License-Identifier: MIT
// The worked examples of introductory texts (tests/goldens/make_seed_examples.py). Their inputs have three decimals and become
// floats here, so that double precision, too, agrees to float's digits only.
#include <nlohmann/json.hpp>

#include <fstream>

#include "support/backends.hpp"
#include "support/bounds.hpp"
#include "support/catch.h"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/op_case.hpp"

namespace vkformer::tests {
namespace {

using graph::Value;
using nlohmann::json;

json cases_of(const std::string& name) {
    std::ifstream file(goldens_dir() / "seeds" / (name + ".json"));
    REQUIRE(file);
    return json::parse(file).at("cases");
}

/// A nested list, flattened.
template <class T>
void flatten(const json& list, std::vector<T>& values) {
    if (!list.is_array()) return values.push_back(list.get<T>());
    for (const json& element : list) flatten(element, values);
}
template <class T>
std::vector<T> flat(const json& list) {
    std::vector<T> values;
    flatten(list, values);
    return values;
}

/// A list of any depth, read as [rows, columns], as [columns, rows]: the texts multiply x · w, linear takes weights as [out, in].
std::vector<float> flat_transposed(const json& list, std::size_t rows) {
    const auto values = flat<float>(list);
    return transposed(values, values.size() / rows);
}

/// Attention over query, key, value [1, len, heads, dim] in three nodes and in one.
struct Attended {
    Value scores, weights, mixed, fused;
};
Attended attend(OpCase& c, Value query, Value key, Value value, float scale, bool causal = false) {
    const graph::AttentionMask mask{.causal = causal};
    Attended a;
    a.scores = c.expect(graph::attention_scores(c.graph, query, key, scale));
    a.weights = c.expect(graph::masked_softmax(c.graph, a.scores, mask));
    a.mixed = c.expect(graph::weighted_sum(c.graph, a.weights, value));
    a.fused = c.expect(graph::attention(c.graph, query, key, value, mask, scale));
    return a;
}

void check_result(graph::Backend& backend, const OpCase& c, Value value, const json& expected) {
    CAPTURE(c.graph.tensor(value).name);
    const std::vector<double> found = c.run_doubles(backend, value), wanted = flat<double>(expected);
    REQUIRE(found.size() == wanted.size());
    CHECK(relative_error<double, double>(found, wanted) < kSeedBound);
}

TEST_CASE("the worked examples of one head come out", "[golden][attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::string name = GENERATE("numpy_self_attention_d3", "unscaled_attention", "permuted_pairs");
    for (const json& example : cases_of(name)) {
        CAPTURE(backend.name(), name, example.value("name", ""));
        const json& inputs = example.at("inputs");
        OpCase c;
        // "query" as it is given, or x · w_query, or x itself
        const auto operand = [&](const std::string& role) {
            const json& rows = inputs.contains(role) ? inputs.at(role) : inputs.at("x");
            const std::uint64_t len = rows.size(), width = rows.at(0).size();
            const Value x = c.floats(role, DType::f32, {1, len, 1, width}, flat<float>(rows));
            if (!inputs.contains("w_" + role)) return x;
            const std::vector<float> weight = flat_transposed(inputs.at("w_" + role), width);
            return must(
                graph::linear(c.graph, x, c.floats("w_" + role, DType::f32, {weight.size() / width, width}, weight)));
        };
        const Value query = operand("query"), key = operand("key"), value = operand("value");
        const Attended a = attend(c, query, key, value, inputs.at("scale").get<float>());
        const json& outputs = example.at("outputs");
        check_result(backend, c, a.scores, outputs.at("scores"));
        check_result(backend, c, a.weights, outputs.at("weights"));
        check_result(backend, c, a.mixed, outputs.at("output"));
        check_result(backend, c, a.fused, outputs.at("output"));
    }
}

TEST_CASE("the worked example of two heads, key width 2 and value width 3, comes out", "[golden][attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    for (const json& example : cases_of("two_heads_key2_value3")) {
        const json& inputs = example.at("inputs");
        OpCase c;
        const Value x = c.floats("x", DType::f32, {1, 4, 3}, flat<float>(inputs.at("x")));
        const auto project = [&](const std::string& role, Value from, std::uint64_t in, std::uint64_t out) {
            return must(
                graph::linear(c.graph, from,
                              c.floats("w_" + role, DType::f32, {out, in}, flat_transposed(inputs.at("w_" + role), in)),
                              c.floats("b_" + role, DType::f32, {out}, flat<float>(inputs.at("b_" + role)))));
        };
        const Value query = must(c.graph.reshape(project("query", x, 3, 4), {1, 4, 2, 2}));
        const Value key = must(c.graph.reshape(project("key", x, 3, 4), {1, 4, 2, 2}));
        const Value value = must(c.graph.reshape(project("value", x, 3, 6), {1, 4, 2, 3}));
        const Attended a = attend(c, query, key, value, inputs.at("scale").get<float>());
        const Value joined = must(c.graph.reshape(a.fused, {1, 4, 6}));
        const Value output = c.expect(project("output", joined, 6, 3));

        const json& outputs = example.at("outputs");
        check_result(backend, c, a.scores, outputs.at("scores"));
        check_result(backend, c, a.weights, outputs.at("weights"));
        check_result(backend, c, output, outputs.at("output"));
    }
}

TEST_CASE("the worked example with one packed projection comes out, causal and not", "[golden][attention]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    constexpr std::uint64_t kLen = 6, kIn = 5, kHeads = 3, kHeadDim = 4, kWidth = kHeads * kHeadDim;
    for (const json& example : cases_of("packed_heads")) {
        CAPTURE(backend.name(), example.value("name", ""));
        const json& inputs = example.at("inputs");
        const std::vector<float> weight = flat_transposed(inputs.at("w_qkv"), kIn);
        const std::vector<float> bias = flat<float>(inputs.at("b_qkv"));
        OpCase c;
        const Value x = c.floats("x", DType::f32, {1, kLen, kIn}, flat<float>(inputs.at("x")));
        // the rows of the packed weight: head by head, each query, key, value
        const auto project = [&](const std::string& role, std::size_t part) {
            std::vector<float> own_weight, own_bias;
            for (std::size_t head = 0; head < kHeads; ++head)
                for (std::size_t d = 0; d < kHeadDim; ++d) {
                    const std::size_t row = (head * 3 + part) * kHeadDim + d;
                    own_weight.insert(own_weight.end(), &weight[row * kIn], &weight[row * kIn] + kIn);
                    own_bias.push_back(bias[row]);
                }
            const Value projected =
                must(graph::linear(c.graph, x, c.floats("w_" + role, DType::f32, {kWidth, kIn}, own_weight),
                                   c.floats("b_" + role, DType::f32, {kWidth}, own_bias)));
            return must(c.graph.reshape(projected, {1, kLen, kHeads, kHeadDim}));
        };
        const Value query = project("query", 0), key = project("key", 1), value = project("value", 2);
        const Attended a =
            attend(c, query, key, value, inputs.at("scale").get<float>(), example.at("name") == "causal");
        const Value joined = must(c.graph.reshape(a.fused, {1, kLen, kWidth}));
        const std::vector<float> w_output = flat_transposed(inputs.at("w_output"), kWidth);
        const Value output =
            c.expect(graph::linear(c.graph, joined, c.floats("w_output", DType::f32, {kWidth, kWidth}, w_output),
                                   c.floats("b_output", DType::f32, {kWidth}, flat<float>(inputs.at("b_output")))));

        const json& outputs = example.at("outputs");
        check_result(backend, c, a.weights, outputs.at("weights"));
        check_result(backend, c, output, outputs.at("output"));
    }
}

// Features come first there, x [batch, hidden, len], and each position's query is scored against the key of its own position:
// every position becomes a sequence of one query and one key.
TEST_CASE("the worked example of additive attention comes out", "[golden][additive_scores]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    constexpr std::uint64_t kBatch = 2, kHidden = 10, kLen = 15, kQuery = 18, kKey = 19, kValue = 20, kAttention = 30;
    for (const json& example : cases_of("additive_attention")) {
        const json& inputs = example.at("inputs");
        OpCase c;
        std::vector<float> x;  // [batch, len, hidden]
        for (const json& sequence : inputs.at("x")) {
            const std::vector<float> rows = flat_transposed(sequence, kHidden);
            x.insert(x.end(), rows.begin(), rows.end());
        }
        const Value input = c.floats("x", DType::f32, {kBatch, kLen, kHidden}, x);
        const auto project = [&](const std::string& name, Value from, std::uint64_t in, std::uint64_t out) {
            return must(
                graph::linear(c.graph, from, c.floats(name, DType::f32, {out, in}, flat<float>(inputs.at(name)))));
        };
        const Value query =
            project("w_attention_query", project("w_query", input, kHidden, kQuery), kQuery, kAttention);
        const Value key = project("w_attention_key", project("w_key", input, kHidden, kKey), kKey, kAttention);
        const Value value = c.expect(project("w_value", input, kHidden, kValue));
        const Value score = c.floats("w_score", DType::f32, {1, kAttention}, flat<float>(inputs.at("w_score")));
        const Value logits =
            c.expect(graph::additive_scores(c.graph, must(c.graph.reshape(query, {kBatch * kLen, 1, 1, kAttention})),
                                            must(c.graph.reshape(key, {kBatch * kLen, 1, 1, kAttention})), score));
        const Value weights =
            c.expect(graph::masked_softmax(c.graph, must(c.graph.reshape(logits, {kBatch, 1, 1, kLen}))));
        const Value pooled =
            c.expect(graph::weighted_sum(c.graph, weights, must(c.graph.reshape(value, {kBatch, kLen, 1, kValue}))));

        const json& outputs = example.at("outputs");
        check_result(backend, c, logits, outputs.at("logits"));
        check_result(backend, c, weights, outputs.at("weights"));
        check_result(backend, c, pooled, outputs.at("pooled"));
    }
}

TEST_CASE("the worked example of sinusoidal positions comes out", "[golden][positions]") {
    for (const json& example : cases_of("positions")) {
        const auto length = example.at("inputs").at("length").get<std::uint64_t>();
        const auto width = example.at("inputs").at("width").get<std::uint64_t>();
        const TensorData table = graph::sinusoidal_table(length, width, graph::SinusoidLayout::interleaved);
        std::vector<float> found(table.shape.element_count());
        must(convert(table.dtype, table.bytes, 0, std::span(found)));
        const std::vector<double> expected = flat<double>(example.at("outputs").at("table"));
        REQUIRE(found.size() == expected.size());
        CHECK(worst_element_error<float, double>(found, expected) <= 0x1p-25);
    }
}

}  // namespace
}  // namespace vkformer::tests
