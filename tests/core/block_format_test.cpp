// SPDX-License-Identifier: MIT
#include "core/block_format.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "support/bounds.hpp"
#include "support/catch.h"
#include "support/goldens.hpp"
#include "support/must.hpp"
#include "support/quantized.hpp"

namespace vkformer::tests {
namespace {

std::vector<float> dequantized(DType format, std::span<const std::byte> blocks, std::size_t count) {
    std::vector<float> values(count);
    dequantize(format, blocks, values);
    return values;
}

std::vector<float> normal_values(std::size_t count, std::uint32_t seed = 1) {
    std::mt19937 random(seed);
    std::normal_distribution<float> distribution;
    std::vector<float> values(count);
    for (float& value : values) value = distribution(random);
    return values;
}

double round_trip_error(DType format, const std::vector<float>& values) {
    std::vector<std::byte> blocks(bytes_of(format, values.size()));
    quantize(format, values, blocks);
    const std::vector<float> found = dequantized(format, blocks, values.size());
    return relative_error<float, float>(found, values);
}

TEST_CASE("blocks that llama.cpp has made hold what ggml's layouts say", "[core][quantized]") {
    const DType format = GENERATE(from_range(kBlockFormats));
    CAPTURE(to_string(format));
    const Golden golden("quantized/" + std::string(to_string(format)) + ".safetensors");
    const std::vector<float> expected = golden.floats("dequantized");
    const auto blocks = golden.tensor("blocks").bytes;
    REQUIRE(blocks.size() == bytes_of(format, expected.size()));
    CHECK(dequantized(format, blocks, expected.size()) == expected);
}

TEST_CASE("blocks of mxfp4 hold what ggml says, whatever their bytes are", "[core][quantized]") {
    const Golden golden("quantized/mxfp4.safetensors");
    const std::vector<float> expected = golden.floats("any_dequantized");
    CHECK(std::ranges::any_of(expected, [](float value) { return std::isinf(value); }));
    CHECK(std::ranges::any_of(expected, [](float value) { return std::fpclassify(value) == FP_SUBNORMAL; }));
    CHECK(dequantized(DType::mxfp4, golden.tensor("any_blocks").bytes, expected.size()) == expected);
}

TEST_CASE("mxfp4 keeps numbers of four bits times a power of two", "[core][quantized]") {
    constexpr float kNumbers[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    const int exponent = GENERATE(range(-127, 125));
    CAPTURE(exponent);
    std::vector<float> values;
    for (const float sign : {1.0f, -1.0f})
        for (const float number : kNumbers) values.insert(values.end(), 2, sign * std::ldexp(number, exponent));
    std::vector<std::byte> blocks(17);
    quantize(DType::mxfp4, values, blocks);
    CHECK(std::to_integer<int>(blocks[0]) == exponent + 127);
    CHECK(dequantized(DType::mxfp4, blocks, 32) == values);
}

TEST_CASE("quantize errs no more than llama.cpp does", "[core][quantized]") {
    const DType format = GENERATE(from_range(kBlockFormats));
    CAPTURE(to_string(format));
    const Golden golden("quantized/" + std::string(to_string(format)) + ".safetensors");
    const std::vector<float> values = golden.floats("values"), theirs = golden.floats("dequantized");
    const double ours = round_trip_error(format, values);
    CAPTURE(ours);
    CHECK(ours < 1.1 * relative_error<float, float>(theirs, values));
}

TEST_CASE("the error of a format is that of its bits", "[core][quantized]") {
    // A step of s = range / levels errs by s / √12 (uniform). Normal values: the largest of 32 is about 2.1 standard deviations,
    // of 16 about 1.8; so 2.1 / 127 / √12 = 0.0048 for q8_0, 2 · 2.1 / 15.5 / √12 = 0.078 for formats of 4 bits, half of that for
    // those of 5, 2 · 1.8 / 63 / √12 = 0.016 for q6_k, with 7 steps 0.148 for q3_k, with 3 steps 0.35 for q2_k, which the fit makes
    // smaller. mxfp4: most lies where steps are an eighth to a third of a number, and powers of two do not meet the largest one: 0.11. The
    // bounds leave 20 %.
    const auto [format, bound] = GENERATE(table<DType, double>({{DType::q8_0, 0.0058},
                                                                {DType::q4_0, 0.094},
                                                                {DType::q4_k, 0.094},
                                                                {DType::q5_k, 0.047},
                                                                {DType::q6_k, 0.019},
                                                                {DType::q4_1, 0.094},
                                                                {DType::q5_0, 0.047},
                                                                {DType::q5_1, 0.047},
                                                                {DType::iq4_nl, 0.094},
                                                                {DType::mxfp4, 0.135},
                                                                {DType::iq4_xs, 0.094},
                                                                {DType::q2_k, 0.35},
                                                                {DType::q3_k, 0.178}}));
    CAPTURE(to_string(format));
    const double error = round_trip_error(format, normal_values(256 * 64));
    CAPTURE(error);
    CHECK(error < bound);
    CHECK(error > bound / 2);
}

TEST_CASE("what counts more is nearer", "[core][quantized]") {
    const std::vector<float> values = normal_values(256 * 40);
    std::mt19937 random(2);
    std::vector<float> importance(values.size());
    for (float& weight : importance) weight = std::exp(2 * std::normal_distribution<float>()(random));
    const auto blocks_of = [&](DType format, const std::vector<float>& weights) {
        std::vector<std::byte> blocks(bytes_of(format, values.size()));
        quantize(format, values, blocks, weights);
        return blocks;
    };
    const auto error_of = [&](DType format, const std::vector<std::byte>& blocks) {
        const std::vector<float> found = dequantized(format, blocks, values.size());
        double error = 0;
        for (std::size_t i = 0; i < values.size(); ++i)
            error += double(importance[i]) * (found[i] - values[i]) * (found[i] - values[i]);
        return error;
    };
    for (const DType format : kBlockFormats) {
        CAPTURE(to_string(format));
        const auto alike = blocks_of(format, {}), weighed = blocks_of(format, importance);
        for (const float same : {1.0f, 3.0f, 0.0f, 1e-38f, 1e38f})  // a factor that all have changes nothing
            CHECK(blocks_of(format, std::vector<float>(values.size(), same)) == alike);
        if (format == DType::q8_0) {
            CHECK(weighed == alike);
            continue;
        }
        CHECK(error_of(format, weighed) < (format == DType::mxfp4 ? 0.99 : 0.93) * error_of(format, alike));
    }
    // A group in which nothing counts is as one in which all do.
    for (std::size_t i = 0; i < 256; ++i) importance[i] = 0;
    for (const DType format : kBlockFormats) {
        const auto bytes = static_cast<std::ptrdiff_t>(bytes_of(format, 256));
        const auto alike = blocks_of(format, {}), weighed = blocks_of(format, importance);
        CHECK(std::equal(alike.begin(), alike.begin() + bytes, weighed.begin()));
    }
}

TEST_CASE("no element is off by more than a step", "[core][quantized]") {
    // uniform in ±1: a step is 1 / 127, 1 / 8, 2 / 15, … of the range (of iq4_nl and iq4_xs the longest one); half of it is what rounding takes, the rest
    // what rounding the scales moves the ends of the range, and values that the last level cuts off (+1 in q4_0: a whole step,
    // and what the fit has made the scale smaller)
    const auto [format, step] = GENERATE(table<DType, float>({{DType::q8_0, 1.0f / 127},
                                                              {DType::q4_0, 1.1f / 8},
                                                              {DType::q4_k, 2.0f / 15},
                                                              {DType::q5_k, 2.0f / 31},
                                                              {DType::q6_k, 1.0f / 32},
                                                              {DType::q4_1, 2.0f / 15},
                                                              {DType::q5_0, 1.1f / 16},
                                                              {DType::q5_1, 2.0f / 31},
                                                              {DType::iq4_nl, 24.0f / 127},
                                                              {DType::mxfp4, 1.0f / 4},
                                                              {DType::iq4_xs, 24.0f / 127},
                                                              {DType::q2_k, 2.0f / 3},
                                                              {DType::q3_k, 1.1f / 4}}));
    CAPTURE(to_string(format));
    std::mt19937 random(2);
    std::uniform_real_distribution<float> distribution(-1, 1);
    std::vector<float> values(256 * 16);
    for (float& value : values) value = distribution(random);
    std::vector<std::byte> blocks(bytes_of(format, values.size()));
    quantize(format, values, blocks);
    const std::vector<float> found = dequantized(format, blocks, values.size());
    for (std::size_t i = 0; i < values.size(); ++i) CHECK(std::abs(found[i] - values[i]) <= step);
}

TEST_CASE("blocks without a range keep their value", "[core][quantized]") {
    const DType format = GENERATE(from_range(kBlockFormats));
    const float value = GENERATE(0.0f, 1.0f, -1.0f, 0.05f, -300.0f);  // less: the halves of q6_k have few bits left
    CAPTURE(to_string(format), value);
    const std::vector<float> values(256, value);
    std::vector<std::byte> blocks(bytes_of(format, values.size()));
    quantize(format, values, blocks);
    const float bound =
        format == DType::mxfp4 ? 0.2f : 0.01f;  // half a step; the rounding of a half and, in q8_0, of 127 · d
    for (const float found : dequantized(format, blocks, values.size()))
        CHECK(std::abs(found - value) <= bound * std::abs(value));
}

TEST_CASE("a value that is not finite stays visible", "[core][quantized]") {
    const DType format = GENERATE(from_range(kBlockFormats));
    const float value = GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                                 -std::numeric_limits<float>::infinity(), 3e38f);  // the last: no half holds its scale
    if (format == DType::mxfp4 && std::isfinite(value)) return;
    CAPTURE(to_string(format), value);
    std::vector<float> values = normal_values(2 * 256);
    values[300] = value;
    std::vector<std::byte> blocks(bytes_of(format, values.size()));
    quantize(format, values, blocks);
    const std::vector<float> found = dequantized(format, blocks, values.size());
    CHECK_FALSE(std::isfinite(found[300]));
    CHECK(std::ranges::all_of(std::span(found).first(256), [](float v) { return std::isfinite(v); }));
}

TEST_CASE("convert reads whole blocks from anywhere", "[core][quantized]") {
    const DType format = GENERATE(from_range(kBlockFormats));
    const std::size_t elements = block_elements(format), count = 40 * 256;  // more than convert does at once
    const std::vector<float> values = normal_values(count);
    std::vector<std::byte> blocks(bytes_of(format, count));
    quantize(format, values, blocks);
    const std::vector<float> all = dequantized(format, blocks, count);

    std::vector<double> found(count - 3 * elements);
    must(convert(format, blocks, 3 * elements, std::span(found)));
    CHECK(std::ranges::equal(found, std::span(all).subspan(3 * elements)));
    std::vector<std::int32_t> integers(elements);
    CHECK_FALSE(convert(format, blocks, 0, std::span(integers)));
}

TEST_CASE("quantized refuses what has no blocks", "[core][quantized]") {
    const std::vector<float> values(96);
    const TensorData data{
        .dtype = DType::f32, .shape = {3, 32}, .bytes = std::as_bytes(std::span(values)), .owner = {}};
    CHECK(must(quantized(data, DType::q8_0)).bytes.size() == 3 * 34);
    const auto refused = [](const TensorData& what, DType format) { return quantized(what, format).error().message; };
    CHECK(refused(data, DType::q4_k) ==
          "quantized: the rows of [3, 32] are no multiple of the 256 elements of a q4_k block");
    CHECK(refused(data, DType::f16) == "quantized: cannot make f16 blocks of f32 values");
    TensorData wrong = data;
    wrong.bytes = wrong.bytes.first(100);
    CHECK(refused(wrong, DType::q8_0) == "quantized: 100 bytes do not fit the shape [3, 32]");
    wrong = must(quantized(data, DType::q8_0));
    CHECK(refused(wrong, DType::q4_0) == "quantized: cannot make q4_0 blocks of q8_0 values");
}

TEST_CASE("bfloat16 rounds to nearest even and keeps NaN", "[core][quantized]") {
    CHECK(bfloat_to_float(float_to_bfloat(1.0f)) == 1.0f);
    CHECK(bfloat_to_float(float_to_bfloat(1.0f + 0x1p-8f)) == 1.0f);            // a tie, to even
    CHECK(bfloat_to_float(float_to_bfloat(1.0f + 0x3p-8f)) == 1.0f + 0x1p-6f);  // a tie, to even
    CHECK(bfloat_to_float(float_to_bfloat(-1.0f - 0x1.1p-8f)) == -1.0f - 0x1p-7f);
    CHECK(std::isinf(bfloat_to_float(float_to_bfloat(std::numeric_limits<float>::max()))));
    CHECK(std::isnan(bfloat_to_float(float_to_bfloat(std::numeric_limits<float>::quiet_NaN()))));
    CHECK(std::isnan(
        bfloat_to_float(float_to_bfloat(std::bit_cast<float>(0x7F800001u)))));  // all set bits are lower ones
}

}  // namespace
}  // namespace vkformer::tests
