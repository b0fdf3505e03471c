// SPDX-License-Identifier: MIT
#include "models/ctc.hpp"

#include <cmath>
#include <utility>

#include "core/try.hpp"
#include "models/weight_reader.hpp"

namespace vkformer::models {

using graph::Graph;
using graph::Value;

/// The pieces of the network before its layers, for one graph. A convolution is a product of what its taps see: rows that are gathered as
/// embeddings of their places.
class CtcModel::Builder {
public:
    Builder(const CtcModel& model, Graph& graph, const CtcLayout& layout, CtcTensors& tensors)
        : config_(model.config_),
          weights_(model.weights_),
          graph_(graph),
          layout_(layout),
          tensors_(tensors),
          build_(config_, graph, layout.dtype) {}

    const EncoderLayers& layers() const { return build_; }

    /// [batch, frames, channels] of the samples.
    Result<Value> stem() {
        const CtcConfig::Convolution& first = config_.stem[0];
        std::uint64_t len = first.length_of(layout_.samples);
        const std::uint64_t columns = first.taps + config_.norms_over_time;
        graph_.set_scope("stem.0");
        VKFORMER_TRY(tensors_.windows, graph_.input("windows", layout_.dtype, {layout_.batch, len, columns}));
        Value x;
        if (config_.norms_over_time) {
            VKFORMER_TRY(tensors_.first,
                         graph_.input("first_weight", layout_.dtype, {layout_.batch, first.channels, columns}));
            VKFORMER_TRY(x, graph::linear(graph_, tensors_.windows, tensors_.first));
        } else {
            const CtcConvolution& w = weights_.stem[0];
            VKFORMER_TRY(x, build_.linear("stem.0", {.weight = w.parts[0], .bias = w.bias}, tensors_.windows));
            VKFORMER_TRY(x, norm("stem.0", w.norm, x));
        }
        VKFORMER_TRY(x, graph::activate(graph_, x, config_.stem_activation));
        for (std::size_t i = 1; i < config_.stem.size(); ++i) {
            const CtcConvolution& w = weights_.stem[i - config_.norms_over_time];
            const std::string name = "stem." + std::to_string(i);
            const std::uint64_t from = std::exchange(len, config_.stem[i].length_of(len));
            const Shape rows = {layout_.batch * from, config_.stem[i - 1].channels};
            VKFORMER_TRY(x, graph_.reshape(x, rows));
            VKFORMER_TRY(
                x, convolution(
                       name, w, x,
                       {.from_len = from, .len = len, .stride = config_.stem[i].stride, .taps = config_.stem[i].taps}));
            VKFORMER_TRY(x, norm(name, w.norm, x));
            VKFORMER_TRY(x, graph::activate(graph_, x, config_.stem_activation));
        }
        return graph_.reshape(x, {layout_.batch, len, config_.stem.back().channels});
    }

    /// x, and what a convolution of neighbours makes of it, added: the only thing that tells the layers where they are. The channels of a
    /// group are seen by those of the same group alone.
    Result<Value> positions(Value x) {
        const std::string name = "positions";
        const Shape shape = graph_.shape(x);
        const std::uint64_t len = shape[1], width = shape[2], groups = config_.position_groups, part = width / groups;
        graph_.set_scope(name);
        VKFORMER_TRY(
            const Value nothing,
            graph_.weight(name + ".nothing", float_tensor({1, part}, std::vector<float>(part)), layout_.dtype));
        VKFORMER_TRY(const Value flat, graph_.reshape(x, {1, layout_.batch * len * width}));
        VKFORMER_TRY(const Value all, graph::concat(graph_, flat, nothing));
        VKFORMER_TRY(const Value rows, graph_.reshape(all, {layout_.batch * len * groups + 1, part}));
        VKFORMER_TRY(const Value seen, convolution(name, weights_.positions, rows,
                                                   {.groups = groups,
                                                    .from_len = len,
                                                    .len = len,
                                                    .taps = config_.position_taps,
                                                    .begin = -static_cast<std::int64_t>(config_.position_taps / 2),
                                                    .is_padded = true}));
        // [groups, batch · len, part] to [batch · len, groups · part]
        VKFORMER_TRY(Value y, graph_.reshape(seen, {groups * layout_.batch * len, part}));
        if (groups > 1) {
            VKFORMER_TRY(y, gathered(name + ".joined", y, {.len = len, .taps = groups, .is_joining = true}));
        }
        VKFORMER_TRY(y, graph_.reshape(y, {layout_.batch * len, 1, width}));
        TensorData bias = weights_.positions.bias;
        bias.shape = {1, width};
        VKFORMER_TRY(const Value biases, graph_.weight(name + ".bias", std::move(bias), DType::f32));
        VKFORMER_TRY(y, graph::positional_embedding(graph_, y, biases));
        VKFORMER_TRY(y, graph::activate(graph_, y, config_.stem_activation));
        VKFORMER_TRY(y, graph_.reshape(y, shape));
        return graph::add(graph_, x, y);
    }

private:
    /// Rows of `from`, [groups, batch · len, taps · width].
    Result<Value> gathered(const std::string& name, Value from, CtcPlaces places) {
        const std::uint64_t count = layout_.batch * places.len;
        VKFORMER_TRY(places.rows, graph_.input(name + ".places", DType::i32, {places.groups, count, places.taps}));
        tensors_.places.push_back(places);
        VKFORMER_TRY(const Value rows, graph::embedding(graph_, places.rows, from));
        return graph_.reshape(rows, {places.groups, count, places.taps * graph_.shape(from)[1]});
    }

    Result<Value> convolution(const std::string& name, const CtcConvolution& w, Value from, CtcPlaces places) {
        const std::uint64_t most = taps_at_a_time(graph_.shape(from)[1]), taps = places.taps;
        Value sum;
        for (std::size_t i = 0; i < w.parts.size(); ++i) {
            const std::string part = name + "." + std::to_string(i);
            graph_.set_scope(part);
            places.taps = std::min(most, taps - i * most);
            VKFORMER_TRY(const Value seen, gathered(part, from, places));
            const bool has_bias = i == 0 && places.groups == 1 && !places.is_padded;
            VKFORMER_TRY(const Value y,
                         build_.linear(part, {.weight = w.parts[i], .bias = has_bias ? w.bias : TensorData{}}, seen));
            if (i == 0) {
                sum = y;
            } else {
                VKFORMER_TRY(sum, graph::add(graph_, y, sum));
            }
            places.begin += static_cast<std::int64_t>(most);
        }
        return sum;
    }

    /// Norms of convolutions have an ε of their own, that of PyTorch.
    Result<Value> norm(const std::string& name, const NormWeights& weights, Value x) {
        if (!weights) return x;
        VKFORMER_TRY(const Value gain, graph_.weight(name + ".gain", weights.gain, layout_.dtype));
        VKFORMER_TRY(const Value bias, graph_.weight(name + ".norm_bias", weights.bias, layout_.dtype));
        return graph::layer_norm(graph_, x, gain, bias, 1e-5f);
    }

    const CtcConfig& config_;
    const CtcWeights& weights_;
    Graph& graph_;
    const CtcLayout& layout_;
    CtcTensors& tensors_;
    EncoderLayers build_;
};

Result<CtcTensors> CtcModel::add_encoder(Graph& graph, const CtcLayout& layout) const {
    if (config_.frames_of(layout.samples) == 0)
        return Error{ErrorCode::InvalidArgument,
                     std::to_string(layout.samples) + " samples are too few for the model to hear anything"};
    CtcTensors t;
    Builder builder(*this, graph, layout, t);
    const EncoderLayers& build = builder.layers();
    VKFORMER_TRY(t.lengths, graph.input("lengths", DType::i32, {layout.batch}));
    VKFORMER_TRY(Value x, builder.stem());
    if (weights_.feature_norm) {
        VKFORMER_TRY(x, build.norm("features.norm", weights_.feature_norm, x));
    }
    VKFORMER_TRY(x, build.linear("features", weights_.features, x));
    VKFORMER_TRY(x, builder.positions(x));
    const bool norms_last = config_.norm_place == NormPlace::before;
    if (!norms_last) {
        VKFORMER_TRY(x, build.norm("norm", weights_.norm, x));
    }
    VKFORMER_TRY(x, build.stack("encoder", weights_.layers, x,
                                {.mask = {.key_lengths = t.lengths}, .wanted = layout.layers, .values = &t.layers}));
    if (norms_last) {
        VKFORMER_TRY(x, build.norm("norm", weights_.norm, x));
        if (layout.layers.hidden) {
            t.layers.hidden.pop_back();
            keep_output(graph, x, t.layers.hidden);
        }
    }
    t.hidden = x;
    graph.set_scope("head");
    VKFORMER_TRY(const Value weight, build.matrix("head.weight", weights_.head.weight));
    VKFORMER_TRY(const Value bias, graph.weight("head.bias", weights_.head.bias, layout.dtype));
    VKFORMER_TRY(t.logits, graph::linear(graph, x, weight, bias, DType::f32));
    return t;
}

/// Of each sound the first convolution with its norm in it, and with its bias as a last column. What a channel's mean and variance over
/// time are follows from those of the samples under the taps: w · mean and wᵀ · covariance · w.
std::vector<float> CtcModel::first_weights(const CtcLayout& layout, const CtcSounds& sounds) const {
    const CtcConfig::Convolution& first = config_.stem[0];
    const std::size_t taps = first.taps;
    std::vector<float> weights;
    weights.reserve(layout.batch * first.channels * (taps + 1));
    for (std::size_t b = 0; b < layout.batch; ++b) {
        const float* const sound = sounds.samples.data() + b * layout.samples;
        const std::size_t count =
            std::max<std::size_t>(first.length_of(sounds.norms_padding ? layout.samples : sounds.lengths[b]), 1);
        std::vector<double> mean(taps), covariance(taps * taps), centred(taps);
        for (std::size_t t = 0; t < count; ++t)
            for (std::size_t i = 0; i < taps; ++i) mean[i] += sound[t * first.stride + i];
        for (double& value : mean) value /= static_cast<double>(count);
        for (std::size_t t = 0; t < count; ++t) {
            for (std::size_t i = 0; i < taps; ++i) centred[i] = sound[t * first.stride + i] - mean[i];
            for (std::size_t i = 0; i < taps; ++i)
                for (std::size_t j = 0; j < taps; ++j) covariance[i * taps + j] += centred[i] * centred[j];
        }
        for (double& value : covariance) value /= static_cast<double>(count);
        for (std::size_t c = 0; c < first.channels; ++c) {
            const float* const kernel = weights_.first.kernel.data() + c * taps;
            double shift = 0, variance = 1e-5;
            for (std::size_t i = 0; i < taps; ++i) {
                shift += kernel[i] * mean[i];
                for (std::size_t j = 0; j < taps; ++j) variance += covariance[i * taps + j] * kernel[i] * kernel[j];
            }
            const double scale = weights_.first.gain[c] / std::sqrt(variance);
            for (std::size_t i = 0; i < taps; ++i) weights.push_back(static_cast<float>(scale * kernel[i]));
            weights.push_back(static_cast<float>(weights_.first.bias[c] - scale * shift));
        }
    }
    return weights;
}

CtcInputs CtcModel::inputs(const CtcTensors& tensors, const CtcLayout& layout, const CtcSounds& sounds) const {
    CtcInputs inputs;
    const CtcConfig::Convolution& first = config_.stem[0];
    std::vector<std::int32_t> lengths;
    for (std::size_t b = 0; b < layout.batch; ++b)
        lengths.push_back(static_cast<std::int32_t>(config_.frames_of(sounds.lengths[b])));
    std::vector<float> windows;
    for (std::size_t b = 0; b < layout.batch; ++b)
        for (std::size_t t = 0; t < first.length_of(layout.samples); ++t) {
            const float* const seen = sounds.samples.data() + b * layout.samples + t * first.stride;
            windows.insert(windows.end(), seen, seen + first.taps);
            if (config_.norms_over_time) windows.push_back(1);
        }
    inputs.numbers.emplace_back(tensors.windows, std::move(windows));
    if (tensors.first) inputs.numbers.emplace_back(tensors.first, first_weights(layout, sounds));

    for (const CtcPlaces& places : tensors.places) {
        const std::uint64_t count = layout.batch * places.len;
        std::vector<std::int32_t> rows;
        rows.reserve(places.groups * count * places.taps);
        for (std::uint64_t g = 0; g < places.groups; ++g)
            for (std::uint64_t position = 0; position < count; ++position) {
                const std::uint64_t b = position / places.len;
                const auto limit = places.is_padded ? lengths[b] : static_cast<std::int64_t>(places.from_len);
                auto at = static_cast<std::int64_t>(position % places.len * places.stride) + places.begin;
                for (std::uint64_t tap = 0; tap < places.taps; ++tap, ++at) {
                    std::uint64_t row = layout.batch * places.from_len * places.groups;
                    if (places.is_joining) {
                        row = tap * count + position;
                    } else if (at >= 0 && at < limit) {
                        row = (b * places.from_len + static_cast<std::uint64_t>(at)) * places.groups + g;
                    }
                    rows.push_back(static_cast<std::int32_t>(row));
                }
            }
        inputs.integers.emplace_back(places.rows, std::move(rows));
    }
    inputs.integers.emplace_back(tensors.lengths, std::move(lengths));
    return inputs;
}

Result<void> CtcInputs::write_to(graph::Program& program) const {
    for (const auto& [value, values] : numbers) VKFORMER_CHECK(program.write(value, std::span<const float>(values)));
    for (const auto& [value, values] : integers)
        VKFORMER_CHECK(program.write(value, std::span<const std::int32_t>(values)));
    return {};
}

}  // namespace vkformer::models
