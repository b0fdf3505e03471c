// SPDX-License-Identifier: MIT
// The builders that decoder-only models add: RMS norm, rotary embedding, gated activations.
#include <cmath>
#include <cstring>
#include <limits>

#include "support/builder_case.hpp"

namespace vkformer::tests {
namespace {

using graph::Activation;
using graph::Graph;
using graph::RopePairing;
using graph::Value;

TEST_CASE("builders of decoder-only models infer shapes and dtypes", "[builders]") {
    Inputs in;
    Graph& g = in.graph;
    const auto check = [&](Result<Value> value, DType dtype, const Shape& shape) {
        const Value made = must(std::move(value));
        CHECK(to_string(g.shape(made)) == to_string(shape));
        CHECK(g.dtype(made) == dtype);
    };
    check(rms_norm(g, in(f16, {2, 3, 5}), in(f16, {5}), 1e-6f, 1), f16, {2, 3, 5});
    check(rms_norm(g, in(f32, {5}), {}, 0), f32, {5});
    check(gaussian_top_k(g, in(f16, {2, 3, 5}), 1.6f), f16, {2, 3, 5});
    check(match_magnitude(g, in(f32, {5}), in(f32, {5}), 1e-5f), f32, {5});
    check(rope(g, in(f16, {2, 3, 4, 8}), in(f32, {3, 8}), {}, RopePairing::halves), f16, {2, 3, 4, 8});
    check(rope(g, in(f32, {2, 3, 4, 9}), in(f32, {1, 2}), in(i32, {2}), RopePairing::interleaved), f32, {2, 3, 4, 9});
    check(gated_activation(g, in(f16, {2, 3, 8}), in(f16, {2, 3, 8}), Activation::silu), f16, {2, 3, 8});
    check(gated_activation(g, in(f32, {2, 3, 8}), {}, Activation::gelu_tanh), f32, {2, 3, 4});
    check(gated_activation(g, in(f32, {2}), {}, Activation::none), f32, {1});
}

TEST_CASE("gaussian_top_k and match_magnitude refuse what does not fit", "[builders]") {
    Inputs in;
    Graph& g = in.graph;
    const Value x = in(f32, {4, 6});
    CHECK_REFUSED(in, gaussian_top_k(g, in(i32, {4}), 0), kDtype,
                  "gaussian_top_k: x has dtype i32, expected f32 or f16");
    CHECK_REFUSED(in, gaussian_top_k(g, in(f32, {}), 0), kShape,
                  "gaussian_top_k: x has shape [], expected at least 1 dimension");
    CHECK_REFUSED(in, gaussian_top_k(g, x, std::numeric_limits<float>::infinity()), kInvalid,
                  "gaussian_top_k: deviations are infinite or no number");
    CHECK_REFUSED(in, match_magnitude(g, x, {}, 1), kInvalid, "match_magnitude: like is absent");
    CHECK_REFUSED(in, match_magnitude(g, x, in(f32, {4, 5}), 1), kShape,
                  "match_magnitude: like has shape [4, 5], expected [4, 6] (as x)");
    CHECK_REFUSED(in, match_magnitude(g, x, in(f16, {4, 6}), 1), kDtype,
                  "match_magnitude: like has dtype f16, expected f32 (as x)");
    CHECK_REFUSED(in, match_magnitude(g, x, x, 0), kInvalid,
                  "match_magnitude: least is 0.000000, expected a positive number");
}

TEST_CASE("rms_norm refuses what does not fit", "[builders]") {
    Inputs in;
    Graph& g = in.graph;
    const Value x = in(f32, {4, 6});
    CHECK_REFUSED(in, rms_norm(g, in(i32, {4}), {}, 0), kDtype, "rms_norm: x has dtype i32, expected f32 or f16");
    CHECK_REFUSED(in, rms_norm(g, in(f32, {}), {}, 0), kShape,
                  "rms_norm: x has shape [], expected at least 1 dimension");
    CHECK_REFUSED(in, rms_norm(g, x, in(f32, {4}), 0), kShape, "rms_norm: gain has shape [4], expected [6] (dim of x)");
    CHECK_REFUSED(in, rms_norm(g, x, in(f16, {6}), 0), kDtype, "rms_norm: gain has dtype f16, expected f32 (as x)");
    CHECK_REFUSED(in, rms_norm(g, x, {}, -1), kInvalid, "rms_norm: eps is -1.000000, expected ≥ 0");
    CHECK_REFUSED(in, rms_norm(g, x, {}, 0, std::numeric_limits<float>::infinity()), kInvalid,
                  "rms_norm: gain_offset is inf, expected a finite number");
    CHECK_REFUSED(in, rms_norm(g, {}, {}, 0), kInvalid, "rms_norm: x is absent");
}

TEST_CASE("rope refuses what does not fit", "[builders]") {
    Inputs in;
    Graph& g = in.graph;
    const Value x = in(f32, {2, 5, 3, 8}), table = in(f32, {9, 8});
    constexpr RopePairing kHalves = RopePairing::halves;
    CHECK_REFUSED(in, rope(g, in(f32, {2, 5, 24}), table, {}, kHalves), kShape,
                  "rope: x has shape [2, 5, 24], expected 4 dimensions [batch, len, heads, head_dim]");
    CHECK_REFUSED(in, rope(g, x, in(f16, {9, 8}), {}, kHalves), kDtype, "rope: table has dtype f16, expected f32");
    CHECK_REFUSED(in, rope(g, x, in(f32, {9, 4, 2}), {}, kHalves), kShape,
                  "rope: table has shape [9, 4, 2], expected 2 dimensions [positions, rotary_dim]");
    CHECK_REFUSED(in, rope(g, x, in(f32, {9, 10}), {}, kHalves), kShape,
                  "rope: table has shape [9, 10], expected an even rotary_dim of at most 8 (head_dim of x)");
    CHECK_REFUSED(in, rope(g, x, in(f32, {9, 7}), {}, kHalves), kShape,
                  "rope: table has shape [9, 7], expected an even rotary_dim of at most 8 (head_dim of x)");
    CHECK_REFUSED(in, rope(g, x, in(f32, {4, 8}), {}, kHalves), kShape,
                  "rope: table has shape [4, 8], expected at least 5 positions (len of x)");
    CHECK_REFUSED(in, rope(g, x, table, in(i32, {5}), kHalves), kShape,
                  "rope: starts has shape [5], expected [2] (batch of x)");
    CHECK_REFUSED(in, rope(g, x, table, in(f32, {2}), kHalves), kDtype, "rope: starts has dtype f32, expected i32");
    CHECK_REFUSED(in, rope(g, x, {}, {}, kHalves), kInvalid, "rope: table is absent");
}

TEST_CASE("the table of rope has cosines, then sines, of position times frequency", "[builders]") {
    const auto frequencies = graph::rope_frequencies(6, 1000);
    REQUIRE(frequencies.size() == 3);
    CHECK(std::abs(frequencies[0] - 1) < 1e-15);
    CHECK(std::abs(frequencies[1] - 0.1) < 1e-15);
    CHECK(std::abs(frequencies[2] - 0.01) < 1e-15);

    const TensorData table = graph::rope_table(50'001, frequencies, 2);
    CHECK(to_string(table.shape) == "[50001, 6]");
    std::vector<float> row(6);
    std::memcpy(row.data(), table.bytes.data() + 50'000 * 6 * sizeof(float), 6 * sizeof(float));
    for (std::size_t k = 0; k < 3; ++k) {
        CHECK(row[k] == static_cast<float>(2 * std::cos(50'000 * frequencies[k])));
        CHECK(row[3 + k] == static_cast<float>(2 * std::sin(50'000 * frequencies[k])));
    }
    CHECK(
        graph::rope_table(std::uint64_t{1} << 40, frequencies).bytes.empty());  // what no graph could hold is not made
}

TEST_CASE("gated_activation refuses what does not fit", "[builders]") {
    Inputs in;
    Graph& g = in.graph;
    CHECK_REFUSED(in, gated_activation(g, in(f32, {4, 6}), in(f32, {4, 3}), Activation::silu), kShape,
                  "gated_activation: up has shape [4, 3], expected [4, 6] (as gate)");
    CHECK_REFUSED(in, gated_activation(g, in(f32, {4}), in(f16, {4}), Activation::silu), kDtype,
                  "gated_activation: up has dtype f16, expected f32 (as gate)");
    CHECK_REFUSED(in, gated_activation(g, in(f32, {4, 5}), {}, Activation::silu), kShape,
                  "gated_activation: gate has shape [4, 5], expected an even last dimension (gates, then up)");
    CHECK_REFUSED(in, gated_activation(g, in(f32, {}), {}, Activation::silu), kShape,
                  "gated_activation: gate has shape [], expected at least 1 dimension");
    CHECK_REFUSED(in, gated_activation(g, in(i32, {4}), {}, Activation::silu), kDtype,
                  "gated_activation: gate has dtype i32, expected f32 or f16");
}

TEST_CASE("sample refuses what does not fit", "[builders]") {
    Inputs in;
    Graph& g = in.graph;
    const Value x = in(f32, {3, 7}), random = in.state(i32, {3, 3});
    const Value drawn =
        must(graph::sample(g, x, random, {.temperature = 0.7f, .top_k = 7, .top_p = 0.9f, .min_p = 0.1f}));
    CHECK(to_string(g.shape(drawn)) == "[3]");
    CHECK(g.dtype(drawn) == i32);
    CHECK_REFUSED(in, graph::sample(g, in(f16, {3, 7}), random), kDtype, "sample: x has dtype f16, expected f32");
    CHECK_REFUSED(in, graph::sample(g, in(f32, {7}), random), kShape,
                  "sample: x has shape [7], expected 2 dimensions [rows, vocab]");
    CHECK_REFUSED(in, graph::sample(g, x, in.state(i32, {3, 2})), kShape,
                  "sample: random has shape [3, 2], expected [3, 3] (rows of x; seed, draws)");
    const Value input = in(i32, {3, 3});
    CHECK_REFUSED(in, graph::sample(g, x, input), kInvalid,
                  "sample: random (" + g.tensor(input).name + ") is no state, but the op updates it");
    CHECK_REFUSED(in, graph::sample(g, x, random, {.temperature = -1}), kInvalid,
                  "sample: temperature is -1.000000, expected 0, or 0.0001 to 10000");
    CHECK_REFUSED(in, graph::sample(g, x, random, {.temperature = std::numeric_limits<float>::quiet_NaN()}), kInvalid,
                  "sample: temperature is nan, expected 0, or 0.0001 to 10000");
    CHECK_REFUSED(in, graph::sample(g, x, random, {.top_k = 8}), kInvalid, "sample: top_k is 8, expected 1 to 7");
    CHECK_REFUSED(in, graph::sample(g, x, random, {.top_p = 1.5f}), kInvalid,
                  "sample: top_p is 1.500000, expected 0 to 1");
    CHECK_REFUSED(in, graph::sample(g, x, random, {.min_p = -0.5f}), kInvalid,
                  "sample: min_p is -0.500000, expected 0 to 1");
}

}  // namespace
}  // namespace vkformer::tests
