// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>

namespace vkformer::cpu {

struct PatchifyDims {
    std::size_t batch, channels, height, width;
    std::size_t patch_height, patch_width;
    std::size_t prefix;
};

// y[b, prefix + i · columns + j, (c · patch_height + v) · patch_width + u]
//   = pixels[b, c, i · patch_height + v, j · patch_width + u]; rows before prefix are zeros
template <std::floating_point T>
void patchify(std::span<const T> pixels, const PatchifyDims& d, std::span<T> y) {
    const std::size_t rows = d.height / d.patch_height, columns = d.width / d.patch_width;
    auto out = y.begin();
    for (std::size_t b = 0; b < d.batch; ++b) {
        const std::size_t zeros = d.prefix * d.channels * d.patch_height * d.patch_width;
        out = std::fill_n(out, zeros, T{0});
        for (std::size_t patch = 0; patch < rows * columns; ++patch) {
            const std::size_t top = patch / columns * d.patch_height, left = patch % columns * d.patch_width;
            for (std::size_t c = 0; c < d.channels; ++c)
                for (std::size_t v = 0; v < d.patch_height; ++v) {
                    const std::size_t line = (b * d.channels + c) * d.height + top + v;
                    out = std::ranges::copy(pixels.subspan(line * d.width + left, d.patch_width), out).out;
                }
        }
    }
}

}  // namespace vkformer::cpu
