// SPDX-License-Identifier: MIT
// compressed-tensors, as vLLM's library of that name and llm-compressor write them.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/ceil_div.hpp"
#include "models/packed_fp8.hpp"

namespace vkformer::models::packed {

namespace {

struct CompressedFields {
    std::uint32_t bits = 8;
    std::uint64_t group_size = 0;  ///< 0: all inputs of an output, or the whole matrix, have one scale
    ScaleBlock block;
    bool is_symmetric = true;
    friend bool operator==(const CompressedFields&, const CompressedFields&) = default;
};

/// Weights of one kind of layer; how its activations would be rounded is not read.
Result<CompressedFields> read_compressed_group(const Fields& group) {
    Fields weights = group.object("weights");
    CompressedFields read;
    const bool is_float = weights.word("type", "int", "int, float") == "float";
    read.bits = static_cast<std::uint32_t>(weights.integer("num_bits", {.fallback = 8, .min = 1, .max = 16}));
    weights.expect(read.bits == 8 || (read.bits == 4 && !is_float), "num_bits", is_float ? "8" : "4, 8");
    read.is_symmetric = weights.boolean("symmetric", true);
    read.group_size = weights.group_size("group_size", -1);
    read.block = weights.block("block_structure");
    const std::string strategy =
        weights.word("strategy", read.group_size > 0 ? "group" : "tensor", "tensor, channel, group, block");
    weights.expect((strategy == "block") == (read.block.rows > 0), "block_structure",
                   "two numbers with the strategy block, else null");
    if (strategy != "group") read.group_size = 0;
    weights.expect(!weights.boolean("dynamic", false), "dynamic", "false");
    VKFORMER_CHECK(weights.done());
    return read;
}

/// [out, groups] → [groups, out], with one for all outputs repeated.
Result<void> read_channel_scales(const Layer& layer, PackedMatrix& matrix) {
    VKFORMER_TRY(const TensorData scale, layer.floats("weight_scale"));
    VKFORMER_TRY(const auto values, values_of(scale));
    matrix.is_half = scale.dtype == DType::f16;
    if (values.size() == 1) {
        matrix.groups = 1;
        matrix.scales.assign(matrix.out, values[0]);
        return {};
    }
    const bool has_rows = scale.shape.rank() > 0 && scale.shape[0] == matrix.out && scale.shape.rank() <= 2;
    if (!has_rows) return layer.bad_shape("weight_scale", scale.shape, "[" + std::to_string(matrix.out) + ", groups]");
    matrix.groups = values.size() / matrix.out;
    matrix.scales.resize(values.size());
    for (std::uint64_t o = 0; o < matrix.out; ++o)
        for (std::uint64_t g = 0; g < matrix.groups; ++g)
            matrix.scales[g * matrix.out + o] = values[o * matrix.groups + g];
    return {};
}

/// Signed integers are stored with half of the levels added.
Result<void> read_channel_zeros(const Layer& layer, bool is_symmetric, PackedMatrix& matrix) {
    const std::uint32_t middle = matrix.levels() / 2;
    matrix.zeros.assign(matrix.groups * matrix.out, static_cast<std::uint8_t>(middle));
    if (is_symmetric) return {};
    constexpr std::string_view kName = "weight_zero_point";
    VKFORMER_TRY(const TensorData packed, layer.tensor(kName, DType::i32, 2));  // along the outputs
    VKFORMER_CHECK(
        layer.expect_shape(kName, packed, {ceil_div(matrix.out * matrix.bits, std::uint64_t{32}), matrix.groups}));
    const Words words(packed, matrix.bits, {.of_outputs = true, .goes_down = true});
    for (std::uint64_t g = 0; g < matrix.groups; ++g)
        for (std::uint64_t o = 0; o < matrix.out; ++o)
            matrix.zeros[g * matrix.out + o] = static_cast<std::uint8_t>(words.at(o, g));
    return {};
}

/// weight_packed: [out, in / 8] (of 4 bits), and weight_shape, which says what `in` is.
Result<TensorData> packed_integers(const Layer& layer, const CompressedFields& fields) {
    VKFORMER_TRY(const TensorData packed, layer.tensor("weight_packed", DType::i32, 2));
    VKFORMER_TRY(const TensorData shape, layer.tensor("weight_shape", DType::i64, 1));
    std::array<std::int32_t, 2> sizes{};
    VKFORMER_CHECK(layer.expect_shape("weight_shape", shape, {2}));
    const auto read = convert(shape.dtype, shape.bytes, 0, std::span<std::int32_t>(sizes));
    if (!read) return layer.error(read.error().code, "weight_shape", {": ", read.error().message});
    PackedMatrix made{.out = static_cast<std::uint64_t>(std::max(sizes[0], 0)),
                      .in = static_cast<std::uint64_t>(std::max(sizes[1], 0)),
                      .bits = fields.bits};
    VKFORMER_CHECK(check_size(layer, "weight_shape", made));
    VKFORMER_CHECK(
        layer.expect_shape("weight_packed", packed, {made.out, ceil_div(made.in * made.bits, std::uint64_t{32})}));
    VKFORMER_CHECK(read_channel_scales(layer, made));
    VKFORMER_CHECK(read_channel_zeros(layer, fields.is_symmetric, made));
    made.group_size = fields.group_size == 0 ? made.in : fields.group_size;
    if (layer.has("weight_g_idx")) VKFORMER_CHECK(read_group_indices(layer, "weight_g_idx", made));
    if (made.group_of.empty()) VKFORMER_CHECK(set_groups(layer, "weight_scale", fields.group_size, made));
    return repacked(made, Words(packed, made.bits, {}));
}

/// weight: bytes with signs.
Result<TensorData> byte_integers(const Layer& layer, const CompressedFields& fields) {
    VKFORMER_TRY(const TensorData data, layer.tensor("weight", DType::i8, 2));
    if (!fields.is_symmetric)
        return layer.error(ErrorCode::UnsupportedConfig, "weight", {": integers of 8 bits with zeros are not read"});
    PackedMatrix made{.out = data.shape[0], .in = data.shape[1], .bits = 8};
    VKFORMER_CHECK(check_size(layer, "weight", made));
    VKFORMER_CHECK(read_channel_scales(layer, made));
    VKFORMER_CHECK(read_channel_zeros(layer, true, made));
    VKFORMER_CHECK(set_groups(layer, "weight_scale", fields.group_size, made));
    return repacked(made, Words(data, made.bits, {.bytes = 1, .flipped = 0x80}));  // 128 more
}

}  // namespace

Result<Weights> unpack_compressed(const Config& quantization, Weights weights) {
    Fields fields{quantization};
    fields.word("format", "dense", "dense, pack-quantized, int-quantized, float-quantized, naive-quantized");
    fields.word("quantization_status", "compressed", "compressed");
    fields.expect_empty("transform_config");
    Fields sparsity = fields.object("sparsity_config");
    sparsity.word("format", "dense", "dense");
    VKFORMER_CHECK(fields.done());
    VKFORMER_CHECK(sparsity.done());
    const Fields groups = fields.object("config_groups");
    VKFORMER_CHECK(groups.done());
    std::optional<CompressedFields> found;
    for (const std::string& name : groups.names()) {
        VKFORMER_TRY(const CompressedFields read, read_compressed_group(groups.object(name)));
        fields.expect(!found || *found == read, "config_groups", "groups whose weights are quantised alike");
        found = read;
    }
    VKFORMER_CHECK(fields.done());
    if (!found) return weights;  // nothing is quantised
    const CompressedFields read = *found;
    VKFORMER_TRY(weights,
                 with_matrices(without_activation_scales(std::move(weights)),
                               {.mark = "weight_packed",
                                .read = {"weight_packed", "weight_shape", "weight_scale", "weight_g_idx",
                                         read.is_symmetric ? "weight_scale" : "weight_zero_point"},
                                .matrix = [read](const Layer& layer) { return packed_integers(layer, read); }}));
    VKFORMER_TRY(weights, with_matrices(std::move(weights),
                                        {.mark = "weight",
                                         .read = {"weight_scale"},
                                         .matrix = [read](const Layer& layer) { return byte_integers(layer, read); },
                                         .is_packed = [](const TensorData& data) { return data.dtype == DType::i8; }}));
    return with_matrices(
        std::move(weights),
        {.mark = "weight",
         .read = {"weight_scale"},
         .matrix = [read](const Layer& layer) { return scaled_fp8(layer, "weight_scale", read.block); },
         .is_packed = is_fp8});
}

}  // namespace vkformer::models::packed
