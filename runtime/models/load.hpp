// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <memory>

#include "models/encoder_decoder.hpp"

namespace vkformer::models {

/// The model of a folder, by `model_type` of its config.json. Errors: UnsupportedConfig (with the types that are known), and
/// those of the models' own load functions.
Result<std::unique_ptr<EncoderDecoder>> load_encoder_decoder(const std::filesystem::path& folder);

}  // namespace vkformer::models
