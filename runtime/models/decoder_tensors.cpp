// SPDX-License-Identifier: MIT
// Of decoder_loading.hpp what reads tensors; decoder_loading.cpp reads fields of configs.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/try.hpp"
#include "models/decoder_loading.hpp"

namespace vkformer::models {

TensorData rows_of_matrix(const TensorData& stack, std::uint64_t index, std::uint64_t first, std::uint64_t count) {
    const std::uint64_t rows = stack.shape[1];
    TensorData all = stack;
    all.shape = {stack.shape[0] * rows, stack.shape[2]};
    return rows_of(all, index * rows + first, count);
}

std::vector<TensorData> matrices_of(const TensorData& stack) {
    std::vector<TensorData> matrices;
    for (std::uint64_t i = 0; i < stack.shape[0]; ++i) matrices.push_back(rows_of_matrix(stack, i, 0, stack.shape[1]));
    return matrices;
}

std::vector<TensorData> stacked(std::vector<TensorData> matrices) {
    const TensorData& first = matrices.front();
    const std::uint64_t elements = first.shape.element_count();
    const bool is_mixed = std::ranges::any_of(matrices, [&](const TensorData& m) { return m.dtype != first.dtype; });
    if (is_mixed || (graph::fills_words(first.dtype, elements) && graph::fills_words(DType::f16, elements)))
        return matrices;
    const auto bytes = std::make_shared<std::vector<std::byte>>();
    for (const TensorData& matrix : matrices) bytes->insert(bytes->end(), matrix.bytes.begin(), matrix.bytes.end());
    return matrices_of({.dtype = first.dtype,
                        .shape = {matrices.size(), first.shape[0], first.shape[1]},
                        .bytes = std::span<const std::byte>(*bytes),
                        .owner = bytes});
}

Result<ExpertWeights> read_experts(const WeightReader& read, const DecoderConfig& c, const ExpertNames& names,
                                   const std::string& layer) {
    const std::uint64_t count = c.experts.count, d = c.hidden_size, ffn = c.experts.intermediate_size;
    const std::string own = layer + std::string(names.block);
    const bool is_in_memory = read.has(layer + "mlp.gate.weight") || read.has(layer + "mlp.router.weight");
    const std::string block = is_in_memory ? layer + "mlp." : own, experts = block + "experts.";
    ExpertWeights w;
    const std::string_view router = read.has(block + "router.weight") ? "router.weight" : names.router;
    VKFORMER_TRY(w.router, read.tensor(block + std::string(router), {count, d}));
    if (!names.choice_bias.empty()) {
        const std::string name = block + std::string(names.choice_bias);
        VKFORMER_TRY(w.choice_bias, read.tensor(name, read.rank(name) == 2 ? Shape{1, count} : Shape{count}));
        w.choice_bias.shape = {count};
    }
    if (read.has(experts + "gate_up_proj")) {
        VKFORMER_TRY(const TensorData both, read.tensor(experts + "gate_up_proj", {count, 2 * ffn, d}));
        VKFORMER_TRY(const TensorData down, read.tensor(experts + "down_proj", {count, d, ffn}));
        for (std::uint64_t e = 0; e < count; ++e) {
            w.gate.push_back(rows_of_matrix(both, e, 0, ffn));
            w.up.push_back(rows_of_matrix(both, e, ffn, ffn));
        }
        w.down = matrices_of(down);
        return w;
    }
    const auto matrix = [&](std::uint64_t e, std::string_view name, const Shape& shape) {
        return read.tensor(experts + std::to_string(e) + "." + std::string(name) + ".weight", shape);
    };
    for (std::uint64_t e = 0; e < count; ++e) {
        VKFORMER_TRY(w.gate.emplace_back(), matrix(e, names.gate, {ffn, d}));
        VKFORMER_TRY(w.up.emplace_back(), matrix(e, names.up, {ffn, d}));
        VKFORMER_TRY(w.down.emplace_back(), matrix(e, names.down, {d, ffn}));
    }
    for (auto* const matrices : {&w.gate, &w.up, &w.down}) *matrices = stacked(std::move(*matrices));
    return w;
}

Result<void> read_attention_layer(const WeightReader& read, const DecoderConfig& c, const std::string& name,
                                  const LlamaLayout& layout, DecoderWeights::Layer& l) {
    const std::uint64_t d = c.hidden_size, width = std::uint64_t{c.heads} * c.head_dim,
                        kv_width = std::uint64_t{c.kv_heads} * c.head_dim;
    VKFORMER_TRY(l.query, read.projection(name + "q_proj", width, d, layout.attention_bias));
    VKFORMER_TRY(l.key, read.projection(name + "k_proj", kv_width, d, layout.attention_bias));
    VKFORMER_TRY(l.value, read.projection(name + "v_proj", kv_width, d, layout.attention_bias));
    VKFORMER_TRY(l.output, read.projection(name + "o_proj", d, width, layout.output_bias));
    return {};
}

LlamaLayout with_gemma_norms(LlamaLayout layout) {
    if (layout.attention_post_norm.empty()) layout.attention_post_norm = "post_attention_layernorm";
    layout.feed_forward_norm = "pre_feedforward_layernorm";
    layout.feed_forward_post_norm = "post_feedforward_layernorm";
    return layout;
}

Result<DecoderWeights::Layer> read_llama_layer(const WeightReader& read, const DecoderConfig& c,
                                               const LlamaLayout& layout, const std::string& layer, std::size_t i) {
    const std::uint64_t d = c.hidden_size, ffn = c.intermediate_size;
    const std::string self = layer + "self_attn.", mlp = layer + std::string(layout.dense);
    DecoderWeights::Layer l;
    for (const auto& [norm, name, has_bias] :
         {std::tuple{&l.attention_norm, layout.attention_norm, layout.norm_bias},
          std::tuple{&l.attention_post_norm, layout.attention_post_norm, false},
          std::tuple{&l.feed_forward_norm, layout.feed_forward_norm, layout.norm_bias},
          std::tuple{&l.feed_forward_post_norm, layout.feed_forward_post_norm, false}}) {
        if (name.empty()) continue;
        VKFORMER_TRY(*norm, read.norm(layer + std::string(name), d, has_bias));
    }
    if (layout.read_mixer) {
        VKFORMER_CHECK(layout.read_mixer(read, c, layout, layer, i, l));
    } else {
        VKFORMER_CHECK(read_attention_layer(read, c, self, layout, l));
        if (layout.sinks) {
            VKFORMER_TRY(l.sinks, read.tensor(self + "sinks", {c.heads}));
        }
        for (const auto& [norm, name, heads] : {std::tuple{&l.query_norm, layout.query_norm, c.heads},
                                                std::tuple{&l.key_norm, layout.key_norm, c.kv_heads}}) {
            if (layout.own_head_gains) {
                VKFORMER_TRY(norm->gain, read.tensor(self + std::string(name) + ".weight", {heads, c.head_dim}));
            } else if (layout.head_norms || layout.wide_norms) {
                const std::uint64_t together = layout.wide_norms ? heads : 1;
                VKFORMER_TRY(*norm, read.norm(self + std::string(name), together * c.head_dim));
            }
        }
    }
    std::string dense = mlp;
    std::uint64_t inner = ffn;
    if (c.layers[i].has_experts) {
        VKFORMER_TRY(l.experts, layout.read_experts ? layout.read_experts(read, c, layer)
                                                    : read_experts(read, c, layout.experts, layer));
        dense = mlp + std::string(layout.shared_expert);
        inner = c.experts.shared_size;
        if (inner > 0 && layout.feed_forward && layout.weighs_shared) {
            VKFORMER_TRY(l.experts.shared_router, read.tensor(mlp + "shared_expert_gate.weight", {1, d}));
        }
    }
    if (inner > 0 && layout.feed_forward) {
        if (layout.joins_gate_and_up) {
            VKFORMER_TRY(const Projection both,
                         read.projection(dense + "gate_up_proj", 2 * inner, d, layout.feed_forward_bias));
            l.gate = rows_of(both, 0, inner);
            l.up = rows_of(both, inner, inner);
        } else {
            VKFORMER_TRY(l.gate, read.projection(dense + "gate_proj", inner, d, layout.feed_forward_bias));
            VKFORMER_TRY(l.up, read.projection(dense + "up_proj", inner, d, layout.feed_forward_bias));
        }
        VKFORMER_TRY(l.down, read.projection(dense + "down_proj", d, inner, layout.feed_forward_bias));
    }
    return l;
}

Result<DecoderWeights> read_llama_weights(const formats::Weights& weights, const DecoderConfig& c,
                                          const LlamaLayout& layout, const std::string& prefix) {
    const WeightReader read(weights, prefix);
    const std::uint64_t d = c.hidden_size;
    DecoderWeights w;
    VKFORMER_TRY(w.embedding, read.tensor("embed_tokens.weight", {c.vocab_size, d}));
    for (std::size_t i = 0; i < c.layers.size(); ++i) {
        VKFORMER_TRY(w.layers.emplace_back(),
                     read_llama_layer(read, c, layout, "layers." + std::to_string(i) + ".", i));
    }
    VKFORMER_TRY(w.final_norm, read.norm(std::string(layout.final_norm), d, layout.norm_bias));
    const WeightReader whole(weights, layout.head_prefix);
    const std::string head(layout.head);
    if (layout.tied || whole.has(head + ".weight")) {
        VKFORMER_TRY(w.lm_head.weight,
                     whole.tied_tensor(head + ".weight", {c.vocab_size, d}, w.embedding, layout.tied));
        VKFORMER_TRY(w.lm_head.bias, whole.bias(head + ".bias", c.vocab_size, layout.head_bias));
        w.lm_head.origin = whole.origin(head, c.vocab_size);
    }
    return w;
}

Result<TensorData> read_taps(const WeightReader& read, const std::string& name, std::uint64_t width,
                             std::uint64_t taps) {
    VKFORMER_TRY(TensorData data, read.tensor(name, {width, 1, taps}));
    data.shape = {width, taps};
    return data;
}

std::vector<Projection> ungrouped(const Projection& rows, std::uint64_t groups,
                                  const std::vector<std::uint64_t>& sizes) {
    std::vector<Projection> parts;
    std::uint64_t group = 0, begin = 0;
    for (const std::uint64_t size : sizes) group += size;
    for (const std::uint64_t size : sizes) {
        std::vector<RowRange> ranges;
        for (std::uint64_t g = 0; g < groups; ++g) ranges.push_back({g * group + begin, size});
        parts.push_back(gathered_rows(rows, ranges));
        begin += size;
    }
    return parts;
}

void set_gated_query(const Projection& both, const DecoderConfig& config, DecoderWeights::Layer& layer) {
    std::vector<Projection> halves = ungrouped(both, config.heads, {config.head_dim, config.head_dim});
    layer.query = std::move(halves[0]);
    layer.mixed_gate = std::move(halves[1]);
}

Result<TensorData> rates_of(const TensorData& log_rates, std::initializer_list<const TensorData*> others) {
    VKFORMER_TRY(std::vector<float> rates, floats_of(log_rates));
    const std::size_t heads = rates.size();
    // Rates beyond these forget all at once, or nothing in the time that there is; their exponentials are numbers.
    constexpr float kLeast = -80, kMost = 80;
    for (float& rate : rates) rate = std::clamp(rate, kLeast, kMost);
    for (const TensorData* const part : others) {
        VKFORMER_TRY(const std::vector<float> values, floats_of(*part));
        rates.insert(rates.end(), values.begin(), values.end());
    }
    return float_tensor({1 + others.size(), heads}, std::move(rates));
}

void set_scan_inputs(const Projection& all, const DecoderConfig& config, DecoderWeights::Layer& layer) {
    const DecoderConfig::SelectiveScan& scan = config.scan;
    layer.mixed_gate = rows_of(all, 0, scan.values());
    layer.state.input = rows_of(all, scan.values(), scan.width());
    layer.state.step = rows_of(all, std::uint64_t{scan.values()} + scan.width(), scan.heads);
}

TensorData scan_gains(TensorData gains, const DecoderConfig& config) {
    const std::uint64_t groups = config.scan.norm_groups, values = config.scan.values();
    gains.shape = groups > 1 ? Shape{groups, values / groups} : Shape{values};
    return gains;
}

Result<void> read_scan_layer(const WeightReader& read, const DecoderConfig& c, const std::string& name,
                             const LlamaLayout& layout, DecoderWeights::Layer& l) {
    const DecoderConfig::SelectiveScan& scan = c.scan;
    const std::uint64_t d = c.hidden_size, rows = std::uint64_t{scan.values()} + scan.width() + scan.heads;
    VKFORMER_TRY(const Projection all, read.projection(name + "in_proj", rows, d, layout.projection_bias));
    set_scan_inputs(all, c, l);
    VKFORMER_TRY(l.state.taps, read_taps(read, name + "conv1d.weight", scan.width(), c.taps));
    VKFORMER_TRY(l.state.taps_bias, read.bias(name + "conv1d.bias", scan.width(), layout.convolution_bias));
    VKFORMER_TRY(const TensorData rates, read.tensor(name + "A_log", {scan.heads}));
    VKFORMER_TRY(const TensorData steps, read.tensor(name + "dt_bias", {scan.heads}));
    VKFORMER_TRY(const TensorData skips, read.tensor(name + "D", {scan.heads}));
    VKFORMER_TRY(l.state.rates, rates_of(rates, {&steps, &skips}));
    VKFORMER_TRY(l.state.norm, read.norm(name + "norm", scan.values()));
    l.state.norm.gain = scan_gains(std::move(l.state.norm.gain), c);
    VKFORMER_TRY(l.output, read.projection(name + "out_proj", d, scan.values(), layout.projection_bias));
    return {};
}

}  // namespace vkformer::models
