// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>

#include "formats/config.hpp"

namespace vkformer::models {

/// Whether load_encoder_decoder is the function for the model of a folder, or load_speech_model. Errors: FileNotFound, CorruptFile.
Result<bool> is_encoder_decoder(const std::filesystem::path& folder);
Result<bool> is_speech_model(const std::filesystem::path& folder);

/// UnsupportedConfig for a folder whose model_type is none of `supported`, with the commands that take such a model, if there are any.
Error unknown_model_type(const std::filesystem::path& folder, const formats::Config& config,
                         const std::string& supported);

}  // namespace vkformer::models
