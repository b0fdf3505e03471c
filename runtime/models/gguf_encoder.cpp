// SPDX-License-Identifier: MIT
// Encoders in GGUF files: what llama.cpp's converter makes of BERT, and of RoBERTa and XLM-RoBERTa, which it gives the same name,
// with the first rows of their tables of positions left out.
#include <algorithm>
#include <array>

#include "core/try.hpp"
#include "models/encoder_loading.hpp"
#include "models/sentence.hpp"

namespace vkformer::models {
namespace {

using formats::Gguf;

constexpr EncoderNames kGgufNames = {
    .words = "token_embd.weight",
    .positions = "position_embd.weight",
    .types = "token_types.weight",
    .embedding_norm = "token_embd_norm",
    .layer = "blk.",
    .query = "attn_q",
    .key = "attn_k",
    .value = "attn_v",
    .output = "attn_output",
    .attention_norm = "attn_output_norm",
    .up = "ffn_up",
    .down = "ffn_down",
    .feed_forward_norm = "layer_output_norm",
    .head_dense = "cls",
    .head_output = "cls.output",
};
constexpr std::uint32_t kRank = 4;  // of pooling_type: scores in place of a vector

bool has_tensor(const Gguf& file, std::string_view name) {
    return file.weights().find(std::string(name) + ".weight") != nullptr;
}

/// RoBERTa's head has two layers; of BERT's the converter keeps the last.
EncoderNames names_in(const Gguf& file) {
    EncoderNames names = kGgufNames;
    if (!has_tensor(file, names.head_dense)) names.head_dense = {};
    return names;
}

std::string key(std::string_view name) { return std::string(kGgufBert) + "." + std::string(name); }

/// How many rows a table of vectors has; 0 where the file has no such table.
Result<std::uint32_t> rows_in(const Gguf& file, std::string_view name, std::uint32_t width) {
    const auto* const found = file.weights().find(std::string(name));
    if (!found) return 0u;
    VKFORMER_TRY(const TensorData table, file.weights().get(std::string(name)));
    if (table.shape.rank() == 2 && table.shape[0] <= 1u << 24) return static_cast<std::uint32_t>(table.shape[0]);
    return Error{ErrorCode::ShapeMismatch, file.file_name() + ": " + std::string(name) + " has shape " +
                                               to_string(table.shape) + ", expected [rows, " + std::to_string(width) +
                                               "]"};
}

Result<EncoderConfig> read_config(const Gguf& file) {
    const formats::Expect<std::uint32_t> count = {.min = 1, .max = 1u << 20};
    EncoderConfig c;
    VKFORMER_TRY(c.hidden_size, file.unsigned_integer(key("embedding_length"), count));
    VKFORMER_TRY(c.intermediate_size, file.unsigned_integer(key("feed_forward_length"), count));
    VKFORMER_TRY(c.layers, file.unsigned_integer(key("block_count"), {.min = 1, .max = 4096}));
    VKFORMER_TRY(c.heads, file.unsigned_integer(key("attention.head_count"), count));
    VKFORMER_TRY(c.max_positions, file.unsigned_integer(key("context_length"), count));
    VKFORMER_TRY(const double eps, file.real(key("attention.layer_norm_epsilon"), {.min = 0, .max = 1}));
    c.norm_eps = static_cast<float>(eps);
    c.activation = graph::Activation::gelu_erf;  // the file does not say it; all that are converted have it
    if (c.hidden_size % c.heads != 0)
        return file.unsupported(key("attention.head_count"),
                                "a divisor of embedding_length = " + std::to_string(c.hidden_size));
    VKFORMER_TRY(const bool is_causal, file.boolean(key("attention.causal"), false));
    if (is_causal) return file.unsupported(key("attention.causal"), "false");
    VKFORMER_TRY(c.vocab_size, rows_in(file, kGgufNames.words, c.hidden_size));
    VKFORMER_TRY(c.types, rows_in(file, kGgufNames.types, c.hidden_size));
    VKFORMER_TRY(c.labels, rows_in(file, std::string(kGgufNames.head_output) + ".weight", c.hidden_size));
    if (c.labels == 0 && has_tensor(file, kGgufNames.head_dense))
        return Error{ErrorCode::UnsupportedConfig,
                     file.file_name() + ": there is a tensor cls.weight, but no cls.output.weight behind it"};
    return c;
}

}  // namespace

Result<Encoder> load_gguf_encoder(const Gguf& file) {
    VKFORMER_TRY(EncoderConfig config, read_config(file));
    VKFORMER_TRY(EncoderWeights weights, read_encoder_weights(file.weights(), config, names_in(file)));
    return Encoder(config, std::move(weights));
}

Result<SentenceModel> load_gguf_sentence_model(const Gguf& file) {
    VKFORMER_TRY(const std::string architecture, file.string("general.architecture"));
    const std::string key = architecture + ".pooling_type";
    // llama.cpp's numbers; 0, no pooling, gets what a folder without a word about it gets.
    constexpr std::array<graph::Pooling, 4> kPoolings = {graph::Pooling::mean, graph::Pooling::mean,
                                                         graph::Pooling::first, graph::Pooling::last};
    VKFORMER_TRY(const std::uint32_t pooling, file.unsigned_integer(key, {.fallback = 0}));
    if (pooling == kRank)
        return Error{
            .code = ErrorCode::UnsupportedConfig,
            .message = file.file_name() + ": " + key + " is 4 (rank): the model gives scores of pairs, not vectors",
            .hint = Hint::cross_encoder};
    if (pooling >= kPoolings.size()) return file.unsupported(key, "0 (none), 1 (mean), 2 (cls), 3 (last)");
    SentenceModel model{.pooling = {kPoolings[pooling]}};
    model.set_normalize(true);  // as llama.cpp's programs do
    return model;
}

}  // namespace vkformer::models
