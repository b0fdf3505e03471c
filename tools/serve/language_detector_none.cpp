// SPDX-License-Identifier: MIT
/// In a build without cld2 and ICU.
#include "serve/language_detector.hpp"

namespace vkformer::serve {

bool can_detect_languages() noexcept { return false; }
std::vector<DetectedLanguage> detect_languages(std::span<const std::string>) { return {}; }
LanguageTags language_tags(const std::string& name) { return {name, {}}; }
std::string language_title(const std::string& name) { return name; }

}  // namespace vkformer::serve
