// SPDX-License-Identifier: MIT
#include "cpu/packed_linear.hpp"

#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <thread>

#include "core/platform/system.hpp"
#include "cpu/activate.hpp"
#include "cpu/backend.hpp"
#include "cpu/float_kernels.hpp"
#include "cpu/packed_dot.hpp"
#include "cpu/parallel.hpp"
#include "cpu/random_numbers.hpp"
#include "graph/builders.hpp"
#include "support/bounds.hpp"
#include "support/catch.h"
#include "support/quantized.hpp"
#include "support/special_floats.hpp"

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

const std::vector<DType>& packed_formats() {
    static const std::vector<DType> all = [] {
        std::vector<DType> formats = {DType::f16, DType::bf16};
        for (const DType format : kBlockFormats) formats.push_back(format);
        return formats;
    }();
    return all;
}

/// Those that the processor gets, and those of processors without wide vectors.
std::vector<const PackedKernels*> kernels_of(DType format) {
    return {cpu::packed_kernels(format), cpu::plain_packed_kernels(format)};
}

/// The bound of activations rounded to 8 bits: validation/bounds.cpp.
constexpr double kInt8Bound = 0x1p-6;

bool is_same(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

}  // namespace

TEST_CASE("packed rows hold the numbers of their file", "[cpu][packed]") {
    const DType format = GENERATE(from_range(packed_formats()));
    CAPTURE(to_string(format));
    // Seven blocks of 32: a pair of them has no partner. Three of 256.
    const std::size_t kIn = block_elements(format) > 32 ? 768 : 224, kRows = 3;
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
    const auto [format, in] = GENERATE(table<DType, std::size_t>(
        {{DType::f16, 1},      {DType::f16, 15},    {DType::f16, 17},   {DType::f16, 65},     {DType::f16, 576},
         {DType::bf16, 17},    {DType::bf16, 576},  {DType::q8_0, 32},  {DType::q8_0, 1536},  {DType::q4_0, 32},
         {DType::q4_0, 96},    {DType::q4_0, 1536}, {DType::q4_k, 256}, {DType::q4_k, 1536},  {DType::q5_k, 512},
         {DType::q6_k, 768},   {DType::q4_1, 32},   {DType::q4_1, 96},  {DType::q5_0, 576},   {DType::q5_1, 1536},
         {DType::iq4_nl, 576}, {DType::mxfp4, 32},  {DType::mxfp4, 96}, {DType::mxfp4, 1536}, {DType::iq4_xs, 768},
         {DType::q2_k, 512},   {DType::q3_k, 1536}}));
    CAPTURE(to_string(format), in);
    constexpr std::size_t kRows = 5;
    const TensorData data = filed(random_numbers(kRows * in, 3), {kRows, in}, format);
    const std::vector<float> numbers = numbers_of(data), x = random_numbers(cpu::kFourRows * in, 4);
    const auto check = [&](float found, std::size_t weight_row, std::size_t row_of_x) {
        double expected = 0, terms = 0;
        for (std::size_t i = 0; i < in; ++i) {
            const double term =
                static_cast<double>(x[row_of_x * in + i]) * static_cast<double>(numbers[weight_row * in + i]);
            expected += term;
            terms += std::abs(term);
        }
        // Eight sums of in / 8 terms; what has an offset takes it · x away, which q4_0 and q6_k have up to eight times a term's
        // size and the others about once.
        const double bound = (is_quantized(format) && format != DType::q8_0 ? 9 : 1) *
                             (static_cast<double>(in) / 8 + 8) * 0x1p-24 * terms;
        CHECK(std::abs(static_cast<double>(found) - expected) <= bound);
    };
    for (const PackedKernels* kernels : kernels_of(format)) {
        const std::size_t size = kernels->arranged_size(in);
        std::vector<float> arranged(cpu::kFourRows * size);
        for (std::size_t r = 0; r < cpu::kFourRows; ++r)
            kernels->arrange(x.data() + r * in, in, arranged.data() + r * size);
        for (std::size_t row = 0; row < kRows; ++row) {
            const std::byte* const bytes = data.bytes.data() + row * bytes_of(format, in);
            check(kernels->dot(bytes, arranged.data(), in), row, 0);
            if (kernels->dot_four == nullptr) continue;
            float four[cpu::kFourRows];
            kernels->dot_four(bytes, arranged.data(), in, four);
            for (std::size_t r = 0; r < cpu::kFourRows; ++r) check(four[r], row, r);
        }
    }
}

TEST_CASE("packed weights give what their numbers give", "[cpu][packed]") {
    const DType format = GENERATE(from_range(packed_formats()));
    // Dot products, up to two, four, six or twelve rows; floats in a cache or 8-bit panels; panels, at last shared.
    const std::size_t rows = GENERATE(1, 2, 3, 4, 6, 7, 12, 13, 16, 17, 33, 130);
    const bool is_deep = GENERATE(false, true);  // more elements than a panel has, and no multiple of those in a cache
    const auto products = GENERATE(cpu::QuantizedProducts::floats, cpu::QuantizedProducts::int8);
    CAPTURE(to_string(format), rows, is_deep, static_cast<int>(products));
    const std::uint64_t kDeep = products == cpu::QuantizedProducts::int8 ? 8192 + 768
                                : block_elements(format) > 32            ? 1792
                                : format == DType::f16                   ? 1633
                                                                         : 1632;
    const std::uint64_t kIn = is_deep ? kDeep : block_elements(format) > 32 ? 256 : 96, kOut = 60, kFirst = 20;
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
    double bound = kLayerBound;
    const auto single = cpu::make_cpu_backend<float>(products);
    const auto oracle = cpu::make_cpu_backend<double>();
    for (graph::Backend* backend : {single.get(), oracle.get()}) {
        const auto program = must(backend->compile(graph::make_plan(g), backend->make_store(), backend->make_store()));
        must(program->write(x, input));
        must(program->write(tokens, std::vector<std::int32_t>{59, 0, 60}));
        must(program->submit());
        for (std::size_t i = 0; i < program->plan().graph.nodes().size(); ++i)
            if (program->rounding(i) == graph::Rounding::int8) bound = kInt8Bound;
        for (const graph::Value value : {y, z}) {
            std::vector<float> values(g.shape(value).element_count());
            must(program->read(value, std::span(values)));
            results.push_back(std::move(values));
        }
    }
    CHECK(relative_error(std::span<const float>(results[0]), std::span<const float>(results[2])) < bound);
    for (std::size_t i = 0; i < 2 * kIn; ++i) REQUIRE(results[1][i] == results[3][i]);
    CHECK(std::isnan(results[1].back()));  // a token beyond the vocabulary
}

TEST_CASE("rows that meet a weight one part after the other get what they get in double precision", "[cpu][packed]") {
    struct Case {
        std::uint64_t rows, in, half;
        bool is_gated;
    };
    // Over 8 MiB of activations in 8 bits; over 16 MiB of gates and what they let through, twice and a bit.
    const auto [kRows, kIn, kHalf, is_gated] = GENERATE(Case{1030, 8192, 12, false}, Case{1030, 64, 4100, true});
    CAPTURE(is_gated);
    graph::Graph g;
    const std::vector<float> numbers = random_numbers(2 * kHalf * kIn, 1), input = random_numbers(kRows * kIn, 2);
    const graph::Value weight = must(g.weight("weight", filed(numbers, {2 * kHalf, kIn}, DType::q8_0), DType::q8_0));
    const graph::Value x = must(g.input("x", DType::f32, {kRows, kIn}));
    graph::Value y = must(linear(g, x, weight));
    if (is_gated) y = must(gated_activation(g, y, {}, graph::Activation::silu));
    g.mark_output(y);
    std::vector<std::vector<float>> results;
    const auto single = cpu::make_cpu_backend<float>();
    const auto oracle = cpu::make_cpu_backend<double>();
    for (graph::Backend* backend : {single.get(), oracle.get()}) {
        const auto program = must(backend->compile(graph::make_plan(g), backend->make_store(), backend->make_store()));
        REQUIRE(program->plan().graph.nodes().size() == 1);
        must(program->write(x, input));
        must(program->submit());
        must(program->read(y, std::span(results.emplace_back(g.shape(y).element_count()))));
    }
    // By rows: one that nothing had been added to would not be seen among so many.
    const std::size_t width = g.shape(y).back();
    for (std::size_t row = 0; row < kRows; ++row) {
        CAPTURE(row);
        const auto of = [&](std::size_t i) { return std::span<const float>(results[i]).subspan(row * width, width); };
        REQUIRE(relative_error(of(0), of(1)) < 2 * kInt8Bound);
    }
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

TEST_CASE("sums of scaled rows agree with double precision", "[cpu][float_kernels]") {
    const auto [rows, width] =
        GENERATE(table<std::size_t, std::size_t>({{1, 1}, {1, 64}, {3, 8}, {4, 9}, {3, 65}, {13, 31}, {37, 64}}));
    CAPTURE(rows, width);
    const std::size_t stride = width + 5;
    const std::vector<float> scales = random_numbers(rows, 1), w = random_numbers(rows * stride, 2);
    for (const cpu::FloatKernels* kernels : {&cpu::float_kernels(), &cpu::plain_float_kernels()}) {
        std::vector<float> y(stride, 1.0f);
        kernels->add_scaled_rows(scales.data(), rows, w.data(), stride, width, y.data());
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < stride; ++i) {
            double expected = 1, terms = 1;
            for (std::size_t j = 0; j < rows && i < width; ++j) {
                const double term = static_cast<double>(scales[j]) * static_cast<double>(w[j * stride + i]);
                expected += term;
                terms += std::abs(term);
            }
            wrong +=
                !(std::abs(static_cast<double>(y[i]) - expected) <= (static_cast<double>(rows) + 2) * 0x1p-24 * terms);
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("exponentials and activations of vectors agree with double precision", "[cpu][float_kernels]") {
    using graph::Activation;
    const auto activation =
        GENERATE(Activation::none, Activation::relu, Activation::gelu_erf, Activation::gelu_tanh, Activation::silu,
                 Activation::sigmoid, Activation::gelu_quick, Activation::relu_squared);
    CAPTURE(static_cast<int>(activation));
    std::vector<float> x;  // an odd number of them
    for (int i = -160000; i <= 160000; ++i)
        x.push_back(static_cast<float>(i) * 0x1p-11f + static_cast<float>(i % 7) * 0x1p-20f);
    for (const float extreme : {0.0f, -0.0f, 1e-40f, 88.7f, 88.8f, -87.4f, -103.9f, 1e30f, -1e30f, 1e-20f})
        x.push_back(extreme);
    std::vector<float> specials = {-kInfinity, std::numeric_limits<float>::quiet_NaN()};
    if (activation == Activation::none)  // scores are not above their maximum
        std::erase_if(x, [](float number) { return number > 0; });
    else
        specials.push_back(kInfinity);
    for (const cpu::FloatKernels* kernels : {&cpu::float_kernels(), &cpu::plain_float_kernels()}) {
        const auto run = [&](std::vector<float> values) {
            if (activation == Activation::none)
                kernels->exponentiate(values.data(), values.size(), 0);
            else
                REQUIRE(kernels->activate(activation, values.data(), values.size(), values.data()));
            return values;
        };
        const auto exact = [&](float value) {
            const auto wide = static_cast<double>(value);
            if (activation ==
                Activation::gelu_tanh)  // as in activate.hpp, whose 1 + tanh has no digits left where it is small
                return wide /
                       (1 + std::exp(-2 * std::sqrt(2 / std::acos(-1.0)) * (wide + 0.044715 * wide * wide * wide)));
            return activation == Activation::none ? std::exp(wide) : cpu::activation_of<double>(activation, wide);
        };
        const std::vector<float> found = run(x);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
            const double expected = exact(x[i]);
            if (std::abs(expected) > 3.4e38) {
                wrong += !std::isinf(found[i]);
                continue;
            }
            // What is rounded before an exponential is taken, x² / 2 at most of gelu_erf and 0.07 |x|³ of gelu_tanh, errs by a few 2^−24
            // of itself, and the result by that; near the least normal number there are fewer digits.
            const double size = std::min(std::abs(static_cast<double>(x[i])), 90.0);
            const double argument = activation == Activation::none       ? 4
                                    : activation == Activation::gelu_erf ? size * size / 2
                                    : activation == Activation::gelu_tanh
                                        ? std::min(1.6 * size + 0.0714 * size * size * size, 90.0)
                                        : 1.702 * size;
            const double bound = (12 + 4 * argument) * 0x1p-24 * std::abs(expected) + (1 + size) * 1e-37;
            wrong += !(std::abs(static_cast<double>(found[i]) - expected) <= bound);
        }
        CHECK(wrong == 0);
        const std::vector<float> special = run(specials);
        for (std::size_t i = 0; i < specials.size(); ++i) {
            const double expected = exact(specials[i]);
            CAPTURE(i, special[i], expected);
            CHECK((std::isnan(expected) ? std::isnan(special[i]) : static_cast<double>(special[i]) == expected));
        }
    }
    CHECK_FALSE(cpu::float_kernels().activate(Activation::tanh, x.data(), 1, x.data()));
}

TEST_CASE("the largest of scores is a number", "[cpu][float_kernels]") {
    for (const cpu::FloatKernels* kernels : {&cpu::float_kernels(), &cpu::plain_float_kernels()})
        for (std::size_t count = 1; count <= 20; ++count)
            for (std::size_t place = 0; place < count; ++place) {
                std::vector<float> scores(count, -kInfinity);
                CHECK(kernels->max_of(scores.data(), count) == -kInfinity);
                scores[place] = -3;
                if (count > 1) scores[(place + 1) % count] = std::numeric_limits<float>::quiet_NaN();
                CHECK(kernels->max_of(scores.data(), count) == -3);
                const float sum = kernels->exponentiate(scores.data(), count, -3);
                CHECK(std::isnan(sum) == (count > 1));
                CHECK(scores[place] == 1);
            }
}

TEST_CASE("what a loop over threads throws arrives", "[cpu][packed][threads]") {
    for (int round = 0; round < 20; ++round) {
        CHECK_THROWS_AS(cpu::parallel_for(100, 1,
                                          [&](std::size_t, std::size_t last, std::size_t) {
                                              if (last > 50) throw std::bad_alloc();
                                          }),
                        std::bad_alloc);
    }
    std::atomic<int> done = 0;
    cpu::parallel_for(100, 1, [&](std::size_t first, std::size_t last, std::size_t thread) {
        if (thread < cpu::parallel_threads()) done += static_cast<int>(last - first);
    });
    CHECK(done == 100);
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

TEST_CASE("a loop that finds the threads busy works alone, and leaves the other one whole", "[cpu][packed][threads]") {
    const std::size_t threads = cpu::parallel_threads(), slices = threads + 1;
    if (threads == 1) return;
    constexpr std::size_t kAlone = 100;
    std::atomic<std::size_t> began = 0, done = 0, done_alone = 0, elsewhere = 0;
    std::thread other([&] {
        cpu::parallel_for(slices, 1, [&](std::size_t, std::size_t, std::size_t) {
            ++began;
            while (done_alone < kAlone) std::this_thread::yield();
            ++done;
        });
    });
    while (began < threads) std::this_thread::yield();  // one slice of the other loop is left
    const auto here = std::this_thread::get_id();
    cpu::parallel_for(kAlone, 1, [&](std::size_t first, std::size_t last, std::size_t) {
        elsewhere += std::this_thread::get_id() != here;
        done_alone += last - first;
    });
    other.join();
    CHECK(elsewhere == 0);
    CHECK(done_alone == kAlone);
    CHECK(done == slices);
}

TEST_CASE("a loop over threads ends when the last of them is done, and they have different numbers",
          "[cpu][packed][threads]") {
    if (cpu::parallel_threads() == 1) return;
    const auto caller = std::this_thread::get_id();
    for (int round = 0; round < 20; ++round) {
        std::vector<std::atomic<bool>> is_busy(cpu::parallel_threads());
        std::atomic<bool> other_began = false;
        std::atomic<int> ended = 0, failures = 0;
        cpu::parallel_for(2, 1, [&](std::size_t, std::size_t, std::size_t thread) {
            const bool is_caller = std::this_thread::get_id() == caller;
            failures += is_busy.at(thread).exchange(true) || is_caller != (thread == 0);
            if (is_caller) {
                while (!other_began) std::this_thread::yield();
            } else {
                other_began = true;
                std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the caller has nothing left to do
            }
            is_busy[thread] = false;
            ++ended;
        });
        CHECK(ended == 2);
        CHECK(failures == 0);
    }
}

TEST_CASE("of what several threads of a loop throw, one arrives", "[cpu][packed][threads]") {
    if (cpu::parallel_threads() == 1) return;
    for (int round = 0; round < 200; ++round) {
        std::atomic<int> began = 0;
        const auto throw_both = [&](std::size_t, std::size_t, std::size_t) {
            ++began;
            while (began < 2) std::this_thread::yield();
            throw std::runtime_error("a slice");
        };
        CHECK_THROWS_AS(cpu::parallel_for(2, 1, throw_both), std::runtime_error);
    }
}

TEST_CASE("a thread that comes late to a loop has no part in the next", "[cpu][packed][threads]") {
#if defined(__SANITIZE_THREAD__)
    constexpr std::size_t kLoops = 1'000'000;  // few of which are as close as it takes
#else
    constexpr std::size_t kLoops = 100'000;
#endif
    std::size_t failures = 0;
    for (std::size_t loop = 0; loop < kLoops; ++loop) {
        const std::size_t count = 2 + loop % 3;
        std::atomic<std::size_t> done = 0;
        cpu::parallel_for(count, 1, [&](std::size_t first, std::size_t last, std::size_t) { done += last - first; });
        failures += done != count;
    }
    CHECK(failures == 0);
}

// Who reads all of them for each token is faster where they lie on large pages; what takes a quarter of the memory stays in its file.
TEST_CASE("large weights of programs that last have a copy, small ones none", "[cpu][packed]") {
    const auto place = GENERATE(cpu::PackedPlace::file, cpu::PackedPlace::where_fastest);
    const std::uint64_t out = GENERATE(100, 4200), in = 4096;
    std::vector<std::uint16_t> halves(out * in, float_to_half(0.5f));
    const std::size_t bytes = halves.size() * sizeof halves[0];
    const bool is_copied = place == cpu::PackedPlace::where_fastest && bytes >= (std::size_t{32} << 20) &&
                           bytes <= platform::room_on_large_pages() / 4;
    CAPTURE(out, is_copied);
    graph::Graph g;
    const graph::Value weight = must(
        g.weight("weight",
                 {.dtype = DType::f16, .shape = {out, in}, .bytes = std::as_bytes(std::span(halves)), .owner = nullptr},
                 DType::f16));
    const graph::Value x = must(g.input("x", DType::f32, {1, in}));
    const graph::Value y = must(linear(g, x, weight));
    g.mark_output(y);
    const auto backend = cpu::make_cpu_backend<float>(cpu::QuantizedProducts::int8, place);
    const auto weights = backend->make_store();
    const auto program = must(backend->compile(graph::make_plan(g), weights, backend->make_store()));
    std::ranges::fill(halves, float_to_half(2.0f));
    must(program->write(x, std::vector<float>(in, 1.0f)));
    must(program->submit());
    std::vector<float> found(out);
    must(program->read(y, std::span(found)));
    CHECK(found == std::vector<float>(out, static_cast<float>(in) * (is_copied ? 0.5f : 2.0f)));
    CHECK(backend->memory().weights == bytes);
}

}  // namespace vkformer::tests
