// SPDX-License-Identifier: MIT
// Decoders in GGUF files. llama.cpp's converter has already done some of the work that the loading functions for Hugging Face
// folders do: Gemma's gains come with their one added, GPT-2's matrices as [out, in], and the rows of Llama's query and key are
// permuted so that neighbours are turned together.
#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"
#include "models/gemma4.hpp"
#include "models/gguf_architecture.hpp"

namespace vkformer::models {
namespace {

using formats::Gguf;

constexpr LatentNames kLatentNames = {.query = "attn_q",
                                      .query_down = "attn_q_a",
                                      .query_norm = "attn_q_a_norm",
                                      .query_up = "attn_q_b",
                                      .down = "attn_kv_a_mqa",
                                      .latent_norm = "attn_kv_a_norm",
                                      .up = "attn_kv_b.weight",
                                      .key_up = "attn_k_b.weight",
                                      .value_up = "attn_v_b.weight",
                                      .output = "attn_output"};

/// A number of a file that some files have.
struct Size {
    const char* name;
    std::uint32_t* value;
    bool is_there = true;
};

/// The keys of one architecture: "llama.block_count".
class Reader {
public:
    Reader(const Gguf& file, const GgufArchitecture& architecture)
        : file_(file), architecture_(architecture), read_(file.weights(), "") {}

    Result<DecoderParts> load() {
        // Weights that inputs would have to be turned for, and heads that give decisions.
        if (file_.has("prism.hadamard.version")) return file_.unsupported("prism.hadamard.version", "no such key");
        if (file_.has(key("decision.type"))) return file_.unsupported(key("decision.type"), "no such key");
        VKFORMER_CHECK(read_sizes());
        VKFORMER_CHECK(read_attention());
        if (!architecture_.learned_positions && !architecture_.has_single_parts) VKFORMER_CHECK(read_ropes());
        VKFORMER_CHECK(read_weights());
        return std::move(parts_);
    }

private:
    std::string key(std::string_view name) const { return std::string(architecture_.name) + "." + std::string(name); }
    DecoderConfig& config() { return parts_.config; }

    Result<void> read_sizes() {
        const formats::Expect<std::uint32_t> count = {.min = 1, .max = 1u << 20};
        DecoderConfig& c = config();
        VKFORMER_TRY(c.hidden_size, file_.unsigned_integer(key("embedding_length"), count));
        formats::Expect<std::uint32_t> feed_forward = count;
        if (file_.has(key("expert_feed_forward_length"))) feed_forward.fallback = 1;  // no layer has that width
        if (!architecture_.is_gemma4) {
            VKFORMER_TRY(c.intermediate_size, read_by_layer("feed_forward_length", feed_forward));
        }
        VKFORMER_TRY(c.heads, file_.unsigned_integer(key("attention.head_count"), count));
        if (!architecture_.is_gemma4) VKFORMER_CHECK(architecture_.has_latent_attention ? read_latent() : read_heads());
        VKFORMER_TRY(c.max_positions, file_.unsigned_integer(key("context_length"), {.min = 1, .max = 1u << 28}));
        VKFORMER_TRY(const auto layers, file_.unsigned_integer(key("block_count"), {.min = 1, .max = 4096}));
        // Behind the layers of the model there may be those that predict the token after the next one, which nobody asks for.
        VKFORMER_TRY(const auto predicting, file_.unsigned_integer(key("nextn_predict_layers"), {.fallback = 0}));
        if (predicting >= layers) return file_.unsupported(key("nextn_predict_layers"), "fewer than block_count");
        c.layers.assign(layers - predicting, {});
        if (architecture_.is_gemma4) VKFORMER_CHECK(read_gemma4_layers());
        VKFORMER_CHECK(read_mixers());
        VKFORMER_CHECK(check_kv_heads());
        VKFORMER_TRY(const TensorData embedding, file_.weights().get("token_embd.weight"));
        if (embedding.shape.rank() != 2 || embedding.shape[0] > 1u << 24)
            return Error{ErrorCode::ShapeMismatch, file_.file_name() + ": token_embd.weight has shape " +
                                                       to_string(embedding.shape) + ", expected [vocabulary, " +
                                                       std::to_string(c.hidden_size) + "]"};
        c.vocab_size = static_cast<std::uint32_t>(embedding.shape[0]);

        c.norm = architecture_.is_plain ? DecoderConfig::Norm::layer : DecoderConfig::Norm::rms;
        const char *const of_layer = "attention.layer_norm_epsilon", *const of_rms = "attention.layer_norm_rms_epsilon";
        const bool has_layer_eps =
            architecture_.is_plain || (architecture_.has_single_parts && !file_.has(key(of_rms)));
        const char* const eps_key = has_layer_eps ? of_layer : of_rms;
        VKFORMER_TRY(const double eps, file_.real(key(eps_key), {.min = 0, .max = 1}));
        c.norm_eps = static_cast<float>(eps);
        c.scan.norm_eps = c.norm_eps;
        c.latent.norm_eps = c.norm_eps;
        c.activation = architecture_.activation();
        c.is_parallel = architecture_.parallel == GgufParallel::behind_one_norm;
        if (architecture_.parallel == GgufParallel::by_key) {
            VKFORMER_TRY(c.is_parallel, file_.boolean(key("use_parallel_residual")));
        }
        if (architecture_.is_gemma) c.embedding_scale = std::sqrt(static_cast<float>(c.hidden_size));
        if (architecture_.is_granite) VKFORMER_CHECK(read_multipliers());
        return read_experts();
    }

    Result<void> read_heads() {
        DecoderConfig& c = config();
        VKFORMER_TRY(c.kv_heads,
                     read_by_layer("attention.head_count_kv", {.fallback = c.heads, .min = 1, .max = 1u << 20}));
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
        return {};
    }

    /// A number for each layer, or one of all.
    Result<std::vector<std::uint32_t>> numbers_of_layers(const char* what, std::optional<std::uint32_t> fallback = {}) {
        const std::string name = key(what);
        const std::size_t layers = config().layers.size();
        const auto* const value = file_.find(name);
        constexpr std::uint32_t kMost = 1u << 24;
        if (!value || value->type != formats::GgufType::array) {
            VKFORMER_TRY(const auto all, file_.unsigned_integer(name, {.fallback = fallback, .min = 1, .max = kMost}));
            return std::vector<std::uint32_t>(layers, all);
        }
        VKFORMER_TRY(const std::vector<std::int32_t> found, file_.integers(name));
        std::vector<std::uint32_t> numbers(found.begin(), found.end());
        const auto fits = [](std::uint32_t number) { return number > 0 && number <= kMost; };
        if (numbers.size() != layers || !std::ranges::all_of(numbers, fits))
            return file_.unsupported(name, "a number above 0 for each layer");
        return numbers;
    }

    /// Layers with a window have heads of a width of their own, and all may differ in their numbers of heads and in their inner widths.
    Result<void> read_gemma4_layers() {
        DecoderConfig& c = config();
        c.norms_values = true;
        std::uint32_t wide = 0;
        for (const auto& [keys, values, width] :
             {std::tuple{"attention.key_length", "attention.value_length", &wide},
              std::tuple{"attention.key_length_swa", "attention.value_length_swa", &c.head_dim}}) {
            VKFORMER_TRY(*width, file_.unsigned_integer(key(keys), {.min = 2, .max = 1u << 16}));
            VKFORMER_TRY(const auto value_dim, file_.unsigned_integer(key(values), {.fallback = *width}));
            if (value_dim != *width) return file_.unsupported(key(values), std::to_string(*width));
        }
        VKFORMER_TRY(inner_widths_, numbers_of_layers("feed_forward_length"));
        c.intermediate_size = inner_widths_.front();
        VKFORMER_TRY(const auto kv_heads, numbers_of_layers("attention.head_count_kv", c.heads));
        c.kv_heads = kv_heads.front();
        VKFORMER_TRY(const std::vector<bool> slides, read_windows());
        for (std::size_t i = 0; i < c.layers.size(); ++i) {
            c.layers[i].kv_heads = kv_heads[i];
            c.layers[i].head_dim = slides[i] ? c.head_dim : wide;
            c.layers[i].window = slides[i] ? 1 : 0;  // until the key of its length is read
            if (c.heads % kv_heads[i] != 0)
                return file_.unsupported(key("attention.head_count_kv"),
                                         "divisors of attention.head_count = " + std::to_string(c.heads));
        }
        const std::string shared = key("attention.shared_kv_layers");
        VKFORMER_TRY(
            const auto count,
            file_.unsigned_integer(shared, {.fallback = 0, .max = static_cast<std::uint32_t>(c.layers.size() - 1)}));
        if (!share_caches(c, count))
            return file_.unsupported(shared, "so few that each has a layer of its kind before them");
        return {};
    }

    /// Files in which a cache holds expanded keys and values count their heads as such; those made for latent ones have keys for both.
    Result<void> read_latent() {
        DecoderConfig& c = config();
        DecoderConfig::LatentAttention latent;
        const bool is_compressed = file_.has(key("attention.key_length_mla"));
        latent.query_rank = read_.has("blk.0.attn_q_a.weight") ? 1 : 0;
        std::uint32_t query_dim = 0, key_dim = 0, value_dim = 0;
        for (const auto& [name, size, is_asked] :
             {Size{"attention.key_length", &key_dim}, Size{"attention.value_length", &value_dim},
              Size{"attention.key_length_mla", &query_dim, is_compressed},
              Size{"attention.value_length_mla", &latent.value_dim, is_compressed},
              Size{"attention.kv_lora_rank", &latent.rank}, Size{"rope.dimension_count", &latent.rotary_dim},
              Size{"attention.q_lora_rank", &latent.query_rank, latent.query_rank > 0}})
            if (is_asked) {
                VKFORMER_TRY(*size, file_.unsigned_integer(key(name), {.min = 1, .max = 1u << 16}));
            }
        if (!is_compressed) {
            query_dim = key_dim;
            latent.value_dim = value_dim;
        } else if (key_dim != latent.rank + latent.rotary_dim || value_dim != latent.rank) {
            return file_.unsupported(key("attention.key_length"), "attention.kv_lora_rank and rope.dimension_count");
        }
        if (latent.rotary_dim >= query_dim)
            return file_.unsupported(key("rope.dimension_count"), "less than a query has");
        latent.plain_dim = query_dim - latent.rotary_dim;
        const std::uint32_t kv_heads = is_compressed ? 1 : c.heads;
        VKFORMER_TRY(const auto found, file_.unsigned_integer(key("attention.head_count_kv"), {.fallback = kv_heads}));
        if (found != kv_heads) return file_.unsupported(key("attention.head_count_kv"), std::to_string(kv_heads));
        set_latent_sizes(latent, c);
        return {};
    }

    Result<void> read_multipliers() {
        VKFORMER_TRY(const double embedding,
                     file_.real(key("embedding_scale"), {.fallback = 1, .min = 1e-3, .max = 1e3}));
        VKFORMER_TRY(const double residual,
                     file_.real(key("residual_scale"), {.fallback = 1, .min = 1e-3, .max = 1e3}));
        VKFORMER_TRY(const double logits, file_.real(key("logit_scale"), {.min = 1e-3, .max = 1e3}));  // a divisor
        set_multipliers(config(), {.embedding = embedding, .residual = residual, .logits = 1 / logits});
        VKFORMER_TRY(const auto window, file_.unsigned_integer(key("attention.sliding_window"), {.fallback = 0}));
        if (window > 0) return file_.unsupported(key("attention.sliding_window"), "0");
        return {};
    }

    /// A number, or one for each layer: those that need none have 0, and the others must have the same.
    Result<std::uint32_t> read_by_layer(const char* what, const formats::Expect<std::uint32_t>& expected) {
        const std::string name = key(what);
        const auto* const value = file_.find(name);
        if (!value || value->type != formats::GgufType::array) return file_.unsigned_integer(name, expected);
        VKFORMER_TRY(const std::vector<std::int32_t> counts, file_.integers(name));
        std::int32_t found = 0;
        for (const std::int32_t count : counts) {
            if (count < 0 || count > 1 << 20 || (count > 0 && found > 0 && count != found))
                return file_.unsupported(name, "the same number in all layers, or 0");
            found = std::max(found, count);
        }
        if (found == 0) return file_.unsupported(name, "a layer with a number above 0");
        return static_cast<std::uint32_t>(found);
    }

    /// Layers without keys are those without attention.
    Result<void> check_kv_heads() const {
        const std::string name = key("attention.head_count_kv");
        const auto* const value = file_.find(name);
        if (!value || value->type != formats::GgufType::array) return {};
        VKFORMER_TRY(const std::vector<std::int32_t> counts, file_.integers(name));
        const auto& layers = parts_.config.layers;
        for (std::size_t i = 0; i < layers.size(); ++i)
            if (i >= counts.size() || (counts[i] == 0) != (layers[i].mixer != DecoderConfig::Mixer::attention))
                return file_.unsupported(name, "a number for each layer, 0 for those without attention");
        return {};
    }

    /// The tensors of a layer say what it is.
    Result<void> read_mixers() {
        using Mixer = DecoderConfig::Mixer;
        DecoderConfig& c = config();
        if (!architecture_.is_lfm2 && !architecture_.is_qwen_hybrid && !architecture_.has_scans) return {};
        const char* const probe = architecture_.is_lfm2 ? ".shortconv.conv.weight" : ".ssm_conv1d.weight";
        const Mixer mixer = architecture_.is_lfm2     ? Mixer::convolution
                            : architecture_.has_scans ? Mixer::selective_scan
                                                      : Mixer::delta_rule;
        for (std::size_t i = 0; i < c.layers.size(); ++i) {
            const std::string layer = "blk." + std::to_string(i);
            if (read_.has(layer + probe))
                c.layers[i].mixer = mixer;
            else if (architecture_.has_single_parts && !read_.has(layer + ".attn_output.weight"))
                c.layers[i].mixer = Mixer::none;
        }
        if (!c.keeps_states() && architecture_.has_scans) return {};
        const char* const taps = architecture_.is_lfm2 ? "shortconv.l_cache" : "ssm.conv_kernel";
        VKFORMER_TRY(c.taps, file_.unsigned_integer(key(taps), {.min = 2, .max = 8}));
        return architecture_.is_lfm2 ? Result<void>() : read_recursion();
    }

    /// The sizes of a layer whose state is a matrix for each head.
    Result<void> read_recursion() {
        DecoderConfig& c = config();
        VKFORMER_TRY(const auto groups, file_.unsigned_integer(key("ssm.group_count"), {.min = 1, .max = 1024}));
        VKFORMER_TRY(const auto heads, file_.unsigned_integer(key("ssm.time_step_rank"), {.min = 1, .max = 4096}));
        VKFORMER_TRY(const auto rows, file_.unsigned_integer(key("ssm.state_size"), {.min = 1, .max = 256}));
        VKFORMER_TRY(const auto values, file_.unsigned_integer(key("ssm.inner_size"), {.min = 1, .max = 1u << 24}));
        if (heads % groups != 0) return file_.unsupported(key("ssm.time_step_rank"), "a multiple of ssm.group_count");
        if (values % heads != 0) return file_.unsupported(key("ssm.inner_size"), "a multiple of ssm.time_step_rank");
        if (!architecture_.has_scans) {
            c.delta_rule = {.key_heads = groups,
                            .heads = heads,
                            .key_dim = rows,
                            .value_dim = values / heads,
                            .in_turns = architecture_.delta_in_turns};
            return {};
        }
        // llama.cpp norms each group by itself, transformers does so where an architecture is made for it.
        if (groups != 1 && !architecture_.has_single_parts) return file_.unsupported(key("ssm.group_count"), "1");
        c.scan = {
            .groups = groups, .heads = heads, .state_dim = rows, .head_dim = values / heads, .norm_groups = groups};
        return {};
    }

    /// How the weights of a token's experts come of their scores.
    Result<void> read_expert_weights() {
        DecoderConfig::Experts& experts = config().experts;
        if (architecture_.has_latent_attention || architecture_.has_single_parts) {  // there llama.cpp asks the keys
            VKFORMER_TRY(experts.normalises, file_.boolean(key("expert_weights_norm"), false));
            VKFORMER_TRY(const double scale,
                         file_.real(key("expert_weights_scale"), {.fallback = 1, .min = 1e-6, .max = 1e6}));
            experts.scale = static_cast<float>(scale);
            VKFORMER_TRY(const auto latent, file_.unsigned_integer(key("moe_latent_size"), {.fallback = 0}));
            return latent == 0 ? Result<void>() : file_.unsupported(key("moe_latent_size"), "0");
        }
        experts.normalises = architecture_.experts == GgufExperts::normalised;
        VKFORMER_TRY(const bool normalises, file_.boolean(key("expert_weights_norm"), experts.normalises));
        if (normalises != experts.normalises)
            return file_.unsupported(key("expert_weights_norm"), experts.normalises ? "true" : "false");
        VKFORMER_TRY(const double scale, file_.real(key("expert_weights_scale"), {.fallback = 1}));
        if (scale != 1 && scale != 0) return file_.unsupported(key("expert_weights_scale"), "1");
        return {};
    }

    /// What llama.cpp computes without asking a key is refused where a key says otherwise.
    Result<void> read_experts() {
        DecoderConfig& c = config();
        const bool may_have = architecture_.experts != GgufExperts::none;
        VKFORMER_TRY(c.experts.count, file_.unsigned_integer(key("expert_count"), {.fallback = 0}));
        if (c.experts.count == 0) return {};
        if (!may_have || c.experts.count > graph::kMostExperts)
            return file_.unsupported(key("expert_count"),
                                     may_have ? "1 to " + std::to_string(graph::kMostExperts) : "0");
        VKFORMER_TRY(c.experts.per_token,
                     file_.unsigned_integer(key("expert_used_count"),
                                            {.min = 1, .max = std::min<std::uint32_t>(c.experts.count, 32)}));
        const formats::Expect<std::uint32_t> width = {.fallback = c.intermediate_size, .min = 1, .max = 1u << 20};
        VKFORMER_TRY(c.experts.intermediate_size, file_.unsigned_integer(key("expert_feed_forward_length"), width));
        VKFORMER_TRY(c.experts.shared_size, file_.unsigned_integer(key("expert_shared_feed_forward_length"), width));
        VKFORMER_CHECK(read_expert_weights());
        for (std::size_t i = 0; i < c.layers.size(); ++i)
            c.layers[i].has_experts = read_.has("blk." + std::to_string(i) + ".ffn_gate_inp.weight");
        if (architecture_.has_latent_attention) return read_grouped_routing();
        const bool by_sigmoid = architecture_.sigmoid_sum > 0;
        const std::uint32_t own_gating = by_sigmoid ? 2 : 1;
        VKFORMER_TRY(const auto gating, file_.unsigned_integer(key("expert_gating_func"), {.fallback = own_gating}));
        if (by_sigmoid && gating != 2) return file_.unsupported(key("expert_gating_func"), "2");
        if (by_sigmoid) set_sigmoid_routing(c, architecture_.sigmoid_sum);
        // 3: the softmax over the chosen ones' scores, which is that over all of them, made to sum up to 1
        if (gating > 1 && gating != own_gating && !(gating == 3 && c.experts.normalises))
            return file_.unsupported(key("expert_gating_func"), c.experts.normalises ? "1, 3" : "1");
        if (architecture_.is_gpt_oss) set_clamped_gates(c);
        VKFORMER_TRY(const auto groups, file_.unsigned_integer(key("expert_group_count"), {.fallback = 1}));
        if (groups > 1) return file_.unsupported(key("expert_group_count"), "1");
        return {};
    }

    /// DeepSeek-V2's router or V3's: each has its scores, and its way to choose groups.
    Result<void> read_grouped_routing() {
        DecoderConfig::Experts& experts = config().experts;
        graph::RouteGroups groups;
        std::uint32_t gating = 1;
        experts.shared_size = 0;
        for (const auto& [name, number, most] :
             {std::tuple{"expert_shared_count", &experts.shared_size, 64u},
              std::tuple{"expert_gating_func", &gating, 2u}, std::tuple{"expert_group_count", &groups.count, 64u},
              std::tuple{"expert_group_used_count", &groups.kept, 64u}}) {
            VKFORMER_TRY(*number, file_.unsigned_integer(key(name), {.fallback = *number, .max = most}));
        }
        experts.shared_size *= experts.intermediate_size;
        groups.best = std::max(gating, 1u);
        if (gating == 2) set_sigmoid_routing(config(), 1e-20f);
        if (groups.count <= 1) return {};
        if (!has_room(groups, experts))
            return file_.unsupported(key("expert_group_count"),
                                     "groups of one size, expert_group_used_count of which have expert_used_count");
        experts.groups = groups;
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
        formats::Expect<std::uint32_t> expected = {.fallback = 0, .max = 1u << 28};
        if (architecture_.is_gpt_oss || architecture_.is_gemma4)
            expected = {.min = 1, .max = 1u << 28};  // llama.cpp makes none up
        VKFORMER_TRY(const auto window, file_.unsigned_integer(key("attention.sliding_window"), expected));
        VKFORMER_TRY(const std::vector<bool> slides, read_windows());
        for (std::size_t i = 0; i < slides.size(); ++i) c.layers[i].window = slides[i] ? window : 0;
        return {};
    }

    /// Which layers have the window: those of a list or, by a number, all but one of so many.
    Result<std::vector<bool>> read_windows() const {
        std::vector<bool> slides(parts_.config.layers.size(), true);
        if (architecture_.window_pattern == 1) return slides;
        const std::string name = key("attention.sliding_window_pattern");
        const auto* const value = file_.find(name);
        if (value && value->type == formats::GgufType::array) {
            VKFORMER_TRY(const std::vector<std::int32_t> found, file_.integers(name));
            if (found.size() != slides.size()) return file_.unsupported(name, "a value for each layer");
            for (std::size_t i = 0; i < slides.size(); ++i) slides[i] = found[i] != 0;
            return slides;
        }
        VKFORMER_TRY(const auto period,
                     file_.unsigned_integer(name, {.fallback = architecture_.window_pattern, .max = 4096}));
        for (std::size_t i = 0; i < slides.size(); ++i) slides[i] = period == 0 || (i + 1) % period != 0;
        return slides;
    }

    Result<void> read_ropes() {
        DecoderConfig& c = config();
        std::uint32_t width = 0;
        for (const DecoderConfig::Layer& layer : c.layers) width = std::max(width, c.head_dim_of(layer));
        VKFORMER_TRY(const auto rotary_dim,
                     file_.unsigned_integer(key("rope.dimension_count"), {.fallback = width, .min = 2, .max = width}));
        if (rotary_dim % 2 != 0) return file_.unsupported(key("rope.dimension_count"), "an even number");
        VKFORMER_TRY(const double theta,
                     file_.real(key("rope.freq_base"), {.fallback = architecture_.rope_theta, .min = 1, .max = 1e12}));
        Rope rope{.frequencies = graph::rope_frequencies(rotary_dim, theta), .pairing = architecture_.pairing};
        VKFORMER_CHECK(scale_rope(rope, theta));
        c.ropes = {rope};
        if (architecture_.window_rope_theta > 0 || !architecture_.stretches_windows) {
            const double usual = architecture_.stretches_windows ? architecture_.window_rope_theta : theta;
            VKFORMER_TRY(const double local,
                         file_.real(key("rope.freq_base_swa"), {.fallback = usual, .min = 1, .max = 1e12}));
            std::uint32_t local_dim = rotary_dim;
            if (architecture_.is_gemma4) {
                VKFORMER_TRY(local_dim, file_.unsigned_integer(key("rope.dimension_count_swa"),
                                                               {.fallback = c.head_dim, .min = 2, .max = c.head_dim}));
            }
            if (local_dim % 2 != 0) return file_.unsupported(key("rope.dimension_count_swa"), "an even number");
            c.ropes.push_back(
                {.frequencies = graph::rope_frequencies(local_dim, local), .pairing = architecture_.pairing});
        }
        // llama.cpp takes the key for this where an architecture need not turn positions, and for nothing elsewhere.
        bool turns = true;
        if (architecture_.is_granite) {
            VKFORMER_TRY(turns, file_.boolean(key("rope.scaling.finetuned"), true));
        }
        for (std::size_t i = 0; turns && i < c.layers.size(); ++i)
            if (architecture_.has_rope(i) && c.layers[i].mixer == DecoderConfig::Mixer::attention)
                c.layers[i].rope = c.ropes.size() > 1 && c.layers[i].window > 0 ? 1 : 0;
        return {};
    }

    static formats::Expect<double> turns(double usual) { return {.fallback = usual, .min = 1e-6, .max = 1e9}; }

    /// Of YaRN, what models are not made with; converters write the scale that follows from the factor, too, where a config has it.
    Result<void> check_yarn(double factor) const {
        for (const auto& [name, usual, other] :
             {std::tuple{"yarn_ext_factor", 1.0, 1.0}, std::tuple{"yarn_attn_factor", 1.0, yarn_scale(factor, 1)},
              std::tuple{"yarn_log_multiplier", 0.0, 0.0}}) {
            const std::string whole = key("rope.scaling." + std::string(name));
            VKFORMER_TRY(const double found, file_.real(whole, {.fallback = usual}));
            if (found != usual && !(std::abs(found - other) < 1e-5))
                return file_.unsupported(whole, usual == 0 ? "0" : "1");
        }
        return {};
    }

    /// YaRN's scale of whole heads, whose weight files have a tenth of (mscale_all_dim).
    Result<void> scale_latent(double factor) {
        const std::string name = key("rope.scaling.yarn_log_multiplier");
        VKFORMER_TRY(const double multiplier, file_.real(name, {.fallback = 0, .min = 0, .max = 100}));
        if (multiplier == 0) return file_.unsupported(name, "a number above 0");
        const double scale = yarn_scale(factor, multiplier / 0.1);
        config().attention_scale *= static_cast<float>(scale * scale);
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
            VKFORMER_CHECK(architecture_.has_latent_attention ? scale_latent(factor) : check_yarn(factor));
            Yarn yarn{.theta = theta, .factor = factor, .context = static_cast<double>(original)};
            VKFORMER_TRY(yarn.fast, file_.real(key("rope.scaling.yarn_beta_fast"), turns(yarn.fast)));
            VKFORMER_TRY(yarn.slow, file_.real(key("rope.scaling.yarn_beta_slow"), turns(yarn.slow)));
            VKFORMER_TRY(yarn.truncates, file_.boolean(key("rope.scaling.yarn_truncate"), !architecture_.is_gpt_oss));
            stretch_yarn(rope, yarn);
            if (architecture_.has_latent_attention) rope.scale = 1;  // all of a head is scaled
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

    /// Of what a part of a layer gives.
    Result<NormWeights> norm_of_result(const std::string& name) {
        const std::uint64_t d = config().hidden_size;
        return architecture_.norms_results ? norm(name, d) : optional_norm(name, d);
    }

    Result<TensorData> optional_tensor(const std::string& name, const Shape& shape) {
        return read_.has(name) ? read_.tensor(name, shape) : Result<TensorData>(TensorData{});
    }

    Result<void> read_weights() {
        const DecoderConfig& c = config();
        DecoderWeights& w = parts_.weights;
        VKFORMER_TRY(w.embedding, read_.tensor("token_embd.weight", {c.vocab_size, c.hidden_size}));
        if (architecture_.learned_positions) {
            VKFORMER_TRY(w.positions, read_.tensor("position_embd.weight", {c.max_positions, c.hidden_size}));
        }
        for (std::size_t i = 0; i < c.layers.size(); ++i) {
            VKFORMER_TRY(auto layer, read_layer("blk." + std::to_string(i) + ".", i));
            w.layers.push_back(std::move(layer));
        }
        VKFORMER_CHECK(check_layers());
        if (architecture_.is_gemma4) VKFORMER_CHECK(read_layer_embeddings());
        const bool has_own_name = architecture_.is_lfm2 && read_.has("token_embd_norm.weight");
        VKFORMER_TRY(w.final_norm, norm(has_own_name ? "token_embd_norm" : "output_norm", c.hidden_size));
        VKFORMER_TRY(w.lm_head.weight,
                     read_.tied_tensor("output.weight", {c.vocab_size, c.hidden_size}, w.embedding, true));
        w.lm_head.origin = read_.origin("output", c.vocab_size);
        if (read_.has("output.bias")) {
            VKFORMER_TRY(w.lm_head.bias, read_.tensor("output.bias", {c.vocab_size}));
        }
        return {};
    }

    /// The norm of every head by itself or of all heads together, by how long it is.
    Result<NormWeights> query_or_key_norm(const std::string& name, std::uint64_t width, std::uint64_t head_dim) {
        const TensorData* const gain = file_.weights().find(name + ".weight");
        const bool is_wide = gain && gain->shape == Shape{width};
        return optional_norm(name, is_wide ? width : head_dim);
    }

    /// A stack of all experts' matrices or, in older files, a tensor for each.
    Result<std::vector<TensorData>> read_matrices(const std::string& name, std::uint64_t out, std::uint64_t in) {
        const std::uint64_t count = config().experts.count;
        if (!read_.has(name + ".0.weight")) {
            VKFORMER_TRY(const TensorData stack, read_.tensor(name + "_exps.weight", {count, out, in}));
            return matrices_of(stack);
        }
        std::vector<TensorData> matrices;
        for (std::uint64_t e = 0; e < count; ++e) {
            VKFORMER_TRY(matrices.emplace_back(), read_.tensor(name + "." + std::to_string(e) + ".weight", {out, in}));
        }
        return stacked(std::move(matrices));
    }

    Result<ExpertWeights> read_experts(const std::string& layer) {
        const DecoderConfig& c = config();
        const std::uint64_t d = c.hidden_size, ffn = c.experts.intermediate_size;
        ExpertWeights w;
        VKFORMER_TRY(w.router, read_.tensor(layer + "ffn_gate_inp.weight", {c.experts.count, d}));
        if (read_.has(layer + "ffn_gate_up_exps.weight")) {
            VKFORMER_TRY(const TensorData both,
                         read_.tensor(layer + "ffn_gate_up_exps.weight", {c.experts.count, 2 * ffn, d}));
            for (std::uint64_t e = 0; e < c.experts.count; ++e) {
                w.gate.push_back(rows_of_matrix(both, e, 0, ffn));
                w.up.push_back(rows_of_matrix(both, e, ffn, ffn));
            }
        } else {
            if (!architecture_.has_single_parts) {
                VKFORMER_TRY(w.gate, read_matrices(layer + "ffn_gate", ffn, d));
            }
            VKFORMER_TRY(w.up, read_matrices(layer + "ffn_up", ffn, d));
        }
        VKFORMER_TRY(w.down, read_matrices(layer + "ffn_down", d, ffn));
        VKFORMER_TRY(w.router_bias, optional_tensor(layer + "ffn_gate_inp.bias", {c.experts.count}));
        if (c.experts.scores == graph::RouteScores::sigmoid) {
            VKFORMER_TRY(w.choice_bias, optional_tensor(layer + "exp_probs_b.bias", {c.experts.count}));
        }
        VKFORMER_TRY(w.gate_bias, optional_tensor(layer + "ffn_gate_exps.bias", {c.experts.count, ffn}));
        VKFORMER_TRY(w.up_bias, optional_tensor(layer + "ffn_up_exps.bias", {c.experts.count, ffn}));
        VKFORMER_TRY(w.down_bias, optional_tensor(layer + "ffn_down_exps.bias", {c.experts.count, d}));
        if (w.gate_bias.bytes.empty() != w.up_bias.bytes.empty())
            return Error{ErrorCode::MissingTensor, file_.file_name() + ": " + layer + "ffn_gate_exps and " + layer +
                                                       "ffn_up_exps: one has a bias, the other none"};
        if (read_.has(layer + "ffn_gate_inp_shexp.weight")) {
            VKFORMER_TRY(w.shared_router, read_.tensor(layer + "ffn_gate_inp_shexp.weight", {d}));
            w.shared_router.shape = {1, d};
        }
        return w;
    }

    /// The feed-forward layers of all tokens.
    Result<void> read_feed_forward(const std::string& layer, bool has_experts, std::uint64_t inner,
                                   DecoderWeights::Layer& l) {
        const DecoderConfig& c = config();
        const std::uint64_t d = c.hidden_size, ffn = has_experts ? c.experts.shared_size : inner;
        const std::string end = has_experts ? "_shexp" : "";
        const bool has_shared =
            std::ranges::any_of(std::array{"ffn_up_shexp", "ffn_gate_shexp", "ffn_down_shexp", "ffn_gate_inp_shexp"},
                                [&](const char* name) { return read_.has(layer + name + ".weight"); });
        if (has_experts && !has_shared) return {};
        if (architecture_.joins_gate_and_up) {
            VKFORMER_TRY(const Projection gate_up, projection(layer + "ffn_up", 2 * ffn, d));
            l.gate = rows_of(gate_up, 0, ffn);
            l.up = rows_of(gate_up, ffn, ffn);
        } else {
            VKFORMER_TRY(l.up, projection(layer + "ffn_up" + end, ffn, d));
            if (read_.has(layer + "ffn_gate" + end + ".weight")) {
                VKFORMER_TRY(l.gate, projection(layer + "ffn_gate" + end, ffn, d));
            }
        }
        VKFORMER_TRY(l.down, projection(layer + "ffn_down" + end, d, ffn));
        return {};
    }

    Result<void> read_attention(const std::string& layer, const DecoderConfig::Layer& kind, DecoderWeights::Layer& l) {
        const DecoderConfig& c = config();
        if (c.latent) return read_latent_weights(read_, c, kLatentNames, layer, {}, l);
        const std::uint64_t d = c.hidden_size, head = c.head_dim_of(kind), width = c.heads * head,
                            kv_width = c.kv_heads_of(kind) * head;
        const std::uint64_t queries = architecture_.is_qwen_hybrid ? 2 * width : width;  // with their gates
        Projection query;
        if (read_.has(layer + "attn_qkv.weight")) {
            VKFORMER_TRY(const Projection joined, projection(layer + "attn_qkv", queries + 2 * kv_width, d));
            query = rows_of(joined, 0, queries);
            l.key = rows_of(joined, queries, kv_width);
            l.value = rows_of(joined, queries + kv_width, kv_width);
        } else {
            VKFORMER_TRY(query, projection(layer + "attn_q", queries, d));
            if (!kind.shared_cache) {
                VKFORMER_TRY(l.key, projection(layer + "attn_k", kv_width, d));
                if (!architecture_.is_gemma4 || read_.has(layer + "attn_v.weight")) {  // else values are the keys
                    VKFORMER_TRY(l.value, projection(layer + "attn_v", kv_width, d));
                }
            }
        }
        if (architecture_.is_qwen_hybrid)
            set_gated_query(query, c, l);
        else
            l.query = std::move(query);
        VKFORMER_TRY(l.output, projection(layer + "attn_output", d, width));
        VKFORMER_TRY(l.query_norm, query_or_key_norm(layer + "attn_q_norm", width, head));
        if (!kind.shared_cache) {
            VKFORMER_TRY(l.key_norm, query_or_key_norm(layer + "attn_k_norm", kv_width, head));
        }
        if (architecture_.is_gpt_oss) {
            VKFORMER_TRY(l.sinks, read_.tensor(layer + "attn_sinks.weight", {c.heads}));
        }
        return {};
    }

    Result<void> read_convolution(const std::string& layer, DecoderWeights::Layer& l) {
        const std::uint64_t d = config().hidden_size;
        VKFORMER_TRY(l.state.input, projection(layer + "shortconv.in_proj", 3 * d, d));
        VKFORMER_TRY(l.state.taps, read_.tensor(layer + "shortconv.conv.weight", {d, config().taps}));
        VKFORMER_TRY(l.state.taps_bias, optional_tensor(layer + "shortconv.conv.bias", {d}));
        VKFORMER_TRY(l.output, projection(layer + "shortconv.out_proj", d, d));
        return {};
    }

    /// Of what files have as −exp(log rate).
    Result<TensorData> log_rates(const std::string& name, const TensorData& rates) const {
        VKFORMER_TRY(std::vector<float> values, floats_of(rates));
        for (float& value : values) {
            if (!(value <= 0))
                return Error{ErrorCode::CorruptFile, file_.file_name() + ": " + name +
                                                         " has a rate above 0, with which a state would grow forever"};
            value = std::log(-value);
        }
        return float_tensor(rates.shape, std::move(values));
    }

    Result<void> read_delta_rule(const std::string& layer, DecoderWeights::Layer& l) {
        const DecoderConfig::DeltaRule& rule = config().delta_rule;
        const std::uint64_t d = config().hidden_size, each = rule.heads / rule.key_heads;
        VKFORMER_TRY(l.state.input, projection(layer + "attn_qkv", rule.width(), d));
        VKFORMER_TRY(l.mixed_gate, projection(layer + "attn_gate", rule.values(), d));
        if (read_.has(layer + "ssm_ba.weight")) {  // β and step of the heads of each head of keys, in turns
            VKFORMER_TRY(const Projection both, read_.projection(layer + "ssm_ba", 2 * rule.heads, d, false));
            const std::vector<Projection> parts = ungrouped(both, rule.key_heads, {each, each});
            l.state.beta = parts[0];
            l.state.step = parts[1];
        } else {
            VKFORMER_TRY(l.state.beta, projection(layer + "ssm_beta", rule.heads, d));
            VKFORMER_TRY(l.state.step, projection(layer + "ssm_alpha", rule.heads, d));
        }
        VKFORMER_TRY(l.state.taps, read_.tensor(layer + "ssm_conv1d.weight", {rule.width(), config().taps}));
        VKFORMER_TRY(const TensorData rates, read_.tensor(layer + "ssm_a", {rule.heads}));
        VKFORMER_TRY(const TensorData steps, read_.tensor(layer + "ssm_dt.bias", {rule.heads}));
        VKFORMER_TRY(const TensorData logs, log_rates(layer + "ssm_a", rates));
        VKFORMER_TRY(l.state.rates, rates_of(logs, {&steps}));
        VKFORMER_TRY(l.state.norm, norm(layer + "ssm_norm", rule.value_dim));
        VKFORMER_TRY(l.output, projection(layer + "ssm_out", d, rule.values()));
        return {};
    }

    /// ggml drops a first dimension of 1 from what it writes.
    Result<TensorData> table(const std::string& name, std::uint64_t rows, std::uint64_t columns) const {
        const TensorData* const found = file_.weights().find(name);
        const bool is_row = rows == 1 && found && found->shape.rank() == 1;
        return read_.tensor(name, is_row ? Shape{columns} : Shape{rows, columns});
    }

    /// A number for each head, which files have as a column.
    Result<TensorData> column(const std::string& name, std::uint64_t heads) const {
        VKFORMER_TRY(TensorData data, table(name, heads, 1));
        data.shape = {heads};
        return data;
    }

    Result<void> read_scan(const std::string& layer, DecoderWeights::Layer& l) {
        const DecoderConfig::SelectiveScan& scan = config().scan;
        const std::uint64_t d = config().hidden_size;
        const std::uint64_t rows = std::uint64_t{scan.values()} + scan.width() + scan.heads;
        VKFORMER_TRY(const Projection all, projection(layer + "ssm_in", rows, d));
        set_scan_inputs(all, config(), l);
        VKFORMER_TRY(l.state.taps, read_.tensor(layer + "ssm_conv1d.weight", {scan.width(), config().taps}));
        VKFORMER_TRY(l.state.taps_bias, optional_tensor(layer + "ssm_conv1d.bias", {scan.width()}));
        VKFORMER_TRY(const TensorData rates, column(layer + "ssm_a", scan.heads));
        VKFORMER_TRY(const TensorData logs, log_rates(layer + "ssm_a", rates));
        VKFORMER_TRY(const TensorData steps, read_.tensor(layer + "ssm_dt.bias", {scan.heads}));
        VKFORMER_TRY(const TensorData skips, column(layer + "ssm_d", scan.heads));
        VKFORMER_TRY(l.state.rates, rates_of(logs, {&steps, &skips}));
        VKFORMER_TRY(TensorData gains,
                     table(layer + "ssm_norm.weight", scan.norm_groups, scan.values() / scan.norm_groups));
        l.state.norm.gain = scan_gains(std::move(gains), config());
        VKFORMER_TRY(l.output, projection(layer + "ssm_out", d, scan.values()));
        return {};
    }

    /// What is optional for a layer and not for one of several.
    Result<void> check_layers() const {
        const auto& layers = parts_.weights.layers;
        const auto has_experts = [](const DecoderWeights::Layer& l) { return !l.experts.router.bytes.empty(); };
        const auto has_choice_bias = [](const DecoderWeights::Layer& l) {
            return !l.experts.choice_bias.bytes.empty();
        };
        const auto biased = std::ranges::count_if(layers, has_choice_bias);
        if (biased != 0 && biased != std::ranges::count_if(layers, has_experts))
            return Error{ErrorCode::MissingTensor,
                         file_.file_name() + ": some layers have exp_probs_b.bias, others none"};
        // Norms of a width of their own would not see what the residual was divided by.
        const auto has_other_norms = [](const DecoderWeights::Layer& l) {
            return !l.query_norm.gain.bytes.empty() || !l.key_norm.gain.bytes.empty() ||
                   !l.attention_post_norm.gain.bytes.empty() || !l.feed_forward_post_norm.gain.bytes.empty();
        };
        if (architecture_.is_granite && std::ranges::any_of(layers, has_other_norms))
            return Error{ErrorCode::UnsupportedConfig,
                         file_.file_name() + ": a layer has other norms than attn_norm and ffn_norm, which " +
                             std::string(architecture_.name) + " has not"};
        return {};
    }

    /// The embeddings of each layer, if there are any, and what multiplies what layers give.
    Result<void> read_layer_embeddings() {
        const DecoderConfig& c = config();
        DecoderWeights& w = parts_.weights;
        VKFORMER_TRY(const auto width,
                     file_.unsigned_integer(key("embedding_length_per_layer_input"), {.fallback = 0, .max = 1u << 16}));
        const std::uint64_t all = std::uint64_t{width} * c.layers.size();
        for (std::size_t i = 0; i < c.layers.size(); ++i) {
            DecoderWeights::Layer& l = w.layers[i];
            const std::string layer = "blk." + std::to_string(i) + ".";
            VKFORMER_TRY(const TensorData scale, read_.tensor(layer + "layer_output_scale.weight", {1}));
            VKFORMER_TRY(const auto scales, floats_of(scale));
            l.scale = scales.front();
            if (width == 0) continue;
            VKFORMER_TRY(l.embedding_gate, projection(layer + "inp_gate", width, c.hidden_size));
            VKFORMER_TRY(l.embedding_output, projection(layer + "proj", c.hidden_size, width));
            VKFORMER_TRY(l.embedding_norm, norm(layer + "post_norm", c.hidden_size));
        }
        if (width == 0) return {};
        VKFORMER_TRY(const TensorData table, read_.tensor("per_layer_token_embd.weight", {c.vocab_size, all}));
        VKFORMER_TRY(const Projection all_rows, projection("per_layer_model_proj", all, c.hidden_size));
        VKFORMER_TRY(w.layer_embedding_norm, norm("per_layer_proj_norm", width));
        VKFORMER_TRY(w.layer_embeddings, split_layer_embeddings(table, all_rows, width));
        return {};
    }

    /// Of Gemma 4's experts, beside which are the feed-forward layers of all tokens.
    Result<void> read_expert_norms(const std::string& layer, ExpertWeights& w) {
        const std::uint64_t d = config().hidden_size, count = config().experts.count;
        VKFORMER_TRY(w.norm, norm(layer + "pre_ffw_norm_2", d));
        VKFORMER_TRY(w.shared_post_norm, norm(layer + "post_ffw_norm_1", d));
        VKFORMER_TRY(w.post_norm, norm(layer + "post_ffw_norm_2", d));
        VKFORMER_TRY(const TensorData scale, read_.tensor(layer + "ffn_gate_inp.scale", {d}));
        VKFORMER_TRY(w.router_norm, router_norm(scale));
        VKFORMER_TRY(w.scales, optional_tensor(layer + "ffn_down_exps.scale", {count}));
        if (!w.scales.bytes.empty()) w.scales.shape = {count, 1};
        return {};
    }

    Result<DecoderWeights::Layer> read_layer(const std::string& layer, std::size_t index) {
        const DecoderConfig::Layer& kind = config().layers[index];
        const std::uint64_t d = config().hidden_size;
        DecoderWeights::Layer l;
        if (!architecture_.norms_results) {
            VKFORMER_TRY(l.attention_norm, norm(layer + "attn_norm", d));
        }
        switch (kind.mixer) {
        case DecoderConfig::Mixer::none: break;
        case DecoderConfig::Mixer::attention: VKFORMER_CHECK(read_attention(layer, kind, l)); break;
        case DecoderConfig::Mixer::convolution: VKFORMER_CHECK(read_convolution(layer, l)); break;
        case DecoderConfig::Mixer::delta_rule: VKFORMER_CHECK(read_delta_rule(layer, l)); break;
        case DecoderConfig::Mixer::selective_scan: VKFORMER_CHECK(read_scan(layer, l)); break;
        }
        if (architecture_.has_single_parts) {
            if (kind.mixer != DecoderConfig::Mixer::none) return l;
            l.feed_forward_norm = std::exchange(l.attention_norm, {});
        } else if (architecture_.norms_behind_attention()) {
            VKFORMER_TRY(l.feed_forward_norm, norm(layer + "post_attention_norm", d));
        } else if (architecture_.parallel == GgufParallel::behind_one_norm) {
            l.feed_forward_norm = l.attention_norm;
        } else if (!architecture_.norms_results) {
            VKFORMER_TRY(l.feed_forward_norm, norm(layer + "ffn_norm", d));
        }
        if (architecture_.parallel == GgufParallel::no) {  // else both parts see the same
            if (!architecture_.norms_behind_attention() && !architecture_.has_single_parts) {
                VKFORMER_TRY(l.attention_post_norm, norm_of_result(layer + "post_attention_norm"));
            }
            VKFORMER_TRY(l.feed_forward_post_norm, norm_of_result(layer + "post_ffw_norm"));
        }
        if (kind.has_experts) {
            VKFORMER_TRY(l.experts, read_experts(layer));
            if (architecture_.is_gemma4) VKFORMER_CHECK(read_expert_norms(layer, l.experts));
        }
        const std::uint64_t inner = inner_widths_.empty() ? config().intermediate_size : inner_widths_[index];
        VKFORMER_CHECK(read_feed_forward(layer, kind.has_experts && !architecture_.is_gemma4, inner, l));
        return l;
    }

    const Gguf& file_;
    const GgufArchitecture& architecture_;
    WeightReader read_;
    DecoderParts parts_;
    std::vector<std::uint32_t> inner_widths_;  // of the layers' feed-forward layers, where they differ
};

}  // namespace

Result<DecoderParts> load_gguf_decoder(const Gguf& file, const GgufArchitecture& architecture) {
    return Reader(file, architecture).load();
}

}  // namespace vkformer::models
