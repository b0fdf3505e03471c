// SPDX-License-Identifier: MIT
// Layers of a decoder that keep a state of a sequence: convolutions, delta rules and selective scans.
#include <initializer_list>
#include <string>
#include <vector>

#include "core/try.hpp"
#include "models/decoder_builder.hpp"

namespace vkformer::models {
namespace {

using graph::Value;

}  // namespace

Result<Value> Decoder::Builder::state(std::string_view what, std::size_t index,
                                      std::initializer_list<std::uint64_t> inner) {
    std::vector<std::uint64_t> dims = {layout_.state_slots ? layout_.slots : layout_.rows};
    dims.insert(dims.end(), inner);
    return graph_.state(std::string(what) + "_state." + std::to_string(index), DType::f32, Shape(dims));
}

graph::StatePlace Decoder::Builder::state_place(Value starts) const {
    return {.starts = starts, .counts = layout_.counts, .slots = layout_.state_slots};
}

Result<Value> Decoder::Builder::convolution(std::size_t index, Value x, Value starts, graph::Activation activation,
                                            bool is_gated) {
    const StateWeights& w = weights_.layers[index].state;
    const std::string scope = name_ + ".convolution";
    graph_.set_scope(scope);
    VKFORMER_TRY(const Value taps, graph_.weight(scope + ".weight", w.taps, graph_.dtype(x)));
    Value bias;
    if (!w.taps_bias.bytes.empty()) {
        VKFORMER_TRY(bias, graph_.weight(scope + ".bias", w.taps_bias, graph_.dtype(x)));
    }
    VKFORMER_TRY(const Value kept, state("convolution", index, {config_.taps - 1u, w.taps.shape[0]}));
    return graph::short_convolution(graph_, x, taps, bias, kept, state_place(starts), activation, is_gated);
}

Result<Value> Decoder::Builder::delta_rule(std::size_t index, Value x, Value starts) {
    const StateWeights& w = weights_.layers[index].state;
    const DecoderConfig::DeltaRule& c = config_.delta_rule;
    VKFORMER_TRY(const Value input, project("qkv", w.input, x, DType::f32));
    VKFORMER_TRY(const Value qkv, convolution(index, input, starts, graph::Activation::silu, false));
    VKFORMER_TRY(const Value gates, delta_gates(w, x));
    const std::string scope = name_ + ".delta_rule";
    graph_.set_scope(scope);
    VKFORMER_TRY(const Value decay, graph_.weight(scope + ".decay", w.rates, DType::f32));
    VKFORMER_TRY(const Value kept, state("delta", index, {c.heads, c.key_dim, c.value_dim}));
    VKFORMER_TRY(const Value seen,
                 graph::gated_delta_rule(graph_, qkv, gates, decay, kept, state_place(starts),
                                         {.key_heads = c.key_heads, .in_turns = c.in_turns, .result = layout_.dtype}));
    graph_.set_scope(name_ + ".delta_norm");
    VKFORMER_TRY(const Value gains, gain("delta_norm", w.norm));
    VKFORMER_TRY(const Value normed, graph::rms_norm(graph_, seen, gains, config_.norm_eps));
    return graph_.reshape(normed, {layout_.rows, layout_.len, c.values()});
}

Result<Value> Decoder::Builder::delta_gates(const StateWeights& w, Value x) {
    if (can_join({&w.beta, &w.step})) return project_joined("delta_gates", {&w.beta, &w.step}, x, DType::f32);
    VKFORMER_TRY(const Value beta, project("delta_beta", w.beta, x, DType::f32));
    VKFORMER_TRY(const Value step, project("delta_step", w.step, x, DType::f32));
    return graph::concat(graph_, beta, step);
}

Result<Value> Decoder::Builder::selective_scan(std::size_t index, Value x, Value starts) {
    const StateWeights& w = weights_.layers[index].state;
    const DecoderConfig::SelectiveScan& c = config_.scan;
    VKFORMER_TRY(const Value input, project("xbc", w.input, x, DType::f32));
    VKFORMER_TRY(const Value xbc, convolution(index, input, starts, graph::Activation::silu, false));
    VKFORMER_TRY(const Value steps, project("scan_step", w.step, x, DType::f32));
    const std::string scope = name_ + ".scan";
    graph_.set_scope(scope);
    VKFORMER_TRY(const Value rates, graph_.weight(scope + ".rates", w.rates, DType::f32));
    VKFORMER_TRY(const Value kept, state("scan", index, {c.heads, c.state_dim, c.head_dim}));
    VKFORMER_TRY(
        const Value seen,
        graph::selective_scan(
            graph_, xbc, steps, rates, kept, state_place(starts),
            {.groups = c.groups, .least_step = c.least_step, .most_step = c.most_step, .result = layout_.dtype}));
    return graph_.reshape(seen, {layout_.rows, layout_.len, c.values()});
}

Result<Value> Decoder::Builder::scan_norm(const NormWeights& w, Value y) {
    const DecoderConfig::SelectiveScan& c = config_.scan;
    graph_.set_scope(name_ + ".scan_norm");
    VKFORMER_TRY(const Value gains, gain("scan_norm", w));
    if (c.norm_groups > 1) {
        VKFORMER_TRY(y, graph_.reshape(y, {layout_.rows, layout_.len, c.norm_groups, c.values() / c.norm_groups}));
    }
    VKFORMER_TRY(const Value normed, graph::rms_norm(graph_, y, gains, c.norm_eps));
    return graph_.reshape(normed, {layout_.rows, layout_.len, c.values()});
}

}  // namespace vkformer::models
