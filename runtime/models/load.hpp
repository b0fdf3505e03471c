// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "models/decoder.hpp"
#include "models/encoder_decoder.hpp"

namespace vkformer::models {

/// The model of a folder, by `model_type` of its config.json. Errors: UnsupportedConfig (with the types that are known), and
/// those of the models' own load functions.
Result<std::unique_ptr<EncoderDecoder>> load_encoder_decoder(const std::filesystem::path& folder);

/// A model that hears in place of reading.
struct SpeechModel {
    std::unique_ptr<EncoderDecoder> model;
    std::uint32_t mel_bins = 0;  ///< of the spectrogram that audio::windows_of makes its features from
};

/// The one of a folder: Whisper. Errors likewise.
Result<SpeechModel> load_speech_model(const std::filesystem::path& folder);

/// The decoder-only model of a folder, likewise, or of a GGUF file, by its general.architecture.
Result<Decoder> load_decoder(const std::filesystem::path& path);

/// Whether load_decoder is the function for the model: a GGUF file that is no encoder's, or a folder whose model_type is a
/// decoder's. Errors: FileNotFound, CorruptFile.
Result<bool> is_decoder(const std::filesystem::path& path);

}  // namespace vkformer::models
