// SPDX-License-Identifier: MIT
// BART (Lewis et al. 2020): post-norm layers. mBART (Liu et al. 2020): pre-norm layers with a norm behind the last. Both have learned
// positions, the first two rows of whose table are not used, and a norm on the embeddings.
#include <array>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"
#include "models/seq2seq_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::Weights;

constexpr std::uint64_t kPositionOffset = 2;  // BartLearnedPositionalEmbedding, and MBart's
constexpr std::array<std::string_view, 2> kBart = {"BartForConditionalGeneration", "BartModel"};
constexpr std::array<std::string_view, 2> kMBart = {"MBartForConditionalGeneration", "MBartModel"};
// What older configs spell out and Hugging Face no longer reads.
constexpr std::array<RequiredFlag, 4> kBartFlags = {{
    {"normalize_before", false},
    {"normalize_embedding", true},
    {"add_final_layer_norm", false},
    {"static_position_embeddings", false},
}};
constexpr std::array<RequiredFlag, 4> kMBartFlags = {{
    {"normalize_before", true},
    {"normalize_embedding", true},
    {"add_final_layer_norm", true},
    {"static_position_embeddings", false},
}};

Result<TensorData> read_positions(const WeightReader& read, const std::string& name, const Seq2SeqConfig& c,
                                  std::uint64_t positions) {
    VKFORMER_TRY(const TensorData table, read.tensor(name, {positions + kPositionOffset, c.d_model}));
    return rows_of(table, kPositionOffset, positions);
}

}  // namespace

Result<Seq2Seq> load_bart(const Config& config, const Weights& weights) {
    VKFORMER_TRY(const std::string type, config.string("model_type"));
    const bool is_pre_norm = type == "mbart";
    VKFORMER_CHECK(is_pre_norm ? refuse_other_seq2seq(config, kMBart, kMBartFlags)
                               : refuse_other_seq2seq(config, kBart, kBartFlags));
    VKFORMER_TRY(Seq2SeqConfig c, read_bart_sizes(config));
    if (is_pre_norm) c.norm_place = Seq2SeqConfig::NormPlace::before;

    const std::string prefix = find_prefix(weights, "model.", "encoder.layernorm_embedding.weight");
    VKFORMER_TRY(Seq2SeqWeights w,
                 read_bart_layers(weights, c, {.embedding_norms = true, .final_norms = is_pre_norm}, prefix));
    VKFORMER_CHECK(read_bart_tables(config, weights, c, prefix, w));
    const WeightReader read(weights, prefix);
    VKFORMER_TRY(w.encoder.positions,
                 read_positions(read, "encoder.embed_positions.weight", c, c.encoder.max_positions));
    VKFORMER_TRY(w.decoder.positions,
                 read_positions(read, "decoder.embed_positions.weight", c, c.decoder.max_positions));
    return Seq2Seq(c, std::move(w));
}

}  // namespace vkformer::models
