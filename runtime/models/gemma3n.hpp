// SPDX-License-Identifier: MIT
/// What Gemma 3n's folders and GGUF files make of their weights alike.
#pragma once

#include <string>
#include <vector>

#include "models/decoder.hpp"
#include "models/weight_reader.hpp"

namespace vkformer::models {

/// What files call the tensors of a layer's streams, behind "layers.0." or its like.
struct Gemma3nNames {
    const char *norm, *router, *predict, *correct, *scale;
    const char *left, *right, *laurel_norm;
};
/// Of the layer `index`, whose tensors begin with `name`. Errors: those of WeightReader.
Result<void> read_streams(const WeightReader& read, const DecoderConfig& config, const Gemma3nNames& names,
                          const std::string& name, std::size_t index, std::uint64_t laurel_rank, bool has_scale,
                          StreamWeights& streams);

}  // namespace vkformer::models
