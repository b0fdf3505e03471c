// SPDX-License-Identifier: MIT
// gpt-oss (OpenAI 2025, arXiv 2508.10925): a mixture of experts with biases and clamped gates, every second layer with a window, a sink for
// each head of attention. Its experts are stored as MXFP4, or as numbers, in both of which gates and their other halves lie in turns.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/block_format.hpp"
#include "core/finite.hpp"
#include "core/try.hpp"
#include "models/decoder_loading.hpp"

namespace vkformer::models {

using formats::Config;

void set_clamped_gates(DecoderConfig& config) {
    config.activation = graph::Activation::gelu_quick;
    config.experts.clamp = {.limit = 7, .up_shift = 1};
}

namespace {

/// A stack [matrices, rows, cols] that is being written.
struct NewStack {
    std::shared_ptr<std::vector<std::byte>> bytes;
    TensorData data;
    std::size_t row_bytes;

    NewStack(DType dtype, const Shape& shape)
        : bytes(std::make_shared<std::vector<std::byte>>(bytes_of(dtype, shape.element_count()))),
          data{.dtype = dtype, .shape = shape, .bytes = std::span<const std::byte>(*bytes), .owner = bytes},
          row_bytes(bytes_of(dtype, shape.back())) {}
    std::span<std::byte> row(std::uint64_t matrix, std::uint64_t index) {
        return std::span(*bytes).subspan((matrix * data.shape[1] + index) * row_bytes, row_bytes);
    }
};

/// Every `step`-th of the rows of each matrix, from `first` on.
struct RowsOf {
    std::uint64_t first, step;
};

/// A row of blocks, whose bytes hold neighbours, as GGUF has it: a byte holds elements i and i + 16 of a block.
void repack_row(std::span<const std::byte> nibbles, std::span<const std::byte> exponents, std::span<std::byte> row) {
    constexpr std::size_t kBytes = kMxfp4Format.bytes(), kHalf = 16;
    for (std::size_t block = 0; block < exponents.size(); ++block) {
        const std::span<const std::byte> from = nibbles.subspan(block * kHalf, kHalf);
        const std::span<std::byte> to = row.subspan(block * kBytes, kBytes);
        const auto nibble = [&](std::size_t i) { return from[i / 2] >> (4 * (i % 2)) & std::byte{15}; };
        to[0] = exponents[block];
        for (std::size_t i = 0; i < kHalf; ++i) to[kMxfp4Format.nibbles() + i] = nibble(i) | nibble(i + kHalf) << 4;
    }
}

/// Matrices [rows, width] of all experts as MXFP4, of which some rows are wanted: name + "_blocks" and name + "_scales".
Result<TensorData> read_mxfp4(const WeightReader& read, const std::string& name, std::uint64_t count,
                              std::uint64_t rows, std::uint64_t width, const RowsOf& wanted) {
    const std::uint64_t block = block_elements(DType::mxfp4), blocks = width / block, row_nibbles = blocks * 16;
    if (width % block != 0)
        return Error{ErrorCode::ShapeMismatch, read.source() + ": " + name + "_blocks has rows of " +
                                                   std::to_string(width) + " elements, expected whole blocks of " +
                                                   std::to_string(block)};
    VKFORMER_TRY(const TensorData nibbles, read.bytes(name + "_blocks", {count, rows, blocks, 16}));
    VKFORMER_TRY(const TensorData exponents, read.bytes(name + "_scales", {count, rows, blocks}));
    NewStack stack(DType::mxfp4, {count, rows / wanted.step, width});
    for (std::uint64_t e = 0; e < count; ++e)
        for (std::uint64_t i = 0; i < stack.data.shape[1]; ++i) {
            const std::uint64_t row = e * rows + wanted.first + i * wanted.step;
            repack_row(nibbles.bytes.subspan(row * row_nibbles, row_nibbles),
                       exponents.bytes.subspan(row * blocks, blocks), stack.row(e, i));
        }
    if (first_not_finite(DType::mxfp4, stack.data.bytes))
        return Error{ErrorCode::CorruptFile, read.source() + ": " + name +
                                                 "_scales has a value of 253 or more, whose numbers are infinite or "
                                                 "none: the file is damaged"};
    return std::move(stack.data);
}

/// The same as numbers, stored [width, rows].
Result<TensorData> read_numbers(const WeightReader& read, const std::string& name, std::uint64_t count,
                                std::uint64_t rows, std::uint64_t width, const RowsOf& wanted) {
    VKFORMER_TRY(const TensorData stored, read.tensor(name, {count, width, rows}));
    if (!is_float(stored.dtype))
        return Error{ErrorCode::UnsupportedDtype, read.source() + ": " + name + " holds blocks, expected numbers"};
    NewStack stack(stored.dtype, {count, rows / wanted.step, width});
    const std::size_t size = element_bytes(stored.dtype);
    for (std::uint64_t e = 0; e < count; ++e)
        for (std::uint64_t i = 0; i < stack.data.shape[1]; ++i) {
            const std::span<std::byte> row = stack.row(e, i);
            const std::byte* from = stored.bytes.data() + (e * width * rows + wanted.first + i * wanted.step) * size;
            for (std::uint64_t k = 0; k < width; ++k) std::memcpy(&row[k * size], from + k * rows * size, size);
        }
    return std::move(stack.data);
}

Result<std::vector<TensorData>> read_matrices(const WeightReader& read, const std::string& name, std::uint64_t count,
                                              std::uint64_t rows, std::uint64_t width, const RowsOf& wanted) {
    VKFORMER_TRY(const TensorData stack, read.has(name + "_blocks")
                                             ? read_mxfp4(read, name, count, rows, width, wanted)
                                             : read_numbers(read, name, count, rows, width, wanted));
    return matrices_of(stack);
}

/// Every second element of a bias of all experts.
Result<TensorData> half_of_bias(const TensorData& bias, std::uint64_t first) {
    VKFORMER_TRY(const std::vector<float> both, floats_of(bias));
    std::vector<float> values(both.size() / 2);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = both[2 * i + first];
    return float_tensor(bias.shape.with_back(bias.shape.back() / 2), std::move(values));
}

Result<ExpertWeights> read_experts(const WeightReader& read, const DecoderConfig& c, const std::string& layer) {
    const std::uint64_t count = c.experts.count, d = c.hidden_size, ffn = c.experts.intermediate_size;
    const std::string router = layer + "mlp.router.", gate_up = layer + "mlp.experts.gate_up_proj",
                      down = layer + "mlp.experts.down_proj";
    ExpertWeights w;
    VKFORMER_TRY(w.router, read.tensor(router + "weight", {count, d}));
    VKFORMER_TRY(w.router_bias, read.tensor(router + "bias", {count}));
    VKFORMER_TRY(w.gate, read_matrices(read, gate_up, count, 2 * ffn, d, {.first = 0, .step = 2}));
    VKFORMER_TRY(w.up, read_matrices(read, gate_up, count, 2 * ffn, d, {.first = 1, .step = 2}));
    VKFORMER_TRY(w.down, read_matrices(read, down, count, d, ffn, {.first = 0, .step = 1}));
    VKFORMER_TRY(const TensorData bias, read.tensor(gate_up + "_bias", {count, 2 * ffn}));
    VKFORMER_TRY(w.gate_bias, half_of_bias(bias, 0));
    VKFORMER_TRY(w.up_bias, half_of_bias(bias, 1));
    VKFORMER_TRY(w.down_bias, read.tensor(down + "_bias", {count, d}));
    return w;
}

/// Numbers that transformers makes up where a config has none, each with a reason of its own.
Result<void> check_given(const Config& config) {
    for (const char* const name : {"head_dim", "num_key_value_heads", "max_position_embeddings", "rms_norm_eps"})
        if (!config.has(name)) return config.unsupported(name, "a number");
    if (!config.has("rope_parameters") && !config.has("rope_scaling"))
        return config.unsupported("rope_parameters", "an object");
    return {};
}

/// What transformers and llama.cpp compute without asking.
Result<void> check_fixed(const Config& config) {
    VKFORMER_TRY(const std::string activation, config.string("hidden_act", "silu"));
    if (activation != "silu") return config.unsupported("hidden_act", "silu");
    VKFORMER_TRY(const double limit, config.real("swiglu_limit", {.fallback = 7}));
    if (limit != 7) return config.unsupported("swiglu_limit", "7");
    VKFORMER_TRY(const Config quantization, config.object("quantization_config"));
    if (quantization.is_empty()) return {};
    VKFORMER_TRY(const std::string method, quantization.string("quant_method", ""));
    return method == "mxfp4" ? Result<void>{} : quantization.unsupported("quant_method", "mxfp4");
}

/// A window in every second layer, from the first on, where no list says which layers have it. transformers makes up one of 128 tokens
/// where the field is missing, and refuses layers with a window where it is null.
Result<void> read_windows(const Config& config, DecoderConfig& c) {
    VKFORMER_TRY(std::vector<bool> slides, read_sliding_layers(config, c.layers.size()));
    if (!config.has("layer_types"))
        for (std::size_t i = 0; i < slides.size(); ++i) slides[i] = i % 2 == 0;
    if (std::ranges::find(slides, true) == slides.end()) return {};
    if (!config.has("sliding_window")) return config.unsupported("sliding_window", "a number");
    VKFORMER_TRY(const auto window, config.unsigned_integer("sliding_window", {.min = 1, .max = 1u << 28}));
    for (std::size_t i = 0; i < slides.size(); ++i)
        if (slides[i]) c.layers[i].window = window;
    return {};
}

Result<DecoderConfig> read_gpt_oss_config(const Config& config) {
    VKFORMER_CHECK(check_given(config));
    VKFORMER_CHECK(check_fixed(config));
    VKFORMER_TRY(DecoderConfig c, read_sizes(config));
    VKFORMER_TRY(const Rope rope, read_rope(config, c, {.theta = 150000}));
    c.ropes = {rope};
    for (auto& layer : c.layers) layer.rope = 0;
    VKFORMER_CHECK(read_expert_counts(config, 128, 4, c));
    c.experts.normalises = true;
    set_clamped_gates(c);
    VKFORMER_CHECK(read_windows(config, c));
    return c;
}

}  // namespace

Result<DecoderParts> load_gpt_oss(const Config& config, const formats::Weights& weights) {
    DecoderParts parts;
    VKFORMER_TRY(parts.config, read_gpt_oss_config(config));
    LlamaLayout layout = {.read_experts = read_experts, .sinks = true};
    VKFORMER_TRY(layout.attention_bias, config.boolean("attention_bias", true));
    layout.output_bias = layout.attention_bias;
    VKFORMER_TRY(layout.tied, config.boolean("tie_word_embeddings", false));
    VKFORMER_TRY(parts.weights, read_llama_weights(weights, parts.config, layout,
                                                   find_prefix(weights, "model.", "embed_tokens.weight")));
    return parts;
}

}  // namespace vkformer::models
