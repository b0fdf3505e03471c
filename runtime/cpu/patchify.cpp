// SPDX-License-Identifier: MIT
#include <algorithm>

#include "cpu/twins.hpp"

namespace vkformer::cpu {

// y[b, prefix + i · columns + j, (c · patch_height + v) · patch_width + u]
//   = pixels[b, c, i · patch_height + v, j · patch_width + u]; rows before prefix are zeros
template <std::floating_point T>
void execute(const graph::Patchify& op, const Operands<T>& operands) {
    const std::size_t batch = operands.dim(op.pixels, 0), channels = operands.dim(op.pixels, 1);
    const std::size_t height = operands.dim(op.pixels, 2), width = operands.dim(op.pixels, 3);
    const std::size_t rows = height / op.patch_height, columns = width / op.patch_width;
    const std::span<const T> pixels = operands.floats(op.pixels);
    auto out = operands.floats(op.y).begin();
    for (std::size_t b = 0; b < batch; ++b) {
        out = std::fill_n(out, op.prefix * operands.width(op.y), T{0});
        for (std::size_t patch = 0; patch < rows * columns; ++patch) {
            const std::size_t top = patch / columns * op.patch_height, left = patch % columns * op.patch_width;
            for (std::size_t c = 0; c < channels; ++c)
                for (std::size_t v = 0; v < op.patch_height; ++v) {
                    const std::size_t line = (b * channels + c) * height + top + v;
                    out = std::ranges::copy(pixels.subspan(line * width + left, op.patch_width), out).out;
                }
        }
    }
}
template void execute(const graph::Patchify&, const Operands<float>&);
template void execute(const graph::Patchify&, const Operands<double>&);

// a copy, which float16 rounds
ErrorRule error_rule(const graph::Patchify&, const graph::Graph&) { return {0}; }

}  // namespace vkformer::cpu
