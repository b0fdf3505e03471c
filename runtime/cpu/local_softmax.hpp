// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "cpu/attention_mask.hpp"
#include "cpu/softmax.hpp"

namespace vkformer::cpu {

/// Where the windows lie; either positions or relative is empty, and so may be key_lengths.
template <std::floating_point T>
struct LocalWindows {
    std::size_t half_width;
    std::span<const std::int32_t> positions;  // [batch, query_len]
    std::span<const T> relative;              // [batch, query_len]
    std::span<const std::int32_t> key_lengths;
};

// weights[b, h, i, :] = softmax of scores[b, h, i, :] over the keys with |p − j| ≤ half_width and j < length, 0 for the others;
// zeros where there is none. p = positions[b, i]; or p = relative[b, i] · length, and then each weight times
// exp(−(j − p)² / 2σ²), σ = half_width / 2. A NaN in p gives a row of NaN. Luong et al. 2015, eq. 9 and 10.
template <std::floating_point T>
void local_softmax(std::span<const T> scores, const LocalWindows<T>& windows, const AttentionDims& dims,
                   std::span<T> weights) {
    const T width = static_cast<T>(windows.half_width), sigma = width / 2;
    std::ranges::fill(weights, T{0});
    for (std::size_t b = 0; b < dims.batch; ++b)
        for (std::size_t h = 0; h < dims.heads; ++h)
            for (std::size_t i = 0; i < dims.query_len; ++i) {
                const T length = windows.key_lengths.empty() ? static_cast<T>(dims.key_len)
                                                             : std::clamp(static_cast<T>(windows.key_lengths[b]), T{0},
                                                                          static_cast<T>(dims.key_len));
                const std::size_t at = b * dims.query_len + i;
                const T centre =
                    windows.relative.empty() ? static_cast<T>(windows.positions[at]) : windows.relative[at] * length;
                const std::size_t base = ((b * dims.heads + h) * dims.query_len + i) * dims.key_len;
                if (std::isnan(centre)) {
                    std::ranges::fill(weights.subspan(base, dims.key_len), std::numeric_limits<T>::quiet_NaN());
                    continue;
                }
                const auto first = static_cast<std::size_t>(std::clamp(std::ceil(centre - width), T{0}, length));
                const auto behind = static_cast<std::size_t>(std::clamp(std::floor(centre + width) + 1, T{0}, length));
                const std::size_t end = std::min(behind, dims.key_len);  // a long key_len may have been rounded up
                if (first >= end) continue;
                const std::span<T> row = weights.subspan(base + first, end - first);
                std::ranges::copy(scores.subspan(base + first, end - first), row.begin());
                const T sum = exponentiate(row).sum;
                if (sum == 0) continue;  // all scores are −∞; a NaN goes on
                for (std::size_t j = first; j < end; ++j) {
                    const T distance = static_cast<T>(j) - centre;
                    row[j - first] /= sum;
                    if (!windows.relative.empty())
                        row[j - first] *= std::exp(-distance * distance / (2 * sigma * sigma));
                }
            }
}

}  // namespace vkformer::cpu
