// SPDX-License-Identifier: MIT
/// What Gemma 4's folders and GGUF files make of their weights alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/decoder.hpp"

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

/// Of what Gemma 4's routers see: norm(x) · scale / √hidden_size     scale: [hidden_size]. Errors: UnsupportedDtype.
Result<NormWeights> router_norm(const TensorData& scale);

}  // namespace vkformer::models
