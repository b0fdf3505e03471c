// SPDX-License-Identifier: MIT
// BERT (Devlin et al. 2019), and what has its shape: MiniLM, E5, BGE, GTE, …
#include "core/try.hpp"
#include "models/encoder_loading.hpp"

namespace vkformer::models {
namespace {

constexpr EncoderNames kBertNames = {
    .prefix = "bert.",
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
    .head_dense = "bert.pooler.dense",
    .head_output = "classifier",
};

}  // namespace

Result<Encoder> load_bert(const formats::Config& config, const formats::Weights& weights) {
    VKFORMER_TRY(EncoderConfig c, read_bert_config(config));
    VKFORMER_TRY(EncoderWeights w, read_encoder_weights(weights, c, kBertNames));
    return Encoder(c, std::move(w));
}

}  // namespace vkformer::models
