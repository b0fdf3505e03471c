// SPDX-License-Identifier: MIT
#include "cpu/packed_linear.hpp"

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <thread>

#include "cpu/backend.hpp"
#include "cpu/packed_dot.hpp"
#include "cpu/parallel.hpp"
#include "graph/builders.hpp"
#include "support/bounds.hpp"
#include "support/catch.h"
#include "support/quantized.hpp"

namespace vkformer::tests {
namespace {

using cpu::PackedKernels;
using cpu::PackedWeight;

/// `values` in the format, as a file has it.
TensorData filed(const std::vector<float>& values, const Shape& shape, DType format) {
    if (is_quantized(format)) return must(quantized(owned(values, shape), format));
    const auto bytes = std::make_shared<std::vector<std::byte>>(values.size() * 2);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::uint16_t half = format == DType::f16 ? float_to_half(values[i]) : float_to_bfloat(values[i]);
        std::memcpy(bytes->data() + 2 * i, &half, sizeof half);
    }
    return {.dtype = format, .shape = shape, .bytes = *bytes, .owner = bytes};
}

std::vector<float> numbers_of(const TensorData& data) {
    std::vector<float> numbers(data.shape.element_count());
    must(convert(data.dtype, data.bytes, 0, std::span(numbers)));
    return numbers;
}

std::vector<float> random_numbers(std::size_t count, std::uint32_t seed) {
    std::vector<float> numbers(count);
    for (float& number : numbers) {
        seed = seed * 1664525u + 1013904223u;
        number = static_cast<float>(seed >> 8) * 0x1p-23f - 1;
    }
    return numbers;
}

/// Those that the processor gets, and those of processors without wide vectors.
std::vector<const PackedKernels*> kernels_of(DType format) {
    return {cpu::packed_kernels(format), cpu::plain_packed_kernels(format)};
}

bool is_same(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

}  // namespace

TEST_CASE("packed rows hold the numbers of their file", "[cpu][packed]") {
    const DType format = GENERATE(DType::f16, DType::bf16, DType::q8_0, DType::q4_0);
    CAPTURE(to_string(format));
    constexpr std::size_t kIn = 224, kRows = 3;  // seven blocks of 32: a pair of them has no partner
    const TensorData data = filed(random_numbers(kRows * kIn, 7), {kRows, kIn}, format);
    const std::vector<float> expected = numbers_of(data);
    for (const PackedKernels* kernels : kernels_of(format)) {
        std::vector<float> found(kIn);
        for (std::size_t row = 0; row < kRows; ++row) {
            kernels->unpack(data.bytes.data() + row * bytes_of(format, kIn), kIn, found.data());
            for (std::size_t i = 0; i < kIn; ++i) REQUIRE(found[i] == expected[row * kIn + i]);
        }
    }
}

TEST_CASE("every half is the number that it stands for", "[cpu][packed]") {
    std::vector<std::uint16_t> halves(1 << 16);
    for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
    const auto* bytes = reinterpret_cast<const std::byte*>(halves.data());
    for (const PackedKernels* kernels : kernels_of(DType::f16)) {
        std::vector<float> unpacked(halves.size());
        kernels->unpack(bytes, halves.size(), unpacked.data());
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < halves.size(); ++i) {
            const float expected = half_to_float(halves[i]);
            wrong += std::isnan(expected) ? !std::isnan(unpacked[i]) : !is_same(unpacked[i], expected);
        }
        CHECK(wrong == 0);

        // The same through products: of sixteen halves, all but one meet a zero. Of an infinity that makes no number.
        for (std::size_t first = 0; first < halves.size(); first += 16) {
            if ((first & 0x7C00u) == 0x7C00u) continue;
            for (const std::size_t place : {0, 9}) {
                std::vector<float> x(16, 0.0f), arranged(kernels->arranged_size(16));
                x[place] = 1;
                kernels->arrange(x.data(), 16, arranged.data());
                wrong += kernels->dot(bytes + 2 * first, arranged.data(), 16) != half_to_float(halves[first + place]);
            }
        }
        CHECK(wrong == 0);
        const std::vector<std::uint16_t> infinite(16, 0x7C00), none(16, 0x7E00);
        std::vector<float> ones(16, 1.0f), arranged(kernels->arranged_size(16));
        kernels->arrange(ones.data(), 16, arranged.data());
        CHECK(std::isinf(kernels->dot(reinterpret_cast<const std::byte*>(infinite.data()), arranged.data(), 16)));
        CHECK(std::isnan(kernels->dot(reinterpret_cast<const std::byte*>(none.data()), arranged.data(), 16)));
    }
}

TEST_CASE("dot products with packed rows agree with double precision", "[cpu][packed]") {
    const auto [format, in] = GENERATE(table<DType, std::size_t>({{DType::f16, 1},
                                                                  {DType::f16, 15},
                                                                  {DType::f16, 65},
                                                                  {DType::f16, 576},
                                                                  {DType::bf16, 17},
                                                                  {DType::bf16, 576},
                                                                  {DType::q8_0, 32},
                                                                  {DType::q8_0, 1536},
                                                                  {DType::q4_0, 32},
                                                                  {DType::q4_0, 96},
                                                                  {DType::q4_0, 1536}}));
    CAPTURE(to_string(format), in);
    constexpr std::size_t kRows = 5;
    const TensorData data = filed(random_numbers(kRows * in, 3), {kRows, in}, format);
    const std::vector<float> numbers = numbers_of(data), x = random_numbers(in, 4);
    for (const PackedKernels* kernels : kernels_of(format)) {
        std::vector<float> arranged(kernels->arranged_size(in));
        kernels->arrange(x.data(), in, arranged.data());
        for (std::size_t row = 0; row < kRows; ++row) {
            double expected = 0, terms = 0;
            for (std::size_t i = 0; i < in; ++i) {
                const double term = static_cast<double>(x[i]) * static_cast<double>(numbers[row * in + i]);
                expected += term;
                terms += std::abs(term);
            }
            const float found = kernels->dot(data.bytes.data() + row * bytes_of(format, in), arranged.data(), in);
            // Eight sums of in / 8 terms; q4_0 takes 8 · x away, which is up to eight times a term.
            const double bound = (format == DType::q4_0 ? 9 : 1) * (static_cast<double>(in) / 8 + 8) * 0x1p-24 * terms;
            CHECK(std::abs(static_cast<double>(found) - expected) <= bound);
        }
    }
}

TEST_CASE("packed weights give what their numbers give", "[cpu][packed]") {
    const DType format = GENERATE(DType::f16, DType::bf16, DType::q8_0, DType::q4_0);
    const std::size_t rows = GENERATE(1, 4, 5, 33);  // dot products up to four rows, then panels
    CAPTURE(to_string(format), rows);
    constexpr std::uint64_t kIn = 96, kOut = 62, kFirst = 20;
    std::vector<TensorData> parts = {filed(random_numbers(kFirst * kIn, 1), {kFirst, kIn}, format),
                                     filed(random_numbers((kOut - kFirst) * kIn, 2), {kOut - kFirst, kIn}, format)};
    graph::Graph g;
    const DType stored = format == DType::f16 ? DType::f32 : format;
    const graph::Value weight = must(g.weight("weight", parts, stored));
    const graph::Value x = must(g.input("x", DType::f32, {rows, kIn}));
    const graph::Value tokens = must(g.input("tokens", DType::i32, {3}));
    const graph::Value y = must(linear(g, x, weight));
    const graph::Value z = must(embedding(g, tokens, weight, 2.0f));
    g.mark_output(y);
    g.mark_output(z);
    const std::vector<float> input = random_numbers(rows * kIn, 9);
    std::vector<std::vector<float>> results;
    const auto single = cpu::make_cpu_backend<float>();
    const auto oracle = cpu::make_cpu_backend<double>();
    for (graph::Backend* backend : {single.get(), oracle.get()}) {
        const auto program = must(backend->compile(graph::make_plan(g), backend->make_store(), backend->make_store()));
        must(program->write(x, input));
        must(program->write(tokens, std::vector<std::int32_t>{61, 0, 62}));
        must(program->submit());
        for (const graph::Value value : {y, z}) {
            std::vector<float> values(g.shape(value).element_count());
            must(program->read(value, std::span(values)));
            results.push_back(std::move(values));
        }
    }
    CHECK(relative_error(std::span<const float>(results[0]), std::span<const float>(results[2])) < kLayerBound);
    for (std::size_t i = 0; i < 2 * kIn; ++i) REQUIRE(results[1][i] == results[3][i]);
    CHECK(std::isnan(results[1].back()));  // a token beyond the vocabulary
}

TEST_CASE("a weight that another program reads as numbers has them", "[cpu][packed]") {
    const TensorData data = filed(random_numbers(4 * 32, 1), {4, 32}, DType::f16);
    const auto backend = cpu::make_cpu_backend<float>();
    const auto weights = backend->make_store();
    const std::vector<float> input = random_numbers(32, 2);
    const auto run = [&](bool is_read) {
        graph::Graph g;
        const graph::Value weight = must(g.weight("weight", data, DType::f32));
        const graph::Value x = must(g.input("x", DType::f32, {1, 32}));
        const graph::Value y = must(linear(g, x, weight));
        g.mark_output(y);
        if (is_read) g.mark_output(weight);
        const auto program = must(backend->compile(graph::make_plan(g), weights, backend->make_store()));
        must(program->write(x, input));
        must(program->submit());
        std::vector<float> result(4), numbers(4 * 32);
        must(program->read(y, std::span(result)));
        if (is_read) {
            must(program->read(weight, std::span(numbers)));
            CHECK(numbers == numbers_of(data));
        }
        return result;
    };
    const std::vector<float> first = run(false);
    CHECK(run(true) == first);
}

TEST_CASE("a loop over threads does everything once", "[cpu][packed][threads]") {
    constexpr std::size_t kCount = 1000;
    const auto count_all = [](int& failures) {
        for (int round = 0; round < 200; ++round) {
            std::vector<std::atomic<int>> seen(kCount);
            cpu::parallel_for(kCount, 7, [&](std::size_t first, std::size_t last, std::size_t) {
                for (std::size_t i = first; i < last; ++i) ++seen[i];
            });
            for (const auto& times : seen) failures += times != 1;
        }
    };
    int failures = 0, others = 0;
    std::thread other([&] { count_all(others); });
    count_all(failures);
    other.join();
    CHECK(failures == 0);
    CHECK(others == 0);
}

}  // namespace vkformer::tests
