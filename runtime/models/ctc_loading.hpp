// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "formats/config.hpp"
#include "formats/weights.hpp"
#include "models/ctc.hpp"

namespace vkformer::models {

/// Of a folder with Wav2Vec2ForCTC or HubertForCTC. Errors: CorruptFile, UnsupportedConfig, UnsupportedDtype, MissingTensor,
/// ShapeMismatch.
Result<std::shared_ptr<CtcModel>> load_wav2vec2(const formats::Config& config, const formats::Weights& weights);

}  // namespace vkformer::models
