// SPDX-License-Identifier: MIT
// MPNet (Song et al. 2020), the shape of all-mpnet-base-v2: RoBERTa without token types, with a bias of the scores by distance, in T5's
// buckets, that all layers share. A padding token within a text counts as one of its tokens, as with RoBERTa (roberta.cpp).
#include "core/try.hpp"
#include "models/encoder_loading.hpp"
#include "models/relative_buckets.hpp"

namespace vkformer::models {
namespace {

constexpr EncoderNames kMpnetNames = {
    .prefix = "mpnet.",
    .words = "embeddings.word_embeddings.weight",
    .positions = "embeddings.position_embeddings.weight",
    .types = "",
    .embedding_norm = "embeddings.LayerNorm",
    .layer = "encoder.layer.",
    .query = "attention.attn.q",
    .key = "attention.attn.k",
    .value = "attention.attn.v",
    .output = "attention.attn.o",
    .attention_norm = "attention.LayerNorm",
    .up = "intermediate.dense",
    .down = "output.dense",
    .feed_forward_norm = "output.LayerNorm",
    .head_dense = "classifier.dense",
    .head_output = "classifier.out_proj",
};
constexpr std::uint32_t kPadding = 1;  // whatever pad_token_id says: positions begin behind it

}  // namespace

Result<Encoder> load_mpnet(const formats::Config& config, const formats::Weights& weights) {
    VKFORMER_TRY(EncoderConfig c, read_bert_config(config));
    c.types = 0;
    if (c.max_positions <= kPadding + 1) return config.unsupported("max_position_embeddings", "3 or more");
    constexpr RelativeBuckets kBuckets = {.count = 32, .max_distance = 128, .is_bidirectional = true};
    VKFORMER_TRY(const auto count,
                 config.unsigned_integer("relative_attention_num_buckets", {.fallback = kBuckets.count}));
    if (count != kBuckets.count)  // transformers reads the first 32 of any table
        return config.unsupported("relative_attention_num_buckets", std::to_string(kBuckets.count));
    VKFORMER_TRY(EncoderWeights w, read_encoder_weights(weights, c, kMpnetNames, kPadding + 1));
    const WeightReader read(weights, find_prefix(weights, "mpnet.", std::string(kMpnetNames.words)));
    VKFORMER_TRY(const TensorData table,
                 read.tensor("encoder.relative_attention_bias.weight", {kBuckets.count, c.heads}));
    VKFORMER_TRY(w.score_bias, spell_out(table, kBuckets));
    return Encoder(c, std::move(w));
}

}  // namespace vkformer::models
