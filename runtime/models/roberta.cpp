// SPDX-License-Identifier: MIT
// RoBERTa (Liu et al. 2019), XLM-RoBERTa (Conneau et al. 2020), CamemBERT: BERT with positions that begin behind the padding token's
// number. A padding token within a text counts as one of its tokens here; Hugging Face gives it no position of its own.
#include "core/try.hpp"
#include "models/encoder_loading.hpp"

namespace vkformer::models {
namespace {

constexpr EncoderNames kRobertaNames = {
    .prefix = "roberta.",
    .words = "embeddings.word_embeddings.weight",
    .positions = "embeddings.position_embeddings.weight",
    .types = "embeddings.token_type_embeddings.weight",
    .embedding_norm = "embeddings.LayerNorm",
    .layer = "encoder.layer.",
    .query = "attention.self.query",
    .key = "attention.self.key",
    .value = "attention.self.value",
    .output = "attention.output.dense",
    .attention_norm = "attention.output.LayerNorm",
    .up = "intermediate.dense",
    .down = "output.dense",
    .feed_forward_norm = "output.LayerNorm",
    .head_dense = "classifier.dense",
    .head_output = "classifier.out_proj",
};

}  // namespace

Result<Encoder> load_roberta(const formats::Config& config, const formats::Weights& weights) {
    VKFORMER_TRY(EncoderConfig c, read_bert_config(config));
    VKFORMER_TRY(const auto padding, config.unsigned_integer("pad_token_id", {.fallback = 1}));
    if (padding >= c.max_positions - 1)
        return config.unsupported("pad_token_id",
                                  "less than max_position_embeddings - 1 = " + std::to_string(c.max_positions - 1));
    VKFORMER_TRY(EncoderWeights w, read_encoder_weights(weights, c, kRobertaNames, padding + 1));
    return Encoder(c, std::move(w));
}

}  // namespace vkformer::models
