// SPDX-License-Identifier: MIT
// Decoders in GGUF files. llama.cpp's converter has already done some of the work that the loading functions for Hugging Face
// folders do: Gemma's gains come with their one added, GPT-2's matrices as [out, in], and the rows of Llama's query and key are
// permuted so that neighbours are turned together.
#include <array>
#include <cmath>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"
#include "models/gguf_architecture.hpp"

namespace vkformer::models {
namespace {

using formats::Gguf;

/// The keys of one architecture: "llama.block_count".
class Reader {
public:
    Reader(const Gguf& file, const GgufArchitecture& architecture)
        : file_(file), architecture_(architecture), read_(file.weights(), "") {}

    Result<DecoderParts> load() {
        VKFORMER_CHECK(read_sizes());
        VKFORMER_CHECK(read_attention());
        if (!architecture_.learned_positions) VKFORMER_CHECK(read_ropes());
        VKFORMER_CHECK(read_weights());
        return std::move(parts_);
    }

private:
    std::string key(std::string_view name) const { return std::string(architecture_.name) + "." + std::string(name); }
    DecoderConfig& config() { return parts_.config; }

    Result<void> read_sizes() {
        const formats::Expect<std::uint32_t> count = {.min = 1, .max = 1u << 20};
        DecoderConfig& c = config();
        VKFORMER_TRY(const auto experts, file_.unsigned_integer(key("expert_count"), {.fallback = 0}));
        if (experts > 0) return file_.unsupported(key("expert_count"), "0");
        VKFORMER_TRY(c.hidden_size, file_.unsigned_integer(key("embedding_length"), count));
        VKFORMER_TRY(c.intermediate_size, file_.unsigned_integer(key("feed_forward_length"), count));
        VKFORMER_TRY(c.heads, file_.unsigned_integer(key("attention.head_count"), count));
        VKFORMER_TRY(c.kv_heads, file_.unsigned_integer(key("attention.head_count_kv"),
                                                        {.fallback = c.heads, .min = 1, .max = 1u << 20}));
        VKFORMER_TRY(c.head_dim,
                     file_.unsigned_integer(key("attention.key_length"),
                                            {.fallback = c.hidden_size / c.heads, .min = 1, .max = 1u << 16}));
        VKFORMER_TRY(const auto value_dim,
                     file_.unsigned_integer(key("attention.value_length"), {.fallback = c.head_dim}));
        if (value_dim != c.head_dim)
            return file_.unsupported(key("attention.value_length"), std::to_string(c.head_dim));
        if (c.heads % c.kv_heads != 0)
            return file_.unsupported(key("attention.head_count_kv"),
                                     "a divisor of attention.head_count = " + std::to_string(c.heads));
        VKFORMER_TRY(c.max_positions, file_.unsigned_integer(key("context_length"), {.min = 1, .max = 1u << 28}));
        VKFORMER_TRY(const auto layers, file_.unsigned_integer(key("block_count"), {.min = 1, .max = 4096}));
        c.layers.assign(layers, {});
        VKFORMER_TRY(const TensorData embedding, file_.weights().get("token_embd.weight"));
        if (embedding.shape.rank() != 2 || embedding.shape[0] > 1u << 24)
            return Error{ErrorCode::ShapeMismatch, file_.file_name() + ": token_embd.weight has shape " +
                                                       to_string(embedding.shape) + ", expected [vocabulary, " +
                                                       std::to_string(c.hidden_size) + "]"};
        c.vocab_size = static_cast<std::uint32_t>(embedding.shape[0]);

        c.norm = architecture_.learned_positions ? DecoderConfig::Norm::layer : DecoderConfig::Norm::rms;
        const char* const eps_key =
            architecture_.learned_positions ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon";
        VKFORMER_TRY(const double eps, file_.real(key(eps_key), {.min = 0, .max = 1}));
        c.norm_eps = static_cast<float>(eps);
        c.activation = architecture_.activation();
        if (architecture_.is_gemma) c.embedding_scale = std::sqrt(static_cast<float>(c.hidden_size));
        return {};
    }

    Result<void> read_attention() {
        DecoderConfig& c = config();
        VKFORMER_TRY(const double scale,
                     file_.real(key("attention.scale"),
                                {.fallback = architecture_.attention_scale(c), .min = 1e-6, .max = 1e6}));
        c.attention_scale = static_cast<float>(scale);
        VKFORMER_TRY(const double score_cap,
                     file_.real(key("attn_logit_softcapping"), {.fallback = 0, .min = 0, .max = 1e6}));
        VKFORMER_TRY(const double logit_cap,
                     file_.real(key("final_logit_softcapping"), {.fallback = 0, .min = 0, .max = 1e6}));
        c.attention_soft_cap = static_cast<float>(score_cap);
        c.logit_soft_cap = static_cast<float>(logit_cap);
        VKFORMER_TRY(const auto window,
                     file_.unsigned_integer(key("attention.sliding_window"), {.fallback = 0, .max = 1u << 28}));
        for (std::size_t i = 0; i < c.layers.size(); ++i) c.layers[i].window = architecture_.has_window(i) ? window : 0;
        return {};
    }

    Result<void> read_ropes() {
        DecoderConfig& c = config();
        VKFORMER_TRY(
            const auto rotary_dim,
            file_.unsigned_integer(key("rope.dimension_count"), {.fallback = c.head_dim, .min = 2, .max = c.head_dim}));
        if (rotary_dim % 2 != 0) return file_.unsupported(key("rope.dimension_count"), "an even number");
        VKFORMER_TRY(const double theta,
                     file_.real(key("rope.freq_base"), {.fallback = architecture_.rope_theta, .min = 1, .max = 1e12}));
        Rope rope{.frequencies = graph::rope_frequencies(rotary_dim, theta), .pairing = architecture_.pairing};
        VKFORMER_CHECK(scale_rope(rope, theta));
        c.ropes = {rope};
        if (architecture_.window_rope_theta > 0) {
            VKFORMER_TRY(const double local,
                         file_.real(key("rope.freq_base_swa"),
                                    {.fallback = architecture_.window_rope_theta, .min = 1, .max = 1e12}));
            c.ropes.push_back(
                {.frequencies = graph::rope_frequencies(rotary_dim, local), .pairing = architecture_.pairing});
        }
        for (std::size_t i = 0; i < c.layers.size(); ++i)
            if (architecture_.has_rope(i)) c.layers[i].rope = c.ropes.size() > 1 && c.layers[i].window > 0 ? 1 : 0;
        return {};
    }

    Result<void> scale_rope(Rope& rope, double theta) {
        DecoderConfig& c = config();
        VKFORMER_TRY(const std::string type, file_.string(key("rope.scaling.type"), "none"));
        VKFORMER_TRY(const double factor,
                     file_.real(key("rope.scaling.factor"), {.fallback = 1, .min = 1e-6, .max = 1e9}));
        VKFORMER_TRY(const auto original, file_.unsigned_integer(key("rope.scaling.original_context_length"),
                                                                 {.fallback = c.max_positions, .min = 1}));
        if (type == "linear") {
            stretch_linear(rope, factor);
        } else if (type == "yarn") {
            stretch_yarn(rope, {.theta = theta, .factor = factor, .context = static_cast<double>(original)});
        } else if (type != "none" && type != "longrope") {
            return file_.unsupported(key("rope.scaling.type"), "none, linear, yarn, longrope");
        }
        // Llama 3's scaling and LongRoPE come as a table of divisors.
        if (read_.has("rope_freqs.weight")) VKFORMER_CHECK(divide(rope, "rope_freqs.weight"));
        // A file with LongRoPE need not say so by its type.
        if (type == "longrope" || (architecture_.has_long_rope && file_.has(key("rope.scaling.attn_factor"))) ||
            read_.has("rope_factors_short.weight")) {
            VKFORMER_TRY(rope.scale,
                         file_.real(key("rope.scaling.attn_factor"), {.fallback = 1, .min = 1e-3, .max = 1e3}));
            Rope extended = rope;
            VKFORMER_CHECK(divide(rope, "rope_factors_short.weight"));
            if (original < c.max_positions && read_.has("rope_factors_long.weight")) {
                VKFORMER_CHECK(divide(extended, "rope_factors_long.weight"));
                c.extended_ropes.push_back(std::move(extended));
                c.extended_positions = c.max_positions;
            }
            c.max_positions = std::min(c.max_positions, original);
        }
        return {};
    }

    Result<void> divide(Rope& rope, const std::string& name) {
        VKFORMER_TRY(const TensorData data, read_.tensor(name, {rope.frequencies.size()}));
        std::vector<float> factors(rope.frequencies.size());
        VKFORMER_CHECK(convert(data.dtype, data.bytes, 0, std::span(factors)));
        for (std::size_t k = 0; k < factors.size(); ++k) {
            if (!(factors[k] > 0) || !std::isfinite(factors[k]))
                return Error{ErrorCode::CorruptFile, file_.file_name() + ": " + name + " must hold positive numbers"};
            rope.frequencies[k] /= double{factors[k]};
        }
        return {};
    }

    /// Biases are there where the file has them: the tensors say so, no key does.
    Result<Projection> projection(const std::string& name, std::uint64_t out, std::uint64_t in) {
        return read_.projection(name, out, in, read_.has(name + ".bias"));
    }
    Result<NormWeights> norm(const std::string& name, std::uint64_t dim) {
        return read_.norm(name, dim, read_.has(name + ".bias"));
    }
    Result<NormWeights> optional_norm(const std::string& name, std::uint64_t dim) {
        if (!read_.has(name + ".weight")) return NormWeights{};
        return norm(name, dim);
    }

    Result<void> read_weights() {
        const DecoderConfig& c = config();
        DecoderWeights& w = parts_.weights;
        VKFORMER_TRY(w.embedding, read_.tensor("token_embd.weight", {c.vocab_size, c.hidden_size}));
        if (architecture_.learned_positions) {
            VKFORMER_TRY(w.positions, read_.tensor("position_embd.weight", {c.max_positions, c.hidden_size}));
        }
        for (std::size_t i = 0; i < c.layers.size(); ++i) {
            VKFORMER_TRY(auto layer, read_layer("blk." + std::to_string(i) + "."));
            w.layers.push_back(std::move(layer));
        }
        VKFORMER_TRY(w.final_norm, norm("output_norm", c.hidden_size));
        VKFORMER_TRY(w.lm_head.weight,
                     read_.tied_tensor("output.weight", {c.vocab_size, c.hidden_size}, w.embedding, true));
        if (read_.has("output.bias")) {
            VKFORMER_TRY(w.lm_head.bias, read_.tensor("output.bias", {c.vocab_size}));
        }
        return {};
    }

    Result<DecoderWeights::Layer> read_layer(const std::string& layer) {
        const DecoderConfig& c = config();
        const std::uint64_t d = c.hidden_size, ffn = c.intermediate_size;
        const std::uint64_t width = std::uint64_t{c.heads} * c.head_dim,
                            kv_width = std::uint64_t{c.kv_heads} * c.head_dim;
        DecoderWeights::Layer l;
        VKFORMER_TRY(l.attention_norm, norm(layer + "attn_norm", d));
        if (read_.has(layer + "attn_qkv.weight")) {
            VKFORMER_TRY(const Projection joined, projection(layer + "attn_qkv", width + 2 * kv_width, d));
            l.query = rows_of(joined, 0, width);
            l.key = rows_of(joined, width, kv_width);
            l.value = rows_of(joined, width + kv_width, kv_width);
        } else {
            VKFORMER_TRY(l.query, projection(layer + "attn_q", width, d));
            VKFORMER_TRY(l.key, projection(layer + "attn_k", kv_width, d));
            VKFORMER_TRY(l.value, projection(layer + "attn_v", kv_width, d));
        }
        VKFORMER_TRY(l.output, projection(layer + "attn_output", d, width));
        VKFORMER_TRY(l.query_norm, optional_norm(layer + "attn_q_norm", c.head_dim));
        VKFORMER_TRY(l.key_norm, optional_norm(layer + "attn_k_norm", c.head_dim));
        VKFORMER_TRY(l.attention_post_norm, optional_norm(layer + "post_attention_norm", d));
        VKFORMER_TRY(l.feed_forward_norm, norm(layer + "ffn_norm", d));
        VKFORMER_TRY(l.feed_forward_post_norm, optional_norm(layer + "post_ffw_norm", d));
        if (architecture_.joins_gate_and_up) {
            VKFORMER_TRY(const Projection gate_up, projection(layer + "ffn_up", 2 * ffn, d));
            l.gate = rows_of(gate_up, 0, ffn);
            l.up = rows_of(gate_up, ffn, ffn);
        } else {
            VKFORMER_TRY(l.up, projection(layer + "ffn_up", ffn, d));
            if (read_.has(layer + "ffn_gate.weight")) {
                VKFORMER_TRY(l.gate, projection(layer + "ffn_gate", ffn, d));
            }
        }
        VKFORMER_TRY(l.down, projection(layer + "ffn_down", d, ffn));
        return l;
    }

    const Gguf& file_;
    const GgufArchitecture& architecture_;
    WeightReader read_;
    DecoderParts parts_;
};

}  // namespace

Result<DecoderParts> load_gguf_decoder(const Gguf& file, const GgufArchitecture& architecture) {
    return Reader(file, architecture).load();
}

}  // namespace vkformer::models
