// SPDX-License-Identifier: MIT
// The layouts, as the programs that write them have them: GPTQ (Frantar et al. 2022) by GPTQModel and AutoGPTQ, AWQ (Lin et al. 2023) by
// AutoAWQ's "gemm".
#include <utility>

#include "core/ceil_div.hpp"
#include "models/packed_layers.hpp"

namespace vkformer::models::packed {

namespace {

/// The scales [groups, out] and the zeros.
Result<void> read_scales(const Layer& layer, const WordLayout& layout, PackedMatrix& matrix) {
    constexpr std::string_view zeros = "qzeros";
    VKFORMER_TRY(const TensorData scales, layer.floats("scales"));
    VKFORMER_TRY(const TensorData packed, layer.tensor(zeros, DType::i32, 2));
    if (scales.shape.rank() != 2 || scales.shape[1] != matrix.out || scales.shape[0] == 0)
        return layer.bad_shape("scales", scales.shape, "[groups, " + std::to_string(matrix.out) + "]");
    matrix.groups = scales.shape[0];
    matrix.is_half = scales.dtype == DType::f16;
    VKFORMER_CHECK(
        layer.expect_shape(zeros, packed, {matrix.groups, ceil_div(matrix.out * matrix.bits, std::uint64_t{32})}));
    VKFORMER_TRY(matrix.scales, values_of(scales));
    matrix.zeros.resize(matrix.groups * matrix.out);
    const Words words(packed, matrix.bits, layout);
    for (std::uint64_t g = 0; g < matrix.groups; ++g)
        for (std::uint64_t o = 0; o < matrix.out; ++o)
            matrix.zeros[g * matrix.out + o] = static_cast<std::uint8_t>(words.at(o, g));
    return {};
}

/// What GPTQModel writes of both methods.
void read_packing(Fields& fields) {
    fields.word("pack_dtype", "int32", "int32, torch.int32");
    fields.expect_empty("dynamic");
}

}  // namespace

Result<Weights> unpack_gptq(const Config& quantization, Weights weights) {
    Fields fields{quantization};
    const auto bits = static_cast<std::uint32_t>(fields.integer("bits", {.min = 1, .max = 16}));
    fields.expect(bits == 2 || bits == 4 || bits == 8, "bits", "2, 4, 8");
    const std::uint64_t group_size = fields.group_size("group_size", 128);
    // In the first version words of zeros are smaller by 1 in each of them, with borrows where a zero is 0.
    const std::string_view format = fields.first_of({"checkpoint_format", "format"});
    const bool is_first = fields.word(format, "gptq", "gptq, gptq_v2") == "gptq";
    fields.expect(!fields.boolean("is_marlin_format", false), "is_marlin_format", "false");
    const bool has_order = fields.boolean("desc_act", false);
    read_packing(fields);
    VKFORMER_CHECK(fields.done());
    const std::uint32_t ones = 0xFFFFFFFFu / ((1u << bits) - 1);  // 0x11111111 of 4 bits
    const WordLayout zeros = {.of_outputs = true, .added = is_first ? ones : 0};
    const auto matrix = [=](const Layer& layer) -> Result<TensorData> {
        VKFORMER_TRY(const TensorData packed, layer.tensor("qweight", DType::i32, 2));
        PackedMatrix made{.out = packed.shape[1], .in = packed.shape[0] * 32 / bits, .bits = bits};
        VKFORMER_CHECK(check_size(layer, "qweight", made));
        VKFORMER_CHECK(read_scales(layer, zeros, made));
        if (has_order || layer.has("g_idx")) {
            made.group_size = group_size == 0 ? made.in : group_size;
            VKFORMER_CHECK(read_group_indices(layer, "g_idx", made));
        }
        if (made.group_of.empty()) VKFORMER_CHECK(set_groups(layer, "scales", group_size, made));
        return repacked(made, Words(packed, made.bits, {.goes_down = true}));
    };
    return with_matrices(std::move(weights),
                         {.mark = "qweight", .read = {"qweight", "qzeros", "scales", "g_idx"}, .matrix = matrix});
}

Result<Weights> unpack_awq(const Config& quantization, Weights weights) {
    constexpr WordLayout kLayout = {.of_outputs = true, .order = {0, 4, 1, 5, 2, 6, 3, 7}};
    Fields fields{quantization};
    const char* const bits = fields.has("w_bit") ? "w_bit" : "bits";
    fields.expect(fields.integer(bits, {.min = 1, .max = 16}) == 4, bits, "4");
    const std::uint64_t group_size = fields.group_size(fields.has("q_group_size") ? "q_group_size" : "group_size", 128);
    fields.word(fields.first_of({"version", "format", "checkpoint_format"}), "gemm", "gemm, GEMM");
    fields.expect(!fields.boolean("desc_act", false), "desc_act", "false");
    read_packing(fields);
    VKFORMER_CHECK(fields.done());
    const auto matrix = [=](const Layer& layer) -> Result<TensorData> {
        VKFORMER_TRY(const TensorData packed, layer.tensor("qweight", DType::i32, 2));
        PackedMatrix made{.out = packed.shape[1] * 8, .in = packed.shape[0], .bits = 4};
        VKFORMER_CHECK(check_size(layer, "qweight", made));
        VKFORMER_CHECK(read_scales(layer, kLayout, made));
        VKFORMER_CHECK(set_groups(layer, "scales", group_size, made));
        return repacked(made, Words(packed, made.bits, kLayout));
    };
    return with_matrices(std::move(weights),
                         {.mark = "qweight", .read = {"qweight", "qzeros", "scales"}, .matrix = matrix});
}

}  // namespace vkformer::models::packed
