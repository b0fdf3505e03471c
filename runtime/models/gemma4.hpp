// SPDX-License-Identifier: MIT
/// What Gemma 4's folders and GGUF files make of their weights alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "models/decoder.hpp"
#include "models/weight_reader.hpp"

namespace vkformer::models {

/// The tables of all layers' embeddings, [vocab_size, layers · width], and their projection, [layers · width, hidden_size], in parts of
/// whole layers, none with more than `most` elements unless it is of one layer: a part of several is a copy.
/// Errors: UnsupportedDtype (the table would be cut within blocks).
Result<std::vector<LayerEmbeddings>> split_layer_embeddings(const TensorData& table, const Projection& projection,
                                                            std::uint64_t width,
                                                            std::uint64_t most = std::uint64_t{1} << 30);

/// The last `count` layers see the keys and values of the last layer before them that has a window, or none, as they have. Requires the
/// layers' windows. False: there is no such layer.
bool share_caches(DecoderConfig& config, std::size_t count);

/// What files call the tensors that other architectures have not.
struct Gemma4Names {
    const char *table, *projection, *projection_norm;  ///< of all layers' embeddings
    // Behind "layers.0." or its like:
    const char *embedding_gate, *embedding_output, *embedding_norm;
    const char* scale;  ///< of the layer; null: it has none
    const char *expert_norm, *expert_post_norm, *shared_post_norm;
    const char *router_scale, *expert_scales;
    bool may_fold_scales = false;  ///< a file without the experts' scales has them in their matrices
};
/// What the layers' weights follow from besides the DecoderConfig.
struct Gemma4Layout {
    bool attention_bias = false, keys_are_values = false, doubles_shared = false;
    std::uint32_t embedding_width = 0;  ///< of a layer's embeddings; 0: there are none
};
/// A folder's attention, "layers.0.self_attn.". Errors: those of WeightReader.
Result<void> read_gemma4_attention(const WeightReader& read, const DecoderConfig& c, const Gemma4Layout& layout,
                                   const std::string& name, const DecoderConfig::Layer& layer,
                                   DecoderWeights::Layer& l);

/// Of the layer `name`, what is beside attention, feed-forward layers and experts; `width`: of its embeddings, 0: it has none.
/// Errors: those of WeightReader.
Result<void> read_gemma4_extras(const WeightReader& read, const DecoderConfig& config, const Gemma4Names& names,
                                const std::string& name, std::uint64_t width, DecoderWeights::Layer& layer);
/// `tokens`: rows of the table. Errors: those of WeightReader and split_layer_embeddings.
Result<void> read_layer_embeddings(const WeightReader& read, const DecoderConfig& config, const Gemma4Names& names,
                                   std::uint64_t width, std::uint64_t tokens, DecoderWeights& weights);

}  // namespace vkformer::models
