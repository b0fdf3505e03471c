// SPDX-License-Identifier: MIT
/// Which language a text is written in, by Compact Language Detector 2, and what languages are called, by ICU.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace vkformer::serve {

/// What a model's name of a language means: "deu_Latn" (NLLB) and "de_DE" (mBART) are "de" and "Latn", "cmn" is "zh" and "Hans". Languages are
/// ISO 639-1's codes where it has one, else 639-3's; scripts ISO 15924's, the likeliest of the language where none is named.
struct LanguageTags {
    std::string language, script;  ///< what is no tag of a language is its own language, without a script
};

struct DetectedLanguage {
    std::string code;  ///< BCP 47: "en", "zh-Hant"
    LanguageTags tags;
    double confidence =
        0;  ///< the share of the text's letters in it, in percent; half of that where the text says too little to be sure
};

/// Whether this program was built with the two libraries (VKFORMER_WITH_LANGUAGES). Without them nothing is detected, and a name means itself.
bool can_detect_languages() noexcept;

/// Of all texts together, the beginning of each as far as 64 KiB go: at most three, the one with the most letters first. None where there are
/// no letters. Texts are UTF-8.
std::vector<DetectedLanguage> detect_languages(std::span<const std::string> texts);

LanguageTags language_tags(const std::string& name);

/// In English, with the script where it is not the likeliest of the language: "German", "Chinese (Traditional)"; the name itself where ICU knows
/// no better.
std::string language_title(const std::string& name);

}  // namespace vkformer::serve
