// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/block_format.hpp"
#include "cpu/cache_places.hpp"
#include "cpu/float_kernels.hpp"
#include "cpu/operands.hpp"

namespace vkformer::cpu {

/// What is left of the values in a q8_0 cache, block by block: x = d · round(x / d), d = max |x| / 127 as a float16. Here a cache holds
/// these numbers as they are, not the blocks.
template <std::floating_point T>
void round_to_q8_0(std::span<T> values) {
    constexpr std::size_t kBlock = 32, kBytes = 34;
    for (std::size_t first = 0; first < values.size(); first += kBlock) {
        const std::span<T> block = values.subspan(first, kBlock);
        std::array<float, kBlock> floats;  // float: a device has no more than f32 either
        std::ranges::transform(block, floats.begin(), [](T value) { return static_cast<float>(value); });
        std::array<std::byte, kBytes> stored;
        quantize(DType::q8_0, floats, stored);
        dequantize(DType::q8_0, stored, floats);
        std::ranges::copy(floats, block.begin());
    }
}

/// For attention on bfloat16: bfloat_pairs.hpp.
template <std::floating_point T>
void round_to_bfloats(std::span<T> values) {
    if constexpr (std::same_as<T, float>) float_kernels().round_to_bfloats(values.data(), values.size());
}

struct CacheDims {
    std::size_t rows, capacity, width;  // width = heads · dim, of tokens 1
};

template <std::floating_point T>
CacheDims cache_dims(graph::Value cache, const Operands<T>& operands) {
    const std::size_t rows = operands.dim(cache, 0), capacity = operands.dim(cache, 1);
    return {.rows = rows, .capacity = capacity, .width = operands.shape(cache).element_count() / (rows * capacity)};
}

// cache[b, starts[b] + i, :] = x[b, i, :]     x: [batch, len, width], cache: rows of `width` elements, where `places` says; positions
// outside the cache are not written. `starts` may be empty: 0. `store` may change what was copied: it is told every position that was
// written.
template <class T>
void cache_append(std::span<const T> x, std::span<const std::int32_t> starts, std::size_t len, std::size_t width,
                  const CachePlaces& places, std::span<T> cache, auto&& store) {
    const std::size_t batch = x.size() / (len * width);
    for (std::size_t b = 0; b < batch; ++b)
        for (std::size_t i = 0; i < len; ++i) {
            const std::int64_t start = starts.empty() ? 0 : starts[b];
            const auto to = places.row_of(b, start + static_cast<std::int64_t>(i));
            if (!to) continue;
            const std::span<T> row = cache.subspan(*to * width, width);
            for (std::size_t d = 0; d < width; ++d) row[d] = x[(b * len + i) * width + d];
            store(row);
        }
}

}  // namespace vkformer::cpu
