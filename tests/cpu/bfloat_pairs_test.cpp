// SPDX-License-Identifier: MIT
#include "cpu/bfloat_pairs.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "cpu/backend.hpp"
#include "cpu/int8_kernels.hpp"
#include "cpu/kernels_avx2.hpp"
#include "cpu/random_numbers.hpp"
#include "graph/builders.hpp"
#include "support/catch.h"
#include "support/must.hpp"
#include "support/op_case.hpp"
#include "support/quantized.hpp"

namespace vkformer::tests {
namespace {

constexpr float kUnbounded = std::numeric_limits<float>::infinity(), kNoNumber = std::numeric_limits<float>::quiet_NaN();

/// Those of this processor, where it has any, and those of every one.
std::vector<const cpu::BfloatPairKernels*> kinds_of_pairs() {
    std::vector<const cpu::BfloatPairKernels*> kinds = {&cpu::plain_bfloat_pair_kernels()};
    if (const cpu::BfloatPairKernels* own = cpu::bfloat_pair_kernels()) kinds.push_back(own);
    return kinds;
}

std::vector<const cpu::FloatKernels*> kinds_of_floats() {
    std::vector<const cpu::FloatKernels*> kinds = {&cpu::plain_float_kernels(), &cpu::float_kernels()};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) kinds.push_back(&cpu::float_kernels_avx2());
#endif
    return kinds;
}

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
std::uint32_t pair_bits(float first, float second) {
    return float_to_bfloat(first) | static_cast<std::uint32_t>(float_to_bfloat(second)) << 16;
}
double bfloat(float x) { return static_cast<double>(bfloat_to_float(float_to_bfloat(x))); }

}  // namespace

TEST_CASE("floats are rounded to the nearest bfloat16, of two as near to the even one", "[cpu][bfloat]") {
    std::vector<float> x = random_numbers(100, 1);
    for (const float number : {1.00390625f, 1.01171875f, -1.00390625f, 3.4e38f, 0.0f, -0.0f, kUnbounded, -kUnbounded,
                               kNoNumber, std::bit_cast<float>(0x7FFFFFFFu), std::bit_cast<float>(0xFF800001u)})
        x.push_back(number);
    for (const cpu::FloatKernels* kernels : kinds_of_floats())
        for (const std::size_t first : {std::size_t{0}, std::size_t{3}, x.size() - 5}) {
            std::vector<float> rounded(x.begin() + static_cast<std::ptrdiff_t>(first), x.end());
            kernels->round_to_bfloats(rounded.data(), rounded.size());
            for (std::size_t i = 0; i < rounded.size(); ++i) {
                const float expected = bfloat_to_float(float_to_bfloat(x[first + i]));
                CAPTURE(first, i, x[first + i]);
                CHECK((std::isnan(expected) ? std::isnan(rounded[i]) : bits_of(rounded[i]) == bits_of(expected)));
            }
        }
}

TEST_CASE("pairs of bfloat16 are neighbours of a row or of two rows", "[cpu][bfloat]") {
    const std::size_t count = GENERATE(1, 2, 15, 16, 31, 32, 33, 64, 71);
    CAPTURE(count);
    const std::vector<float> x = random_numbers(count, 1), other = random_numbers(count, 2);
    for (const cpu::BfloatPairKernels* kernels : kinds_of_pairs()) {
        std::vector<float> neighbours((count + 1) / 2, kNoNumber), of_rows(count, kNoNumber);
        kernels->pair_neighbours(x.data(), count, neighbours.data());
        for (std::size_t i = 0; i < neighbours.size(); ++i)
            CHECK(bits_of(neighbours[i]) == pair_bits(x[2 * i], 2 * i + 1 < count ? x[2 * i + 1] : 0));
        kernels->pair_rows(x.data(), other.data(), count, of_rows.data());
        for (std::size_t i = 0; i < count; ++i) CHECK(bits_of(of_rows[i]) == pair_bits(x[i], other[i]));
    }
}

// Rows that fill tiles and such that do not, of one head and of two; keys that end a panel or not, an odd number of them and of elements.
TEST_CASE("products of pairs are those of bfloat16 with sums of float32", "[cpu][bfloat]") {
    const auto [rows, together, depth, keys, columns] =
        GENERATE(table<std::size_t, std::size_t, std::size_t, std::size_t, std::size_t>({{32, 16, 64, 100, 64},
                                                                                         {17, 17, 33, 49, 5},
                                                                                         {64, 32, 8, 7, 70},
                                                                                         {38, 19, 128, 256, 128},
                                                                                         {5, 5, 31, 40, 47}}));
    CAPTURE(rows, together, depth, keys, columns);
    const std::size_t key_stride = depth + 3, value_stride = columns + 5;
    const std::vector<float> x = random_numbers(rows * depth, 1), key = random_numbers(keys * key_stride, 2);
    const std::vector<float> values = random_numbers(keys * value_stride, 3);
    for (const cpu::BfloatPairKernels* kernels : kinds_of_pairs()) {
        cpu::PairedProducts products(*kernels, rows, together, depth, x);
        const std::vector<float> before = random_numbers(rows * keys, 4);
        std::vector<float> scores = before;
        products.add_scores(keys, {key.data(), key_stride}, {scores.data(), keys});
        std::size_t wrong = 0;
        for (std::size_t r = 0; r < rows; ++r)
            for (std::size_t k = 0; k < keys; ++k) {
                double sum = static_cast<double>(before[r * keys + k]), terms = std::abs(sum);
                for (std::size_t i = 0; i < depth; ++i) {
                    const double term = bfloat(x[r * depth + i]) * bfloat(key[k * key_stride + i]);
                    sum += term, terms += std::abs(term);
                }
                wrong += !(std::abs(static_cast<double>(scores[r * keys + k]) - sum) <=
                           (static_cast<double>(depth) + 8) * 0x1p-24 * terms);
            }
        CHECK(wrong == 0);

        std::vector<float> weights = before;
        cpu::float_kernels().round_to_bfloats(weights.data(), weights.size());
        std::vector<float> rounded = values;  // what is left of rows and columns is multiplied as it is
        cpu::float_kernels().round_to_bfloats(rounded.data(), rounded.size());
        std::vector<float> sums(rows * columns, 0.5f);
        products.add_values(keys, columns, {weights.data(), keys}, {rounded.data(), value_stride},
                            {sums.data(), columns});
        for (std::size_t r = 0; r < rows; ++r)
            for (std::size_t c = 0; c < columns; ++c) {
                double sum = 0.5, terms = 0.5;
                for (std::size_t k = 0; k < keys; ++k) {
                    const double term =
                        static_cast<double>(weights[r * keys + k]) * static_cast<double>(rounded[k * value_stride + c]);
                    sum += term, terms += std::abs(term);
                }
                wrong += !(std::abs(static_cast<double>(sums[r * columns + c]) - sum) <=
                           (static_cast<double>(keys) + 8) * 0x1p-24 * terms);
            }
        CHECK(wrong == 0);
    }
}

TEST_CASE("weights of bfloat16 are the same whichever keys they are found among, but for a power of two",
          "[cpu][bfloat]") {
    for (const cpu::FloatKernels* kernels : kinds_of_floats()) {
        std::vector<float> scores = random_numbers(77, 5);
        for (float& score : scores) score = 9 * score - 4;
        scores[7] = -kUnbounded;
        std::vector<float> few = scores, many = scores;
        const float sum = kernels->exponentiate_to_bfloats(few.data(), few.size(), 8);
        CHECK(kernels->exponentiate_to_bfloats(many.data(), many.size(), 43) ==
              Approx(std::ldexp(sum, 8 - 43)).epsilon(1e-6));
        double expected_sum = 0;
        for (std::size_t i = 0; i < scores.size(); ++i) {
            const double expected = std::exp(static_cast<double>(scores[i]) - 8 * std::log(2.0));
            expected_sum += expected;
            CHECK(std::abs(static_cast<double>(few[i]) - expected) <= (0x1p-8 + 1e-5) * expected);
            CHECK((bits_of(few[i]) & 0xFFFF) == 0);
            CHECK(many[i] == std::ldexp(few[i], 8 - 43));
        }
        CHECK(static_cast<double>(sum) == Approx(expected_sum).epsilon(1e-5));
    }
    const auto terms_of = [](std::vector<float> scores, float least) {
        const cpu::SoftmaxTerms<float> terms = cpu::exponentiate_to_bfloats(scores, least);
        scores.push_back(terms.max);
        scores.push_back(terms.sum);
        return scores;
    };
    const float ln2 = std::log(2.0f);
    CHECK(terms_of({3 * ln2, -kUnbounded}, -kUnbounded).back() <= 1);
    // A maximum of before stays what it is, however often.
    float least = terms_of({123.456f}, -kUnbounded)[1];
    for (int i = 0; i < 100; ++i) least = terms_of({-5.0f}, least)[1];
    CHECK(least == terms_of({123.456f}, -kUnbounded)[1]);
    CHECK(least >= 123.456f);
    CHECK(least - 123.456f <= 0.6932f);
    CHECK(terms_of({-kUnbounded, -kUnbounded}, -kUnbounded) == std::vector<float>{0, 0, -kUnbounded, 0});
    CHECK(std::isnan(terms_of({1, kNoNumber, 2}, -kUnbounded).back()));
    CHECK(terms_of({1e30f, 0, -1e30f}, -kUnbounded) == std::vector<float>{1, 0, 0, 1e30f, 1});
}

namespace {

constexpr std::uint64_t kLen = 90, kHeads = 6, kKvHeads = 2, kDim = 32;

/// A product that rounds activations, beside attention over a cache.
struct AttentionProgram {
    OpCase c;
    graph::Value x, starts, query, key, value, y;
    std::unique_ptr<graph::Program> program;

    AttentionProgram(graph::Backend& backend, std::shared_ptr<graph::TensorStore> states, std::uint64_t len,
                     DType caches, DType weights) {
        graph::Graph& g = c.graph;
        const graph::Value weight = random_weight(c, weights, 64, 64);
        x = must(g.input("x", DType::f32, {1, 64}));
        g.mark_output(must(linear(g, x, weight)));
        starts = must(g.input("starts", DType::i32, {1}));
        query = must(g.input("query", DType::f32, {1, len, kHeads, kDim}));
        key = must(g.input("key", DType::f32, {1, len, kKvHeads, kDim}));
        value = must(g.input("value", DType::f32, {1, len, kKvHeads, kDim}));
        const Shape cache = {1, kLen, kKvHeads, kDim};
        const graph::Value keys = must(g.state("keys", caches, cache)), values = must(g.state("values", caches, cache));
        must(cache_append(g, key, starts, keys));
        must(cache_append(g, value, starts, values));
        const graph::AttentionMask mask = {.causal = true, .starts = starts};
        const float scale = 0.3f;
        y = len == 1 ? must(decode_attention(g, query, keys, values, mask, scale, 16))
                     : must(attention(g, query, keys, values, mask, scale));
        g.mark_output(y);
        program = must(backend.compile(graph::make_plan(g), backend.make_store(), std::move(states)));
        must(program->write(x, std::vector<float>(64, 1.0f)));
    }

    std::vector<float> run(std::size_t start, std::size_t len, const std::vector<std::vector<float>>& qkv) {
        const std::int32_t first = static_cast<std::int32_t>(start);
        must(program->write(starts, std::span(&first, 1)));
        const auto write = [&](graph::Value to, const std::vector<float>& all, std::size_t heads) {
            must(program->write(to, std::span(all).subspan(start * heads * kDim, len * heads * kDim)));
        };
        write(query, qkv[0], kHeads), write(key, qkv[1], kKvHeads), write(value, qkv[2], kKvHeads);
        must(program->submit());
        std::vector<float> result(len * kHeads * kDim);
        must(program->read(y, std::span(result)));
        return result;
    }
};

double relative_error(const std::vector<float>& found, const std::vector<float>& expected) {
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const double d = static_cast<double>(found[i]) - static_cast<double>(expected[i]);
        difference += d * d;
        norm += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
    }
    return std::sqrt(difference / norm);
}

}  // namespace

TEST_CASE("attention rounds to bfloat16 beside products of 8 bits, however many queries come at once",
          "[cpu][bfloat]") {
    const std::vector<std::vector<float>> qkv = [] {
        std::vector<std::vector<float>> all;
        for (const std::size_t heads : {kHeads, kKvHeads, kKvHeads})
            all.push_back(random_numbers(kLen * heads * kDim, static_cast<std::uint32_t>(all.size()) + 1));
        for (float& q : all[0]) q *= 6;  // scores of a few units
        return all;
    }();
    const auto of_pieces = [&](graph::Backend& backend, const std::vector<std::size_t>& pieces, DType caches,
                               DType weights) {
        const auto states = backend.make_store();
        std::vector<float> result;
        std::size_t done = 0;
        for (const std::size_t len : pieces) {
            const auto piece = AttentionProgram(backend, states, len, caches, weights).run(done, len, qkv);
            result.insert(result.end(), piece.begin(), piece.end());
            done += len;
        }
        return result;
    };
    const auto backend = cpu::make_cpu_backend<float>();
    const auto floats = cpu::make_cpu_backend<float>(cpu::QuantizedProducts::floats);
    const bool rounds = cpu::int8_kernels(DType::q8_0) != nullptr;
    const std::vector<float> exact = of_pieces(*floats, {kLen}, DType::f32, DType::q8_0);
    const std::vector<float> at_once = of_pieces(*backend, {kLen}, DType::f32, DType::q8_0);
    CHECK(relative_error(at_once, exact) < 0x1p-7);
    CHECK((relative_error(at_once, exact) > 0x1p-11) == rounds);
    std::vector<std::size_t> one_by_one(kLen, 1);
    for (const auto& pieces : {std::vector<std::size_t>{41, 20, 29}, std::vector<std::size_t>{7, 83}, one_by_one})
        CHECK(relative_error(of_pieces(*backend, pieces, DType::f32, DType::q8_0), at_once) < 1e-4);

    // Where no product rounds, or the caches are of their own format, nor does attention.
    CHECK(relative_error(of_pieces(*backend, {kLen}, DType::f32, DType::f16), exact) < 1e-6);
    CHECK(relative_error(of_pieces(*backend, one_by_one, DType::f32, DType::f16), exact) < 1e-6);
    CHECK(relative_error(of_pieces(*backend, {kLen}, DType::q8_0, DType::q8_0),
                         of_pieces(*floats, {kLen}, DType::q8_0, DType::q8_0)) < 1e-6);

    AttentionProgram rounded(*backend, backend->make_store(), kLen, DType::f32, DType::q8_0);
    AttentionProgram plain(*floats, floats->make_store(), kLen, DType::f32, DType::q8_0);
    const auto& nodes = rounded.program->plan().graph.nodes();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const bool is_product = std::holds_alternative<graph::Linear>(nodes[i].op);
        const graph::Rounding expected = !rounds      ? graph::Rounding::none
                                         : is_product ? graph::Rounding::int8
                                                      : graph::Rounding::bfloat;
        CHECK(rounded.program->rounding(i) == expected);
        CHECK(plain.program->rounding(i) == graph::Rounding::none);
    }
}

TEST_CASE("keys and values are rounded to bfloat16 by whatever appends them", "[cpu][bfloat]") {
    const auto backend = cpu::make_cpu_backend<float>();
    const bool norms_values = GENERATE(false, true);
    OpCase c;
    const graph::Value x = must(c.graph.input("x", DType::f32, {1, 64}));
    c.graph.mark_output(must(linear(c.graph, x, random_weight(c, DType::q8_0, 64, 64))));
    const graph::Value qkv = must(c.graph.input("qkv", DType::f32, {1, 2, kHeads + 2 * kKvHeads, kDim}));
    const Shape cache = {1, 2, kKvHeads, kDim};
    const graph::Value keys = must(c.graph.state("keys", DType::f32, cache));
    const graph::Value values = must(c.graph.state("values", DType::f32, cache));
    graph::HeadNorms norms = {.values = norms_values};
    if (norms_values) norms.query_gain = norms.key_gain = must(c.graph.input("gain", DType::f32, {kDim}));
    c.graph.mark_output(must(split_qkv(c.graph, qkv, {}, {}, keys, values, graph::RopePairing::halves, norms)));
    const auto program =
        must(backend->compile(graph::make_plan(c.graph), backend->make_store(), backend->make_store()));
    must(program->write(x, std::vector<float>(64, 1.0f)));
    must(program->write(qkv, random_numbers(2 * (kHeads + 2 * kKvHeads) * kDim, 1)));
    if (norms_values) must(program->write(norms.query_gain, random_numbers(kDim, 2)));
    must(program->submit());
    for (const graph::Value kept : {keys, values}) {
        std::vector<float> held(2 * kKvHeads * kDim);
        must(program->read(kept, std::span(held)));
        const auto is_bfloat = [](float number) { return (bits_of(number) & 0xFFFF) == 0; };
        CHECK(std::ranges::all_of(held, is_bfloat) == (cpu::int8_kernels(DType::q8_0) != nullptr));
    }
}

}  // namespace vkformer::tests
