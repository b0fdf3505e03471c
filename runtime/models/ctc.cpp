// SPDX-License-Identifier: MIT
#include "models/ctc.hpp"

#include <cmath>
#include <utility>

#include "core/first_error.hpp"
#include "core/try.hpp"
#include "models/weight_reader.hpp"

namespace vkformer::models {

using graph::Graph;
using graph::Value;

namespace {

constexpr float kStemEps = 1e-5f;

/// Of what loading has converted, or of nothing.
std::vector<float> floats_or_none(const TensorData& data) {
    if (data.bytes.empty()) return {};
    auto values = floats_of(data);
    return values ? *std::move(values) : std::vector<float>();
}

/// The pieces of the network before its layers, for one graph. A convolution is a product of what its taps see: rows that are gathered as
/// embeddings of their places.
class CtcBuilder {
public:
    CtcBuilder(const CtcModel& model, Graph& graph, const CtcLayout& layout, CtcTensors& tensors)
        : config_(model.config),
          weights_(model.weights),
          graph_(graph),
          layout_(layout),
          tensors_(tensors),
          build(config_, graph, layout.dtype),
          stem_build_(stem_norms_, graph, layout.dtype) {}

    FirstError first_error;
    /// What was made, or nothing, of which nothing more is made.
    [[gnu::noinline]] Value made(Result<Value>&& value) {
        Value x;
        first_error.set(x, std::move(value));
        return x;
    }
    Value input(const std::string& name, DType dtype, const Shape& shape) {
        return made(graph_.input(name, dtype, shape));
    }

    /// Rows of channels of the samples, [batch · frames, channels].
    Value stem() {
        std::uint64_t len = layout_.samples;
        Value x;
        for (std::size_t i = 0; i < config_.stem.size(); ++i) {
            const auto& [channels, taps, stride] = config_.stem[i];
            const CtcConvolution& w = weights_.stem[i];
            const std::string name = "stem." + std::to_string(i);
            const std::uint64_t from = std::exchange(len, config_.stem[i].length_of(len));
            if (i == 0) {
                graph_.set_scope(name);
                tensors_.windows = input("windows", layout_.dtype, {layout_.batch, len, taps + 1});
                tensors_.first = input("first_weight", layout_.dtype, {layout_.batch, channels, taps + 1});
                x = made(graph::linear(graph_, tensors_.windows, tensors_.first));
            } else {
                x = convolution(name, w, x,
                                {.width = config_.stem[i - 1].channels,
                                 .from_len = from,
                                 .len = len,
                                 .stride = stride,
                                 .taps = taps});
            }
            if (w.norm && (i > 0 || !config_.norms_over_time)) x = made(stem_build_.norm(name, w.norm, x));
            x = view(made(graph::activate(graph_, x, config_.stem_activation)), {layout_.batch * len, channels});
        }
        return x;
    }

    /// x [batch, len, hidden_size], and what a convolution of neighbours makes of it, added: the only thing that tells the layers where they
    /// are. The channels of a group are seen by those of the same group alone.
    Value positions(Value x, std::uint64_t len) {
        const std::string name = "positions";
        const std::uint64_t width = config_.hidden_size, groups = config_.position_groups, part = width / groups,
                            count = layout_.batch * len;
        graph_.set_scope(name);
        const Value nothing =
            made(graph_.weight("positions.nothing", float_tensor({1, part}, std::vector<float>(part)), layout_.dtype));
        const Value all = made(graph::concat(graph_, view(x, {1, count * width}), nothing));
        Value y = convolution(name, weights_.positions, view(all, {count * groups + 1, part}),
                              {.groups = groups,
                               .width = part,
                               .from_len = len,
                               .len = len,
                               .taps = config_.position_taps,
                               .begin = -static_cast<std::int64_t>(config_.position_taps / 2),
                               .is_padded = true});
        // [groups, batch · len, part] to [batch · len, groups · part]
        y = gathered("positions.joined", view(y, {groups * count, part}),
                     {.width = part, .len = len, .taps = groups, .is_joining = true});
        const Value bias = made(graph_.weight("positions.bias", weights_.position_bias, DType::f32));
        y = made(graph::positional_embedding(graph_, view(y, {count, 1, width}), bias));
        y = made(graph::activate(graph_, y, config_.stem_activation));
        return made(graph::add(graph_, x, view(y, {layout_.batch, len, width})));
    }

    Value view(Value x, const Shape& shape) { return x ? made(graph_.reshape(x, shape)) : x; }

private:
    /// Rows of `from`, [groups, batch · len, taps · width].
    Value gathered(const std::string& name, Value from, CtcPlaces places) {
        const std::uint64_t count = layout_.batch * places.len;
        places.rows = input(name + ".places", DType::i32, {places.groups, count, places.taps});
        tensors_.places.push_back(places);
        return view(made(graph::embedding(graph_, places.rows, from)),
                    {places.groups, count, places.taps * places.width});
    }

    Value convolution(const std::string& name, const CtcConvolution& w, Value from, CtcPlaces places) {
        const std::uint64_t most = taps_at_a_time(places.width), taps = places.taps;
        Value sum;
        for (std::size_t i = 0; i < w.parts.size(); ++i) {
            const std::string part = name + "." + std::to_string(i);
            graph_.set_scope(part);
            places.taps = std::min(most, taps - i * most);
            const Value y = made(build.linear(part, w.parts[i], gathered(part, from, places)));
            sum = i == 0 ? y : made(graph::add(graph_, y, sum));
            places.begin += static_cast<std::int64_t>(most);
        }
        return sum;
    }

    const CtcConfig& config_;
    const CtcWeights& weights_;
    Graph& graph_;
    const CtcLayout& layout_;
    CtcTensors& tensors_;
    const EncoderLayerConfig stem_norms_ = {.norm_eps = kStemEps};

public:
    const EncoderLayers build;

private:
    const EncoderLayers stem_build_;
};

}  // namespace

Result<CtcTensors> CtcModel::add_encoder(Graph& graph, const CtcLayout& layout) const {
    const std::uint64_t len = config.frames_of(layout.samples);
    if (len == 0)
        return Error{ErrorCode::InvalidArgument,
                     std::to_string(layout.samples) + " samples are too few for the model to hear anything"};
    CtcTensors t;
    CtcBuilder b(*this, graph, layout, t);
    t.lengths = b.input("lengths", DType::i32, {layout.batch});
    Value x = b.view(b.stem(), {layout.batch, len, config.stem.back().channels});
    if (weights.feature_norm) x = b.made(b.build.norm("features.norm", weights.feature_norm, x));
    x = b.positions(b.made(b.build.linear("features", weights.features, x)), len);
    const bool norms_last = config.norm_place == NormPlace::before;
    if (!norms_last) x = b.made(b.build.norm("norm", weights.norm, x));
    if (b.first_error.is_good())
        x = b.made(b.build.stack("encoder", weights.layers, x,
                                 {.mask = {.key_lengths = t.lengths}, .wanted = layout.layers, .values = &t.layers}));
    if (norms_last) x = b.made(b.build.norm("norm", weights.norm, x));
    t.hidden = x;
    graph.set_scope("head");
    const Value weight = b.made(b.build.matrix("head.weight", weights.head.weight));
    const Value bias = b.made(graph.weight("head.bias", weights.head.bias, layout.dtype));
    t.logits = b.made(graph::linear(graph, x, weight, bias, DType::f32));
    VKFORMER_CHECK(b.first_error.status());
    if (norms_last && layout.layers.hidden) {
        t.layers.hidden.pop_back();
        keep_output(graph, x, t.layers.hidden);
    }
    return t;
}

std::vector<std::int32_t> CtcModel::lengths_of(const CtcSounds& sounds) const {
    std::vector<std::int32_t> lengths;
    for (const std::uint32_t length : sounds.lengths)
        lengths.push_back(static_cast<std::int32_t>(config.frames_of(length)));
    return lengths;
}

std::vector<float> CtcModel::windows(const CtcLayout& layout, const CtcSounds& sounds) const {
    const CtcConfig::Convolution& first = config.stem[0];
    const std::uint64_t columns = first.taps + 1, len = first.length_of(layout.samples);
    std::vector<float> values(layout.batch * len * columns, 1);
    for (std::uint64_t row = 0; row < layout.batch * len; ++row)
        std::copy_n(sounds.samples.data() + row / len * layout.samples + row % len * first.stride, first.taps,
                    values.data() + row * columns);
    return values;
}

/// Of each sound the first convolution, its bias in a last column; where it is normed over time, with that norm in it: what a channel's
/// mean and variance are follows from those of the samples under the taps, w · mean and wᵀ · covariance · w.
std::vector<float> CtcModel::first_weights(const CtcLayout& layout, const CtcSounds& sounds) const {
    const CtcConfig::Convolution& first = config.stem[0];
    const CtcConvolution& w = weights.stem[0];
    const std::size_t taps = first.taps;
    const std::vector<float> kernels = floats_or_none(w.parts[0].weight), gains = floats_or_none(w.norm.gain),
                             biases = floats_or_none(config.norms_over_time ? w.norm.bias : w.parts[0].bias);
    std::vector<float> values;
    for (std::size_t b = 0; b < layout.batch; ++b) {
        const float* const sound = sounds.samples.data() + b * layout.samples;
        std::vector<double> mean(taps), centred(taps), covariance(taps * taps);
        const std::size_t count =
            config.norms_over_time
                ? std::max<std::size_t>(first.length_of(sounds.norms_padding ? layout.samples : sounds.lengths[b]), 1)
                : 0;
        const double share = 1.0 / static_cast<double>(count);
        for (std::size_t t = 0; t < count; ++t)
            for (std::size_t i = 0; i < taps; ++i) mean[i] += share * sound[t * first.stride + i];
        for (std::size_t t = 0; t < count; ++t) {
            for (std::size_t i = 0; i < taps; ++i) centred[i] = sound[t * first.stride + i] - mean[i];
            double* sum = covariance.data();
            for (const double x : centred)
                for (const double y : centred) *sum++ += share * x * y;
        }
        for (std::size_t c = 0; c < first.channels; ++c) {
            const float* const kernel = kernels.data() + c * taps;
            double shift = 0, variance = kStemEps;
            for (std::size_t i = 0; i < taps; ++i) shift += kernel[i] * mean[i];
            for (std::size_t i = 0; i < taps * taps; ++i)
                variance += covariance[i] * kernel[i / taps] * kernel[i % taps];
            const double scale = config.norms_over_time ? gains[c] / std::sqrt(variance) : 1;
            for (std::size_t i = 0; i < taps; ++i) values.push_back(static_cast<float>(scale * kernel[i]));
            values.push_back(static_cast<float>((biases.empty() ? 0 : biases[c]) - scale * shift));
        }
    }
    return values;
}

std::vector<std::int32_t> CtcModel::rows_of(const CtcPlaces& places, std::span<const std::int32_t> lengths) {
    const std::uint64_t batch = lengths.size(), count = batch * places.len;
    std::vector<std::int32_t> rows(places.groups * count * places.taps);
    std::int32_t* next = rows.data();
    for (std::uint64_t group = 0; group < places.groups; ++group)
        for (std::uint64_t position = 0; position < count; ++position) {
            const std::uint64_t b = position / places.len;
            const auto limit = places.is_padded ? lengths[b] : static_cast<std::int64_t>(places.from_len);
            auto at = static_cast<std::int64_t>(position % places.len * places.stride) + places.begin;
            for (std::uint64_t tap = 0; tap < places.taps; ++tap, ++at) {
                std::uint64_t row = batch * places.from_len * places.groups;
                if (places.is_joining)
                    row = tap * count + position;
                else if (at >= 0 && at < limit)
                    row = (b * places.from_len + static_cast<std::uint64_t>(at)) * places.groups + group;
                *next++ = static_cast<std::int32_t>(row);
            }
        }
    return rows;
}

Result<void> CtcModel::write(graph::Program& program, const CtcTensors& tensors, const CtcLayout& layout,
                             const CtcSounds& sounds) const {
    FirstError first;
    for_each_input(tensors, layout, sounds,
                   [&](Value value, const auto& values) { first.check(program.write(value, values)); });
    return first.status();
}

}  // namespace vkformer::models
