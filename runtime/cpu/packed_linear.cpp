// SPDX-License-Identifier: MIT
#include "cpu/packed_linear.hpp"

#include <algorithm>
#include <memory>

#include "cpu/float_kernels.hpp"
#include "cpu/packed_dot.hpp"
#include "cpu/parallel.hpp"

namespace vkformer::cpu {
namespace {

/// Up to so many rows of x go through dot products with packed rows. Making floats of a row takes about as long as one of those, and a
/// product with floats less than half.
constexpr std::size_t kDotRows = 2;

// Blocks of a product with more rows, for a first cache of 32 KiB and a second one of 256 KiB or more. Of w, kPanelRows · kDepth unpacked
// floats (120 KiB) and of x, kBlockRows · kDepth (80 KiB) stay in the second; kStripRows of w and four of x (40 KiB at most, 32 of a depth
// of 1536, which is cut into three) mostly in the first.
constexpr std::size_t kPanelRows = 48, kStripRows = 12, kBlockRows = 32, kDepth = 640;
/// Where depths are cut: the elements of the largest block of any format.
constexpr std::size_t kDepthStep = 256;

std::size_t rows_of(const TensorData& part, std::size_t in) { return part.shape.element_count() / in; }

struct PackedRows {
    DType dtype;
    const PackedKernels& kernels;
    const std::byte* bytes;
    std::size_t row_bytes, in;
    const std::byte* row(std::size_t i) const { return bytes + i * row_bytes; }
};

PackedRows rows_in(const PackedWeight& weight, const TensorData& part) {
    return {weight.dtype, *packed_kernels(weight.dtype), part.bytes.data(), bytes_of(weight.dtype, weight.in),
            weight.in};
}

/// y[r · stride + o] += weight row o · x row r, for all o below `count`. `arranged`: the rows of x, as the kernels read them.
void add_dots(const PackedRows& weight, std::size_t count, std::span<const float> arranged, std::size_t rows, float* y,
              std::size_t stride) {
    const std::size_t size = arranged.size() / rows;
    parallel_for(count, slice_of(count, weight.in * rows), [&](std::size_t first, std::size_t last, std::size_t) {
        for (std::size_t o = first; o < last; ++o)
            for (std::size_t r = 0; r < rows; ++r)
                y[r * stride + o] += weight.kernels.dot(weight.row(o), arranged.data() + r * size, weight.in);
    });
}

/// Elements of a row that are unpacked at a time: equal parts, of whole blocks.
std::size_t depth_of_panels(std::size_t in) {
    const std::size_t parts = (in + kDepth - 1) / kDepth, each = (in + parts - 1) / parts;
    return parts == 1 ? in : (each + kDepthStep - 1) / kDepthStep * kDepthStep;
}

/// Floats of a panel go through x: y[r, c] += x row r · panel row c, over `depth` elements.
void add_panel(const ProductOperands& o) {
    const FloatKernels& kernels = float_kernels();
    for (std::size_t r = 0; r < o.rows; r += kBlockRows)
        for (std::size_t c = 0; c < o.columns; c += kStripRows) {
            ProductOperands part = o;
            part.rows = std::min(kBlockRows, o.rows - r);
            part.columns = std::min(kStripRows, o.columns - c);
            part.x += r * o.x_stride;
            part.w += c * o.w_stride;
            part.y += r * o.y_stride + c;
            kernels.add_products(part);
        }
}

/// The same by panels of unpacked rows, each a thread's own: a BLAS would want all of the weight as floats, and threads of its own.
void add_panels(const PackedRows& weight, std::size_t count, std::span<const float> x, std::size_t rows, float* y,
                std::size_t stride) {
    const std::size_t depth = depth_of_panels(weight.in);
    const std::size_t share =
        count / (2 * parallel_threads()) / kStripRows * kStripRows;  // of many threads, each gets some
    const std::size_t panel_rows = std::clamp(share, kStripRows, kPanelRows);
    const auto panels = std::make_unique_for_overwrite<float[]>(parallel_threads() * panel_rows * depth);
    parallel_for(count, panel_rows, [&](std::size_t first, std::size_t last, std::size_t thread) {
        float* const panel = panels.get() + thread * panel_rows * depth;
        for (; first < last; first += panel_rows)
            for (std::size_t i = 0; i < weight.in; i += depth) {
                const std::size_t columns = std::min(panel_rows, last - first), some = std::min(depth, weight.in - i);
                for (std::size_t c = 0; c < columns; ++c)
                    weight.kernels.unpack(weight.row(first + c) + bytes_of(weight.dtype, i), some, panel + c * some);
                add_panel({rows, columns, some, x.data() + i, weight.in, panel, some, y + first, stride});
            }
    });
}

std::vector<float> arranged(const PackedKernels& kernels, std::span<const float> x, std::size_t rows, std::size_t in) {
    const std::size_t size = kernels.arranged_size(in);
    std::vector<float> result(rows * size);
    for (std::size_t r = 0; r < rows; ++r) kernels.arrange(x.data() + r * in, in, result.data() + r * size);
    return result;
}

}  // namespace

void unpack_row(const PackedWeight& weight, std::size_t row, std::span<float> out) {
    assert(out.size() == weight.in);
    auto part = weight.parts.begin();
    for (; row >= rows_of(*part, weight.in); ++part) row -= rows_of(*part, weight.in);
    const PackedRows rows = rows_in(weight, *part);
    rows.kernels.unpack(rows.row(row), weight.in, out.data());
}

void packed_linear(std::span<const float> x, const PackedWeight& weight, std::span<const float> bias,
                   std::span<const float> residual, graph::Activation activation, const LinearDims& dims,
                   std::span<float> y) {
    const auto [rows, in, out] = dims;
    assert(x.size() == rows * in && weight.in == in && y.size() == rows * out);
    begin_linear<float>(bias, out, y);
    const bool is_few = rows <= kDotRows;
    const std::vector<float> few = is_few ? arranged(*packed_kernels(weight.dtype), x, rows, in) : std::vector<float>();
    std::size_t first = 0;
    for (const TensorData& part : weight.parts) {
        const std::size_t count = rows_of(part, in);
        if (is_few)
            add_dots(rows_in(weight, part), count, few, rows, y.data() + first, out);
        else
            add_panels(rows_in(weight, part), count, x, rows, y.data() + first, out);
        first += count;
    }
    end_linear<float>(residual, activation, dims, y);
}

}  // namespace vkformer::cpu
