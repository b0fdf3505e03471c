// SPDX-License-Identifier: MIT
#include "models/gguf_dtypes.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace vkformer::models {
namespace {

using formats::OutputTensor;

/// What llama.cpp's converter and llama-quantize leave in float32.
bool stays_float32(const OutputTensor& tensor) {
    const std::string_view name = tensor.name;
    constexpr std::array<std::string_view, 3> kTables = {"position_embd.weight", "token_types.weight",
                                                         "rope_freqs.weight"};
    return tensor.source.shape.rank() < 2 || !name.ends_with(".weight") || name.ends_with("_norm.weight") ||
           name.ends_with("ffn_gate_inp.weight") || name.ends_with("conv1d.weight") ||
           name.ends_with("shortconv.conv.weight") || std::ranges::find(kTables, name) != kTables.end();
}

/// The output matrix decides between tokens: fewer than six bits cost more there than they save.
DType wanted_for_output(DType wanted) { return is_quantized(wanted) && wanted != DType::q8_0 ? DType::q6_k : wanted; }

/// What llama-quantize takes for rows that 256 does not divide.
DType of_smaller_blocks(DType wanted) {
    switch (wanted) {
    case DType::q2_k:
    case DType::q3_k: return DType::q4_0;
    case DType::iq4_xs: return DType::iq4_nl;
    case DType::q4_k: return DType::q5_0;
    case DType::q5_k: return DType::q5_1;
    default: return DType::q8_0;
    }
}

/// `wanted`, what has smaller blocks, or where neither divides the rows `otherwise`.
DType fitting(DType wanted, std::uint64_t row, DType otherwise) {
    for (const DType dtype : {wanted, of_smaller_blocks(wanted)})
        if (row % block_elements(dtype) == 0) return dtype;
    return otherwise;
}

/// Sets the dtype, `best` or what fits its rows.
void store_as(OutputTensor& tensor, DType best, DType otherwise, std::vector<std::string>& notes) {
    const std::uint64_t row = tensor.source.shape.back();
    tensor.dtype = fitting(best, row, otherwise);
    if (tensor.dtype == best) return;
    notes.push_back(tensor.name + " is stored as " + std::string(to_string(tensor.dtype)) + ": its rows of " +
                    std::to_string(row) + " are no multiple of the " + std::to_string(block_elements(best)) +
                    " elements of a " + std::string(to_string(best)) + " block");
}

/// A matrix of a folder that products or embedding() read: not a table of positions, of distances or of a few types, nor the heads of
/// encoders, which are small.
bool is_block_matrix(const OutputTensor& tensor) {
    constexpr std::array<std::string_view, 8> kOthers = {
        "position", "relative_attention_bias", "token_type", "norm", "classifier", "pooler", "_projection.", "conv"};
    if (tensor.name.starts_with("head.") || tensor.name == "score.weight") return false;
    const std::string_view name = tensor.name;
    const bool is_real = is_float(tensor.source.dtype) || is_quantized(tensor.source.dtype);
    return is_real && tensor.source.shape.rank() == 2 && name.ends_with(".weight") &&
           std::ranges::none_of(kOthers, [&](std::string_view part) { return name.find(part) != name.npos; });
}

/// A matrix that DINO's layer scale is multiplied into when it is read, which would undo its blocks.
bool is_scaled(const OutputTensor& tensor, const std::set<std::string>& names) {
    constexpr std::array<std::pair<std::string_view, const char*>, 5> kScaled = {
        {{"attention.output.dense.weight", "layer_scale1.lambda1"},
         {"attention.o_proj.weight", "layer_scale1.lambda1"},
         {"mlp.fc2.weight", "layer_scale2.lambda1"},
         {"mlp.weights_out.weight", "layer_scale2.lambda1"},
         {"mlp.down_proj.weight", "layer_scale2.lambda1"}}};
    const std::string& name = tensor.name;
    return std::ranges::any_of(kScaled, [&](const auto& scaled) {
        return name.ends_with(scaled.first) &&
               names.contains(name.substr(0, name.size() - scaled.first.size()) + scaled.second);
    });
}

/// Tables are heads as well in most models. What is written twice, as heads and tables of old files are, stays the same.
bool is_table(std::string_view name) {
    constexpr std::array<std::string_view, 7> kTables = {
        "shared.weight",         "embed_tokens.weight", "word_embeddings.weight", "token_embedding.weight",
        "tok_embeddings.weight", "lm_head.weight",      "proj_out.weight"};
    return std::ranges::any_of(kTables, [&](std::string_view table) { return name.ends_with(table); });
}

}  // namespace

void choose_gguf_dtypes(std::vector<OutputTensor>& tensors, DType wanted, std::vector<std::string>& notes,
                        std::optional<DType> kept) {
    const bool has_output =
        std::ranges::find(tensors, std::string_view("output.weight"), &OutputTensor::name) != tensors.end();
    for (OutputTensor& tensor : tensors) {
        tensor.dtype = tensor.source.dtype;
        if (!is_float(tensor.source.dtype) && !is_quantized(tensor.source.dtype)) continue;
        if (tensor.source.dtype == kept) continue;
        if (stays_float32(tensor)) {
            tensor.dtype = DType::f32;
            continue;
        }
        const bool is_output = tensor.name == (has_output ? "output.weight" : "token_embd.weight");
        store_as(tensor, is_output ? wanted_for_output(wanted) : wanted, DType::f16, notes);
    }
}

void choose_folder_dtypes(std::vector<OutputTensor>& tensors, DType wanted, std::vector<std::string>& notes) {
    std::set<std::string> scales;
    for (const OutputTensor& tensor : tensors)
        if (tensor.name.ends_with(".lambda1")) scales.insert(tensor.name);
    for (OutputTensor& tensor : tensors) {
        tensor.dtype = tensor.source.dtype;
        if (!is_block_matrix(tensor)) continue;
        if (is_scaled(tensor, scales)) {
            notes.push_back(tensor.name + " stays as it is: the layer's scale is multiplied into it");
            continue;
        }
        const DType best = is_table(tensor.name) ? wanted_for_output(wanted) : wanted;
        store_as(tensor, best, tensor.source.dtype, notes);
    }
}

std::uint32_t gguf_file_type(DType dtype) {
    switch (dtype) {
    case DType::f16: return 1;
    case DType::q4_0: return 2;
    case DType::q4_1: return 3;
    case DType::q8_0: return 7;
    case DType::q5_0: return 8;
    case DType::q5_1: return 9;
    case DType::q2_k: return 10;
    case DType::q3_k: return 11;
    case DType::q4_k: return 14;
    case DType::q5_k: return 16;
    case DType::q6_k: return 18;
    case DType::iq4_nl: return 25;
    case DType::iq4_xs: return 30;
    case DType::bf16: return 32;
    case DType::mxfp4: return 38;
    default: return 0;
    }
}

}  // namespace vkformer::models
