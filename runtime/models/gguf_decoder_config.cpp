// SPDX-License-Identifier: MIT
// What the keys of a GGUF file say of a decoder, but for its rotary positions.
#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "core/try.hpp"
#include "models/gemma4.hpp"
#include "models/gguf_decoder_reader.hpp"

namespace vkformer::models {
namespace {

/// A number of a file that some files have.
struct Size {
    const char* name;
    std::uint32_t* value;
    bool is_there = true;
};

}  // namespace

Result<void> GgufDecoderReader::read_sizes() {
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
    // Behind the layers of the model there may be those that predict the token after the next one.
    VKFORMER_TRY(const auto predicting, file_.unsigned_integer(key("nextn_predict_layers"), {.fallback = 0}));
    if (predicting >= layers) return file_.unsupported(key("nextn_predict_layers"), "fewer than block_count");
    if (is_head_ && predicting == 0) return no_head(file_.file_name());
    if (is_head_) first_layer_ = layers - predicting;
    c.layers.assign(is_head_ ? 1 : layers - predicting, {});
    if (architecture_.is_gemma4) VKFORMER_CHECK(read_gemma4_layers());
    VKFORMER_CHECK(read_mixers());
    VKFORMER_CHECK(check_kv_heads());
    VKFORMER_TRY(const TensorData embedding, file_.weights().get("token_embd.weight"));
    if (embedding.shape.rank() != 2 || embedding.shape[0] > 1u << 24)
        return Error{ErrorCode::ShapeMismatch, file_.file_name() + ": token_embd.weight has shape " +
                                                   to_string(embedding.shape) + ", expected [vocabulary, " +
                                                   std::to_string(c.hidden_size) + "]"};
    c.vocab_size = static_cast<std::uint32_t>(embedding.shape[0]);

    c.norm = architecture_.has_layer_norms() ? DecoderConfig::Norm::layer : DecoderConfig::Norm::rms;
    const char *const of_layer = "attention.layer_norm_epsilon", *const of_rms = "attention.layer_norm_rms_epsilon";
    const bool has_layer_eps =
        architecture_.has_layer_norms() || (architecture_.has_single_parts && !file_.has(key(of_rms)));
    const char* const eps_key = has_layer_eps ? of_layer : of_rms;
    VKFORMER_TRY(const double eps, file_.real(key(eps_key), {.min = 0, .max = 1}));
    c.norm_eps = static_cast<float>(eps);
    c.scan.norm_eps = c.norm_eps;
    c.latent.norm_eps = c.norm_eps;
    c.activation = architecture_.activation();
    c.turns_before_norms = architecture_.turns_before_norms;
    c.is_parallel = architecture_.parallel == GgufParallel::behind_one_norm;
    if (architecture_.parallel == GgufParallel::by_key) {
        VKFORMER_TRY(c.is_parallel, file_.boolean(key("use_parallel_residual")));
    }
    if (architecture_.is_gemma) c.embedding_scale = std::sqrt(static_cast<float>(c.hidden_size));
    if (architecture_.is_granite) VKFORMER_CHECK(read_multipliers());
    if (architecture_.is_cohere) {
        VKFORMER_TRY(const double factor, file_.real(key("logit_scale"), {.min = 1e-6, .max = 1e6}));
        c.logit_scale = static_cast<float>(factor);
    }
    return read_experts();
}

Result<void> GgufDecoderReader::read_heads() {
    DecoderConfig& c = config();
    VKFORMER_TRY(c.kv_heads,
                 read_by_layer("attention.head_count_kv", {.fallback = c.heads, .min = 1, .max = 1u << 20}));
    VKFORMER_TRY(c.head_dim, file_.unsigned_integer(key("attention.key_length"),
                                                    {.fallback = c.hidden_size / c.heads, .min = 1, .max = 1u << 16}));
    VKFORMER_TRY(const auto value_dim, file_.unsigned_integer(key("attention.value_length"), {.fallback = c.head_dim}));
    if (value_dim != c.head_dim) return file_.unsupported(key("attention.value_length"), std::to_string(c.head_dim));
    if (c.heads % c.kv_heads != 0)
        return file_.unsupported(key("attention.head_count_kv"),
                                 "a divisor of attention.head_count = " + std::to_string(c.heads));
    return {};
}

Result<std::vector<std::uint32_t>> GgufDecoderReader::numbers_of_layers(const char* what,
                                                                        std::optional<std::uint32_t> fallback) {
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

Result<void> GgufDecoderReader::read_gemma4_layers() {
    DecoderConfig& c = config();
    c.norms_values = true;
    std::uint32_t wide = 0;
    for (const auto& [keys, values, width] :
         {std::tuple{"attention.key_length", "attention.value_length", &wide},
          std::tuple{"attention.key_length_swa", "attention.value_length_swa", &c.head_dim}}) {
        formats::Expect<std::uint32_t> expected = {.min = 2, .max = 1u << 16};
        if (architecture_.is_gemma3n && wide > 0) expected.fallback = wide;
        VKFORMER_TRY(*width, file_.unsigned_integer(key(keys), expected));
        VKFORMER_TRY(const auto value_dim, file_.unsigned_integer(key(values), {.fallback = *width}));
        if (value_dim != *width) return file_.unsupported(key(values), std::to_string(*width));
    }
    VKFORMER_TRY(embedding_width_,
                 file_.unsigned_integer(key("embedding_length_per_layer_input"), {.fallback = 0, .max = 1u << 16}));
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
    return architecture_.is_gemma3n ? read_gemma3n_layers() : Result<void>();
}

Result<void> GgufDecoderReader::read_gemma3n_layers() {
    DecoderConfig& c = config();
    // Its files have keys and values of all layers, of which this tells those that are used.
    VKFORMER_CHECK(file_.unsigned_integer(key("attention.shared_kv_layers")));
    VKFORMER_CHECK(file_.unsigned_integer(key("embedding_length_per_layer_input"), {.min = 1}));
    VKFORMER_TRY(c.streams, file_.unsigned_integer(key("altup.num_inputs"), {.min = 2, .max = 64}));
    VKFORMER_TRY(const auto active, file_.unsigned_integer(key("altup.active_idx"), {.fallback = 0}));
    if (active != 0) return file_.unsupported(key("altup.active_idx"), "0");
    const std::string cutoffs = key("activation_sparsity_scale");
    VKFORMER_TRY(gate_cutoffs_, file_.floats(cutoffs));
    const auto fits = [](float deviations) { return deviations < 40; };
    if (gate_cutoffs_.size() != c.layers.size() || !std::ranges::all_of(gate_cutoffs_, fits))
        return file_.unsupported(cutoffs, "a number for each layer, -inf for none");
    return {};
}

Result<void> GgufDecoderReader::read_latent() {
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
    if (latent.rotary_dim >= query_dim) return file_.unsupported(key("rope.dimension_count"), "less than a query has");
    latent.plain_dim = query_dim - latent.rotary_dim;
    const std::uint32_t kv_heads = is_compressed ? 1 : c.heads;
    VKFORMER_TRY(const auto found, file_.unsigned_integer(key("attention.head_count_kv"), {.fallback = kv_heads}));
    if (found != kv_heads) return file_.unsupported(key("attention.head_count_kv"), std::to_string(kv_heads));
    set_latent_sizes(latent, c);
    return {};
}

Result<void> GgufDecoderReader::read_multipliers() {
    VKFORMER_TRY(const double embedding, file_.real(key("embedding_scale"), {.fallback = 1, .min = 1e-3, .max = 1e3}));
    VKFORMER_TRY(const double residual, file_.real(key("residual_scale"), {.fallback = 1, .min = 1e-3, .max = 1e3}));
    VKFORMER_TRY(const double logits, file_.real(key("logit_scale"), {.min = 1e-3, .max = 1e3}));  // a divisor
    set_multipliers(config(), {.embedding = embedding, .residual = residual, .logits = 1 / logits});
    VKFORMER_TRY(const auto window, file_.unsigned_integer(key("attention.sliding_window"), {.fallback = 0}));
    if (window > 0) return file_.unsupported(key("attention.sliding_window"), "0");
    return {};
}

Result<std::uint32_t> GgufDecoderReader::read_by_layer(const char* what,
                                                       const formats::Expect<std::uint32_t>& expected) {
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

Result<void> GgufDecoderReader::check_kv_heads() const {
    const std::string name = key("attention.head_count_kv");
    const auto* const value = file_.find(name);
    if (!value || value->type != formats::GgufType::array) return {};
    VKFORMER_TRY(const std::vector<std::int32_t> counts, file_.integers(name));
    const auto& layers = parts_.config.layers;
    for (std::size_t i = 0; i < layers.size(); ++i)
        if (first_layer_ + i >= counts.size() ||
            (counts[first_layer_ + i] == 0) != (layers[i].mixer != DecoderConfig::Mixer::attention))
            return file_.unsupported(name, "a number for each layer, 0 for those without attention");
    return {};
}

Result<void> GgufDecoderReader::read_mixers() {
    using Mixer = DecoderConfig::Mixer;
    DecoderConfig& c = config();
    if (!architecture_.is_lfm2 && !architecture_.is_qwen_hybrid && !architecture_.has_scans) return {};
    const char* const probe = architecture_.is_lfm2 ? "shortconv.conv.weight" : "ssm_conv1d.weight";
    const Mixer mixer = architecture_.is_lfm2     ? Mixer::convolution
                        : architecture_.has_scans ? Mixer::selective_scan
                                                  : Mixer::delta_rule;
    for (std::size_t i = 0; i < c.layers.size(); ++i) {
        const std::string layer = block(i);
        if (read_.has(layer + probe))
            c.layers[i].mixer = mixer;
        else if (architecture_.has_single_parts && !read_.has(layer + "attn_output.weight"))
            c.layers[i].mixer = Mixer::none;
    }
    if (!c.keeps_states() && architecture_.has_scans) return {};
    const char* const taps = architecture_.is_lfm2 ? "shortconv.l_cache" : "ssm.conv_kernel";
    VKFORMER_TRY(c.taps, file_.unsigned_integer(key(taps), {.min = 2, .max = 8}));
    return architecture_.is_lfm2 ? Result<void>() : read_recursion();
}

Result<void> GgufDecoderReader::read_recursion() {
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
    c.scan = {.groups = groups, .heads = heads, .state_dim = rows, .head_dim = values / heads, .norm_groups = groups};
    return {};
}

Result<void> GgufDecoderReader::read_expert_weights() {
    DecoderConfig::Experts& experts = config().experts;
    if (architecture_.has_grouped_experts || architecture_.has_single_parts) {  // there llama.cpp asks the keys
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

Result<void> GgufDecoderReader::read_experts() {
    DecoderConfig& c = config();
    const bool may_have = architecture_.experts != GgufExperts::none;
    VKFORMER_TRY(c.experts.count, file_.unsigned_integer(key("expert_count"), {.fallback = 0}));
    if (c.experts.count == 0) return {};
    if (!may_have || c.experts.count > graph::kMostExperts)
        return file_.unsupported(key("expert_count"), may_have ? "1 to " + std::to_string(graph::kMostExperts) : "0");
    VKFORMER_TRY(c.experts.per_token,
                 file_.unsigned_integer(key("expert_used_count"),
                                        {.min = 1, .max = std::min<std::uint32_t>(c.experts.count, 32)}));
    const formats::Expect<std::uint32_t> width = {.fallback = c.intermediate_size, .min = 1, .max = 1u << 20};
    VKFORMER_TRY(c.experts.intermediate_size, file_.unsigned_integer(key("expert_feed_forward_length"), width));
    VKFORMER_TRY(c.experts.shared_size, file_.unsigned_integer(key("expert_shared_feed_forward_length"), width));
    VKFORMER_CHECK(read_expert_weights());
    for (std::size_t i = 0; i < c.layers.size(); ++i)
        c.layers[i].has_experts = read_.has(block(i) + "ffn_gate_inp.weight");
    VKFORMER_CHECK(check_mixtures());
    if (architecture_.has_grouped_experts) return read_grouped_routing();
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

Result<void> GgufDecoderReader::check_mixtures() const {
    const DecoderConfig& c = parts_.config;
    VKFORMER_TRY(const auto step,
                 file_.unsigned_integer(key("interleave_moe_layer_step"), {.fallback = 1, .min = 1, .max = 4096}));
    VKFORMER_TRY(const auto dense, file_.unsigned_integer(key("leading_dense_block_count"), {.fallback = 0}));
    for (std::size_t i = 0; i < c.layers.size(); ++i) {
        const std::size_t layer = first_layer_ + i;
        const bool has = c.layers[i].has_experts, is_behind = layer >= dense;
        if (has == (is_behind && (layer + 1) % step == 0)) continue;
        const std::string name = key(has && is_behind ? "interleave_moe_layer_step" : "leading_dense_block_count");
        if (file_.has(name))
            return file_.unsupported(
                name, "what goes with the experts that layer " + std::to_string(layer) + (has ? " has" : " has not"));
    }
    VKFORMER_TRY(const auto shared, file_.unsigned_integer(key("expert_shared_count"), {.fallback = 0}));
    const std::uint64_t width = std::uint64_t{shared} * c.experts.intermediate_size;
    if (architecture_.has_choice_bias && file_.has(key("expert_shared_count")) && width != c.experts.shared_size &&
        (width > 0 || file_.has(key("expert_shared_feed_forward_length"))))
        return file_.unsupported(key("expert_shared_count"),
                                 "as many as expert_shared_feed_forward_length has room for");
    if (!architecture_.is_gpt_oss || !file_.has(key("feed_forward_length")) ||
        c.intermediate_size == c.experts.intermediate_size)
        return {};
    return file_.unsupported(key("feed_forward_length"), "that of the experts, which all layers have");
}

Result<void> GgufDecoderReader::read_grouped_routing() {
    DecoderConfig::Experts& experts = config().experts;
    graph::RouteGroups groups;
    std::uint32_t gating = architecture_.sigmoid_sum > 0 ? 2 : 1;
    experts.shared_size = 0;
    for (const auto& [name, number, most] :
         {std::tuple{"expert_shared_count", &experts.shared_size, 64u}, std::tuple{"expert_gating_func", &gating, 2u},
          std::tuple{"expert_group_count", &groups.count, 64u},
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

Result<void> GgufDecoderReader::read_attention() {
    DecoderConfig& c = config();
    VKFORMER_TRY(
        const double scale,
        file_.real(key("attention.scale"), {.fallback = architecture_.attention_scale(c), .min = 1e-6, .max = 1e6}));
    c.attention_scale = static_cast<float>(scale);
    VKFORMER_TRY(const double score_cap,
                 file_.real(key("attn_logit_softcapping"), {.fallback = 0, .min = 0, .max = 1e6}));
    formats::Expect<double> cap = {.fallback = 0, .min = 0, .max = 1e6};
    if (architecture_.is_gemma3n) cap.fallback.reset();
    VKFORMER_TRY(const double logit_cap, file_.real(key("final_logit_softcapping"), cap));
    c.attention_soft_cap = static_cast<float>(score_cap);
    c.logit_soft_cap = static_cast<float>(logit_cap);
    formats::Expect<std::uint32_t> expected = {.fallback = 0, .max = 1u << 28};
    if (architecture_.is_gpt_oss || architecture_.is_gemma4 ||
        (architecture_.is_cohere && architecture_.turns_windows_only))
        expected = {.min = 1, .max = 1u << 28};  // llama.cpp makes none up
    VKFORMER_TRY(const auto window, file_.unsigned_integer(key("attention.sliding_window"), expected));
    VKFORMER_TRY(const std::vector<bool> slides, read_windows());
    for (std::size_t i = 0; i < slides.size(); ++i) c.layers[i].window = slides[i] ? window : 0;
    return {};
}

Result<std::vector<bool>> GgufDecoderReader::read_windows() const {
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

}  // namespace vkformer::models
