// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "formats/output_tensor.hpp"
#include "models/decoder.hpp"
#include "models/gguf_architecture.hpp"
#include "vkformer/result.hpp"

namespace vkformer::models {

/// The tensors of a model with the names, the layouts and the order that files of the architecture have, of dtypes as they come: what
/// load_gguf_decoder takes apart. `source` begins the messages; `has_biases`: files of the architecture have those of attention and of
/// feed-forward layers that all tokens go through. Errors: UnsupportedConfig (a bias that has no place there, by its tensor).
Result<std::vector<formats::OutputTensor>> gguf_tensors(const Decoder& model, const GgufArchitecture& architecture,
                                                        bool has_biases, const std::string& source);

}  // namespace vkformer::models
