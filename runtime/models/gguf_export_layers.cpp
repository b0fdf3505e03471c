// SPDX-License-Identifier: MIT
// The mirror of gguf_decoder_weights.cpp: what a folder's loading function has made of its tensors goes back together, or apart,
// as files have it.
#include "models/gguf_export_layers.hpp"

#include <cmath>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "core/try.hpp"
#include "formats/json.hpp"
#include "models/weight_reader.hpp"

namespace vkformer::models {
namespace {

using formats::OutputTensor;
using Mixer = DecoderConfig::Mixer;
using Order = std::vector<std::uint64_t>;

TensorData reshaped(TensorData data, const Shape& shape) {
    data.shape = shape;
    return data;
}

/// llama.cpp's Llama rotates neighbouring elements of a head, Hugging Face's elements half a head apart: row 2 i + j of a head
/// is row j · head_dim / 2 + i there.
Order interleaved_rows(std::uint64_t heads, std::uint64_t head_dim) {
    Order rows;
    rows.reserve(heads * head_dim);
    for (std::uint64_t head = 0; head < heads; ++head)
        for (std::uint64_t i = 0; i < head_dim; ++i) rows.push_back(head * head_dim + i % 2 * (head_dim / 2) + i / 2);
    return rows;
}

/// Heads of values of a delta rule lie by their heads of keys; files whose keys are repeated in turns have the first of each, then the
/// second of each. `dim` rows a head, behind `first` that stay.
Order value_heads_in_turns(const DecoderConfig::DeltaRule& rule, std::uint64_t dim, std::uint64_t first = 0) {
    const std::uint64_t each = rule.heads / rule.key_heads;
    Order order(first);
    std::iota(order.begin(), order.end(), std::uint64_t{0});
    for (std::uint64_t turn = 0; turn < each; ++turn)
        for (std::uint64_t group = 0; group < rule.key_heads; ++group)
            for (std::uint64_t k = 0; k < dim; ++k) order.push_back(first + (group * each + turn) * dim + k);
    return order;
}

/// Files have each gain as it is multiplied with: Gemma's are stored minus one in folders.
Result<TensorData> gain_plus(const TensorData& gain, float offset) {
    if (offset == 0 || gain.bytes.empty()) return gain;
    VKFORMER_TRY(std::vector<float> values, floats_of(gain));
    for (float& value : values) value += offset;
    return float_tensor(gain.shape, std::move(values));
}

/// The first elements of each row, copied.
TensorData narrowed_rows(const TensorData& matrix, std::uint64_t width) {
    const std::uint64_t wide = bytes_of(matrix.dtype, matrix.shape[1]), row = bytes_of(matrix.dtype, width);
    const auto bytes = std::make_shared<std::vector<std::byte>>();
    for (std::uint64_t r = 0; r < matrix.shape[0]; ++r) {
        const std::span<const std::byte> kept = matrix.bytes.subspan(r * wide, row);
        bytes->insert(bytes->end(), kept.begin(), kept.end());
    }
    return {.dtype = matrix.dtype,
            .shape = {matrix.shape[0], width},
            .bytes = std::span<const std::byte>(*bytes),
            .owner = bytes};
}

/// A vector that llama.cpp asks for where the model may have none: without one it loads no file, or ends itself.
TensorData or_zeros(const TensorData& vector, std::uint64_t size) {
    return vector.bytes.empty() ? float_tensor({size}, std::vector<float>(size)) : vector;
}

class TensorLister {
public:
    TensorLister(const Decoder& model, const GgufArchitecture& architecture, bool has_biases, const std::string& source)
        : config_(model.config()),
          weights_(model.weights()),
          architecture_(architecture),
          has_biases_(has_biases),
          source_(source) {}

    Result<std::vector<OutputTensor>> list() {
        add("token_embd.weight", weights_.embedding);
        add("position_embd.weight", weights_.positions);
        for (std::size_t i = 0; i < config_.layers.size(); ++i) {
            layer_ = "blk." + std::to_string(i) + ".";
            VKFORMER_CHECK(list_layer(config_.layers[i], weights_.layers[i]));
        }
        layer_.clear();
        VKFORMER_CHECK(add_norm(architecture_.is_lfm2 ? "token_embd_norm" : "output_norm", weights_.final_norm));
        const bool needs_head =
            architecture_.has_own_head || (architecture_.is_plain && architecture_.parallel != GgufParallel::no);
        if (needs_head || !is_same(weights_.lm_head.weight, weights_.embedding))
            add("output.weight", weights_.lm_head.weight);
        add("output.bias", weights_.lm_head.bias);
        return std::move(tensors_);
    }

private:
    /// Nothing where there is no such tensor.
    void add(std::string_view name, TensorData data, Order rows = {}, Order columns = {}) {
        if (data.bytes.empty()) return;
        tensors_.push_back({.name = layer_ + std::string(name),
                            .dtype = data.dtype,
                            .source = std::move(data),
                            .row_order = std::move(rows),
                            .column_order = std::move(columns)});
    }

    /// Parts of a tensor, one behind the other.
    void add_parts(std::string_view name, const Shape& shape, std::vector<TensorData> parts) {
        if (parts.empty() || parts.front().bytes.empty()) return;
        add(name, parts.front());
        tensors_.back().source = {.dtype = parts.front().dtype, .shape = shape, .bytes = {}, .owner = {}};
        tensors_.back().parts = std::move(parts);
    }

    /// Rows of several matrices: `groups` groups, each of which has a part of every one's. The reverse of ungrouped().
    void add_rows(std::string_view name, const std::vector<TensorData>& matrices, std::uint64_t groups) {
        std::vector<TensorData> parts;
        std::uint64_t rows = 0;
        for (std::uint64_t group = 0; group < groups; ++group)
            for (const TensorData& matrix : matrices) {
                if (matrix.bytes.empty()) return;
                const std::uint64_t count = matrix.shape[0] / groups;
                parts.push_back(rows_of(matrix, group * count, count));
                rows += count;
            }
        const Shape& each = parts.front().shape;
        const Shape shape = each.rank() == 1 ? Shape{rows} : Shape{rows, each[1]};
        add_parts(name, shape, std::move(parts));
    }

    Result<void> check_bias(const Projection& projection, bool is_taken) const {
        if (projection.bias.bytes.empty() || is_taken) return {};
        const std::string& weight = projection.origin.tensor;
        return Error{ErrorCode::UnsupportedConfig,
                     source_ + ": the tensor " + formats::quote(weight.substr(0, weight.rfind('.')) + ".bias") +
                         " has no place in a GGUF file of the architecture " + std::string(architecture_.name)};
    }

    Result<void> add_projection(const std::string& name, const Projection& projection, bool takes_bias,
                                const Order& rows = {}) {
        VKFORMER_CHECK(check_bias(projection, takes_bias));
        add(name + ".weight", projection.weight, rows);
        const bool needs_bias =
            (architecture_.is_gpt_oss || architecture_.parallel == GgufParallel::by_key) && takes_bias && projection;
        add(name + ".bias", needs_bias ? or_zeros(projection.bias, projection.weight.shape[0]) : projection.bias, rows);
        return {};
    }

    /// Several in one.
    Result<void> add_joined(const std::string& name, std::initializer_list<const Projection*> projections,
                            bool takes_bias, std::uint64_t groups = 1) {
        std::vector<TensorData> weights, biases;
        for (const Projection* const projection : projections) {
            VKFORMER_CHECK(check_bias(*projection, takes_bias));
            weights.push_back(projection->weight);
            biases.push_back(projection->bias);
        }
        const auto is_there = [](const TensorData& bias) { return !bias.bytes.empty(); };
        if (std::ranges::any_of(biases, is_there) && !std::ranges::all_of(biases, is_there))
            return Error{ErrorCode::UnsupportedConfig,
                         source_ + ": some of the projections that become " + formats::quote(name) +
                             " have a bias and others none: a GGUF file has one of all or none"};
        add_rows(name + ".weight", weights, groups);
        add_rows(name + ".bias", biases, groups);
        return {};
    }

    Result<void> add_norm(const std::string& name, const NormWeights& norm) {
        VKFORMER_TRY(TensorData gain, gain_plus(norm.gain, config_.norm_gain_offset));
        add(name + ".weight", std::move(gain));
        add(name + ".bias", norm.bias);
        return {};
    }

    void add_stack(std::string_view name, const std::vector<TensorData>& matrices) {
        if (matrices.empty()) return;
        const Shape& each = matrices.front().shape;
        add_parts(name, {matrices.size(), each[0], each[1]}, matrices);
    }

    Result<void> list_layer(const DecoderConfig::Layer& kind, const DecoderWeights::Layer& l) {
        VKFORMER_CHECK(add_norm("attn_norm", l.attention_norm ? l.attention_norm : l.feed_forward_norm));
        switch (kind.mixer) {
        case Mixer::none: break;
        case Mixer::attention: VKFORMER_CHECK(list_attention(l)); break;
        case Mixer::convolution: VKFORMER_CHECK(list_convolution(l)); break;
        case Mixer::delta_rule: VKFORMER_CHECK(list_delta_rule(l)); break;
        case Mixer::selective_scan: VKFORMER_CHECK(list_scan(l)); break;
        }
        VKFORMER_CHECK(add_norm("post_attention_norm", l.attention_post_norm));
        const bool has_one_norm = architecture_.parallel == GgufParallel::behind_one_norm;
        if (!architecture_.has_single_parts && !has_one_norm)
            VKFORMER_CHECK(add_norm(architecture_.norms_behind_attention() ? "post_attention_norm" : "ffn_norm",
                                    l.feed_forward_norm));
        list_experts(l.experts);
        const std::string end = kind.has_experts ? "_shexp" : "";
        const bool takes_bias = has_biases_ && !kind.has_experts;
        if (architecture_.joins_gate_and_up) {
            VKFORMER_CHECK(add_joined("ffn_up", {&l.gate, &l.up}, takes_bias));
        } else {
            VKFORMER_CHECK(add_projection("ffn_gate" + end, l.gate, takes_bias));
            VKFORMER_CHECK(add_projection("ffn_up" + end, l.up, takes_bias));
        }
        VKFORMER_CHECK(add_projection("ffn_down" + end, l.down, takes_bias));
        return add_norm("post_ffw_norm", l.feed_forward_post_norm);
    }

    /// The heads' matrices of keys, turned, and of values are tensors of their own.
    Result<void> list_latent(const DecoderWeights::Layer& l) {
        const DecoderConfig::LatentAttention& latent = config_.latent;
        const std::uint64_t heads = config_.heads;
        const LatentWeights& w = l.latent;
        VKFORMER_CHECK(add_projection("attn_q_a", w.query_down, false));
        VKFORMER_CHECK(add_norm("attn_q_a_norm", w.query_norm));
        VKFORMER_CHECK(
            add_joined(w.query_down ? "attn_q_b" : "attn_q", {&w.plain_query, &w.rotary_query}, false, heads));
        VKFORMER_CHECK(add_joined("attn_kv_a_mqa", {&w.latent, &w.rotary_key}, false));
        VKFORMER_CHECK(add_norm("attn_kv_a_norm", w.latent_norm));
        add("attn_k_b.weight", reshaped(w.key_up, {heads, latent.rank, latent.plain_dim}));
        add("attn_v_b.weight",
            reshaped(narrowed_rows(w.value_up, latent.rank), {heads, latent.value_dim, latent.rank}));
        return add_projection("attn_output", l.output, false);
    }

    Result<void> list_attention(const DecoderWeights::Layer& l) {
        const DecoderConfig& c = config_;
        if (c.latent) return list_latent(l);
        // Some folders have neighbours together already.
        const bool interleaves = architecture_.pairing == graph::RopePairing::interleaved &&
                                 (c.ropes.empty() || c.ropes.front().pairing == graph::RopePairing::halves);
        const bool joins = architecture_.learned_positions || architecture_.has_long_rope ||
                           architecture_.parallel == GgufParallel::by_key;
        const auto order = [&](std::uint64_t heads) {
            return interleaves ? interleaved_rows(heads, c.head_dim) : Order();
        };
        if (joins) {
            VKFORMER_CHECK(add_joined("attn_qkv", {&l.query, &l.key, &l.value}, has_biases_));
            const std::uint64_t rows = (c.heads + 2 * std::uint64_t{c.kv_heads}) * c.head_dim;
            if (architecture_.parallel == GgufParallel::by_key && l.query.bias.bytes.empty())
                add("attn_qkv.bias", or_zeros({}, rows));
        } else {
            if (l.mixed_gate)
                VKFORMER_CHECK(add_joined("attn_q", {&l.query, &l.mixed_gate}, has_biases_, c.heads));
            else
                VKFORMER_CHECK(add_projection("attn_q", l.query, has_biases_, order(c.heads)));
            VKFORMER_CHECK(add_projection("attn_k", l.key, has_biases_, order(c.kv_heads)));
            VKFORMER_CHECK(add_projection("attn_v", l.value, has_biases_));
        }
        VKFORMER_CHECK(add_projection("attn_output", l.output, has_biases_));
        VKFORMER_CHECK(add_norm("attn_q_norm", l.query_norm));
        VKFORMER_CHECK(add_norm("attn_k_norm", l.key_norm));
        add("attn_sinks.weight", l.sinks);
        return {};
    }

    Result<void> list_convolution(const DecoderWeights::Layer& l) {
        VKFORMER_CHECK(add_projection("shortconv.in_proj", l.state.input, false));  // a bias of the taps comes with one
        add("shortconv.conv.weight", l.state.taps);
        return add_projection("shortconv.out_proj", l.output, false);
    }

    /// Row `index` of what a recursion has of its heads, in a shape of its own.
    TensorData rates(const StateWeights& state, std::uint64_t index, const Shape& shape) const {
        return reshaped(rows_of(state.rates, index, 1), shape);
    }

    /// −exp(log rate) of each head.
    Result<TensorData> decays(const StateWeights& state, const Shape& shape) const {
        VKFORMER_TRY(std::vector<float> values, floats_of(rates(state, 0, shape)));
        for (float& value : values) value = -std::exp(value);
        return float_tensor(shape, std::move(values));
    }

    Result<void> list_delta_rule(const DecoderWeights::Layer& l) {
        const DecoderConfig::DeltaRule& rule = config_.delta_rule;
        const bool turns = architecture_.delta_in_turns;
        const auto order = [&](std::uint64_t dim, std::uint64_t first = 0) {
            return turns ? value_heads_in_turns(rule, dim, first) : Order();
        };
        const Order width = order(rule.value_dim, 2 * std::uint64_t{rule.keys()}), heads = order(1);
        VKFORMER_CHECK(add_projection("attn_qkv", l.state.input, false, width));
        VKFORMER_CHECK(add_projection("attn_gate", l.mixed_gate, false, order(rule.value_dim)));
        if (turns) {
            VKFORMER_CHECK(add_projection("ssm_beta", l.state.beta, false, heads));
            VKFORMER_CHECK(add_projection("ssm_alpha", l.state.step, false, heads));
        } else {
            VKFORMER_CHECK(add_joined("ssm_ba", {&l.state.beta, &l.state.step}, false, rule.key_heads));
        }
        VKFORMER_TRY(TensorData decay, decays(l.state, {rule.heads}));
        add("ssm_conv1d.weight", l.state.taps, width);
        add("ssm_a", std::move(decay), heads);
        add("ssm_dt.bias", rates(l.state, 1, {rule.heads}), heads);
        add("ssm_norm.weight", l.state.norm.gain);
        add("ssm_out.weight", l.output.weight, {}, order(rule.value_dim));
        return check_bias(l.output, false);
    }

    Result<void> list_scan(const DecoderWeights::Layer& l) {
        const DecoderConfig::SelectiveScan& scan = config_.scan;
        VKFORMER_CHECK(add_joined("ssm_in", {&l.mixed_gate, &l.state.input, &l.state.step}, false));
        VKFORMER_TRY(TensorData decay, decays(l.state, {scan.heads, 1}));
        add("ssm_conv1d.weight", l.state.taps);
        add("ssm_conv1d.bias", or_zeros(l.state.taps_bias, scan.width()));
        add("ssm_a", std::move(decay));
        add("ssm_dt.bias", rates(l.state, 1, {scan.heads}));
        add("ssm_d", rates(l.state, 2, {scan.heads, 1}));
        add("ssm_norm.weight", reshaped(l.state.norm.gain, {scan.norm_groups, scan.values() / scan.norm_groups}));
        return add_projection("ssm_out", l.output, false);
    }

    void list_experts(const ExpertWeights& experts) {
        add("ffn_gate_inp.weight", experts.router);
        add("ffn_gate_inp.bias", experts.router_bias);
        if (experts && config_.experts.scores == graph::RouteScores::sigmoid)
            add("exp_probs_b.bias", or_zeros(experts.choice_bias, config_.experts.count));
        else
            add("exp_probs_b.bias", reshaped(experts.choice_bias, {1, config_.experts.count}));
        add_stack("ffn_gate_exps.weight", experts.gate);
        add("ffn_gate_exps.bias", experts.gate_bias);
        add_stack("ffn_up_exps.weight", experts.up);
        add("ffn_up_exps.bias", experts.up_bias);
        add_stack("ffn_down_exps.weight", experts.down);
        add("ffn_down_exps.bias", experts.down_bias);
        add("ffn_gate_inp_shexp.weight", reshaped(experts.shared_router, {config_.hidden_size}));
    }

    const DecoderConfig& config_;
    const DecoderWeights& weights_;
    const GgufArchitecture& architecture_;
    bool has_biases_;
    const std::string& source_;
    std::string layer_;  ///< precedes the names, "blk.0."
    std::vector<OutputTensor> tensors_;
};

}  // namespace

Result<std::vector<OutputTensor>> gguf_tensors(const Decoder& model, const GgufArchitecture& architecture,
                                               bool has_biases, const std::string& source) {
    return TensorLister(model, architecture, has_biases, source).list();
}

}  // namespace vkformer::models
