// SPDX-License-Identifier: MIT
#include "cpu/packed_linear.hpp"

#include <algorithm>

#include "cpu/packed_dot.hpp"
#include "cpu/parallel.hpp"

namespace vkformer::cpu {
namespace {

/// Up to so many rows of x, each row of the weight is multiplied with all of them while it is in the cache.
constexpr std::size_t kDotRows = 4;
/// Multiplications in a slice of rows that a thread takes at a time: some 20 µs.
constexpr std::size_t kSliceProducts = std::size_t{1} << 17;
/// Floats of unpacked rows: 1 MiB, which stays in the second or third cache between being made and being multiplied.
constexpr std::size_t kPanelFloats = std::size_t{1} << 18;

std::size_t rows_of(const TensorData& part, std::size_t in) { return part.shape.element_count() / in; }

struct PackedRows {
    const PackedKernels& kernels;
    const std::byte* bytes;
    std::size_t row_bytes, in;
    const std::byte* row(std::size_t i) const { return bytes + i * row_bytes; }
};

PackedRows rows_in(const PackedWeight& weight, const TensorData& part) {
    return {*packed_kernels(weight.dtype), part.bytes.data(), bytes_of(weight.dtype, weight.in), weight.in};
}

/// y[r · stride + o] += weight row o · x row r, for all o below `count`. `arranged`: the rows of x, as the kernels read them.
void add_dots(const PackedRows& weight, std::size_t count, std::span<const float> arranged, std::size_t rows, float* y,
              std::size_t stride) {
    const std::size_t size = arranged.size() / rows;
    parallel_for(
        count, std::max<std::size_t>(1, kSliceProducts / (weight.in * rows)), [&](std::size_t first, std::size_t last) {
            for (std::size_t o = first; o < last; ++o)
                for (std::size_t r = 0; r < rows; ++r)
                    y[r * stride + o] += weight.kernels.dot(weight.row(o), arranged.data() + r * size, weight.in);
        });
}

/// The same by panels of unpacked rows, of which each is a matrix product.
void add_panels(const PackedRows& weight, std::size_t count, std::span<const float> x, std::size_t rows, float* y,
                std::size_t stride) {
    const std::size_t panel_rows = std::clamp<std::size_t>(kPanelFloats / weight.in, 1, count);
    std::vector<float> panel(panel_rows * weight.in);
    for (std::size_t first = 0; first < count; first += panel_rows) {
        const std::size_t some = std::min(panel_rows, count - first);
        parallel_for(some, std::max<std::size_t>(1, kSliceProducts / weight.in), [&](std::size_t from, std::size_t to) {
            for (std::size_t o = from; o < to; ++o)
                weight.kernels.unpack(weight.row(first + o), weight.in, panel.data() + o * weight.in);
        });
        add_product_transposed(rows, some, weight.in, 1.0f, {x.data(), weight.in}, {panel.data(), weight.in},
                               {y + first, stride});
    }
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
    end_linear<float>(residual, activation, y);
}

}  // namespace vkformer::cpu
