// SPDX-License-Identifier: MIT
/// What the loading functions of the encoder–decoder Transformers share.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "formats/config.hpp"
#include "formats/weights.hpp"
#include "models/seq2seq.hpp"

namespace vkformer::models {

// One loading function per architecture: the fields of config.json that change the arithmetic are honoured or refused by name,
// every weight is there with the shape that the config gives it, with or without the prefix "model.". Errors: CorruptFile,
// UnsupportedConfig, UnsupportedDtype, MissingTensor, ShapeMismatch.
Result<Seq2Seq> load_marian(const formats::Config& config, const formats::Weights& weights);  // opus-mt
Result<Seq2Seq> load_bart(const formats::Config& config, const formats::Weights& weights);    // BART, mBART
Result<Seq2Seq> load_m2m100(const formats::Config& config, const formats::Weights& weights);  // M2M100, NLLB
Result<Seq2Seq> load_pegasus(const formats::Config& config, const formats::Weights& weights);
Result<Seq2Seq> load_t5(const formats::Config& config, const formats::Weights& weights);  // T5, mT5, umT5, Flan-T5
Result<std::unique_ptr<EncoderDecoder>> load_t5gemma(const formats::Config& config, const formats::Weights& weights);
Result<Seq2Seq> load_whisper(const formats::Config& config, const formats::Weights& weights);

/// A field that Hugging Face no longer reads, or that has one value with this architecture.
struct RequiredFlag {
    std::string_view name;
    bool value;  ///< the only one supported, and what an absent field means
};

/// Refuses other architectures than the ones named, decoders and tied stacks, pruned heads, weights quantised by transformers,
/// and flags that are not as required.
Result<void> refuse_other_seq2seq(const formats::Config& config, std::span<const std::string_view> architectures,
                                  std::span<const RequiredFlag> flags = {});

/// The sizes under BART's names: d_model, encoder_layers, encoder_attention_heads, encoder_ffn_dim, the decoder's, vocab_size,
/// max_position_embeddings, activation_function, scale_embedding; the last two are `activation` and `scales` where they are missing.
Result<Seq2SeqConfig> read_bart_sizes(const formats::Config& config, const std::string& activation = "gelu",
                                      bool scales = false);

/// The weights under BART's names but for tables and head. Embedding norms and final norms are read where the layout has them.
struct BartLayout {
    bool embedding_norms = false;
    bool final_norms = false;
    bool key_bias = true;
};
Result<Seq2SeqWeights> read_bart_layers(const formats::Weights& weights, const Seq2SeqConfig& config,
                                        const BartLayout& layout, const std::string& prefix);

/// The tables of tokens and the head, under BART's names: shared.weight is what the file has no table of its own for, the head only
/// where tie_word_embeddings says so, the default; and final_logits_bias where the file has it. Sets lm_head and the embeddings.
Result<void> read_bart_tables(const formats::Config& json, const formats::Weights& weights, const Seq2SeqConfig& config,
                              const std::string& prefix, Seq2SeqWeights& w);

/// final_logits_bias [1, target_vocab] as [target_vocab]; empty bytes where the file has none.
Result<TensorData> read_logits_bias(const formats::Weights& weights, std::uint64_t target_vocab);

/// Errors: UnsupportedConfig, where a table of so many positions would take over 1 GiB.
Result<void> check_positions(std::uint64_t positions, std::uint64_t d_model);

/// Vaswani's sinusoids, sines first, then cosines, as the positions of both stacks. Stored positions win over computed ones, as in
/// Hugging Face. Errors: as check_positions.
Result<void> read_sinusoids(const formats::Weights& weights, const Seq2SeqConfig& config, const std::string& prefix,
                            Seq2SeqWeights& w);

}  // namespace vkformer::models
