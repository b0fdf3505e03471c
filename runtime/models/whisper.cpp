// SPDX-License-Identifier: MIT
// Whisper (Radford et al. 2022): two convolutions over a log-mel spectrogram, pre-norm layers with a norm behind the
// last, stored positions, no bias on keys.
#include <array>
#include <memory>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"
#include "models/seq2seq_loading.hpp"
#include "models/weight_reader.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::Weights;

constexpr std::array<std::string_view, 2> kWhisperArchitectures = {"WhisperForConditionalGeneration", "WhisperModel"};
constexpr std::array<RequiredFlag, 1> kWhisperFlags = {{{"scale_embedding", false}}};

/// A convolution's kernel [out, in, 3] as a matrix [out, 3 · in], the taps one after the other; with a bias, its column
/// goes last.
Result<TensorData> as_matrix(const TensorData& kernel, std::span<const float> bias) {
    const std::uint64_t out = kernel.shape[0], in = kernel.shape[1], taps = kernel.shape[2];
    const std::uint64_t columns = taps * in + (bias.empty() ? 0 : 1);
    VKFORMER_TRY(const auto values, floats_of(kernel));
    std::vector<float> matrix(out * columns);
    for (std::uint64_t o = 0; o < out; ++o) {
        for (std::uint64_t i = 0; i < in; ++i)
            for (std::uint64_t t = 0; t < taps; ++t) matrix[o * columns + t * in + i] = values[(o * in + i) * taps + t];
        if (!bias.empty()) matrix[o * columns + columns - 1] = bias[o];
    }
    return float_tensor({out, columns}, std::move(matrix));
}

Result<Seq2SeqWeights::Stem> read_stem(const WeightReader& read, const Seq2SeqConfig& c) {
    constexpr std::uint64_t kTaps = 3;
    const std::uint64_t d = c.d_model;
    VKFORMER_TRY(const TensorData first, read.tensor("encoder.conv1.weight", {d, c.mel_bins, kTaps}));
    VKFORMER_TRY(const TensorData first_bias, read.tensor("encoder.conv1.bias", {d}));
    VKFORMER_TRY(const TensorData second, read.tensor("encoder.conv2.weight", {d, d, kTaps}));
    Seq2SeqWeights::Stem stem;
    VKFORMER_TRY(const auto bias, floats_of(first_bias));
    VKFORMER_TRY(stem.first.weight, as_matrix(first, bias));
    VKFORMER_TRY(stem.second.weight, as_matrix(second, {}));
    VKFORMER_TRY(stem.second.bias, read.tensor("encoder.conv2.bias", {d}));
    return stem;
}

}  // namespace

Result<Seq2Seq> load_whisper(const Config& config, const Weights& weights) {
    VKFORMER_CHECK(refuse_other_seq2seq(config, kWhisperArchitectures, kWhisperFlags));
    VKFORMER_TRY(Seq2SeqConfig c, read_bart_sizes(config));
    VKFORMER_TRY(c.mel_bins, config.unsigned_integer("num_mel_bins", {.fallback = 80, .min = 1, .max = 1024}));
    VKFORMER_TRY(c.encoder.max_positions,
                 config.unsigned_integer("max_source_positions", {.fallback = 1500, .min = 1, .max = 1u << 20}));
    VKFORMER_TRY(c.decoder.max_positions,
                 config.unsigned_integer("max_target_positions", {.fallback = 448, .min = 1, .max = 1u << 20}));
    c.norm_place = Seq2SeqConfig::NormPlace::before;
    c.encoder.vocab_size = 0;

    const std::string prefix = find_prefix(weights, "model.", "encoder.conv1.weight");
    VKFORMER_TRY(Seq2SeqWeights w, read_bart_layers(weights, c, {.final_norms = true, .key_bias = false}, prefix));
    const WeightReader read(weights, prefix), read_head(weights, "");
    VKFORMER_TRY(w.stem, read_stem(read, c));
    VKFORMER_TRY(w.encoder.positions,
                 read.tensor("encoder.embed_positions.weight", {c.encoder.max_positions, c.d_model}));
    VKFORMER_TRY(w.decoder.positions,
                 read.tensor("decoder.embed_positions.weight", {c.decoder.max_positions, c.d_model}));
    const Shape table = {c.target_vocab, c.d_model};
    VKFORMER_TRY(w.decoder.embedding, read.tensor("decoder.embed_tokens.weight", table));
    VKFORMER_TRY(const bool is_tied, config.boolean("tie_word_embeddings", true));
    VKFORMER_TRY(w.lm_head.weight, read_head.tied_tensor("proj_out.weight", table, w.decoder.embedding, is_tied));
    return Seq2Seq(c, std::move(w));
}

}  // namespace vkformer::models
