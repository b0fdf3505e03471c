// SPDX-License-Identifier: MIT
/// What was said and when, as players read it.
#pragma once

#include <string>

#include "vkformer/transcriber.hpp"

namespace vkformer::sound {

/// SubRip.
std::string as_srt(const Transcription& transcription);
/// WebVTT.
std::string as_vtt(const Transcription& transcription);

}  // namespace vkformer::sound
