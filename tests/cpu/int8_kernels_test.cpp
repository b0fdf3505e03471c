// SPDX-License-Identifier: MIT
#include "cpu/int8_kernels.hpp"

#include <algorithm>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <thread>

#include "core/block_format.hpp"
#include "cpu/backend.hpp"
#include "cpu/random_numbers.hpp"
#include "graph/builders.hpp"
#include "support/catch.h"
#include "support/op_case.hpp"
#include "support/quantized.hpp"

namespace vkformer::tests {
namespace {

using cpu::Int8Kernels;
using cpu::kInt8Group;

/// x as the kernels round it.
std::vector<double> rounded(const std::vector<float>& x) {
    std::vector<double> result(x.size());
    for (std::size_t first = 0; first < x.size(); first += kInt8Group) {
        float largest = 0;
        for (std::size_t i = first; i < first + kInt8Group; ++i) largest = std::max(largest, std::abs(x[i]));
        const float inverse = largest > 0 ? 127 / largest : 0;
        for (std::size_t i = first; i < first + kInt8Group; ++i)
            result[i] = static_cast<double>(largest / 127) * static_cast<double>(std::nearbyint(x[i] * inverse));
    }
    return result;
}

struct Weight {
    DType format;
    std::size_t rows, in;
    std::vector<std::byte> bytes;
    std::vector<float> numbers;

    std::size_t row_bytes() const { return bytes_of(format, in); }
};

void make_numbers(Weight& weight) {
    weight.numbers.resize(weight.rows * weight.in);
    dequantize(weight.format, weight.bytes, weight.numbers);
}

Weight random_weight_of(DType format, std::size_t rows, std::size_t in) {
    Weight weight{.format = format, .rows = rows, .in = in, .bytes = {}, .numbers = {}};
    weight.bytes.resize(bytes_of(format, rows * in));
    quantize(format, random_numbers(rows * in, 5), weight.bytes);
    make_numbers(weight);
    return weight;
}

/// Every byte the same but for what scales blocks.
Weight filled_weight(DType format, std::size_t rows, std::size_t in, std::byte fill) {
    Weight weight{.format = format, .rows = rows, .in = in, .bytes = {}, .numbers = {}};
    weight.bytes.assign(bytes_of(format, rows * in), fill);
    const std::uint16_t one = float_to_half(1);
    for (std::size_t at = 0; at < weight.bytes.size(); at += block_bytes(format)) {
        const BlockScales scales = block_scales(format);
        if (format == DType::mxfp4) {
            weight.bytes[at + scales.d] = std::byte{128};  // 2^0
            continue;
        }
        std::memcpy(&weight.bytes[at + scales.d], &one, sizeof one);
        if (scales.m) std::memcpy(&weight.bytes[at + *scales.m], &one, sizeof one);
    }
    make_numbers(weight);
    return weight;
}

struct Expected {
    double sum = 0, terms = 0;  ///< terms: as large as they could be
};

/// The dot of the rounded row of x: nothing but float32 sums of groups may differ.
Expected expected_dot(const std::vector<double>& x, std::size_t row, const Weight& weight, std::size_t weight_row) {
    Expected result;
    double largest = 0;
    for (std::size_t i = 0; i < weight.in; ++i) {
        const auto w = static_cast<double>(weight.numbers[weight_row * weight.in + i]);
        result.sum += x[row * weight.in + i] * w;
        result.terms += std::abs(x[row * weight.in + i]);
        largest = std::max(largest, std::abs(w));
    }
    result.terms *= largest;
    return result;
}

/// What a format takes away from its quants is some times as large as the largest of what remains.
bool agrees(float found, const Expected& expected, std::size_t groups) {
    const double bound = 4 * (static_cast<double>(groups) + 8) * 0x1p-24 * expected.terms;
    return std::abs(static_cast<double>(found) - expected.sum) <= bound;
}

std::vector<float> dots(const Int8Kernels& kernels, const std::vector<float>& x, std::size_t rows,
                        const Weight& weight) {
    const std::size_t groups = weight.in / kInt8Group;
    std::vector<std::int8_t> quants(rows * weight.in);
    std::vector<float> scales(rows * groups), totals(rows * groups), y(rows * weight.rows, 0.0f);
    for (std::size_t r = 0; r < rows; ++r)
        kernels.quantize(x.data() + r * weight.in, groups, quants.data() + r * weight.in, scales.data() + r * groups,
                         totals.data() + r * groups);
    const cpu::QuantizedRows of_x{
        .rows = rows, .groups = groups, .quants = quants.data(), .scales = scales.data(), .totals = totals.data()};
    kernels.add_dots(weight.bytes.data(), weight.row_bytes(), weight.rows, of_x, y.data(), weight.rows);
    // Alone each is what it is among the others.
    for (std::size_t o = 0; o < weight.rows; ++o) {
        std::vector<float> alone(rows, 0.0f);
        kernels.add_dots(weight.bytes.data() + o * weight.row_bytes(), weight.row_bytes(), 1, of_x, alone.data(), 1);
        for (std::size_t r = 0; r < rows; ++r) {
            const float together = y[r * weight.rows + o];
            REQUIRE((alone[r] == together || (std::isnan(alone[r]) && std::isnan(together))));
        }
    }
    return y;
}

struct Free {
    void operator()(std::byte* bytes) const { ::operator delete[](bytes, std::align_val_t(64)); }
};
std::unique_ptr<std::byte[], Free> aligned(std::size_t count) {
    return std::unique_ptr<std::byte[], Free>(new (std::align_val_t(64)) std::byte[count]);
}

/// By one tile and one panel: [rows, weight.rows], between elements of 7, which stay.
std::vector<float> tile_products(const Int8Kernels& kernels, const std::vector<float>& x, std::size_t rows,
                                 std::size_t size, const Weight& weight) {
    const std::size_t groups = weight.in / kInt8Group, stride = weight.rows + 3;
    const auto tile = aligned(size * groups * kernels.tile_row_bytes), panel = aligned(groups * kernels.panel_bytes);
    kernels.make_tile(x.data(), weight.in, rows, size, groups, tile.get());
    kernels.make_panel(weight.bytes.data(), weight.row_bytes(), weight.rows, groups, panel.get());
    std::vector<float> y(size * stride, 7.0f), result;
    for (std::size_t r = 0; r < rows; ++r) std::fill_n(&y[r * stride], weight.rows, 0.0f);
    kernels.add_tile(tile.get(), size, rows, panel.get(), weight.rows, groups, {}, y.data(), stride);
    for (std::size_t i = 0; i < y.size(); ++i) {
        const bool is_result = i / stride < rows && i % stride < weight.rows;
        if (is_result)
            result.push_back(y[i]);
        else
            CHECK(y[i] == 7.0f);
    }
    return result;
}

}  // namespace

TEST_CASE("dot products of rounded activations are those of the rounded numbers", "[cpu][int8]") {
    const DType format = GENERATE(from_range(kBlockFormats));
    const std::size_t blocks = GENERATE(1, 2, 3, 9, 18);
    const std::size_t in = blocks * block_elements(format);
    const std::size_t rows = GENERATE(1, 2, 5, cpu::kMostDotRows);
    const std::size_t columns = GENERATE(5, 16, 19);  // eight are added up together
    CAPTURE(to_string(format), in, rows, columns);
    const Weight weight = random_weight_of(format, columns, in);
    const std::vector<float> x = random_numbers(rows * in, 9);
    const std::vector<double> of_x = rounded(x);
    for (const Int8Kernels* kernels : cpu::every_int8_kernels(format)) {
        const std::vector<float> found = dots(*kernels, x, rows, weight);
        for (std::size_t i = 0; i < found.size(); ++i)
            CHECK(agrees(found[i], expected_dot(of_x, i / columns, weight, i % columns), in / kInt8Group));
        // A row alone, too, is what it is among the others.
        const std::vector<float> last(x.end() - static_cast<std::ptrdiff_t>(in), x.end());
        const std::vector<float> alone = dots(*kernels, last, 1, weight);
        CHECK(std::equal(alone.begin(), alone.end(), found.end() - static_cast<std::ptrdiff_t>(columns)));
    }
}

TEST_CASE("tiles times panels are the same", "[cpu][int8]") {
    const DType format = GENERATE(from_range(kBlockFormats));
    const std::size_t in = GENERATE(1, 3, 11) * block_elements(format);
    CAPTURE(to_string(format), in);
    for (const Int8Kernels* kernels : cpu::every_int8_kernels(format))
        for (const std::size_t size : {kernels->tile_rows, kernels->small_tile_rows})
            for (const std::size_t lacking : {std::size_t{0}, size - 1})
                for (const std::size_t columns : {std::size_t{1}, kernels->panel_columns - 1, kernels->panel_columns}) {
                    const std::size_t rows = size - lacking;
                    CAPTURE(size, rows, columns);
                    const Weight weight = random_weight_of(format, columns, in);
                    const std::vector<float> x = random_numbers(rows * in, 3);
                    const std::vector<double> of_x = rounded(x);
                    const std::vector<float> found = tile_products(*kernels, x, rows, size, weight);
                    std::size_t wrong = 0;
                    for (std::size_t i = 0; i < found.size(); ++i)
                        wrong +=
                            !agrees(found[i], expected_dot(of_x, i / columns, weight, i % columns), in / kInt8Group);
                    CHECK(wrong == 0);
                }
}

TEST_CASE("sums of the largest products do not overflow", "[cpu][int8]") {
    const DType format = GENERATE(from_range(kBlockFormats));
    const auto fill = GENERATE(std::byte{0x80}, std::byte{0x7F}, std::byte{0xFF}, std::byte{0x00});
    const float sign = GENERATE(1.0f, -1.0f);
    CAPTURE(to_string(format), static_cast<int>(fill), sign);
    const std::size_t in = 512;
    for (const Int8Kernels* kernels : cpu::every_int8_kernels(format)) {
        const Weight weight = filled_weight(format, 3, in, fill);
        const std::vector<float> x(kernels->tile_rows * in, sign);
        const Expected expected = expected_dot(rounded(x), 0, weight, 0);
        for (const float found : dots(*kernels, x, 2, weight)) CHECK(agrees(found, expected, in / kInt8Group));
        for (const float found : tile_products(*kernels, x, kernels->tile_rows, kernels->tile_rows, weight))
            CHECK(agrees(found, expected, in / kInt8Group));
    }
}

TEST_CASE("groups of activations that are zero, huge or tiny keep their size", "[cpu][int8]") {
    const DType format = GENERATE(from_range(kBlockFormats));
    CAPTURE(to_string(format));
    const std::size_t in = 512;
    const Weight weight = random_weight_of(format, 4, in);
    std::vector<float> x = random_numbers(2 * in, 8);
    std::fill_n(x.begin(), kInt8Group, 0.0f);
    x[40] = 1e30f;  // its neighbours round to zero, and none is another group's
    x[in + 7] = -3e37f;
    for (std::size_t i = 64; i < 96; ++i) x[i] *= 1e-25f;
    const std::vector<double> of_x = rounded(x);
    CHECK(of_x[64] != 0);
    for (const Int8Kernels* kernels : cpu::every_int8_kernels(format)) {
        const std::vector<float> few = dots(*kernels, x, 2, weight);
        const std::vector<float> many = tile_products(*kernels, x, 2, kernels->tile_rows, weight);
        for (const std::vector<float>& found : {few, many})
            for (std::size_t i = 0; i < found.size(); ++i)
                CHECK(agrees(found[i], expected_dot(of_x, i / 4, weight, i % 4), in / kInt8Group));
        const std::vector<float> zeros(2 * in, 0.0f), least(2 * in, std::numeric_limits<float>::denorm_min());
        for (const std::vector<float>& nothing : {zeros, least})
            for (const float found : dots(*kernels, nothing, 2, weight)) CHECK(found == 0);
    }
}

TEST_CASE("an activation that is not finite makes all products of its row so", "[cpu][int8]") {
    const DType format = GENERATE(from_range(kBlockFormats));
    const float poison = GENERATE(std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(),
                                  std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity());
    const std::size_t place = GENERATE(0, 17, 287, 511);
    CAPTURE(to_string(format), poison, place);
    const std::size_t in = 512;
    const Weight weight = random_weight_of(format, 4, in);
    std::vector<float> x = random_numbers(2 * in, 8);
    x[in + place] = poison;
    for (const Int8Kernels* kernels : cpu::every_int8_kernels(format))
        for (const std::vector<float>& found :
             {dots(*kernels, x, 2, weight), tile_products(*kernels, x, 2, kernels->small_tile_rows, weight)})
            for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::isfinite(found[i]) == (i / 4 != 1));
}

TEST_CASE("products of the CPU backend say whether they round activations", "[cpu][int8]") {
    const DType format = GENERATE(DType::q8_0, DType::q4_k, DType::bf16);
    const auto products = GENERATE(cpu::QuantizedProducts::int8, cpu::QuantizedProducts::floats);
    const bool rounds =
        products == cpu::QuantizedProducts::int8 && is_quantized(format) && cpu::int8_kernels(format) != nullptr;
    CAPTURE(to_string(format), rounds);
    OpCase c;
    const graph::Value weight = random_weight(c, format, 300, 512);
    const graph::Value x = must(c.graph.input("x", DType::f32, {70, 512}));
    const graph::Value y = must(linear(c.graph, x, weight));
    c.graph.mark_output(y);
    const auto backend = cpu::make_cpu_backend<float>(products);
    const auto oracle = cpu::make_cpu_backend<double>(products);
    const std::vector<float> numbers = random_numbers(70 * 512, 6);
    const auto run = [&](graph::Backend& on) {
        const auto program = must(on.compile(graph::make_plan(c.graph), on.make_store(), on.make_store()));
        CHECK(program->rounding(0) == (&on == backend.get() && rounds ? graph::Rounding::int8 : graph::Rounding::none));
        must(program->write(x, numbers));
        must(program->submit());
        std::vector<float> result(70 * 300);
        must(program->read(y, std::span(result)));
        return result;
    };
    const std::vector<float> found = run(*backend), expected = run(*oracle);
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const double d = static_cast<double>(found[i]) - static_cast<double>(expected[i]);
        difference += d * d;
        norm += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
    }
    const double error = std::sqrt(difference / norm);
    CHECK(error < (rounds ? 0x1p-6 : 1e-5));
    CHECK((error > 1e-4) == rounds);

    // Threads share the work out anew each time, and one that comes while they are busy works alone.
    std::vector<float> beside;
    std::thread other([&] { beside = run(*backend); });
    const std::vector<float> again = run(*backend);
    other.join();
    CHECK(again == found);
    CHECK(beside == found);
}

}  // namespace vkformer::tests
