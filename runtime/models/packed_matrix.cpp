// SPDX-License-Identifier: MIT
#include "models/packed_matrix.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

namespace vkformer::models::packed {

void store_half(std::byte* at, float value) {
    const std::uint16_t half = float_to_half(value);
    std::memcpy(at, &half, sizeof half);
}

namespace {

/// The format that has the numbers of the matrix.
DType format_of(const PackedMatrix& matrix) {
    if (!matrix.has_whole_blocks()) return DType::f16;
    const int top = static_cast<int>(matrix.levels()) - 1;
    int least = 0, most = 0;
    for (const std::uint8_t zero : matrix.zeros) {
        least = std::min(least, -static_cast<int>(zero));
        most = std::max(most, top - static_cast<int>(zero));
    }
    constexpr float kRounding = 0x1p-11f;
    const bool fits_half =
        matrix.is_half || std::ranges::all_of(matrix.scales, [](float scale) {
            return std::abs(half_to_float(float_to_half(scale)) - scale) <= kRounding * std::abs(scale);
        });
    if (!fits_half) return DType::f16;
    if (least >= -8 && most <= 7) return DType::q4_0;
    if (matrix.bits <= 4) return DType::q4_1;
    return least >= -128 && most <= 127 ? DType::q8_0 : DType::f16;
}

/// Two elements' nibbles are in a byte: number i and i + 16.
void store_nibbles(const std::array<int, kBlock>& values, std::byte* at) {
    for (std::size_t i = 0; i < kBlock / 2; ++i)
        at[i] = static_cast<std::byte>(values[i] | values[i + kBlock / 2] << 4);
}

/// One block: the integers `q` with the scale and the zero of their group.
void store_block(DType format, std::array<int, kBlock> q, float scale, int zero, std::byte* at) {
    store_half(at, scale);
    if (format == DType::q4_1) {
        store_half(at + 2, -static_cast<float>(zero) * scale);
        return store_nibbles(q, at + 4);
    }
    for (int& value : q) value -= zero;
    if (format == DType::q8_0) {
        for (std::size_t i = 0; i < kBlock; ++i) at[2 + i] = static_cast<std::byte>(static_cast<std::int8_t>(q[i]));
        return;
    }
    for (int& value : q) value += 8;
    store_nibbles(q, at + 2);
}

}  // namespace

TensorData repacked(const PackedMatrix& matrix, const Words& integers) {
    const DType format = format_of(matrix);
    const std::uint64_t row_bytes = bytes_of(format, matrix.in);
    const auto bytes = std::make_shared<std::vector<std::byte>>(matrix.out * row_bytes);
    const auto place = [&](std::uint64_t o, std::uint64_t i) { return matrix.group(i) * matrix.out + o; };
    for (std::uint64_t o = 0; o < matrix.out; ++o) {
        std::byte* at = bytes->data() + o * row_bytes;
        if (format == DType::f16) {
            for (std::uint64_t i = 0; i < matrix.in; ++i, at += 2) {
                const int q = integers.at(o, i), zero = matrix.zeros[place(o, i)];
                store_half(at, static_cast<float>(q - zero) * matrix.scales[place(o, i)]);
            }
            continue;
        }
        for (std::uint64_t first = 0; first < matrix.in; first += kBlock, at += block_bytes(format)) {
            store_block(format, integers.block(o, first), matrix.scales[place(o, first)], matrix.zeros[place(o, first)],
                        at);
        }
    }
    return {
        .dtype = format, .shape = {matrix.out, matrix.in}, .bytes = std::span<const std::byte>(*bytes), .owner = bytes};
}

}  // namespace vkformer::models::packed
