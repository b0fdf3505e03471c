// SPDX-License-Identifier: MIT
#include "models/packed_layers.hpp"

#include <utility>

#include "core/ceil_div.hpp"
#include "core/tasks.hpp"

namespace vkformer::models::packed {

Result<std::vector<float>> values_of(const TensorData& data) {
    std::vector<float> values(data.shape.element_count());
    VKFORMER_CHECK(convert(data.dtype, data.bytes, 0, std::span(values)));
    return values;
}

Result<void> set_groups(const Layer& layer, std::string_view scales, std::uint64_t size, PackedMatrix& matrix) {
    matrix.group_size = size == 0 ? matrix.in : size;
    const std::uint64_t expected = ceil_div(matrix.in, matrix.group_size);
    if (matrix.groups == expected) return {};
    return layer.error(ErrorCode::ShapeMismatch, scales,
                       {" is for ", std::to_string(matrix.groups), " groups, but ", std::to_string(matrix.in),
                        " inputs in groups of ", std::to_string(matrix.group_size), " are ", std::to_string(expected)});
}

Result<void> check_size(const Layer& layer, std::string_view tensor, const PackedMatrix& matrix) {
    constexpr std::uint64_t kMost = 1u << 24;
    if (matrix.in > 0 && matrix.out > 0 && matrix.in <= kMost && matrix.out <= kMost) return {};
    return layer.error(ErrorCode::ShapeMismatch, tensor,
                       {" is for a matrix of ", std::to_string(matrix.out), " × ", std::to_string(matrix.in)});
}

Result<void> read_group_indices(const Layer& layer, std::string_view tensor, PackedMatrix& matrix) {
    VKFORMER_TRY(const TensorData data, layer.tensor(tensor, DType::i32, 1));
    VKFORMER_CHECK(layer.expect_shape(tensor, data, {matrix.in}));
    std::vector<std::int32_t> indices(matrix.in);
    VKFORMER_CHECK(convert(data.dtype, data.bytes, 0, std::span(indices)));
    bool is_plain = true;
    for (std::uint64_t i = 0; i < matrix.in; ++i) {
        if (indices[i] < 0 || static_cast<std::uint64_t>(indices[i]) >= matrix.groups)
            return layer.error(
                ErrorCode::CorruptFile, tensor,
                {" has group ", std::to_string(indices[i]), ", there are ", std::to_string(matrix.groups)});
        is_plain = is_plain && static_cast<std::uint64_t>(indices[i]) == i / matrix.group_size;
    }
    if (!is_plain) matrix.group_of.assign(indices.begin(), indices.end());
    return {};
}

Result<Weights> with_matrices(Weights weights, const Method& method) {
    std::vector<Layer> layers;
    const std::string end = "." + std::string(method.mark);
    for (const auto& [name, data] : weights.tensors())
        if (name.ends_with(end) && method.is_packed(data))
            layers.emplace_back(weights, name.substr(0, name.size() - method.mark.size()));
    std::vector<std::optional<Result<TensorData>>> made(layers.size());
    run_tasks(layers.size(), [&](std::size_t i) { made[i].emplace(method.matrix(layers[i])); });
    formats::TensorMap tensors = weights.tensors();
    for (std::size_t i = 0; i < layers.size(); ++i) {
        if (!*made[i]) return made[i]->error();
        if (method.mark != "weight" && layers[i].has("weight"))
            return layers[i].error(ErrorCode::CorruptFile, "weight", {" is there beside ", method.mark});
        for (const std::string_view read : method.read) tensors.erase(layers[i].name() + std::string(read));
        tensors.insert_or_assign(layers[i].name() + "weight", std::move(**made[i]));
    }
    return weights.with(std::move(tensors));
}

}  // namespace vkformer::models::packed
