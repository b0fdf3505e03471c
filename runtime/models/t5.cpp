// SPDX-License-Identifier: MIT
// T5 (Raffel et al. 2020), T5 v1.1 and Flan-T5 (gated feed-forward layers), mT5 and umT5 (a table of distances in every layer): pre-norm with
// RMS norms, no biases, positions only as a bias of the scores by distance, scores that are not scaled.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <memory>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"
#include "models/relative_buckets.hpp"
#include "models/seq2seq_loading.hpp"

namespace vkformer::models {
namespace {

using formats::Config;
using formats::Weights;

constexpr std::array<std::string_view, 7> kT5Architectures = {
    "T5ForConditionalGeneration",   "T5Model",  "T5WithLMHeadModel", "MT5ForConditionalGeneration", "MT5Model",
    "UMT5ForConditionalGeneration", "UMT5Model"};
/// The model has no table of positions; longer sequences were not seen in training, and a bias of heads · len² has to fit.
constexpr std::uint32_t kMaxPositions = 4096;

/// The fields that are T5's own.
struct T5Fields {
    std::uint32_t buckets = 32, max_distance = 128;
    bool is_gated = false;
    bool ties_head = true;    ///< lm_head is the table of tokens where the file has none
    bool scales_head = true;  ///< its input is multiplied by 1 / √d_model
};

/// "relu", "gated-gelu", "gated-silu", …: the activation and whether there is a gate. "gated-gelu" is the approximation by tanh. What
/// transformers makes of it is in the file again, as dense_act_fn and is_gated_act, and these are what it goes by.
Result<void> read_feed_forward(const Config& config, Seq2SeqConfig& c, T5Fields& t5) {
    constexpr std::string_view kGated = "gated-";
    VKFORMER_TRY(const std::string type, config.string("model_type", "t5"));
    VKFORMER_TRY(std::string name, config.string("feed_forward_proj", type == "t5" ? "relu" : "gated-gelu"));
    t5.is_gated = name.starts_with(kGated);
    if (t5.is_gated) name.erase(0, kGated.size());
    constexpr std::array<std::pair<std::string_view, graph::Activation>, 4> kKnown = {
        {{"relu", graph::Activation::relu},
         {"gelu", graph::Activation::gelu_erf},
         {"gelu_new", graph::Activation::gelu_tanh},
         {"silu", graph::Activation::silu}}};
    const auto known =
        std::ranges::find(kKnown, std::string_view(name), &std::pair<std::string_view, graph::Activation>::first);
    if (known == kKnown.end())
        return config.unsupported("feed_forward_proj", "relu, gelu, gelu_new, silu, each with or without \"gated-\"");
    c.activation = t5.is_gated && name == "gelu" ? graph::Activation::gelu_tanh : known->second;
    if (config.has("dense_act_fn")) {
        VKFORMER_TRY(c.activation, read_activation(config, "dense_act_fn", ""));
    }
    VKFORMER_TRY(t5.is_gated, config.boolean("is_gated_act", t5.is_gated));
    return {};
}

/// transformers_version, its first number; files that say none are older than 5.
Result<int> major_version(const Config& config) {
    VKFORMER_TRY(const std::string version, config.string("transformers_version", "4"));
    int major = 0;
    const auto [end, error] = std::from_chars(version.data(), version.data() + version.size(), major);
    const bool ends = end == version.data() + version.size() || *end == '.';
    if (error != std::errc() || !ends) return config.unsupported("transformers_version", "a version, such as 4.57.6");
    return major;
}

/// T5 scales the input of a tied head, T5 v1.1 has a head of its own and does not scale. transformers 5 ties everywhere and keeps
/// T5's answer in scale_decoder_outputs; it never scales mT5 and always umT5. So the version that wrote those two decides: a folder
/// gives what it gave there.
Result<bool> read_head_scale(const Config& config, bool ties_head) {
    VKFORMER_TRY(const std::string type, config.string("model_type", "t5"));
    if (type != "mt5" && type != "umt5") return config.boolean("scale_decoder_outputs", ties_head);
    VKFORMER_TRY(const int major, major_version(config));
    return major < 5 ? ties_head : type == "umt5";
}

Result<Seq2SeqConfig> read_config(const Config& config, T5Fields& t5) {
    const formats::Expect<std::uint32_t> count = {.min = 1, .max = 1u << 20};
    Seq2SeqConfig c;
    VKFORMER_TRY(c.d_model, config.unsigned_integer("d_model", count));
    Seq2SeqConfig::Stack stack;
    VKFORMER_TRY(stack.heads, config.unsigned_integer("num_heads", count));
    VKFORMER_TRY(stack.head_dim, config.unsigned_integer("d_kv", {.min = 1, .max = 1u << 16}));
    VKFORMER_TRY(stack.ffn_dim, config.unsigned_integer("d_ff", count));
    VKFORMER_TRY(stack.layers, config.unsigned_integer("num_layers", {.min = 1, .max = 4096}));
    VKFORMER_TRY(stack.vocab_size, config.unsigned_integer("vocab_size", {.min = 1, .max = 1u << 24}));
    stack.max_positions = kMaxPositions;
    c.encoder = c.decoder = stack;
    VKFORMER_TRY(c.decoder.layers,
                 config.unsigned_integer("num_decoder_layers", {.fallback = stack.layers, .min = 1, .max = 4096}));
    c.target_vocab = stack.vocab_size;
    VKFORMER_TRY(t5.buckets, config.unsigned_integer("relative_attention_num_buckets",
                                                     {.fallback = 32, .min = 4, .max = 1u << 16}));
    VKFORMER_TRY(t5.max_distance,
                 config.unsigned_integer("relative_attention_max_distance", {.fallback = 128, .max = 1u << 16}));
    if (t5.max_distance <= t5.buckets / 2)
        return config.unsupported("relative_attention_max_distance",
                                  "more than half of relative_attention_num_buckets");
    VKFORMER_TRY(const double eps, config.real("layer_norm_epsilon", {.fallback = 1e-6, .min = 0, .max = 1}));
    VKFORMER_CHECK(read_feed_forward(config, c, t5));
    VKFORMER_TRY(t5.ties_head, config.boolean("tie_word_embeddings", true));
    VKFORMER_TRY(t5.scales_head, read_head_scale(config, t5.ties_head));
    c.norm = Seq2SeqConfig::Norm::rms;
    c.norm_place = Seq2SeqConfig::NormPlace::before;
    c.norm_eps = static_cast<float>(eps);
    c.scales_scores = false;
    c.has_relative_bias = true;
    return c;
}

/// Reads the tensors of one stack.
class StackReader {
public:
    StackReader(const Weights& weights, const std::string& name, const Seq2SeqConfig& c,
                const Seq2SeqConfig::Stack& stack, const T5Fields& t5)
        : read_(weights, name + "."), d_(c.d_model), stack_(stack), t5_(t5), is_decoder_(name == "decoder") {}

    Result<void> read(Seq2SeqWeights::Stack& w) const {
        for (std::uint32_t i = 0; i < stack_.layers; ++i) {
            VKFORMER_TRY(auto layer, this->layer("block." + std::to_string(i) + ".layer.", i));
            w.layers.push_back(std::move(layer));
        }
        VKFORMER_TRY(w.final_norm, read_.norm("final_layer_norm", d_));
        return {};
    }

private:
    Result<Seq2SeqWeights::Layer> layer(const std::string& at, std::uint32_t index) const {
        Seq2SeqWeights::Layer w;
        VKFORMER_TRY(w.self, attention(at + "0.SelfAttention.", at + "0.layer_norm"));
        const std::string bias = at + "0.SelfAttention.relative_attention_bias.weight";
        if (index == 0 || read_.has(bias)) {
            VKFORMER_TRY(const TensorData table, read_.tensor(bias, {t5_.buckets, stack_.heads}));
            VKFORMER_TRY(w.relative_bias, spell_out(table, {t5_.buckets, t5_.max_distance, !is_decoder_}));
        }
        if (is_decoder_) {
            VKFORMER_TRY(w.cross, attention(at + "1.EncDecAttention.", at + "1.layer_norm"));
        }
        const std::string last = at + (is_decoder_ ? "2." : "1."), dense = last + "DenseReluDense.";
        if (t5_.is_gated) {
            VKFORMER_TRY(w.gate, read_.projection(dense + "wi_0", stack_.ffn_dim, d_, false));
        }
        VKFORMER_TRY(w.up, read_.projection(dense + (t5_.is_gated ? "wi_1" : "wi"), stack_.ffn_dim, d_, false));
        VKFORMER_TRY(w.down, read_.projection(dense + "wo", d_, stack_.ffn_dim, false));
        VKFORMER_TRY(w.feed_forward_norm, read_.norm(last + "layer_norm", d_));
        return w;
    }

    Result<Seq2SeqWeights::Attention> attention(const std::string& at, const std::string& norm) const {
        const std::uint64_t width = std::uint64_t{stack_.heads} * stack_.head_dim;
        Seq2SeqWeights::Attention w;
        VKFORMER_TRY(w.query, read_.projection(at + "q", width, d_, false));
        VKFORMER_TRY(w.key, read_.projection(at + "k", width, d_, false));
        VKFORMER_TRY(w.value, read_.projection(at + "v", width, d_, false));
        VKFORMER_TRY(w.output, read_.projection(at + "o", d_, width, false));
        VKFORMER_TRY(w.norm, read_.norm(norm, d_));
        return w;
    }

    WeightReader read_;
    std::uint64_t d_;
    const Seq2SeqConfig::Stack& stack_;
    const T5Fields& t5_;
    bool is_decoder_;
};

/// The gain times 1 / √d_model: what the head's input is scaled by.
Result<NormWeights> scaled(const NormWeights& norm, std::uint64_t d_model) {
    VKFORMER_TRY(std::vector<float> gain, floats_of(norm.gain));
    const float scale = 1 / std::sqrt(static_cast<float>(d_model));
    for (float& value : gain) value *= scale;
    return NormWeights{.gain = float_tensor({d_model}, std::move(gain))};
}

}  // namespace

Result<Seq2Seq> load_t5(const Config& config, const Weights& weights) {
    VKFORMER_CHECK(refuse_other_seq2seq(config, kT5Architectures));
    T5Fields t5;
    VKFORMER_TRY(const Seq2SeqConfig c, read_config(config, t5));
    Seq2SeqWeights w;
    VKFORMER_CHECK(StackReader(weights, "encoder", c, c.encoder, t5).read(w.encoder));
    VKFORMER_CHECK(StackReader(weights, "decoder", c, c.decoder, t5).read(w.decoder));

    const WeightReader read(weights, "");
    const Shape table = {c.target_vocab, c.d_model};
    const std::string encoders = "encoder.embed_tokens.weight";
    VKFORMER_TRY(const TensorData shared,
                 read.tensor(read.has("shared.weight") || !read.has(encoders) ? "shared.weight" : encoders, table));
    VKFORMER_TRY(w.encoder.embedding, read.tied_tensor(encoders, table, shared, true));
    VKFORMER_TRY(w.decoder.embedding, read.tied_tensor("decoder.embed_tokens.weight", table, shared, true));
    VKFORMER_TRY(w.lm_head.weight, read.tied_tensor("lm_head.weight", table, shared, t5.ties_head));
    if (t5.scales_head) {
        VKFORMER_TRY(w.logits_norm, scaled(w.decoder.final_norm, c.d_model));
    }
    return Seq2Seq(c, std::move(w));
}

}  // namespace vkformer::models
