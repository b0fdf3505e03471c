// SPDX-License-Identifier: MIT
// As transformers' FineGrainedFP8Config has it.
#include "models/packed_fp8.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "core/ceil_div.hpp"

namespace vkformer::models::packed {

namespace {

constexpr float kBeyondHalf = 65520.0f;  // rounded to float16 this is infinite

constexpr std::array<std::string_view, 10> kActivationScales = {
    ".input_scale", ".output_scale", ".activation_scale", ".input_zero_point", ".output_zero_point",
    ".q_scale",     ".k_scale",      ".v_scale",          ".k_zero_point",     ".v_zero_point"};

}  // namespace

Result<TensorData> scaled_fp8(const Layer& layer, std::string_view scale_name, ScaleBlock block) {
    VKFORMER_TRY(const TensorData data, layer.tensor("weight", DType::f8_e4m3, 2));
    VKFORMER_TRY(const TensorData scale, layer.floats(scale_name));
    VKFORMER_TRY(const auto scales, values_of(scale));
    const std::uint64_t out = data.shape[0], in = data.shape[1];
    const bool is_blocked = block.rows > 0;
    if (!is_blocked) block = {.rows = scales.size() == out ? 1 : out, .columns = in};
    if (out == 0 || in == 0) return layer.bad_shape("weight", data.shape, "a matrix");
    const std::uint64_t rows = ceil_div(out, block.rows), columns = ceil_div(in, block.columns);
    const Shape& shape = scale.shape;
    const bool fits = is_blocked ? shape == Shape{rows, columns}
                                 : scales.size() == rows && (shape.rank() < 2 || shape[0] == scales.size());
    if (!fits) return layer.bad_shape(scale_name, shape, to_string(Shape{rows, columns}));
    const auto bytes = std::make_shared<std::vector<std::byte>>(out * in * 2);
    std::vector<float> row(in);
    for (std::uint64_t o = 0; o < out; ++o) {
        VKFORMER_CHECK(convert(data.dtype, data.bytes, static_cast<std::size_t>(o * in), std::span(row)));
        bool fits_half = true;
        for (std::uint64_t i = 0; i < in; ++i) {
            const float value = row[i] * scales[o / block.rows * columns + i / block.columns];
            fits_half = fits_half && !(std::abs(value) >= kBeyondHalf);
            store_half(bytes->data() + (o * in + i) * 2, value);
        }
        if (!fits_half)
            return layer.error(
                ErrorCode::UnsupportedConfig, scale_name,
                {": a weight of output ", std::to_string(o), " is beyond 65504, and FP8 is unpacked to float16"});
    }
    return TensorData{
        .dtype = DType::f16, .shape = {out, in}, .bytes = std::span<const std::byte>(*bytes), .owner = bytes};
}

Weights without_activation_scales(Weights weights) {
    formats::TensorMap tensors = weights.tensors();
    std::erase_if(tensors, [](const auto& entry) {
        return std::ranges::any_of(kActivationScales, [&](std::string_view end) { return entry.first.ends_with(end); });
    });
    return weights.with(std::move(tensors));
}

Result<Weights> unpack_fp8(const Config& quantization, Weights weights) {
    Fields fields{quantization};
    fields.word("fmt", "e4m3", "e4m3");
    fields.word("activation_scheme", "dynamic", "dynamic, static");
    const ScaleBlock block = fields.block("weight_block_size");
    VKFORMER_CHECK(fields.done());
    const bool is_inverse = std::ranges::any_of(
        weights.tensors(), [](const auto& entry) { return entry.first.ends_with(".weight_scale_inv"); });
    const char* const scale = is_inverse ? "weight_scale_inv" : "weight_scale";
    const auto matrix = [=](const Layer& layer) { return scaled_fp8(layer, scale, block); };
    return with_matrices(without_activation_scales(std::move(weights)),
                         {.mark = "weight", .read = {scale}, .matrix = matrix, .is_packed = is_fp8});
}

}  // namespace vkformer::models::packed
