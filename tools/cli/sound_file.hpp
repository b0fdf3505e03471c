// SPDX-License-Identifier: MIT
/// Sound files: WAV and whatever else libsndfile reads (FLAC, Ogg, AIFF, …).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "vkformer/result.hpp"

namespace vkformer::cli {

/// The samples of a file, channels averaged into one, at `sample_rate`: another rate is converted by libsamplerate's
/// best sinc. Full scale is ±1. Errors: FileNotFound, CorruptFile (no sound file, no samples), InvalidArgument (over an
/// hour and a half), OutOfHostMemory.
Result<std::vector<float>> read_sound_file(const std::filesystem::path& path, std::uint32_t sample_rate);

/// The same for the bytes of a file, of which messages say "the sound". Errors: but for FileNotFound, the same.
Result<std::vector<float>> read_sound(std::string_view bytes, std::uint32_t sample_rate);

}  // namespace vkformer::cli
