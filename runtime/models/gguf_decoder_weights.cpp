// SPDX-License-Identifier: MIT
// The tensors of a decoder in a GGUF file.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/try.hpp"
#include "models/gemma3n.hpp"
#include "models/gemma4.hpp"
#include "models/gguf_decoder_reader.hpp"

namespace vkformer::models {
namespace {

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

constexpr Gemma4Names kGemma4Names = {.table = "per_layer_token_embd.weight",
                                      .projection = "per_layer_model_proj",
                                      .projection_norm = "per_layer_proj_norm",
                                      .embedding_gate = "inp_gate",
                                      .embedding_output = "proj",
                                      .embedding_norm = "post_norm",
                                      .scale = "layer_output_scale.weight",
                                      .expert_norm = "pre_ffw_norm_2",
                                      .expert_post_norm = "post_ffw_norm_2",
                                      .shared_post_norm = "post_ffw_norm_1",
                                      .router_scale = "ffn_gate_inp.scale",
                                      .expert_scales = "ffn_down_exps.scale",
                                      .may_fold_scales = true};
constexpr Gemma3nNames kGemma3nNames = {.norm = "altup_router_norm.weight",
                                        .router = "altup_router.weight",
                                        .predict = "altup_predict_coef.weight",
                                        .correct = "altup_correct_coef.weight",
                                        .scale = "altup_correct_scale.weight",
                                        .left = "laurel_l",
                                        .right = "laurel_r",
                                        .laurel_norm = "laurel_post_norm"};

}  // namespace

Result<void> GgufDecoderReader::read_weights() {
    const DecoderConfig& c = config();
    DecoderWeights& w = parts_.weights;
    VKFORMER_TRY(w.embedding, read_.tensor("token_embd.weight", {c.vocab_size, c.hidden_size}));
    if (architecture_.learned_positions) {
        VKFORMER_TRY(w.positions, read_.tensor("position_embd.weight", {c.max_positions, c.hidden_size}));
    }
    for (std::size_t i = 0; i < c.layers.size(); ++i) {
        VKFORMER_TRY(auto layer, read_layer(block(i), i));
        w.layers.push_back(std::move(layer));
    }
    VKFORMER_CHECK(check_layers());
    if (embedding_width_ > 0) {
        const TensorData* const table = file_.weights().find(kGemma4Names.table);
        const bool has_own_rows = architecture_.is_gemma3n && table && table->shape.rank() > 0;
        VKFORMER_CHECK(read_layer_embeddings(read_, c, kGemma4Names, embedding_width_,
                                             has_own_rows ? table->shape[0] : c.vocab_size, w));
    }
    for (const auto& [name, all] :
         {std::pair{"altup_proj.weight", &w.stream_inputs}, std::pair{"altup_unembd_proj.weight", &w.stream_outputs}}) {
        if (c.streams == 1) break;
        VKFORMER_TRY(const TensorData stack, read_.tensor(name, {c.streams - 1, c.hidden_size, c.hidden_size}));
        for (TensorData& matrix : matrices_of(stack)) all->push_back({.weight = std::move(matrix), .bias = {}});
    }
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

Result<DecoderWeights::Layer> GgufDecoderReader::read_layer(const std::string& layer, std::size_t index) {
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
    }
    const std::uint64_t inner = inner_widths_.empty() ? config().intermediate_size : inner_widths_[index];
    VKFORMER_CHECK(read_feed_forward(layer, kind.has_experts && !architecture_.is_gemma4, inner, l));
    if (architecture_.is_gemma4) {
        Gemma4Names names = kGemma4Names;
        if (architecture_.is_gemma3n) names.scale = nullptr;
        VKFORMER_CHECK(read_gemma4_extras(read_, config(), names, layer, embedding_width_, l));
    }
    if (architecture_.is_gemma3n) {
        VKFORMER_TRY(const TensorData left, file_.weights().get(layer + "laurel_l.weight"));
        const std::uint64_t rank = left.shape.rank() > 0 ? left.shape[0] : 0;
        VKFORMER_CHECK(read_streams(read_, config(), kGemma3nNames, layer, index, rank, true, l.streams));
        if (std::isfinite(gate_cutoffs_[index])) l.gate_cutoff = gate_cutoffs_[index];
    }
    return l;
}

Result<void> GgufDecoderReader::check_layers() const {
    const auto& layers = parts_.weights.layers;
    const auto has_experts = [](const DecoderWeights::Layer& l) { return !l.experts.router.bytes.empty(); };
    const auto has_choice_bias = [](const DecoderWeights::Layer& l) { return !l.experts.choice_bias.bytes.empty(); };
    const auto biased = std::ranges::count_if(layers, has_choice_bias);
    if (biased != 0 && biased != std::ranges::count_if(layers, has_experts))
        return Error{ErrorCode::MissingTensor, file_.file_name() + ": some layers have exp_probs_b.bias, others none"};
    // Norms of a width of their own would not see what the residual was divided by.
    const auto has_other_norms = [](const DecoderWeights::Layer& l) {
        return !l.query_norm.gain.bytes.empty() || !l.key_norm.gain.bytes.empty() ||
               !l.attention_post_norm.gain.bytes.empty() || !l.feed_forward_post_norm.gain.bytes.empty();
    };
    if (architecture_.is_granite && std::ranges::any_of(layers, has_other_norms))
        return Error{ErrorCode::UnsupportedConfig, file_.file_name() +
                                                       ": a layer has other norms than attn_norm and ffn_norm, which " +
                                                       std::string(architecture_.name) + " has not"};
    return {};
}

Result<void> GgufDecoderReader::read_attention(const std::string& layer, const DecoderConfig::Layer& kind,
                                               DecoderWeights::Layer& l) {
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
            if (!architecture_.is_gemma4 || architecture_.is_gemma3n ||
                read_.has(layer + "attn_v.weight")) {  // else values are the keys
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

Result<NormWeights> GgufDecoderReader::query_or_key_norm(const std::string& name, std::uint64_t width,
                                                         std::uint64_t head_dim) {
    if (architecture_.is_gemma4) return norm(name, head_dim);  // which llama.cpp asks for
    const TensorData* const gain = file_.weights().find(name + ".weight");
    if (gain && architecture_.is_cohere && gain->shape == Shape{width / head_dim, head_dim}) {
        VKFORMER_TRY(TensorData gains, read_.tensor(name + ".weight", gain->shape));
        return NormWeights{.gain = std::move(gains), .bias = {}};
    }
    const bool is_wide = gain && gain->shape == Shape{width};
    return optional_norm(name, is_wide ? width : head_dim);
}

Result<void> GgufDecoderReader::read_convolution(const std::string& layer, DecoderWeights::Layer& l) {
    const std::uint64_t d = config().hidden_size;
    VKFORMER_TRY(l.state.input, projection(layer + "shortconv.in_proj", 3 * d, d));
    VKFORMER_TRY(l.state.taps, read_.tensor(layer + "shortconv.conv.weight", {d, config().taps}));
    VKFORMER_TRY(l.state.taps_bias, optional_tensor(layer + "shortconv.conv.bias", {d}));
    VKFORMER_TRY(l.output, projection(layer + "shortconv.out_proj", d, d));
    return {};
}

Result<TensorData> GgufDecoderReader::log_rates(const std::string& name, const TensorData& rates) const {
    VKFORMER_TRY(std::vector<float> values, floats_of(rates));
    for (float& value : values) {
        if (!(value <= 0))
            return Error{ErrorCode::CorruptFile, file_.file_name() + ": " + name +
                                                     " has a rate above 0, with which a state would grow forever"};
        value = std::log(-value);
    }
    return float_tensor(rates.shape, std::move(values));
}

Result<void> GgufDecoderReader::read_delta_rule(const std::string& layer, DecoderWeights::Layer& l) {
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

Result<TensorData> GgufDecoderReader::table(const std::string& name, std::uint64_t rows, std::uint64_t columns) const {
    const TensorData* const found = file_.weights().find(name);
    const bool is_row = rows == 1 && found && found->shape.rank() == 1;
    return read_.tensor(name, is_row ? Shape{columns} : Shape{rows, columns});
}

Result<TensorData> GgufDecoderReader::column(const std::string& name, std::uint64_t heads) const {
    VKFORMER_TRY(TensorData data, table(name, heads, 1));
    data.shape = {heads};
    return data;
}

Result<void> GgufDecoderReader::read_scan(const std::string& layer, DecoderWeights::Layer& l) {
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

Result<void> GgufDecoderReader::read_feed_forward(const std::string& layer, bool has_experts, std::uint64_t inner,
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

Result<ExpertWeights> GgufDecoderReader::read_experts(const std::string& layer) {
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
    if (c.experts.scores == graph::RouteScores::sigmoid || architecture_.has_choice_bias) {
        const std::string name = layer + "exp_probs_b.bias";  // ERNIE's is a row
        const bool is_row = read_.rank(name) == 2;
        VKFORMER_TRY(w.choice_bias, optional_tensor(name, is_row ? Shape{1, c.experts.count} : Shape{c.experts.count}));
        if (is_row) w.choice_bias.shape = {c.experts.count};
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

Result<std::vector<TensorData>> GgufDecoderReader::read_matrices(const std::string& name, std::uint64_t out,
                                                                 std::uint64_t in) {
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

Result<Projection> GgufDecoderReader::projection(const std::string& name, std::uint64_t out, std::uint64_t in) {
    return read_.projection(name, out, in, read_.has(name + ".bias"));
}

Result<NormWeights> GgufDecoderReader::norm(const std::string& name, std::uint64_t dim) {
    return read_.norm(name, dim, read_.has(name + ".bias"));
}

Result<NormWeights> GgufDecoderReader::optional_norm(const std::string& name, std::uint64_t dim) {
    if (!read_.has(name + ".weight")) return NormWeights{};
    return norm(name, dim);
}

Result<NormWeights> GgufDecoderReader::norm_of_result(const std::string& name) {
    const std::uint64_t d = config().hidden_size;
    return architecture_.norms_results || architecture_.needs_result_norms || architecture_.is_gemma4
               ? norm(name, d)
               : optional_norm(name, d);
}

Result<TensorData> GgufDecoderReader::optional_tensor(const std::string& name, const Shape& shape) {
    return read_.has(name) ? read_.tensor(name, shape) : Result<TensorData>(TensorData{});
}

}  // namespace vkformer::models
