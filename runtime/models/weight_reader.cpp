// SPDX-License-Identifier: MIT
#include "models/weight_reader.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <memory>
#include <vector>

#include "core/finite.hpp"
#include "core/try.hpp"

namespace vkformer::models {
namespace {

struct NamedActivation {
    std::string_view name;
    graph::Activation activation;
};
constexpr std::array<NamedActivation, 15> kActivations = {{
    {"gelu", graph::Activation::gelu_erf},
    {"gelu_python", graph::Activation::gelu_erf},
    {"gelu_new", graph::Activation::gelu_tanh},
    {"gelu_fast", graph::Activation::gelu_tanh},  // its constant has ten digits, which float32 does not see
    {"gelu_accurate", graph::Activation::gelu_tanh},
    {"gelu_pytorch_tanh", graph::Activation::gelu_tanh},
    {"gelu_python_tanh", graph::Activation::gelu_tanh},
    {"quick_gelu", graph::Activation::gelu_quick},
    {"relu", graph::Activation::relu},
    {"relu2", graph::Activation::relu_squared},
    {"silu", graph::Activation::silu},
    {"swish", graph::Activation::silu},
    {"tanh", graph::Activation::tanh},
    {"sigmoid", graph::Activation::sigmoid},
    {"linear", graph::Activation::none},
}};

/// Where rows first … first + count − 1 of a weight stand that has come from there.
void add_part(const Origin& origin, RowRange rows, Origin& part) {
    for (const RowRange& range : origin.ranges) {
        const std::uint64_t skipped = std::min(rows.first, range.count);
        const std::uint64_t count = std::min(rows.count, range.count - skipped);
        if (count > 0) part.ranges.push_back({range.first + skipped, count});
        rows = {rows.first - skipped, rows.count - count};
    }
}

Origin part_of(const Origin& origin, const std::vector<RowRange>& ranges) {
    Origin part = {.tensor = origin.tensor, .rows = origin.rows, .ranges = {}};
    for (const RowRange& range : ranges) add_part(origin, range, part);
    return part;
}

}  // namespace

bool WeightReader::has(const std::string& name) const { return weights_.has(prefix_ + name); }

std::size_t WeightReader::rank(const std::string& name) const {
    const TensorData* const found = weights_.find(prefix_ + name);
    return found ? found->shape.rank() : 0;
}

std::string WeightReader::place(const std::string& name) const { return weights_.source() + ": " + prefix_ + name; }

Origin WeightReader::origin(const std::string& name, std::uint64_t rows) const {
    return {.tensor = prefix_ + name + ".weight", .rows = rows, .ranges = {{0, rows}}};
}

Result<TensorData> WeightReader::of_shape(const std::string& name, const Shape& shape) const {
    VKFORMER_TRY(TensorData data, weights_.get(prefix_ + name));
    if (data.shape != shape)
        return Error{ErrorCode::ShapeMismatch, place(name) + " has shape " + to_string(data.shape) +
                                                   ", the model's configuration asks for " + to_string(shape)};
    return data;
}

Result<TensorData> WeightReader::bytes(const std::string& name, const Shape& shape) const {
    VKFORMER_TRY(TensorData data, of_shape(name, shape));
    if (data.dtype == DType::u8) return data;
    return Error{ErrorCode::UnsupportedDtype,
                 place(name) + " holds " + std::string(to_string(data.dtype)) + ", expected bytes (u8)"};
}

Result<TensorData> WeightReader::tensor(const std::string& name, const Shape& shape) const {
    VKFORMER_TRY(TensorData data, of_shape(name, shape));
    if (!is_float(data.dtype) && !is_quantized(data.dtype))
        return Error{ErrorCode::UnsupportedDtype,
                     place(name) + " holds " + std::string(to_string(data.dtype)) + ", expected floats"};
    if (const auto at = first_not_finite(data.dtype, data.bytes))
        return Error{ErrorCode::CorruptFile,
                     place(name) + " has a value that is infinite or no number, at or behind element " +
                         std::to_string(*at) + ": the file is damaged, or its training diverged"};
    return data;
}

Result<TensorData> WeightReader::tensor(const char* name, const Shape& shape) const {
    return tensor(std::string(name), shape);
}

Result<TensorData> WeightReader::tied_tensor(const std::string& name, const Shape& shape, const TensorData& other,
                                             bool is_tied) const {
    if (is_tied && !has(name)) return other;
    VKFORMER_TRY(TensorData own, tensor(name, shape));
    const bool is_alike = own.dtype == other.dtype && own.shape == other.shape &&
                          std::memcmp(own.bytes.data(), other.bytes.data(), own.bytes.size()) == 0;
    return is_alike ? other : own;
}

Result<void> WeightReader::check_unread(const std::string& bias) const {
    if (unread_biases_ == UnreadBiases::passed_over || !has(bias)) return {};
    return Error{ErrorCode::UnsupportedConfig, weights_.source() + ": there is a " + prefix_ + bias +
                                                   ", and the model's configuration has no such bias"};
}

Result<TensorData> WeightReader::bias(const std::string& name, std::uint64_t dim, bool wanted) const {
    if (wanted) return tensor(name, {dim});
    VKFORMER_CHECK(check_unread(name));
    return TensorData{};
}

Result<Projection> WeightReader::projection(const std::string& name, std::uint64_t out, std::uint64_t in,
                                            bool has_bias) const {
    Projection p;
    VKFORMER_TRY(p.weight, tensor(name + ".weight", {out, in}));
    VKFORMER_TRY(p.bias, bias(name + ".bias", out, has_bias));
    p.origin = origin(name, out);
    return p;
}

Result<Projection> WeightReader::projection(const char* name, std::uint64_t out, std::uint64_t in,
                                            bool has_bias) const {
    return projection(std::string(name), out, in, has_bias);
}

Result<NormWeights> WeightReader::norm(const std::string& name, std::uint64_t dim, bool has_bias) const {
    const bool is_old = has(name + ".gamma") && !has(name + ".weight");
    NormWeights n;
    VKFORMER_TRY(n.gain, tensor(name + (is_old ? ".gamma" : ".weight"), {dim}));
    VKFORMER_TRY(n.bias, bias(name + (is_old ? ".beta" : ".bias"), dim, has_bias));
    return n;
}

Result<NormWeights> WeightReader::norm(const char* name, std::uint64_t dim, bool has_bias) const {
    return norm(std::string(name), dim, has_bias);
}

TensorData rows_of(const TensorData& matrix, std::uint64_t first, std::uint64_t count) {
    std::vector<std::uint64_t> dims(matrix.shape.dims().begin(), matrix.shape.dims().end());
    const std::uint64_t row_bytes = bytes_of(matrix.dtype, matrix.shape.element_count() / dims[0]);
    dims[0] = count;
    TensorData rows = matrix;
    rows.shape = Shape(dims);
    rows.bytes = matrix.bytes.subspan(first * row_bytes, count * row_bytes);
    return rows;
}

Projection rows_of(const Projection& projection, std::uint64_t first, std::uint64_t count) {
    assert(!projection.adapters);
    Projection rows;
    rows.weight = rows_of(projection.weight, first, count);
    if (!projection.bias.bytes.empty()) rows.bias = rows_of(projection.bias, first, count);
    rows.origin = part_of(projection.origin, {{first, count}});
    return rows;
}

TensorData gathered_rows(const TensorData& matrix, const std::vector<RowRange>& ranges) {
    const auto bytes = std::make_shared<std::vector<std::byte>>();
    std::uint64_t count = 0;
    for (const RowRange& range : ranges) {
        const TensorData part = rows_of(matrix, range.first, range.count);
        bytes->insert(bytes->end(), part.bytes.begin(), part.bytes.end());
        count += range.count;
    }
    TensorData gathered = rows_of(matrix, 0, count);
    gathered.bytes = std::span<const std::byte>(*bytes);
    gathered.owner = bytes;
    return gathered;
}

Projection gathered_rows(const Projection& projection, const std::vector<RowRange>& ranges) {
    assert(!projection.adapters);
    Projection rows;
    rows.weight = gathered_rows(projection.weight, ranges);
    if (!projection.bias.bytes.empty()) rows.bias = gathered_rows(projection.bias, ranges);
    rows.origin = part_of(projection.origin, ranges);
    return rows;
}

TensorData float_tensor(const Shape& shape, std::vector<float> values) {
    assert(shape.element_count() == values.size());
    const auto owner = std::make_shared<const std::vector<float>>(std::move(values));
    return {.dtype = DType::f32, .shape = shape, .bytes = std::as_bytes(std::span(*owner)), .owner = owner};
}

Result<std::vector<float>> floats_of(const TensorData& data) {
    std::vector<float> values(data.shape.element_count());
    VKFORMER_CHECK(convert(data.dtype, data.bytes, 0, std::span(values)));
    return values;
}

Result<TensorData> transposed(const TensorData& matrix) {
    const std::uint64_t rows = matrix.shape[0], cols = matrix.shape[1];
    VKFORMER_TRY(const std::vector<float> values, floats_of(matrix));
    std::vector<float> turned(rows * cols);
    for (std::uint64_t r = 0; r < rows; ++r)
        for (std::uint64_t c = 0; c < cols; ++c) turned[c * rows + r] = values[r * cols + c];
    return float_tensor({cols, rows}, std::move(turned));
}

std::string find_prefix(const formats::Weights& weights, const std::string& usual, const std::string& probe) {
    return !weights.find(usual + probe) && weights.find(probe) ? "" : usual;
}

Result<graph::Activation> read_activation(const formats::Config& config, std::string_view name, std::string fallback) {
    VKFORMER_TRY(const std::string value, config.string(name, std::move(fallback)));
    std::string supported;
    for (const auto& known : kActivations) {
        if (known.name == value) return known.activation;
        supported += (supported.empty() ? "" : ", ") + std::string(known.name);
    }
    return config.unsupported(name, supported);
}

}  // namespace vkformer::models
