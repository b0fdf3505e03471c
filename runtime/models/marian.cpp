// SPDX-License-Identifier: MIT
// MarianMT, the encoder–decoder Transformer of Vaswani et al. 2017 as Marian trains it and Hugging Face ships it (opus-mt):
// post-norm layers, sinusoidal positions (sines first, then cosines), no norm after the last layer.
#include <array>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"
#include "models/seq2seq_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::Weights;

constexpr std::array<std::string_view, 2> kMarianArchitectures = {"MarianMTModel", "MarianModel"};
constexpr std::array<RequiredFlag, 4> kMarianFlags = {{
    {"normalize_before", false},
    {"normalize_embedding", false},
    {"add_final_layer_norm", false},
    {"static_position_embeddings", true},
}};

struct Vocabularies {
    bool share = true;          ///< one table for both stacks
    bool tie = true;            ///< the head is the decoder's table where the file has none
    std::uint32_t decoder = 0;  ///< decoder_vocab_size
};

Result<Vocabularies> read_vocabularies(const Config& config, std::uint64_t vocab_size) {
    Vocabularies v;
    VKFORMER_TRY(v.decoder, config.unsigned_integer(
                                "decoder_vocab_size",
                                {.fallback = static_cast<std::uint32_t>(vocab_size), .min = 1, .max = 1u << 24}));
    VKFORMER_TRY(v.share, config.boolean("share_encoder_decoder_embeddings", true));
    VKFORMER_TRY(v.tie, config.boolean("tie_word_embeddings", true));
    return v;
}

/// Shared tables are stored once, under whichever of the names the file uses. A decoder's own table has decoder_vocab_size
/// rows, or vocab_size as Hugging Face allocates it.
Result<void> read_tables(const Weights& weights, const Vocabularies& v, Seq2SeqConfig& c, Seq2SeqWeights& w) {
    const WeightReader read(weights, "model."), read_head(weights, "");
    const std::string shared = "shared.weight";
    const auto table = [&](const std::string& own, std::uint64_t rows) -> Result<TensorData> {
        const Shape shape = {rows, c.d_model};
        if (!v.share || (!read.has(shared) && read.has(own))) return read.tensor(own, shape);
        VKFORMER_TRY(const TensorData common, read.tensor(shared, shape));
        return read.tied_tensor(own, shape, common, true);
    };
    VKFORMER_TRY(w.encoder.embedding, table("encoder.embed_tokens.weight", c.encoder.vocab_size));
    const std::string own = "decoder.embed_tokens.weight";
    if (!v.share && read.has(own)) {
        VKFORMER_TRY(const TensorData stored, weights.get("model." + own));
        if (stored.shape == Shape{v.decoder, c.d_model}) c.decoder.vocab_size = v.decoder;
    }
    VKFORMER_TRY(w.decoder.embedding, table(own, c.decoder.vocab_size));
    c.target_vocab = v.tie ? c.decoder.vocab_size : v.share ? c.encoder.vocab_size : v.decoder;
    VKFORMER_TRY(w.lm_head.weight,
                 read_head.tied_tensor("lm_head.weight", {c.target_vocab, c.d_model}, w.decoder.embedding, v.tie));
    if (c.target_vocab > c.decoder.vocab_size)
        return Error{ErrorCode::ShapeMismatch, weights.source() + ": model." + own + " has " +
                                                   std::to_string(c.decoder.vocab_size) + " rows, fewer than the " +
                                                   std::to_string(c.target_vocab) +
                                                   " tokens that lm_head.weight gives"};
    VKFORMER_TRY(w.lm_head.bias, read_logits_bias(weights, c.target_vocab));
    return {};
}

}  // namespace

Result<Seq2Seq> load_marian(const Config& config, const Weights& weights) {
    VKFORMER_TRY(const std::string type, config.string("model_type", "marian"));
    if (type != "marian") return config.unsupported("model_type", "marian");
    VKFORMER_CHECK(refuse_other_seq2seq(config, kMarianArchitectures, kMarianFlags));
    VKFORMER_TRY(Seq2SeqConfig c, read_bart_sizes(config));
    VKFORMER_TRY(const Vocabularies vocabularies, read_vocabularies(config, c.encoder.vocab_size));
    VKFORMER_TRY(Seq2SeqWeights w, read_bart_layers(weights, c, {}, "model."));
    VKFORMER_CHECK(read_tables(weights, vocabularies, c, w));
    VKFORMER_CHECK(read_sinusoids(weights, c, "model.", w));
    return Seq2Seq(c, std::move(w));
}

}  // namespace vkformer::models
