// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "core/block_format.hpp"
#include "support/backends.hpp"
#include "support/builder_case.hpp"
#include "support/catch.h"
#include "support/must.hpp"
#include "support/op_case.hpp"
#include "support/quantized.hpp"
#include "support/special_floats.hpp"

namespace vkformer::tests {
namespace {

using graph::Value;

struct ExpertCase {
    DType format = DType::f32;
    std::uint64_t rows = 1, k = 2, experts = 5, in = 64, out = 19;
    DType dtype = DType::f32;
    bool own_rows = false;  ///< each of the k has a row of x
};

struct Experts {
    Value x, y;
};

/// The product with the experts that `chosen` names.
Experts add_experts(OpCase& c, const ExpertCase& s, std::vector<std::int32_t> chosen) {
    const Value x = c.floats("x", s.dtype, s.own_rows ? Shape{s.rows, s.k, s.in} : Shape{s.rows, s.in});
    const Value weight = random_weight(c, s.format, s.experts * s.out, s.in);
    const Value ids = c.ints("experts", {s.rows, s.k}, std::move(chosen));
    return {x, c.expect(expert_linear(c.graph, x, weight, ids, s.experts))};
}

std::vector<std::int32_t> random_experts(OpCase& c, const ExpertCase& s) {
    return c.random_ints(s.rows * s.k, 0, static_cast<std::int32_t>(s.experts) - 1);
}

constexpr DType kFormats[] = {DType::f32,   DType::f16,    DType::bf16, DType::q8_0, DType::q4_0, DType::q4_1,
                              DType::q5_0,  DType::q5_1,   DType::q4_k, DType::q5_k, DType::q6_k, DType::iq4_nl,
                              DType::mxfp4, DType::iq4_xs, DType::q2_k, DType::q3_k};

// With rows of which each expert has some, and with so many that they are sorted; the edges of the kernels: edges_test.cpp.
TEST_CASE("expert_linear agrees with double precision in all formats", "[op][expert_linear]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::size_t index = GENERATE(range(std::size_t{0}, std::size(kFormats)));
    const std::uint64_t rows = GENERATE(3, 37);
    if (!has_turn(backend, index + (rows == 3))) return;
    const DType format = kFormats[index];
    CAPTURE(backend.name(), to_string(format), rows);
    if (!takes_case(backend, 3)) return;
    const ExpertCase s{.format = format,
                       .rows = rows,
                       .k = 3,
                       .experts = 7,
                       .in = width_of(format, 2),
                       .out = 19,
                       .own_rows = rows == 3};
    OpCase c;
    add_experts(c, s, random_experts(c, s));
    c.check(backend);
}

TEST_CASE("expert_linear takes float16 activations", "[op][expert_linear]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const auto [format, rows, out] = GENERATE(table<DType, std::uint64_t, std::uint64_t>(
        {{DType::f16, 2, 7}, {DType::f16, 40, 33}, {DType::q4_k, 2, 7}, {DType::q8_0, 40, 33}, {DType::bf16, 9, 5}}));
    CAPTURE(backend.name(), to_string(format), rows, out);
    const ExpertCase s{
        .format = format, .rows = rows, .in = width_of(format, 2), .out = out, .dtype = DType::f16, .own_rows = true};
    OpCase c;
    add_experts(c, s, random_experts(c, s));
    c.check(backend);
}

TEST_CASE("expert_linear gives every row its own expert's product", "[op][expert_linear]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::uint64_t rows = GENERATE(1, 12);
    CAPTURE(backend.name(), rows);
    OpCase c;  // expert e multiplies by 10 to the power of e
    std::vector<float> x(rows * 4), weight;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i / 4 + 1) * (i % 4 == 3 ? 1.0f : 0.0f);
    for (const float power : {1.0f, 10.0f, 100.0f}) weight.insert(weight.end(), {0, 0, 0, power, 0, 0, 0, 2 * power});
    std::vector<std::int32_t> chosen;
    std::vector<float> expected;
    for (std::uint64_t row = 0; row < rows; ++row)
        for (const std::int32_t expert : {static_cast<std::int32_t>(row % 3), 1}) {
            const float product = static_cast<float>(row + 1) * std::pow(10.0f, static_cast<float>(expert));
            chosen.push_back(expert);
            expected.insert(expected.end(), {product, 2 * product});
        }
    const Value y = c.expect(expert_linear(c.graph, c.floats("x", DType::f32, {rows, 4}, x),
                                           c.floats("weight", DType::f32, {6, 4}, weight),
                                           c.ints("experts", {rows, 2}, chosen), 3));
    c.each_variant(backend, y, [&](const std::vector<float>& found) { CHECK(found == expected); });
}

TEST_CASE("all rows may choose one expert, and most experts none", "[op][expert_linear]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::int32_t expert = GENERATE(0, 63);
    const DType format = GENERATE(DType::f32, DType::q8_0);
    CAPTURE(backend.name(), expert, to_string(format));
    const ExpertCase s{.format = format, .rows = 131, .k = 1, .experts = 64, .in = 32, .out = 7};
    OpCase c;
    add_experts(c, s, std::vector<std::int32_t>(s.rows, expert));
    c.check(backend);
}

// What is no expert reads nothing and is not mistaken for another one, wherever it stands.
TEST_CASE("an expert that there is not gives a row of NaN", "[op][expert_linear]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType format = GENERATE(DType::f32, DType::f16, DType::q8_0, DType::q4_k);
    const std::uint64_t rows = GENERATE(6, 60);
    CAPTURE(backend.name(), to_string(format), rows);
    const ExpertCase s{.format = format, .rows = rows, .k = 2, .experts = 5, .in = width_of(format, 1), .out = 9};
    constexpr std::int32_t kHostile[] = {5, -1, INT32_MIN, INT32_MAX, 1 << 28, 0x40000001};
    OpCase c;
    std::vector<std::int32_t> chosen = random_experts(c, s);
    for (std::size_t i = 0; i < std::size(kHostile); ++i) chosen[2 * i * (rows / 6)] = kHostile[i];
    const Value y = add_experts(c, s, chosen).y;
    c.each_variant(backend, y, [&](const std::vector<float>& found) {
        for (std::size_t i = 0; i < found.size(); ++i) {
            const std::int32_t expert = chosen[i / s.out];
            CHECK(std::isnan(found[i]) == (expert < 0 || expert >= 5));
        }
    });
    c.check(backend);
}

TEST_CASE("an activation that is not finite stays visible in its own rows", "[op][expert_linear]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const std::uint64_t rows = GENERATE(3, 20);
    const DType format = GENERATE(DType::f32, DType::q4_0);
    CAPTURE(backend.name(), rows, to_string(format));
    const ExpertCase s{.format = format, .rows = rows, .k = 2, .experts = 2, .in = 64, .out = 5};
    OpCase c;
    std::vector<float> values = c.random_floats(rows * s.in);
    values[s.in + 21] = kNaN;
    const Value x = c.floats("x", DType::f32, {rows, s.in}, values);
    std::vector<std::int32_t> chosen;
    for (std::uint64_t row = 0; row < rows; ++row) chosen.insert(chosen.end(), {0, 1});
    const Value y = c.expect(expert_linear(c.graph, x, random_weight(c, format, s.experts * s.out, s.in),
                                           c.ints("experts", {rows, 2}, chosen), s.experts));
    c.each_variant(backend, y, [&](const std::vector<float>& found) {
        for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::isfinite(found[i]) == (i / (2 * s.out) != 1));
    });
}

// As models have them: gates beside their other halves, each a tensor of the file.
TEST_CASE("expert_linear reads weights that lie in many parts", "[op][expert_linear]") {
    graph::Backend& backend = *GENERATE(from_range(test_backends()));
    const DType format = GENERATE(DType::f32, DType::q8_0, DType::q6_k);
    const std::uint64_t rows = GENERATE(2, 24);
    CAPTURE(backend.name(), to_string(format), rows);
    constexpr std::uint64_t kExperts = 4, kInner = 10;
    const std::uint64_t in = width_of(format, 1);
    OpCase c;
    std::vector<TensorData> parts;
    for (std::uint64_t i = 0; i < 2 * kExperts; ++i) {
        parts.push_back(owned(c.random_floats(kInner * in), {kInner, in}));
        if (is_quantized(format)) parts.back() = must(quantized(parts.back(), format));
    }
    const Value weight = must(c.graph.weight("weight", std::move(parts), format));
    const Value ids = c.ints("experts", {rows, 2}, c.random_ints(rows * 2, 0, kExperts - 1));
    c.expect(expert_linear(c.graph, c.floats("x", DType::f32, {rows, in}), weight, ids, kExperts));
    c.check(backend);
}

TEST_CASE("expert_linear refuses what does not fit", "[builders]") {
    Inputs in;
    const Value ids = in(i32, {3, 2}), weight = in(f32, {20, 8});
    CHECK(to_string(in.graph.shape(must(expert_linear(in.graph, in(f32, {3, 8}), weight, ids, 5)))) == "[3, 2, 4]");
    CHECK(to_string(in.graph.shape(must(expert_linear(in.graph, in(f32, {3, 2, 8}), weight, ids, 4)))) == "[3, 2, 5]");
    CHECK_REFUSED(in, expert_linear(in.graph, in(f32, {3, 8}), weight, ids, 3), kShape,
                  "expert_linear: weight has 20 rows, expected a multiple of the 3 experts");
    CHECK_REFUSED(in, expert_linear(in.graph, in(f32, {3, 8}), weight, ids, 0), kInvalid,
                  "expert_linear: count is 0, expected 1 to 1024");
    CHECK_REFUSED(in, expert_linear(in.graph, in(f32, {2, 8}), weight, ids, 5), kShape,
                  "expert_linear: x has shape [2, 8], expected [3, 8] (rows of experts, and in of weight)");
    CHECK_REFUSED(in, expert_linear(in.graph, in(f32, {3, 3, 8}), weight, ids, 5), kShape,
                  "expert_linear: x has shape [3, 3, 8], expected [3, 2, 8] (experts, and in of weight)");
    CHECK_REFUSED(in, expert_linear(in.graph, in(f32, {3, 8}), weight, in(f32, {3, 2}), 5), kDtype,
                  "expert_linear: experts has dtype f32, expected i32");
    CHECK_REFUSED(in, expert_linear(in.graph, in(f16, {3, 8}), weight, ids, 5), kDtype,
                  "expert_linear: weight has dtype f32, expected f16 (as x)");
}

}  // namespace
}  // namespace vkformer::tests
