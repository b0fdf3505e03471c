// SPDX-License-Identifier: MIT
#include "cpu/packed_linear.hpp"

#include <algorithm>
#include <memory>

#include "cpu/aligned_bytes.hpp"
#include "cpu/float_kernels.hpp"
#include "cpu/float_product.hpp"
#include "cpu/int8_kernels.hpp"
#include "cpu/packed_dot.hpp"
#include "cpu/parallel.hpp"
#include "cpu/rows.hpp"

namespace vkformer::cpu {
namespace {

/// Up to so many rows of x go through dot products with packed rows. Making floats of a row in blocks takes about as long as one of those,
/// and a product with floats less than half; halves become floats on the way, where that was measured (AVX2, AVX-512) once for four rows.
std::size_t most_dot_rows(DType dtype) {
    if (is_quantized(dtype)) return 2;
    return float_panel_kernels().rows_in_cache > 0 && packed_kernels(dtype)->dot_four != nullptr ? 12 : 6;
}

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
    const PackedKernels& kernels = weight.kernels;
    const std::size_t size = arranged.size() / rows;
    const std::size_t by_four = kernels.dot_four != nullptr ? rows / kFourRows * kFourRows : 0;
    parallel_for(count, slice_of_weight(count, weight.in * rows, weight.row_bytes),
                 [&](std::size_t first, std::size_t last, std::size_t) {
                     for (std::size_t o = first; o < last; ++o) {
                         for (std::size_t r = 0; r < by_four; r += kFourRows) {
                             float sums[kFourRows];
                             kernels.dot_four(weight.row(o), arranged.data() + r * size, weight.in, sums);
                             for (std::size_t k = 0; k < kFourRows; ++k) y[(r + k) * stride + o] += sums[k];
                         }
                         for (std::size_t r = by_four; r < rows; ++r)
                             y[r * stride + o] += kernels.dot(weight.row(o), arranged.data() + r * size, weight.in);
                     }
                 });
}

/// The same by a few rows at a time, which become floats in a first cache and meet all of x there.
void add_in_cache(const PackedRows& weight, std::size_t count, std::span<const float> x, std::size_t rows, float* y,
                  std::size_t stride) {
    // As many columns as tiles take; rows do not lie a power of two apart.
    constexpr std::size_t kColumns = 12, kDepth = 512, kStride = kDepth + 16;
    const std::size_t parts = (weight.in + kDepth - 1) / kDepth, step = block_elements(weight.dtype);
    const std::size_t each = ((weight.in + parts - 1) / parts + step - 1) / step * step;
    const std::size_t groups = (count + kColumns - 1) / kColumns;
    const std::size_t slice = slice_of_weight(groups, kColumns * weight.in * rows, kColumns * weight.row_bytes);
    parallel_for(groups, slice, [&](std::size_t first, std::size_t last, std::size_t) {
        alignas(64) float made[kColumns * kStride];
        const std::size_t end = std::min(last * kColumns, count);
        for (std::size_t o = first * kColumns; o < end; o += kColumns) {
            const std::size_t columns = std::min(kColumns, end - o);
            for (std::size_t i = 0; i < weight.in; i += each) {
                const std::size_t depth = std::min(each, weight.in - i);
                for (std::size_t c = 0; c < columns; ++c)
                    weight.kernels.unpack(weight.row(o + c) + bytes_of(weight.dtype, i), depth, made + c * kStride);
                float_panel_kernels().add_transposed({.rows = rows,
                                                      .columns = columns,
                                                      .depth = depth,
                                                      .x = x.data() + i,
                                                      .x_stride = weight.in,
                                                      .w = made,
                                                      .w_stride = kStride,
                                                      .y = y + o,
                                                      .y_stride = stride});
            }
        }
    });
}

/// The same by panels of unpacked rows, each a thread's own: a BLAS would want all of the weight as floats, and threads of its own.
void add_panels(const PackedRows& weight, std::size_t count, std::span<const float> x, std::size_t rows, float* y,
                std::size_t stride) {
    const auto unpack = [](const void* context, std::size_t first, std::size_t some, std::size_t i, std::size_t depth,
                           float* scratch) {
        const PackedRows& from = *static_cast<const PackedRows*>(context);
        for (std::size_t r = 0; r < some; ++r)
            from.kernels.unpack(from.row(first + r) + bytes_of(from.dtype, i), depth, scratch + r * depth);
        return FloatRows{scratch, depth};
    };
    add_float_product(x.data(), {.context = &weight, .rows = unpack, .step = block_elements(weight.dtype)},
                      {.rows = rows, .in = weight.in, .out = count, .y_stride = stride}, y);
}

std::vector<float> arranged(const PackedKernels& kernels, std::span<const float> x, std::size_t rows, std::size_t in) {
    const std::size_t size = kernels.arranged_size(in);
    std::vector<float> result(rows * size);
    for (std::size_t r = 0; r < rows; ++r) kernels.arrange(x.data() + r * in, in, result.data() + r * size);
    return result;
}

// ---- activations in 8 bits -----------------------------------------------------------------------------------------------------

/// Up to so many rows of an expert's, one by one with those of all others: its own panels would keep the threads waiting for each other.
constexpr std::size_t kInt8SingleRows = 4, kSingleRows = 2;
/// Groups of a panel at most, a multiple of what the largest block has: 8192 elements of eight rows take 72 KiB or 80 of a second cache.
constexpr std::size_t kPanelGroups = 256;
/// Up to so many tiles, one panel after the other: the weight is read from front to back, as fast as memory goes. Beyond, so many panels
/// at a time as kPanelsBytes holds, at most four, for each tile that is read.
constexpr std::size_t kFewTiles = 2, kPanelsAtOnce = 4, kPanelsBytes = std::size_t{320} << 10;

/// Tiles that a last cache keeps while the panels pass by.
constexpr std::size_t kTilesBytes = std::size_t{8} << 20;

/// x in 8 bits, for all rows of a weight.
class Int8Product {
public:
    Int8Product(const Int8Kernels& kernels, std::span<const float> x, std::size_t rows, std::size_t in)
        : kernels_(kernels), tiled_(rows_in_tiles(kernels, rows)), single_(rows - tiled_), groups_(in / kInt8Group) {
        if (tiled_ > 0) make_tiles(x.first(tiled_ * in));
        if (single_ > 0) quantize(x.subspan(tiled_ * in));
    }

    /// y[r · stride + o] += weight row o · x row r, for all o below `count`.
    void add(const PackedRows& weight, std::size_t count, float* y, std::size_t stride) const {
        if (tiled_ > 0) add_panels(weight, count, y, stride);
        if (single_ > 0) add_dots(weight, count, y + tiled_ * stride, stride);
    }

private:
    static std::size_t rows_in_tiles(const Int8Kernels& kernels, std::size_t rows) {
        if (rows <= kernels.dot_rows) return 0;
        const std::size_t left_over = rows % kernels.tile_rows;
        return left_over <= kernels.left_over_rows ? rows - left_over : rows;
    }

    void quantize(std::span<const float> x) {
        quants_ = aligned_bytes(single_ * groups_ * kInt8Group);
        scales_.resize(2 * single_ * groups_);
        const std::size_t in = groups_ * kInt8Group;
        for_rows(single_, in, [&](std::size_t r) {
            kernels_.quantize(x.data() + r * in, groups_, quants() + r * in, scales_.data() + r * groups_,
                              scales_.data() + (single_ + r) * groups_);
        });
    }

    std::int8_t* quants() const { return reinterpret_cast<std::int8_t*>(quants_.get()); }

    void add_dots(const PackedRows& weight, std::size_t count, float* y, std::size_t stride) const {
        // Eight weight rows are added up together.
        const std::size_t slice = slice_of_weight(count, weight.in * single_, weight.row_bytes);
        parallel_for(count, (slice + 7) / 8 * 8, [&](std::size_t first, std::size_t last, std::size_t) {
            for (std::size_t r = 0; r < single_; r += kMostDotRows) {
                const QuantizedRows rows{.rows = std::min(kMostDotRows, single_ - r),
                                         .groups = groups_,
                                         .quants = quants() + r * groups_ * kInt8Group,
                                         .scales = scales_.data() + r * groups_,
                                         .totals = scales_.data() + (single_ + r) * groups_};
                kernels_.add_dots(weight.row(first), weight.row_bytes, last - first, rows, y + r * stride + first,
                                  stride);
            }
        });
    }

    /// Tiles of as many rows as fit; the last may be a small one. Each tile's groups are neighbours.
    struct Tile {
        std::size_t first, rows, size;
    };
    std::size_t tile_count() const { return (tiled_ + kernels_.tile_rows - 1) / kernels_.tile_rows; }
    Tile tile(std::size_t i) const {
        const std::size_t first = i * kernels_.tile_rows, rows = std::min(kernels_.tile_rows, tiled_ - first);
        return {first, rows, rows <= kernels_.small_tile_rows ? kernels_.small_tile_rows : kernels_.tile_rows};
    }
    std::byte* group_of(const Tile& tile, std::size_t group) const {
        return tiles_.get() + (tile.first * groups_ + group * tile.size) * kernels_.tile_row_bytes;
    }

    void make_tiles(std::span<const float> x) {
        const std::size_t count = tile_count();
        const Tile end = tile(count - 1);
        tiles_ = aligned_bytes((end.first + end.size) * groups_ * kernels_.tile_row_bytes);
        const std::size_t in = groups_ * kInt8Group;
        parallel_for(count, slice_of(count, 8 * kernels_.tile_rows * in),
                     [&](std::size_t first, std::size_t last, std::size_t) {
                         for (std::size_t i = first; i < last; ++i) {
                             const Tile t = tile(i);
                             kernels_.make_tile(x.data() + t.first * in, in, t.rows, t.size, groups_, group_of(t, 0));
                         }
                     });
    }

    void add_panels(const PackedRows& weight, std::size_t count, float* y, std::size_t stride) const {
        const std::size_t tiles = tile_count(), panel_bytes = std::min(groups_, kPanelGroups) * kernels_.panel_bytes;
        const bool is_few = tiles <= kFewTiles;
        const std::size_t at_once = is_few ? 1 : std::clamp<std::size_t>(kPanelsBytes / panel_bytes, 1, kPanelsAtOnce);
        const std::size_t columns = at_once * kernels_.panel_columns, blocks = (count + columns - 1) / columns;
        // Where there are few blocks of columns, several threads make the same panels, each for some of the tiles.
        const std::size_t wanted = (2 * parallel_threads() + blocks - 1) / blocks;
        const std::size_t shares = std::clamp<std::size_t>(tiled_ / kLeastPanelUses, 1, wanted);
        const AlignedBytes buffers = aligned_bytes(parallel_threads() * at_once * panel_bytes);
        const auto multiply = [&](std::size_t first, std::size_t last, std::size_t thread) {
            std::byte* const panels = buffers.get() + thread * at_once * panel_bytes;
            for (; first < last; ++first) {
                const std::size_t block = first / shares * columns, share = first % shares;
                const std::size_t end = std::min(block + columns, count);
                // Of the next panel, whose rows are on their way while this one is multiplied.
                const bool has_next = is_few && groups_ <= kPanelGroups && first + 1 < last;
                for (std::size_t g = 0; g < groups_; g += kPanelGroups) {
                    const std::size_t groups = std::min(kPanelGroups, groups_ - g);
                    const auto each_panel = [&](auto&& visit) {
                        std::byte* panel = panels;
                        for (std::size_t c = block; c < end; c += kernels_.panel_columns, panel += panel_bytes)
                            visit(panel, c, std::min(kernels_.panel_columns, end - c));
                    };
                    each_panel([&](std::byte* panel, std::size_t column, std::size_t some) {
                        kernels_.make_panel(weight.row(column) + bytes_of(weight.dtype, g * kInt8Group),
                                            weight.row_bytes, some, groups, panel);
                    });
                    Ahead ahead = {};
                    if (has_next) ahead = {weight.row(end), std::min(columns, count - end) * weight.row_bytes / groups};
                    for (std::size_t i = share * tiles / shares; i < (share + 1) * tiles / shares; ++i, ahead = {}) {
                        const Tile t = tile(i);
                        each_panel([&](const std::byte* panel, std::size_t column, std::size_t some) {
                            kernels_.add_tile(group_of(t, g), t.size, t.rows, panel, some, groups, ahead,
                                              y + t.first * stride + column, stride);
                        });
                    }
                }
            }
        };
        const std::size_t slice =
            is_few ? slice_of_weight(blocks, columns * weight.in * tiled_, columns * weight.row_bytes) : 1;
        parallel_for(blocks * shares, slice, multiply);
    }

    const Int8Kernels& kernels_;
    std::size_t tiled_, single_;  // rows: the first go through tiles, the rest through dot products
    std::size_t groups_;
    AlignedBytes quants_;  // of rows for dot products
    std::vector<float> scales_;
    AlignedBytes tiles_;
};

/// The same with the activations as they are.
void add_float_products(std::span<const float> x, const PackedWeight& weight, const LinearDims& dims,
                        std::span<float> y) {
    const auto [rows, in, out] = dims;
    const bool is_few = rows <= most_dot_rows(weight.dtype);
    const std::vector<float> few = is_few ? arranged(*packed_kernels(weight.dtype), x, rows, in) : std::vector<float>();
    std::size_t first = 0;
    for (const TensorData& part : weight.parts) {
        const std::size_t count = rows_of(part, in);
        if (is_few)
            add_dots(rows_in(weight, part), count, few, rows, y.data() + first, out);
        else if (rows <= float_panel_kernels().rows_in_cache)
            add_in_cache(rows_in(weight, part), count, x, rows, y.data() + first, out);
        else
            add_panels(rows_in(weight, part), count, x, rows, y.data() + first, out);
        first += count;
    }
}

/// Rows of x that meet all of the weight before the next ones do, nearly as many each time.
std::size_t int8_rows_at_once(const Int8Kernels& kernels, std::size_t rows, std::size_t in) {
    const std::size_t most = std::max<std::size_t>(1, kTilesBytes / (in / kInt8Group * kernels.tile_row_bytes));
    const std::size_t times = (rows + most - 1) / most, each = (rows + times - 1) / times;
    return (each + kernels.tile_rows - 1) / kernels.tile_rows * kernels.tile_rows;
}

void add_int8_products(std::span<const float> x, const PackedWeight& weight, const LinearDims& dims,
                       std::span<float> y) {
    const std::size_t each = int8_rows_at_once(*weight.int8, dims.rows, dims.in);
    for (std::size_t row = 0; row < dims.rows; row += each) {
        const std::size_t rows = std::min(each, dims.rows - row);
        const Int8Product product(*weight.int8, x.subspan(row * dims.in, rows * dims.in), rows, dims.in);
        std::size_t first = 0;
        for (const TensorData& part : weight.parts) {
            const std::size_t count = rows_of(part, dims.in);
            product.add(rows_in(weight, part), count, y.data() + row * dims.out + first, dims.out);
            first += count;
        }
    }
}

/// Rows of x, each by itself to be multiplied with packed rows.
class SingleRows {
public:
    SingleRows(const PackedWeight& weight, std::span<const float> x)
        : kernels_(*packed_kernels(weight.dtype)), int8_(weight.int8), in_(weight.in), groups_(in_ / kInt8Group) {
        const std::size_t rows = x.size() / in_;
        if (!int8_) {
            arranged_ = arranged(kernels_, x, rows, in_);
            return;
        }
        quants_.resize(rows * groups_ * kInt8Group);
        scales_.resize(2 * rows * groups_);
        for_rows(rows, in_, [&](std::size_t r) {
            int8_->quantize(x.data() + r * in_, groups_, quants_.data() + r * groups_ * kInt8Group,
                            scales_.data() + 2 * r * groups_, scales_.data() + (2 * r + 1) * groups_);
        });
    }

    /// y[o] = weight row o · x row r, for all o below `count`.
    void multiply(const PackedRows& weight, std::size_t count, std::size_t r, float* y) const {
        if (!int8_) {
            const float* const row = arranged_.data() + r * kernels_.arranged_size(in_);
            for (std::size_t o = 0; o < count; ++o) y[o] = kernels_.dot(weight.row(o), row, in_);
            return;
        }
        const QuantizedRows row{.rows = 1,
                                .groups = groups_,
                                .quants = quants_.data() + r * groups_ * kInt8Group,
                                .scales = scales_.data() + 2 * r * groups_,
                                .totals = scales_.data() + (2 * r + 1) * groups_};
        std::fill_n(y, count, 0.0f);
        int8_->add_dots(weight.bytes, weight.row_bytes, count, row, y, 0);
    }

private:
    const PackedKernels& kernels_;
    const Int8Kernels* int8_;
    std::size_t in_, groups_;
    std::vector<float> arranged_;
    std::vector<std::int8_t> quants_;
    std::vector<float> scales_;  // of a row its scales, then its totals
};

/// Calls visit(rows, count) for the rows of each part that rows first … first + count − 1 of the weight lie in.
void for_parts_of(const PackedWeight& weight, std::size_t first, std::size_t count, auto&& visit) {
    auto part = static_cast<std::size_t>(std::ranges::upper_bound(weight.begins, first) - weight.begins.begin()) - 1;
    for (; count > 0; ++part) {
        const std::size_t skipped = first - weight.begins[part];
        const std::size_t some = std::min(count, rows_of(weight.parts[part], weight.in) - skipped);
        PackedRows rows = rows_in(weight, weight.parts[part]);
        rows.bytes += skipped * rows.row_bytes;
        visit(rows, some, weight.parts[part]);
        first += some;
        count -= some;
    }
}

}  // namespace

PackedWeight rows_of(const PackedWeight& weight, std::size_t first, std::size_t count) {
    PackedWeight some{.dtype = weight.dtype, .in = weight.in, .parts = {}, .int8 = weight.int8};
    for_parts_of(weight, first, count, [&](const PackedRows& rows, std::size_t n, const TensorData& part) {
        some.parts.push_back({.dtype = part.dtype,
                              .shape = {n, weight.in},
                              .bytes = std::span(rows.bytes, n * rows.row_bytes),
                              .owner = part.owner});
    });
    return some;
}

std::size_t most_single_rows(const PackedWeight& weight) { return weight.int8 ? kInt8SingleRows : kSingleRows; }

void packed_row_products(std::span<const float> x, const PackedWeight& weight, std::span<const RowProduct> products,
                         std::size_t out, std::span<float> y) {
    if (products.empty()) return;
    const SingleRows rows(weight, x);
    const auto multiply = [&](const RowProduct& product, std::size_t first, std::size_t last) {
        float* to = y.data() + product.y_row * out + first;
        for_parts_of(weight, product.first_row + first, last - first,
                     [&](const PackedRows& part, std::size_t count, const TensorData&) {
                         rows.multiply(part, count, product.x_row, to);
                         to += count;
                     });
    };
    for_columns_of(products, weight.in, out, bytes_of(weight.dtype, weight.in), multiply);
}

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
    weight.int8 ? add_int8_products(x, weight, dims, y) : add_float_products(x, weight, dims, y);
    end_linear<float>(residual, activation, dims, y);
}

}  // namespace vkformer::cpu
