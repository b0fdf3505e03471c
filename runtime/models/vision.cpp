// SPDX-License-Identifier: MIT
#include "models/vision.hpp"

#include <algorithm>
#include <cmath>

#include "core/try.hpp"
#include "models/weight_reader.hpp"

namespace vkformer::models {

using graph::Graph;
using graph::Value;

namespace {

constexpr const char* kName = "vision";
constexpr std::uint64_t kMostTokens = 1u << 16;  // attention of any image takes tokens²

/// x[:, index, :] in float32: the last token of sequences that end there.
Result<Value> token(Graph& graph, Value x, std::uint32_t index) {
    if (index == 0) return graph::pool(graph, x, {}, graph::Pooling::first);
    const std::uint64_t batch = graph.shape(x)[0];
    const auto lengths = std::make_shared<std::vector<std::int32_t>>(batch, static_cast<std::int32_t>(index + 1));
    const std::string name = std::string(kName) + ".lengths." + std::to_string(index + 1) + "x" + std::to_string(batch);
    VKFORMER_TRY(
        const Value length,
        graph.weight(
            name,
            {.dtype = DType::i32, .shape = {batch}, .bytes = std::as_bytes(std::span(*lengths)), .owner = lengths},
            DType::i32));
    return graph::pool(graph, x, length, graph::Pooling::last);
}

}  // namespace

std::string VisionConfig::required_size() const {
    const auto size = [](std::uint32_t height, std::uint32_t width) {
        return std::to_string(height) + " × " + std::to_string(width);
    };
    const std::string image = size(image_height, image_width);
    if (patch_height > image_height || patch_width > image_width)
        return "an image of at least one patch, " + size(patch_height, patch_width) + " pixels, not of " + image;
    const std::uint64_t patches = std::uint64_t{patch_rows()} * patch_columns();
    if (patches + special_tokens <= kMostTokens) return {};
    return "at most " + std::to_string(kMostTokens) + " patches, not the " + std::to_string(patches) +
           " of an image of " + image + " pixels";
}

Result<VisionEncoder> VisionEncoder::at_size(std::uint32_t height, std::uint32_t width) const {
    VisionEncoder resized = *this;
    if (height == config_.image_height && width == config_.image_width) return resized;
    if (!is_resizable())
        return Error{ErrorCode::ShapeMismatch, "the model takes images of " + std::to_string(config_.image_height) +
                                                   " × " + std::to_string(config_.image_width) + " pixels, not " +
                                                   std::to_string(height) + " × " + std::to_string(width)};
    resized.config_.image_height = height;
    resized.config_.image_width = width;
    if (const std::string required = resized.config_.required_size(); !required.empty())
        return Error{ErrorCode::InvalidArgument, "the model takes " + required};
    VKFORMER_TRY(resized.weights_.places, weights_.places_of(resized.config_));
    return resized;
}

// The patches' product has no bias, and gives zeros for the special tokens, whose patches are zeros: the table of positions has both.
Result<VisionTensors> VisionEncoder::add_encoder(Graph& graph, const VisionLayout& layout) const {
    const EncoderLayers build(config_, graph, layout.dtype);
    VisionTensors t;
    VKFORMER_TRY(t.pixels, graph.input("pixel_values", DType::f32,
                                       {layout.batch, config_.channels, config_.image_height, config_.image_width}));
    graph.set_scope("vision.embeddings");
    VKFORMER_TRY(const Value patches, graph::patchify(graph, t.pixels,
                                                      {.patch_height = config_.patch_height,
                                                       .patch_width = config_.patch_width,
                                                       .prefix = config_.special_tokens,
                                                       .result = layout.dtype}));
    VKFORMER_TRY(Value x, build.linear("vision.embeddings.patches", {.weight = weights_.patches, .bias = {}}, patches));
    VKFORMER_TRY(const Value positions,
                 graph.weight("vision.embeddings.positions", weights_.places.positions, DType::f32));
    VKFORMER_TRY(x, graph::positional_embedding(graph, x, positions));
    if (config_.norms_embeddings) {
        VKFORMER_TRY(x, build.norm("vision.embeddings.norm", weights_.embedding_norm, x));
    }
    EncoderPass pass = {.wanted = layout.layers, .values = &t.layers};
    if (!weights_.places.turns.bytes.empty()) {
        VKFORMER_TRY(pass.turns, graph.weight("vision.embeddings.turns", weights_.places.turns, DType::f32));
    }
    VKFORMER_TRY(x, build.stack(kName, weights_.layers, x, pass));
    if (config_.norms_hidden) {
        VKFORMER_TRY(x, build.norm("vision.norm", weights_.final_norm, x));
    }
    t.hidden = x;
    return t;
}

// In float32, as graph::pool gives it: a few rows, whose cost nobody sees.
Result<Value> VisionEncoder::add_embedding(Graph& graph, Value hidden) const {
    const EncoderLayers build(config_, graph, DType::f32);
    graph.set_scope("vision.head");
    if (weights_.pooling) return add_pooling(graph, hidden);
    VKFORMER_TRY(Value x, token(graph, hidden, 0));
    if (!config_.norms_hidden) {
        VKFORMER_TRY(x, build.norm("vision.head.norm", weights_.final_norm, x));
    }
    if (!weights_.projection) return x;
    return build.linear("vision.head.projection", weights_.projection, x);
}

// Keys and values of all patches in the activations' dtype, the one row behind them in float32.
Result<Value> VisionEncoder::add_pooling(Graph& graph, Value hidden) const {
    const EncoderLayerWeights& w = weights_.pooling.layer;
    const DType dtype = graph.dtype(hidden);
    const std::uint64_t batch = graph.shape(hidden)[0], width = config_.hidden_size, heads = config_.heads;
    const EncoderLayers patches(config_, graph, dtype), build(config_, graph, DType::f32);
    VKFORMER_TRY(const Value key, patches.heads("vision.head.key", w.key, hidden));
    VKFORMER_TRY(const Value value, patches.heads("vision.head.value", w.value, hidden));
    graph.set_scope("vision.head");
    VKFORMER_TRY(const std::vector<float> query, floats_of(weights_.pooling.query));
    std::vector<float> queries;
    for (std::uint64_t i = 0; i < batch; ++i) queries.insert(queries.end(), query.begin(), query.end());
    VKFORMER_TRY(const Value asked,
                 graph.weight("vision.head.query." + std::to_string(batch),
                              float_tensor({batch, 1, heads, width / heads}, std::move(queries)), dtype));
    const float scale = 1.0f / std::sqrt(static_cast<float>(width / heads));
    VKFORMER_TRY(const Value seen, graph::attention(graph, asked, key, value, {}, scale));
    VKFORMER_TRY(const Value joined, graph.reshape(seen, {batch, 1, width}));
    VKFORMER_TRY(const Value rows, graph::pool(graph, joined, {}, graph::Pooling::first));
    VKFORMER_TRY(const Value x, build.linear("vision.head.output", w.output, rows));
    VKFORMER_TRY(const Value normed, build.norm("vision.head.norm", w.feed_forward_norm, x));
    VKFORMER_TRY(const Value outer, build.feed_forward("vision.head", w, normed));
    return graph::add(graph, x, outer);
}

Result<Value> VisionEncoder::add_class_and_mean(Graph& graph, Value hidden) const {
    graph.set_scope("vision.head");
    const std::uint64_t batch = graph.shape(hidden)[0], tokens = graph.shape(hidden)[1], width = config_.hidden_size;
    std::vector<float> shares(batch * tokens, 1.0f / static_cast<float>(tokens - config_.special_tokens));
    for (std::uint64_t i = 0; i < batch; ++i) std::fill_n(&shares[i * tokens], config_.special_tokens, 0.0f);
    VKFORMER_TRY(const Value weights,
                 graph.weight("vision.head.shares." + std::to_string(batch) + "x" + std::to_string(tokens),
                              float_tensor({batch, 1, 1, tokens}, std::move(shares)), DType::f32));
    VKFORMER_TRY(const Value values, graph.reshape(hidden, {batch, tokens, 1, width}));
    VKFORMER_TRY(const Value sum, graph::weighted_sum(graph, weights, values));
    VKFORMER_TRY(const Value row, graph.reshape(sum, {batch, 1, width}));
    VKFORMER_TRY(const Value mean, graph::pool(graph, row, {}, graph::Pooling::first));
    VKFORMER_TRY(const Value first, token(graph, hidden, 0));
    return graph::concat(graph, first, mean);
}

Result<Value> VisionEncoder::add_classifier(Graph& graph, Value hidden) const {
    if (config_.labels == 0)
        return Error{ErrorCode::UnsupportedConfig,
                     "the model has no classification head: it gives embeddings, not labels"};
    const EncoderLayers build(config_, graph, DType::f32);
    if (config_.classifies_patches) {
        VKFORMER_TRY(const Value x, add_class_and_mean(graph, hidden));
        return build.linear("vision.head.0", weights_.heads.front(), x);
    }
    Value sum;
    for (std::size_t i = 0; i < weights_.heads.size(); ++i) {
        const std::string name = "vision.head." + std::to_string(i);
        graph.set_scope(name);
        VKFORMER_TRY(const Value x, token(graph, hidden, static_cast<std::uint32_t>(i)));
        VKFORMER_TRY(const Value logits, build.linear(name, weights_.heads[i], x));
        if (!sum) {
            sum = logits;
            continue;
        }
        VKFORMER_TRY(sum, graph::add(graph, sum, logits));
    }
    return sum;
}

}  // namespace vkformer::models
