// SPDX-License-Identifier: MIT
// A decoder with several hidden states of a token, of which layers compute one: AltUp, and LAuReL beside attention.
#include <numbers>
#include <string>
#include <vector>

#include "core/try.hpp"
#include "graph/builders/constant.hpp"
#include "models/decoder_builder.hpp"

namespace vkformer::models {
namespace {

using graph::Value;

/// What the magnitudes' squares of streams are taken as at least.
constexpr float kLeastMagnitude = 1e-5f;

}  // namespace

Result<void> Decoder::Builder::open_streams(Value x) {
    streams_ = x;
    for (std::size_t i = 1; i < config_.streams; ++i) {
        name_ = config_.scope + "streams." + std::to_string(i);
        VKFORMER_TRY(const Value projected, project("input", weights_.stream_inputs[i - 1], x));
        VKFORMER_TRY(const Value matched, graph::match_magnitude(graph_, projected, x, kLeastMagnitude));
        VKFORMER_TRY(streams_, graph::concat(graph_, streams_, matched));
    }
    return {};
}

Result<Value> Decoder::Builder::close_streams(Value x) {
    Value sum = x;
    for (std::size_t i = 1; i < config_.streams; ++i) {
        name_ = config_.scope + "streams." + std::to_string(i);
        VKFORMER_TRY(const Value own, stream(streams_, i));
        VKFORMER_TRY(const Value all, graph::add(graph_, own, added_));
        VKFORMER_TRY(const Value projected, project("output", weights_.stream_outputs[i - 1], all));
        VKFORMER_TRY(const Value matched, graph::match_magnitude(graph_, projected, x, kLeastMagnitude));
        const float scale = i + 1 < config_.streams ? 1 : 1 / static_cast<float>(config_.streams);
        VKFORMER_TRY(sum, graph::add(graph_, sum, matched, scale));
    }
    return sum;
}

Result<Value> Decoder::Builder::layer_of_streams(std::size_t index, Value x, Value starts) {
    const DecoderWeights::Layer& w = weights_.layers[index];
    const StreamWeights& s = w.streams;
    Value before = streams_;
    if (added_) {
        VKFORMER_TRY(before, graph::concat(graph_, streams_, added_));
    }
    VKFORMER_TRY(const Value predicted, mix_streams("predict", s.predict, s.predict_bias, s, x, before));
    VKFORMER_TRY(const Value active, stream(predicted, 0));

    VKFORMER_TRY(const Value normed, norm("attention_norm", w.attention_norm, active));
    VKFORMER_TRY(const Value left, project("laurel_left", s.left, normed));
    VKFORMER_TRY(const Value right, project("laurel_right", s.right, left));
    VKFORMER_TRY(const Value laurel, norm("laurel_norm", s.laurel_norm, right));
    VKFORMER_TRY(Value y, mixed(index, normed, starts));
    VKFORMER_TRY(y, norm("attention_post_norm", w.attention_post_norm, y));
    graph_.set_scope(name_ + ".attention");
    VKFORMER_TRY(const Value attended, graph::add(graph_, active, y));
    VKFORMER_TRY(const Value beside, graph::add(graph_, normed, laurel));
    VKFORMER_TRY(const Value middle, graph::add(graph_, attended, beside, static_cast<float>(std::numbers::sqrt2 / 2)));

    VKFORMER_TRY(const Value inner, norm("feed_forward_norm", w.feed_forward_norm, middle));
    VKFORMER_TRY(y, feed_forward(w, inner, middle));
    VKFORMER_TRY(y, norm("feed_forward_post_norm", w.feed_forward_post_norm, y));
    graph_.set_scope(name_ + ".feed_forward");
    VKFORMER_TRY(const Value computed, graph::add(graph_, middle, y));

    VKFORMER_TRY(const Value both, graph::concat(graph_, predicted, computed));
    VKFORMER_TRY(streams_, mix_streams("correct", s.correct, s.correct_bias, s, computed, both));
    VKFORMER_TRY(x, stream(streams_, 0));
    Value seen = x;
    if (!s.scale.bytes.empty()) {
        VKFORMER_TRY(const Value table, graph_.weight(name_ + ".streams.scale", s.scale, layout_.dtype));
        const std::vector<std::int32_t> rows(std::size_t{layout_.rows} * layout_.len);
        VKFORMER_TRY(const Value places, graph::constant(graph_, "rows", {layout_.rows, layout_.len}, rows));
        VKFORMER_TRY(const Value scales, graph::embedding(graph_, places, table));
        VKFORMER_TRY(seen, graph::gated_activation(graph_, x, scales, graph::Activation::none));
    }
    VKFORMER_TRY(added_, layer_embedding(index, seen));
    return x;
}

Result<Value> Decoder::Builder::stream(Value streams, std::size_t index) {
    std::vector<std::int32_t> rows(std::size_t{layout_.rows} * layout_.len);
    for (std::size_t token = 0; token < rows.size(); ++token)
        rows[token] = static_cast<std::int32_t>(token * config_.streams + index);
    VKFORMER_TRY(const Value table,
                 graph_.reshape(streams, {rows.size() * config_.streams, std::uint64_t{config_.hidden_size}}));
    VKFORMER_TRY(const Value places, graph::constant(graph_, "rows", {layout_.rows, layout_.len}, std::move(rows)));
    return graph::embedding(graph_, places, table);
}

Result<Value> Decoder::Builder::mix_streams(std::string_view what, const TensorData& weights, const TensorData& bias,
                                            const StreamWeights& w, Value x, Value vectors) {
    VKFORMER_TRY(const Value normed, norm("streams.norm", w.norm, x));
    const std::string scope = name_ + ".streams." + std::string(what);
    graph_.set_scope(scope);
    VKFORMER_TRY(const Value router, graph_.weight(name_ + ".streams.router", w.router, layout_.dtype));
    VKFORMER_TRY(Value y, graph::linear(graph_, normed, router, {}, DType::f32));
    VKFORMER_TRY(y, graph::activate(graph_, y, graph::Activation::tanh));
    VKFORMER_TRY(const Value matrix, graph_.weight(scope + ".weight", weights, DType::f32));
    VKFORMER_TRY(const Value biases, graph_.weight(scope + ".bias", bias, DType::f32));
    VKFORMER_TRY(y, graph::linear(graph_, y, matrix, biases));
    // The streams are heads that see the same values: a query each, as nodes for one query are made for.
    const std::uint64_t tokens = std::uint64_t{layout_.rows} * layout_.len, d = config_.hidden_size,
                        count = graph_.shape(vectors).back() / d;
    VKFORMER_TRY(y, graph_.reshape(y, {tokens, config_.streams, 1, count}));
    VKFORMER_TRY(const Value values, graph_.reshape(vectors, {tokens, count, 1, d}));
    VKFORMER_TRY(y, graph::weighted_sum(graph_, y, values));
    return graph_.reshape(y, {layout_.rows, layout_.len, config_.streams * d});
}

}  // namespace vkformer::models
