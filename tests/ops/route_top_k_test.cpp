// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "support/backends.hpp"
#include "support/builder_case.hpp"
#include "support/catch.h"
#include "support/must.hpp"
#include "support/op_case.hpp"
#include "support/special_floats.hpp"

namespace vkformer::tests {
namespace {

using graph::RouteOptions;
using graph::RouteScores;
using graph::Value;

graph::RouteResult expect_route(OpCase& c, Value x, const RouteOptions& options) {
    const graph::RouteResult route = must(route_top_k(c.graph, x, options));
    c.expect(route.weights);
    c.expect(route.indices);
    return route;
}

TEST_CASE("route_top_k chooses and weighs as the double oracle does", "[op][route_top_k]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto [scores, normalises, has_bias] = GENERATE(table<RouteScores, bool, bool>({
        {RouteScores::softmax, false, false},
        {RouteScores::softmax, true, false},
        {RouteScores::softmax, false, true},
        {RouteScores::sigmoid, false, false},
        {RouteScores::sigmoid, true, true},
        {RouteScores::sparse_mixer, false, false},
        {RouteScores::sparse_mixer, true, false},
    }));
    CAPTURE(backend.name(), static_cast<int>(scores), normalises, has_bias);
    constexpr std::uint64_t kRows = 70, kExperts = 60;
    OpCase c;
    const Value x = c.floats("x", DType::f32, {kRows, kExperts}, 5);
    const Value bias = has_bias ? c.floats("bias", DType::f32, {kExperts}, 0.3f) : Value{};
    expect_route(c, x,
                 {.k = 6, .scores = scores, .normalises = normalises, .scale = 1.5f, .bias = bias, .jitter = 0.1f});
    c.check(backend);
}

TEST_CASE("route_top_k weighs a row whose numbers are easy", "[op][route_top_k]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const float ln2 = std::log(2.0f), ln4 = std::log(4.0f);
    OpCase c;  // e^x: 1, 4, 1, 2; their sum is 8
    const Value x = c.floats("x", DType::f32, {1, 4}, {0, ln4, 0, ln2});
    const Value bias = c.floats("bias", DType::f32, {4}, {0, 0, 1, 0});
    const auto all = expect_route(c, x, {.k = 3});
    const auto normalised = expect_route(c, x, {.k = 2, .normalises = true, .scale = 6});
    const auto biased = expect_route(c, x, {.k = 2, .bias = bias});
    const auto halved = expect_route(c, x, {.k = 2, .normalises = true, .least_sum = 0.75f});  // beside a sum of 6/8
    CHECK(c.run_ints(backend, all.indices) == std::vector<std::int32_t>{1, 3, 0});             // of two alike the first
    CHECK(c.run_ints(backend, biased.indices) == std::vector<std::int32_t>{2, 1});
    const auto check = [&](Value weights, const std::vector<float>& expected) {
        const std::vector<float> found = c.run(backend, weights);
        for (std::size_t i = 0; i < expected.size(); ++i) CHECK(found[i] == Approx(expected[i]).epsilon(1e-5));
    };
    check(all.weights, {4 / 8.0f, 2 / 8.0f, 1 / 8.0f});
    check(normalised.weights, {4, 2});
    check(halved.weights, {2 / 6.0f, 1 / 6.0f});
    check(biased.weights, {1 / 8.0f, 4 / 8.0f});  // the bias is in the choice alone
    c.check(backend);
}

TEST_CASE("route_top_k's sparse mixer weighs each choice among what is near it and left", "[op][route_top_k]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    const float inf = std::numeric_limits<float>::infinity();
    OpCase c;  // with this jitter a logit is near that is not a quarter of the larger size below the chosen one
    const std::vector<float> logits = {
        4,      3.5f, 2.5f, 3.25f,    // both see one more than themselves and the other one
        -1,     -2,   -8,   -1.125f,  // of negative ones the size of the other counts
        0,      -1,   0,    -2,       // of two alike the first, which sees the second
        100,    1,    kNaN, 0.875f,   // a NaN comes first
        0.125f, -inf, -inf, -inf};
    const Value x = c.floats("x", DType::f32, {5, 4}, logits);
    const auto route = expect_route(c, x, {.k = 2, .scores = RouteScores::sparse_mixer, .jitter = 0.125f});
    const auto exact = expect_route(c, x, {.k = 2, .scores = RouteScores::sparse_mixer});
    CHECK(c.run_ints(backend, route.indices) == std::vector<std::int32_t>{0, 1, 0, 3, 0, 2, 2, 0, 0, 1});
    const auto check = [&](Value weights, const std::vector<double>& expected) {
        const std::vector<float> found = c.run(backend, weights);
        for (std::size_t i = 0; i < expected.size(); ++i)
            if (std::isnan(expected[i]))
                CHECK(std::isnan(found[i]));
            else
                CHECK(found[i] == Approx(expected[i]).epsilon(1e-5));
    };
    const auto share = [](std::initializer_list<double> below) {
        double sum = 1;
        for (const double gap : below) sum += std::exp(-gap);
        return 1 / sum;
    };
    check(route.weights, {share({0.5, 0.75}), share({0.25}), share({0.125}), 1, share({0}), 1, kNaN, 1, 1, kNaN});
    check(exact.weights, {1, 1, 1, 1, share({0}), 1, kNaN, 1, 1, kNaN});
    c.check(backend);
}

// Sigmoids of large logits are all 1, and a softmax of far logits is 0: the order is that of the logits all the same.
TEST_CASE("route_top_k tells logits apart whose scores are level", "[op][route_top_k]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const RouteScores scores = GENERATE(RouteScores::softmax, RouteScores::sigmoid);
    CAPTURE(backend.name(), static_cast<int>(scores));
    OpCase c;
    const Value x = c.floats("x", DType::f32, {2, 5}, {40, 41, 43, 42, 39, -300, -200, -400, -199, 90});
    const auto route = expect_route(c, x, {.k = 4, .scores = scores, .normalises = true});
    CHECK(c.run_ints(backend, route.indices) == std::vector<std::int32_t>{2, 3, 1, 0, 4, 3, 1, 0});
    c.check(backend);
}

TEST_CASE("route_top_k divides no weights by 0, and shows a NaN", "[op][route_top_k]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    const Value x = c.floats("x", DType::f32, {2, 3}, {-1e30f, -1e31f, -1e32f, 1, kNaN, 2});
    const auto sigmoid = expect_route(c, x, {.k = 2, .scores = RouteScores::sigmoid, .normalises = true});
    const auto softmax = expect_route(c, x, {.k = 2});
    const std::vector<float> weights = c.run(backend, sigmoid.weights);
    CHECK(weights[0] == 0);
    CHECK(weights[1] == 0);
    CHECK(std::isnan(weights[2]));
    CHECK(c.run_ints(backend, softmax.indices)[2] == 1);  // the NaN comes first
    CHECK(std::isnan(c.run(backend, softmax.weights)[2]));
    c.check(backend);
}

TEST_CASE("route_top_k chooses from groups as the double oracle does", "[op][route_top_k]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto [scores, has_bias, best] = GENERATE(table<RouteScores, bool, std::uint32_t>({
        {RouteScores::softmax, false, 1u},
        {RouteScores::sigmoid, true, 2u},
        {RouteScores::sigmoid, false, 2u},
    }));
    const auto [experts, groups, kept, k] = GENERATE(table<std::uint64_t, std::uint32_t, std::uint32_t, std::uint32_t>({
        {160u, 8u, 3u, 6u},     // DeepSeek-V2
        {256u, 8u, 4u, 8u},     // DeepSeek-V3
        {15u, 5u, 2u, 6u},      // all of what is kept
        {128u, 64u, 33u, 32u},  // more groups than invocations of a small workgroup
    }));
    CAPTURE(backend.name(), static_cast<int>(scores), has_bias, experts, groups);
    OpCase c;
    const Value x = c.floats("x", DType::f32, {20, experts}, 3);
    const Value bias = has_bias ? c.floats("bias", DType::f32, {experts}, 0.3f) : Value{};
    expect_route(c, x, {.k = k, .scores = scores, .normalises = true, .bias = bias, .groups = {groups, kept, best}});
    c.check(backend);
}

TEST_CASE("route_top_k takes no expert from a group that does not come first", "[op][route_top_k]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    CAPTURE(backend.name());
    OpCase c;
    const Value x = c.floats("x", DType::f32, {1, 6}, {5, 0, 4, 3.5f, -1, -2});
    const Value bias = c.floats("bias", DType::f32, {6}, {0, 0, 0, 0, 3, 0});
    const auto largest = expect_route(c, x, {.k = 2, .groups = {.count = 3, .kept = 1, .best = 1}});
    // Both scores of the second group together are more than the largest of all and a small one.
    const auto pairs =
        expect_route(c, x, {.k = 2, .scores = RouteScores::sigmoid, .groups = {.count = 3, .kept = 1, .best = 2}});
    const auto two =
        expect_route(c, x, {.k = 3, .scores = RouteScores::sigmoid, .groups = {.count = 3, .kept = 2, .best = 2}});
    const auto biased = expect_route(
        c, x, {.k = 2, .scores = RouteScores::sigmoid, .bias = bias, .groups = {.count = 3, .kept = 1, .best = 2}});
    CHECK(c.run_ints(backend, largest.indices) == std::vector<std::int32_t>{0, 1});
    CHECK(c.run_ints(backend, pairs.indices) == std::vector<std::int32_t>{2, 3});
    CHECK(c.run_ints(backend, two.indices) == std::vector<std::int32_t>{0, 2, 3});
    CHECK(c.run_ints(backend, biased.indices) == std::vector<std::int32_t>{4, 5});
    CHECK(c.run(backend, biased.weights)[0] == Approx(1 / (1 + std::exp(1.0))).epsilon(1e-5));
    c.check(backend);
}

TEST_CASE("route_top_k refuses what does not fit", "[builders]") {
    Inputs in;
    const auto grouped = [&](std::uint32_t k, const graph::RouteGroups& groups) {
        return route_top_k(in.graph, in(f32, {3, 12}), {.k = k, .groups = groups});
    };
    CHECK_REFUSED(in, grouped(2, {.count = 5, .kept = 2}), kShape,
                  "route_top_k: x has 12 experts, expected a multiple of the 5 groups");
    CHECK_REFUSED(in, grouped(4, {.count = 4, .kept = 1}), kInvalid, "route_top_k: kept groups is 1, expected 2 to 4");
    CHECK_REFUSED(in, grouped(4, {.count = 4, .kept = 5}), kInvalid, "route_top_k: kept groups is 5, expected 2 to 4");
    CHECK_REFUSED(in, grouped(4, {.count = 12, .kept = 5, .best = 2}), kInvalid,
                  "route_top_k: best experts of a group is 2, expected 1 to 1");
    const auto route = must(route_top_k(in.graph, in(f32, {3, 8}), {.k = 2, .bias = in(f32, {8})}));
    CHECK(to_string(in.graph.shape(route.weights)) == "[3, 2]");
    CHECK(in.graph.dtype(route.indices) == i32);
    CHECK_REFUSED(in, route_top_k(in.graph, in(f16, {3, 8}), {.k = 2}), kDtype,
                  "route_top_k: x has dtype f16, expected f32");
    CHECK_REFUSED(in, route_top_k(in.graph, in(f32, {3, 8}), {.k = 9}), kInvalid,
                  "route_top_k: k is 9, expected 1 to 8");
    CHECK_REFUSED(in, route_top_k(in.graph, in(f32, {3, 80}), {.k = 33}), kInvalid,
                  "route_top_k: k is 33, expected 1 to 32");
    const auto sparse = [&](float jitter, Value bias, const graph::RouteGroups& groups) {
        const RouteOptions options = {
            .k = 2, .scores = RouteScores::sparse_mixer, .bias = bias, .groups = groups, .jitter = jitter};
        return route_top_k(in.graph, in(f32, {3, 8}), options);
    };
    const char* const sparse_words =
        "route_top_k: sparse_mixer has a jitter of 0 to 1000, and neither a bias nor groups";
    CHECK(sparse(0.01f, {}, {}));
    CHECK_REFUSED(in, sparse(-0.5f, {}, {}), kInvalid, sparse_words);
    CHECK_REFUSED(in, sparse(kNaN, {}, {}), kInvalid, sparse_words);
    CHECK_REFUSED(in, sparse(0.01f, in(f32, {8}), {}), kInvalid, sparse_words);
    CHECK_REFUSED(in, sparse(0.01f, {}, {.count = 2, .kept = 1}), kInvalid, sparse_words);
    CHECK_REFUSED(in, route_top_k(in.graph, in(f32, {3, 8}), {.k = 2, .bias = in(f32, {7})}), kShape,
                  "route_top_k: bias has shape [7], expected [8] (experts of x)");
}

}  // namespace
}  // namespace vkformer::tests
