// SPDX-License-Identifier: MIT
#include "formats/output_tensor.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "core/block_format.hpp"
#include "core/finite.hpp"
#include "core/try.hpp"
#include "formats/finite_output.hpp"
#include "formats/json.hpp"

namespace vkformer::formats {
namespace {

bool holds_reals(DType dtype) { return is_float(dtype) || is_quantized(dtype); }

/// Rows of a matrix, elements of a vector.
struct Rows {
    std::uint64_t count;
    std::uint64_t elements;  // of each

    explicit Rows(const Shape& shape)
        : count(shape.rank() > 1 ? shape.row_count() : shape.element_count()),
          elements(shape.rank() > 1 ? shape.back() : 1) {}
};

template <class T, class Round>
void store(std::span<const float> values, std::span<std::byte> out, Round round) {
    for (std::size_t i = 0; i < values.size(); ++i) {
        const T stored = round(values[i]);
        std::memcpy(out.data() + i * sizeof stored, &stored, sizeof stored);
    }
}

void encode(DType dtype, std::span<const float> values, std::span<std::byte> out, std::span<const float> importance) {
    switch (dtype) {
    case DType::f64: return store<double>(values, out, [](float value) { return static_cast<double>(value); });
    case DType::f32: return store<float>(values, out, [](float value) { return value; });
    case DType::f16: return store<std::uint16_t>(values, out, float_to_half);
    case DType::bf16: return store<std::uint16_t>(values, out, float_to_bfloat);
    default: return quantize(dtype, values, out, importance);
    }
}

/// Converts `rows` rows of the source from `first` on, in the wanted order.
Result<void> read_rows(const OutputTensor& tensor, std::uint64_t first, std::uint64_t rows, std::span<float> out) {
    const Rows all(tensor.source.shape);
    const auto read = [&](std::uint64_t row, std::span<float> to) {
        return convert(tensor.source.dtype, tensor.source.bytes, static_cast<std::size_t>(row * all.elements), to);
    };
    const auto row_of = [&](std::uint64_t i) { return out.subspan(i * all.elements, all.elements); };
    if (tensor.row_order.empty()) VKFORMER_CHECK(read(first, out));
    for (std::uint64_t i = 0; i < rows && !tensor.row_order.empty(); ++i)
        VKFORMER_CHECK(read(tensor.row_order[first + i], row_of(i)));
    std::vector<float> before;
    for (std::uint64_t i = 0; i < rows && !tensor.column_order.empty(); ++i) {
        const std::span<float> row = row_of(i);
        before.assign(row.begin(), row.end());
        for (std::size_t k = 0; k < row.size(); ++k) row[k] = before[tensor.column_order[k]];
    }
    return {};
}

/// As it is in the source, byte for byte.
bool stays_as_it_is(const OutputTensor& tensor) {
    return tensor.dtype == tensor.source.dtype && tensor.row_order.empty() && tensor.column_order.empty();
}

/// How many matrices have an importance of their own; 0: it does not fit. Requires that there is one.
std::uint64_t weighted_matrices(const OutputTensor& tensor) {
    const Shape& shape = tensor.source.shape;
    if (shape.rank() < 2) return 0;
    if (tensor.importance->size() == shape.back()) return 1;
    return shape.rank() == 3 && tensor.importance->size() == shape[0] * shape.back() ? shape[0] : 0;
}

/// Of `rows` rows from `first` on, one behind the other; none where there is none.
std::vector<float> importance_of(const OutputTensor& tensor, std::uint64_t first, std::uint64_t rows) {
    std::vector<float> importance;
    if (!tensor.importance) return importance;
    const Rows all(tensor.source.shape);
    const std::uint64_t rows_of_each = all.count / weighted_matrices(tensor);
    for (std::uint64_t row = first; row < first + rows; ++row) {
        const auto begin = tensor.importance->begin() + static_cast<std::ptrdiff_t>(row / rows_of_each * all.elements);
        importance.insert(importance.end(), begin, begin + static_cast<std::ptrdiff_t>(all.elements));
    }
    return importance;
}

/// GPT-J and its like keep what they mask with among their weights, −10⁹, and nobody reads it there.
bool is_mask(std::string_view name) { return name.ends_with(".masked_bias"); }

/// `bytes` as the tensor's dtype have come from `values`, or are the source's if there are none.
Result<void> check_finite(const OutputTensor& tensor, std::span<const std::byte> bytes,
                          std::span<const float> values = {}) {
    if (!holds_reals(tensor.dtype) || is_mask(tensor.name)) return {};
    if (!first_not_finite(tensor.dtype, bytes)) return {};
    const bool is_source = values.empty() || first_not_finite(DType::f32, std::as_bytes(values));
    const std::string name(to_string(tensor.dtype));
    const std::string larger = tensor.dtype == DType::bf16 ? "f32" : "bf16 or f32";
    return Error{ErrorCode::InvalidArgument,
                 "tensor " + quote(tensor.name) +
                     (is_source ? " has a number that is not finite"
                                : " has a number that is beyond " + name + "; take " + larger)};
}

/// Of a stack's matrix, with what counts for it.
OutputTensor part_of(const OutputTensor& tensor, std::size_t index) {
    OutputTensor part = {.name = tensor.name, .dtype = tensor.dtype, .source = tensor.parts[index]};
    part.importance = tensor.importance;
    if (tensor.importance && weighted_matrices(tensor) > 1) {
        const auto size = static_cast<std::ptrdiff_t>(tensor.source.shape.back());
        const auto begin = tensor.importance->begin() + static_cast<std::ptrdiff_t>(index) * size;
        part.importance = std::make_shared<const std::vector<float>>(begin, begin + size);
    }
    return part;
}

}  // namespace

Result<void> check_output(const OutputTensor& tensor) {
    const auto invalid = [&](const std::string& what, ErrorCode code = ErrorCode::InvalidArgument) {
        return Error{code, "tensor " + quote(tensor.name) + ": " + what};
    };
    const Shape& shape = tensor.source.shape;
    const auto count = shape.checked_element_count();
    if (tensor.importance) {
        const std::uint64_t matrices = weighted_matrices(tensor);
        if (matrices == 0 || (!tensor.parts.empty() && matrices > 1 && matrices != tensor.parts.size()))
            return invalid("the importance of " + std::to_string(tensor.importance->size()) +
                           " elements does not fit the shape " + to_string(shape));
        if (!std::ranges::all_of(*tensor.importance, [](float weight) { return std::isfinite(weight) && weight >= 0; }))
            return invalid("an importance is negative or not finite");
    }
    if (!tensor.parts.empty()) {
        if (!tensor.row_order.empty() || !tensor.column_order.empty()) return invalid("parts in another order");
        std::uint64_t elements = 0;
        for (std::size_t i = 0; i < tensor.parts.size(); ++i) {
            VKFORMER_CHECK(check_output(part_of(tensor, i)));
            elements += tensor.parts[i].shape.element_count();
        }
        return count == elements ? Result<void>() : invalid("its parts do not fit the shape " + to_string(shape));
    }
    const auto whole_blocks = [&](DType dtype) {
        return block_elements(dtype) == 1 || (shape.rank() > 0 && shape.back() % block_elements(dtype) == 0);
    };
    if (!count || *count > UINT64_MAX / 8 || !whole_blocks(tensor.source.dtype) ||
        bytes_of(tensor.source.dtype, *count) != tensor.source.bytes.size())
        return invalid(std::to_string(tensor.source.bytes.size()) + " bytes do not fit the shape " + to_string(shape) +
                       " of " + std::string(to_string(tensor.source.dtype)));
    const auto fits = [](const std::vector<std::uint64_t>& order, std::uint64_t size) {
        return order.empty() ||
               (order.size() == size && std::ranges::all_of(order, [&](std::uint64_t index) { return index < size; }));
    };
    if (!fits(tensor.row_order, Rows(shape).count))
        return invalid("a row order of " + std::to_string(tensor.row_order.size()) + " for the shape " +
                       to_string(shape));
    if (!fits(tensor.column_order, Rows(shape).elements))
        return invalid("a column order of " + std::to_string(tensor.column_order.size()) + " for the shape " +
                       to_string(shape));
    if (!stays_as_it_is(tensor) && (!holds_reals(tensor.dtype) || !holds_reals(tensor.source.dtype)))
        return invalid("cannot store " + std::string(to_string(tensor.source.dtype)) + " as " +
                           std::string(to_string(tensor.dtype)),
                       ErrorCode::UnsupportedDtype);
    if (!whole_blocks(tensor.dtype))
        return invalid("the rows of " + to_string(shape) + " are no multiple of a " +
                       std::string(to_string(tensor.dtype)) + " block");
    return {};
}

namespace {

Result<void> each_piece_of(const OutputTensor& tensor, bool must_be_finite,
                           const std::function<Result<void>(std::span<const std::byte>)>& write) {
    constexpr std::uint64_t kPieceElements = 1 << 20;
    for (std::size_t i = 0; i < tensor.parts.size(); ++i)
        VKFORMER_CHECK(each_piece_of(part_of(tensor, i), must_be_finite, write));
    if (!tensor.parts.empty()) return {};
    if (stays_as_it_is(tensor)) {
        const std::size_t piece_bytes = bytes_of(tensor.dtype, kPieceElements);
        for (auto rest = tensor.source.bytes; !rest.empty();) {
            const auto piece = rest.first(std::min<std::size_t>(rest.size(), piece_bytes));
            if (must_be_finite) VKFORMER_CHECK(check_finite(tensor, piece));
            VKFORMER_CHECK(write(piece));
            rest = rest.subspan(piece.size());
        }
        return {};
    }
    if (tensor.source.shape.element_count() == 0) return {};
    const Rows all(tensor.source.shape);
    const std::uint64_t step = std::max<std::uint64_t>(1, kPieceElements / std::max<std::uint64_t>(1, all.elements));
    std::vector<float> values;
    std::vector<std::byte> encoded;
    for (std::uint64_t first = 0; first < all.count; first += step) {
        const std::uint64_t rows = std::min(step, all.count - first);
        values.resize(rows * all.elements);
        encoded.resize(bytes_of(tensor.dtype, values.size()));
        VKFORMER_CHECK(read_rows(tensor, first, rows, values));
        encode(tensor.dtype, values, encoded, importance_of(tensor, first, rows));
        if (must_be_finite) VKFORMER_CHECK(check_finite(tensor, encoded, values));
        VKFORMER_CHECK(write(encoded));
    }
    return {};
}

}  // namespace

Result<void> each_piece(const OutputTensor& tensor,
                        const std::function<Result<void>(std::span<const std::byte>)>& write) {
    return each_piece_of(tensor, false, write);
}

Result<void> each_finite_piece(const OutputTensor& tensor,
                               const std::function<Result<void>(std::span<const std::byte>)>& write) {
    return each_piece_of(tensor, true, write);
}

}  // namespace vkformer::formats
