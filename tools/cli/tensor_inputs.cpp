// SPDX-License-Identifier: MIT
#include "tensor_inputs.hpp"

#include <algorithm>
#include <functional>
#include <limits>

#include "core/try.hpp"
#include "graph/graph.hpp"

namespace vkformer::cli {
namespace {

Error missing(const std::string& name) {
    return {.code = ErrorCode::MissingTensor, .message = "the input has no tensor " + name};
}

Result<IntegerMatrix> integer_matrix(const std::string& name, const TensorData& data) {
    const auto invalid = [&](const std::string& what) { return Error{ErrorCode::InvalidArgument, name + " " + what}; };
    if (data.dtype != DType::i64 && data.dtype != DType::i32)
        return invalid("holds " + std::string(to_string(data.dtype)) + ", expected int64 or int32");
    if (data.shape.rank() != 2 || data.shape.element_count() == 0 ||
        data.shape.element_count() > graph::Graph::kMaxElements)
        return invalid("has shape " + to_string(data.shape) + ", expected [batch, length], neither 0");
    IntegerMatrix m{.batch = static_cast<std::uint32_t>(data.shape[0]),
                    .len = static_cast<std::uint32_t>(data.shape[1])};
    m.values.resize(data.shape.element_count());
    VKFORMER_CHECK(convert(data.dtype, data.bytes, 0, std::span<std::int32_t>(m.values)));
    return m;
}

}  // namespace

bool IntegerMatrix::all_ones() const { return std::ranges::find(values, 0) == values.end(); }

bool IntegerMatrix::is_padded_behind() const {
    for (std::size_t b = 0; b < batch; ++b)
        if (!std::ranges::is_sorted(row(b), std::greater<>())) return false;
    return true;
}

std::vector<std::int32_t> IntegerMatrix::lengths() const {
    std::vector<std::int32_t> result;
    for (std::size_t b = 0; b < batch; ++b) result.push_back(static_cast<std::int32_t>(std::ranges::count(row(b), 1)));
    return result;
}

std::vector<float> IntegerMatrix::additive() const {
    std::vector<float> result(values.size());
    std::ranges::transform(values, result.begin(),
                           [](std::int32_t v) { return v ? 0 : -std::numeric_limits<float>::infinity(); });
    return result;
}

Result<IntegerMatrix> TensorInputs::tokens(const std::string& name, std::uint64_t vocab, std::uint64_t max_len,
                                           const std::string& what) const {
    const TensorData* data = find(name);
    if (!data) return missing(name);
    VKFORMER_TRY(IntegerMatrix m, integer_matrix(name, *data));
    if (m.len > max_len)
        return Error{ErrorCode::InvalidArgument, name + " has sequences of " + std::to_string(m.len) +
                                                     " tokens, the model takes at most " + std::to_string(max_len)};
    for (const std::int32_t token : m.values)
        if (token < 0 || static_cast<std::uint64_t>(token) >= vocab)
            return Error{ErrorCode::InvalidArgument, name + " has " + what + " " + std::to_string(token) +
                                                         ", the model knows 0 to " + std::to_string(vocab - 1)};
    return m;
}

Result<IntegerMatrix> TensorInputs::mask(const std::string& name, const IntegerMatrix& like) const {
    const TensorData* data = find(name);
    if (!data) return IntegerMatrix{like.batch, like.len, std::vector<std::int32_t>(like.values.size(), 1)};
    VKFORMER_TRY(IntegerMatrix m, integer_matrix(name, *data));
    if (m.batch != like.batch || m.len != like.len)
        return Error{ErrorCode::ShapeMismatch, name + " has shape " + to_string(data->shape) + ", its tokens [" +
                                                   std::to_string(like.batch) + ", " + std::to_string(like.len) + "]"};
    if (std::ranges::any_of(m.values, [](std::int32_t v) { return v != 0 && v != 1; }))
        return Error{ErrorCode::InvalidArgument, name + " must hold zeros and ones"};
    return m;
}

Result<IntegerMatrix> TensorInputs::right_padding(const IntegerMatrix& tokens) const {
    VKFORMER_TRY(IntegerMatrix m, mask("attention_mask", tokens));
    if (!m.is_padded_behind())
        return Error{ErrorCode::InvalidArgument,
                     "attention_mask has zeros before ones; this model takes padding behind the tokens alone"};
    return m;
}

Result<Floats> TensorInputs::floats(const std::string& name, const Shape& of_one) const {
    const TensorData* data = find(name);
    if (!data) return missing(name);
    if (data->dtype != DType::f32 && data->dtype != DType::f16 && data->dtype != DType::bf16)
        return Error{ErrorCode::InvalidArgument, name + " holds " + std::string(to_string(data->dtype)) +
                                                     ", expected float32, float16 or bfloat16"};
    const Shape& shape = data->shape;
    if (shape.rank() != of_one.rank() + 1 || !std::ranges::equal(of_one.dims(), shape.dims().subspan(1)))
        return Error{ErrorCode::ShapeMismatch, name + " has shape " + to_string(shape) + ", the model takes [batch" +
                                                   to_string(of_one).replace(0, 1, ", ")};
    if (shape[0] == 0 || shape.element_count() > graph::Graph::kMaxElements)
        return Error{ErrorCode::InvalidArgument,
                     name + " has shape " + to_string(shape) + ", expected 1 to " +
                         std::to_string(graph::Graph::kMaxElements / of_one.element_count()) + " of " +
                         to_string(of_one)};
    Floats result{.batch = static_cast<std::uint32_t>(shape[0]), .values = std::vector<float>(shape.element_count())};
    VKFORMER_CHECK(convert(data->dtype, data->bytes, 0, std::span<float>(result.values)));
    return result;
}

Result<void> TensorInputs::check_names(std::initializer_list<std::string_view> taken) const {
    for (const std::string_view name : file_.names())
        if (std::ranges::find(taken, name) == taken.end())
            return Error{ErrorCode::InvalidArgument,
                         "the input has a tensor " + std::string(name) + ", which the model does not take"};
    return {};
}

}  // namespace vkformer::cli
