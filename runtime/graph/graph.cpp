// SPDX-License-Identifier: MIT
#include "graph/graph.hpp"

#include <algorithm>

#include "core/try.hpp"

namespace vkformer::graph {
namespace {

/// "scope.name", with ".1", ".2", … where that name is taken. `tried`: by the name without a number, how many were taken before.
std::string unique_name(const std::string& scope, std::string_view name, std::map<std::string, int>& tried,
                        auto&& is_taken) {
    const std::string base = scope.empty() ? std::string(name) : scope + "." + std::string(name);
    for (int& number = tried[base];;) {
        std::string candidate = number == 0 ? base : base + "." + std::to_string(number);
        ++number;
        if (!is_taken(candidate)) return candidate;
    }
}

/// The bytes are as many as dtype and shape say.
Result<void> check_data(const std::string& name, const TensorData& data) {
    const std::uint64_t block = block_elements(data.dtype);
    const std::uint64_t width = data.shape.rank() == 0 ? 1 : data.shape.back();
    if (width % block != 0)
        return Error{ErrorCode::InvalidArgument, name + ": rows of " + std::to_string(width) +
                                                     " elements are no multiple of the " + std::to_string(block) +
                                                     " of a " + std::string(to_string(data.dtype)) + " block"};
    const auto count = data.shape.checked_element_count();
    if (!count || *count > Graph::kMaxElements || bytes_of(data.dtype, *count) != data.bytes.size())
        return Error{ErrorCode::InvalidArgument, name + ": " + std::to_string(data.bytes.size()) +
                                                     " bytes do not fit the shape " + to_string(data.shape)};
    return {};
}

/// The shape of the parts, row after row. Where there are several, each must fill whole words of the device's memory.
Result<Shape> stacked_shape(const std::string& name, const std::vector<TensorData>& parts, DType stored_as) {
    if (parts.empty()) return Error{ErrorCode::InvalidArgument, name + " has no parts"};
    if (parts.size() == 1) return parts[0].shape;
    std::uint64_t rows = 0;
    for (const TensorData& part : parts) {
        const auto dims = part.shape.dims(), first = parts[0].shape.dims();
        if (dims.empty() || dims.size() != first.size() || !std::ranges::equal(dims.subspan(1), first.subspan(1)))
            return Error{ErrorCode::ShapeMismatch, name + ": parts of shape " + to_string(parts[0].shape) + " and " +
                                                       to_string(part.shape) + " cannot be stacked"};
        if (!fills_words(stored_as, part.shape.element_count()))
            return Error{ErrorCode::ShapeMismatch, name + ": a part of shape " + to_string(part.shape) +
                                                       " does not fill whole words as " +
                                                       std::string(to_string(stored_as))};
        rows += dims[0];
    }
    std::vector<std::uint64_t> dims(parts[0].shape.dims().begin(), parts[0].shape.dims().end());
    dims[0] = rows;
    return Shape(dims);
}

/// Blocks lie along the last dimension, and a position, two blocks at least, begins with a word of their scales.
Result<void> check_block_cache(const std::string& name, const Shape& shape) {
    const auto dims = shape.dims();
    const std::uint64_t block = block_elements(DType::q8_0);
    if (dims.size() == 4 && dims[3] % block == 0 && fills_words(DType::q8_0, dims[2] * dims[3])) return {};
    return Error{ErrorCode::ShapeMismatch, name + " has shape " + to_string(shape) +
                                               ", expected [batch, capacity, heads, dim] with dim a multiple of 32 and "
                                               "heads · dim one of 64, for it is stored as q8_0"};
}

}  // namespace

bool fills_words(DType stored_as, std::uint64_t elements) noexcept {
    // What of a block is no vector lies together, an odd number of halves in some formats, of mxfp4 a byte.
    const std::uint64_t blocks = block_bytes(stored_as) % 2 == 0 ? 2 : 4;
    return elements % (is_quantized(stored_as) ? blocks * block_elements(stored_as) : 4 / element_bytes(stored_as)) ==
           0;
}

Result<Value> Graph::add_tensor(Tensor tensor) {
    const bool computes = tensor.dtype == DType::f32 || tensor.dtype == DType::f16 || tensor.dtype == DType::i32;
    const bool may_store = (tensor.kind == TensorKind::weight && is_weight_only(tensor.dtype)) ||
                           (tensor.kind == TensorKind::state && tensor.dtype == DType::q8_0);
    if (!computes && !may_store)
        return Error{ErrorCode::UnsupportedDtype, tensor.name + ": a graph computes in f32, f16 and i32, not " +
                                                      std::string(to_string(tensor.dtype))};
    const auto count = tensor.shape.checked_element_count();
    if (!count || *count == 0 || *count > kMaxElements)
        return Error{ErrorCode::InvalidArgument, tensor.name + ": shape " + to_string(tensor.shape) +
                                                     " must have 1 to " + std::to_string(kMaxElements) + " elements"};
    const Value value{static_cast<std::uint32_t>(tensors_.size())};
    tensors_.push_back(std::move(tensor));
    return value;
}

Result<Value> Graph::input(std::string name, DType dtype, Shape shape) {
    if (find(name)) return Error{ErrorCode::InvalidArgument, "the graph already has a tensor named " + name};
    return add_tensor({.name = std::move(name), .dtype = dtype, .shape = shape, .kind = TensorKind::input});
}

Result<Value> Graph::state(std::string name, DType dtype, Shape shape) {
    if (find(name)) return Error{ErrorCode::InvalidArgument, "the graph already has a tensor named " + name};
    if (dtype == DType::q8_0) VKFORMER_CHECK(check_block_cache(name, shape));
    return add_tensor(
        {.name = std::move(name), .dtype = dtype, .shape = shape, .kind = TensorKind::state, .is_output = true});
}

Result<Value> Graph::weight(std::string name, TensorData data, DType stored_as) {
    return weight(std::move(name), std::vector{std::move(data)}, stored_as);
}

Result<Value> Graph::weight(std::string name, std::vector<TensorData> parts, DType stored_as) {
    if (const auto known = find(name)) {
        if (tensor(*known).kind == TensorKind::weight && tensor(*known).dtype == stored_as) return *known;
        return Error{ErrorCode::InvalidArgument, "the graph already has another tensor named " + name};
    }
    for (const TensorData& part : parts) {
        VKFORMER_CHECK(check_data(name, part));
        const bool holds_reals = is_float(part.dtype) || is_quantized(part.dtype);
        if (is_quantized(stored_as) ? part.dtype != stored_as : holds_reals != is_float(stored_as))
            return Error{ErrorCode::UnsupportedDtype, name + ": cannot store " + std::string(to_string(part.dtype)) +
                                                          " as " + std::string(to_string(stored_as))};
    }
    VKFORMER_TRY(const Shape shape, stacked_shape(name, parts, stored_as));
    return add_tensor({.name = std::move(name),
                       .dtype = stored_as,
                       .shape = shape,
                       .kind = TensorKind::weight,
                       .data = std::move(parts)});
}

Result<Value> Graph::reshape(Value value, Shape shape) {
    const Tensor& source = tensor(value);
    if (shape.checked_element_count() != source.shape.element_count())
        return Error{ErrorCode::ShapeMismatch, "reshape: " + source.name + " has shape " + to_string(source.shape) +
                                                   ", not as many elements as " + to_string(shape)};
    if (shape.rank() > 0 && shape.back() % block_elements(source.dtype) != 0)
        return Error{ErrorCode::ShapeMismatch, "reshape: " + source.name + " is " +
                                                   std::string(to_string(source.dtype)) + ", the rows of " +
                                                   to_string(shape) + " are no whole blocks"};
    Tensor view{.name = source.name, .dtype = source.dtype, .shape = shape, .kind = source.kind};
    view.alias_of = storage(value);
    return add_tensor(std::move(view));
}

void Graph::mark_output(Value value) { tensor(storage(value)).is_output = true; }

std::optional<Value> Graph::find(std::string_view name) const {
    const auto found = std::ranges::find_if(tensors_, [&](const Tensor& t) { return !t.alias_of && t.name == name; });
    if (found == tensors_.end()) return std::nullopt;
    return Value{static_cast<std::uint32_t>(found - tensors_.begin())};
}

Result<Value> Graph::activation(std::string_view op, DType dtype, Shape shape) {
    Tensor tensor{.dtype = dtype, .shape = shape, .kind = TensorKind::activation};
    tensor.name = unique_name(scope_, op, tensor_names_, [&](const std::string& name) { return find(name).has_value(); });
    return add_tensor(std::move(tensor));
}

void Graph::add_node(Op op) {
    std::string name = unique_name(scope_, op_name(op), node_names_, [&](const std::string& candidate) {
        return std::ranges::any_of(nodes_, [&](const Node& node) { return node.name == candidate; });
    });
    nodes_.push_back({std::move(op), std::move(name)});
}

}  // namespace vkformer::graph
