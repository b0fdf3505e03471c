// SPDX-License-Identifier: MIT
#include "core/finite.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "core/block_format.hpp"
#include "support/catch.h"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

TensorData floats_of(const std::shared_ptr<std::vector<float>>& values) {
    return {
        .dtype = DType::f32, .shape = {values->size()}, .bytes = std::as_bytes(std::span(*values)), .owner = values};
}

TEST_CASE("the first value that is not finite is found wherever it is", "[core]") {
    const float bad = GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity());
    const auto values = std::make_shared<std::vector<float>>(10'000, std::numeric_limits<float>::max());
    CHECK_FALSE(first_not_finite(DType::f32, floats_of(values).bytes));
    for (const std::size_t at : {0u, 1u, 4095u, 4096u, 9'999u}) {
        CAPTURE(bad, at);
        auto changed = std::make_shared<std::vector<float>>(*values);
        (*changed)[at] = bad;
        changed->back() = bad;
        CHECK(first_not_finite(DType::f32, floats_of(changed).bytes) == at);
    }
    CHECK_FALSE(first_not_finite(DType::f32, {}));
}

TEST_CASE("halves and bfloats that are not finite are found", "[core]") {
    const std::vector<std::uint16_t> halves = {0x7BFF, 0xFBFF, 0x0001, 0x7C00}, bfloats = {0x7F7F, 0xFF7F, 0xFFC0};
    CHECK(first_not_finite(DType::f16, std::as_bytes(std::span(halves))) == 3);
    CHECK_FALSE(first_not_finite(DType::f16, std::as_bytes(std::span(halves).first(3))));
    CHECK(first_not_finite(DType::bf16, std::as_bytes(std::span(bfloats))) == 2);
    CHECK_FALSE(first_not_finite(DType::bf16, std::as_bytes(std::span(bfloats).first(2))));
}

TEST_CASE("doubles that are not finite, or infinite as float32, are found, and no others", "[core]") {
    std::vector<double> doubles(4096);
    for (std::size_t i = 0; i < doubles.size(); ++i) doubles[i] = std::sin(static_cast<double>(i)) / 3;
    doubles[7] = std::numeric_limits<float>::max();
    doubles[8] = 1e-300;
    CHECK_FALSE(first_not_finite(DType::f64, std::as_bytes(std::span(doubles))));
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity(), 1e39}) {
        CAPTURE(bad);
        std::vector<double> changed = doubles;
        changed[3000] = changed.back() = bad;
        CHECK(first_not_finite(DType::f64, std::as_bytes(std::span(changed))) == 3000);
    }
}

TEST_CASE("blocks of mxfp4 whose exponent is no number, or makes infinite ones, are found", "[core]") {
    std::vector<std::byte> blocks(5 * 17, std::byte{0x77});
    CHECK_FALSE(first_not_finite(DType::mxfp4, blocks));
    blocks[17] = std::byte{252};  // 12 · 2^124
    CHECK_FALSE(first_not_finite(DType::mxfp4, blocks));
    std::vector<float> values(5 * 32);
    for (const int exponent : {253, 254, 255}) {
        CAPTURE(exponent);
        blocks[3 * 17] = static_cast<std::byte>(exponent);
        CHECK(first_not_finite(DType::mxfp4, blocks) == std::optional<std::uint64_t>{96});
        dequantize(DType::mxfp4, blocks, values);
        CHECK(std::isfinite(values[32]));
        CHECK(std::isinf(values[96]));
    }
    blocks[0] = std::byte{253};
    CHECK(first_not_finite(DType::mxfp4, blocks) == std::optional<std::uint64_t>{0});
}

TEST_CASE("blocks with a scale that is not finite are found", "[core]") {
    for (const DType format : kBlockFormats) {
        CAPTURE(to_string(format));
        const auto values = std::make_shared<std::vector<float>>(1024);
        for (std::size_t i = 0; i < values->size(); ++i) (*values)[i] = std::sin(static_cast<float>(i));
        CHECK_FALSE(first_not_finite(format, must(quantized(floats_of(values), format)).bytes));
        (*values)[700] = std::numeric_limits<float>::quiet_NaN();
        const std::uint64_t block = block_elements(format);
        CHECK(first_not_finite(format, must(quantized(floats_of(values), format)).bytes) == 700 / block * block);
    }
}

}  // namespace
TEST_CASE("floats of eight bits are those of E4M3", "[core][dtype]") {
    CHECK(f8_e4m3_to_float(0x00) == 0.0f);
    CHECK(f8_e4m3_to_float(0x01) == 0x1p-9f);  // the least
    CHECK(f8_e4m3_to_float(0x07) == 0x7p-9f);  // the largest without a leading one
    CHECK(f8_e4m3_to_float(0x08) == 0x1p-6f);
    CHECK(f8_e4m3_to_float(0x38) == 1.0f);
    CHECK(f8_e4m3_to_float(0x3C) == 1.5f);
    CHECK(f8_e4m3_to_float(0x7E) == 448.0f);  // the largest: no pattern is infinite
    CHECK(std::isnan(f8_e4m3_to_float(0x7F)));
    CHECK(std::isnan(f8_e4m3_to_float(0xFF)));
    CHECK(std::signbit(f8_e4m3_to_float(0x80)));
    for (unsigned bits = 1; bits < 0x7F; ++bits) {
        CAPTURE(bits);
        CHECK(f8_e4m3_to_float(static_cast<std::uint8_t>(bits)) >
              f8_e4m3_to_float(static_cast<std::uint8_t>(bits - 1)));
        CHECK(f8_e4m3_to_float(static_cast<std::uint8_t>(bits | 0x80)) ==
              -f8_e4m3_to_float(static_cast<std::uint8_t>(bits)));
    }
}

}  // namespace vkformer::tests
