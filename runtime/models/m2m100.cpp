// SPDX-License-Identifier: MIT
// M2M100 (Fan et al. 2021) and NLLB-200 (NLLB Team 2022): pre-norm layers with a norm behind the last, sinusoidal positions.
#include <array>
#include <cmath>
#include <memory>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"
#include "models/seq2seq_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::Weights;

constexpr std::array<std::string_view, 2> kM2m100Architectures = {"M2M100ForConditionalGeneration", "M2M100Model"};
// What older configs spell out and Hugging Face no longer reads.
constexpr std::array<RequiredFlag, 4> kM2m100Flags = {{
    {"normalize_before", true},
    {"normalize_embedding", false},
    {"add_final_layer_norm", true},
    {"static_position_embeddings", true},
}};

/// fairseq's sinusoids, [sin | cos], angle(p, k) = p / 10000^(k / (half − 1)), half = ⌊dim / 2⌋: unlike Vaswani's, the last wavelength is
/// 10000 sharp. The first token stands at `first`. An odd dim ends in zeros.
TensorData fairseq_sinusoids(std::uint64_t positions, std::uint64_t dim, std::uint64_t first) {
    const std::uint64_t half = dim / 2;
    std::vector<float> table(positions * dim);
    for (std::uint64_t k = 0; k < half; ++k) {
        const double frequency = std::pow(10000.0, -static_cast<double>(k) / static_cast<double>(half - 1));
        for (std::uint64_t p = 0; p < positions; ++p) {
            const double angle = static_cast<double>(first + p) * frequency;
            table[p * dim + k] = static_cast<float>(std::sin(angle));
            table[p * dim + half + k] = static_cast<float>(std::cos(angle));
        }
    }
    return float_tensor({positions, dim}, std::move(table));
}

}  // namespace

Result<Seq2Seq> load_m2m100(const Config& config, const Weights& weights) {
    VKFORMER_CHECK(refuse_other_seq2seq(config, kM2m100Architectures, kM2m100Flags));
    VKFORMER_TRY(Seq2SeqConfig c, read_bart_sizes(config, "relu", true));
    VKFORMER_TRY(const std::uint32_t pad, config.unsigned_integer("pad_token_id", {.fallback = 1, .max = 1u << 20}));
    c.norm_place = Seq2SeqConfig::NormPlace::before;
    if (c.d_model < 4) return config.unsupported("d_model", "at least 4");
    VKFORMER_CHECK(check_positions(c.encoder.max_positions, c.d_model));

    const std::string prefix = find_prefix(weights, "model.", "encoder.layer_norm.weight");
    VKFORMER_TRY(Seq2SeqWeights w, read_bart_layers(weights, c, {.final_norms = true}, prefix));
    VKFORMER_CHECK(read_bart_tables(config, weights, c, prefix, w));
    // Positions are counted from behind the padding token's id.
    w.encoder.positions = w.decoder.positions =
        fairseq_sinusoids(c.encoder.max_positions, c.d_model, std::uint64_t{pad} + 1);
    return Seq2Seq(c, std::move(w));
}

}  // namespace vkformer::models
