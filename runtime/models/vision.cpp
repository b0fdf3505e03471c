// SPDX-License-Identifier: MIT
#include "models/vision.hpp"

#include "core/try.hpp"

namespace vkformer::models {

using graph::Graph;
using graph::Value;

namespace {

constexpr const char* kName = "vision";

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
    VKFORMER_TRY(const Value positions, graph.weight("vision.embeddings.positions", weights_.positions, DType::f32));
    VKFORMER_TRY(x, graph::positional_embedding(graph, x, positions));
    if (config_.norms_embeddings) {
        VKFORMER_TRY(x, build.norm("vision.embeddings.norm", weights_.embedding_norm, x));
    }
    VKFORMER_TRY(x, build.stack(kName, weights_.layers, x, {}, layout.attention_weights ? &t.attention : nullptr));
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
    VKFORMER_TRY(Value x, token(graph, hidden, 0));
    if (!config_.norms_hidden) {
        VKFORMER_TRY(x, build.norm("vision.head.norm", weights_.final_norm, x));
    }
    if (!weights_.projection) return x;
    return build.linear("vision.head.projection", weights_.projection, x);
}

Result<Value> VisionEncoder::add_classifier(Graph& graph, Value hidden) const {
    if (config_.labels == 0)
        return Error{ErrorCode::UnsupportedConfig,
                     "the model has no classification head: it gives embeddings, not labels"};
    const EncoderLayers build(config_, graph, DType::f32);
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
