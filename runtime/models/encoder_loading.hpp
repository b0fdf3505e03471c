// SPDX-License-Identifier: MIT
/// What the loading functions of the encoder architectures share.
#pragma once

#include <string_view>

#include "formats/config.hpp"
#include "formats/gguf.hpp"
#include "formats/weights.hpp"
#include "models/encoder.hpp"
#include "models/weight_reader.hpp"

namespace vkformer::models {

class Decoder;
struct DecoderConfig;
struct DecoderParts;
struct ScoreTokens;

// One loading function per architecture: the fields of config.json that change the arithmetic are honoured or refused by name,
// every weight is there with the shape that the config gives it, with or without the architecture's prefix. Errors:
// CorruptFile, UnsupportedConfig, UnsupportedDtype, MissingTensor, ShapeMismatch.
Result<Encoder> load_bert(const formats::Config& config, const formats::Weights& weights);     // BERT, MiniLM, E5
Result<Encoder> load_roberta(const formats::Config& config, const formats::Weights& weights);  // RoBERTa, XLM-RoBERTa
Result<Encoder> load_mpnet(const formats::Config& config, const formats::Weights& weights);
Result<Encoder> load_distilbert(const formats::Config& config, const formats::Weights& weights);
Result<Encoder> load_deberta(const formats::Config& config, const formats::Weights& weights);  // DeBERTa-v2 and -v3
Result<Encoder> load_modernbert(const formats::Config& config, const formats::Weights& weights);
Result<Encoder> load_nomic_bert(const formats::Config& config, const formats::Weights& weights);
Result<Encoder> load_jina_embeddings(const formats::Config& config, const formats::Weights& weights);

/// A decoder's layers over whole texts, with the head "score" behind the last token where the architecture is one
/// "…ForSequenceClassification". Errors likewise.
Result<Encoder> encoder_of(const formats::Config& config, const formats::Weights& weights, DecoderParts parts);

/// The same with a head that is read already, and what its config gets from the decoder's.
Encoder encoder_over(DecoderParts parts, const EncoderConfig& config, EncoderWeights head);
EncoderConfig encoder_config_of(const DecoderConfig& decoder);

/// A language model that scores: one label, the logit of the one token minus that of the other. Errors: UnsupportedConfig (its logits
/// are capped, or a token is none of its vocabulary).
Result<Encoder> scorer_of(Decoder decoder, const ScoreTokens& tokens);

/// BERT, RoBERTa and XLM-RoBERTa in a GGUF file, whose general.architecture is kGgufBert for all of them. Errors likewise.
Result<Encoder> load_gguf_encoder(const formats::Gguf& file);
inline constexpr std::string_view kGgufBert = "bert";

/// What an architecture calls its tensors. Projections and norms are followed by ".weight" and ".bias" (norms of old files: ".gamma"
/// and ".beta"), those of a layer preceded by `layer`, its number and a point.
struct EncoderNames {
    std::string_view prefix;                                   ///< of all but the head; some files lack it
    std::string_view words, positions, types, embedding_norm;  ///< no positions: the model has none
    std::string_view layer;
    std::string_view query, key, value, output, attention_norm, up, down, feed_forward_norm;
    std::string_view head_dense, head_output;  ///< with the prefix where they have one; no head_dense: the output alone
};

/// `first_position` is the row of the table of positions that the first token gets; max_positions is set to the rows behind it.
Result<EncoderWeights> read_encoder_weights(const formats::Weights& weights, EncoderConfig& config,
                                            const EncoderNames& names, std::uint32_t first_position = 0);

/// How many outputs the head has: 0 where the architecture is none "…ForSequenceClassification".
Result<std::uint32_t> read_labels(const formats::Config& config);

/// Refuses what no encoder here does: decoders, pruned heads, other positions than learned absolute ones, weights quantised by
/// transformers.
Result<void> refuse_other_encoders(const formats::Config& config);

/// What the fields that BERT, RoBERTa and DeBERTa have in common may be in one of them, and are where they are absent.
struct BertFields {
    double norm_eps = 1e-12;
    std::uint32_t types = 2, least_types = 1;
    bool has_embedding_size = false;  ///< of its own, not hidden_size
};
/// These fields, under their usual names; checked.
Result<EncoderConfig> read_bert_config(const formats::Config& config, const BertFields& fields = {});

}  // namespace vkformer::models
