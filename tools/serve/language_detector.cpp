// SPDX-License-Identifier: MIT
#include "serve/language_detector.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>  // IWYU pragma: keep: cld2's header takes FILE from it

#include <cld2/public/compact_lang_det.h>
#include <cld2/public/encodings.h>
#include <unicode/locid.h>
#include <unicode/unistr.h>

namespace vkformer::serve {
namespace {

constexpr std::size_t kMostBytes = 64 * 1024;  // some milliseconds
constexpr int kBestEffort = 0x4000;            // kCLDFlagBestEffort, which is in an internal header: short texts, too

/// Not a locale: bogus, as ICU says.
icu::Locale locale_of(std::string name) {
    std::ranges::replace(name, '_', '-');
    UErrorCode error = U_ZERO_ERROR;
    icu::Locale locale = icu::Locale::forLanguageTag(name, error);
    if (U_SUCCESS(error)) locale.canonicalize(error);
    if (U_FAILURE(error) || *locale.getLanguage() == '\0') locale.setToBogus();
    return locale;
}

/// With the likeliest script.
icu::Locale with_script(icu::Locale locale) {
    UErrorCode error = U_ZERO_ERROR;
    icu::Locale likely = locale;
    likely.addLikelySubtags(error);
    return U_SUCCESS(error) ? likely : locale;
}

/// The detector gives up a text with control characters or with what is no character at all.
bool is_blank(char32_t code) {
    return (code < 0x20 && code != '\t' && code != '\n' && code != '\f' && code != '\r') ||
           (code >= 0x7F && code < 0xA0) || (code >= 0xFDD0 && code < 0xFDF0) || (code & 0xFFFE) == 0xFFFE;
}

/// With blanks in place of those.
std::string with_blanks(const std::string& text) {
    icu::UnicodeString units = icu::UnicodeString::fromUTF8(text);
    for (std::int32_t i = 0; i < units.length(); i = units.moveIndex32(i, 1))
        if (is_blank(static_cast<char32_t>(units.char32At(i))))
            units.replace(i, units.moveIndex32(i, 1) - i, static_cast<UChar32>(' '));
    std::string result;
    units.toUTF8String(result);
    return result;
}

/// The beginning of a text that has at most so many bytes and ends with a character.
std::string_view beginning(std::string_view text, std::size_t most) {
    if (text.size() <= most) return text;
    while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
    return text.substr(0, most);
}

}  // namespace

bool can_detect_languages() noexcept { return true; }

std::vector<DetectedLanguage> detect_languages(std::span<const std::string> texts) {
    std::string all;
    for (const std::string& text : texts)
        if (all.size() < kMostBytes) all.append(beginning(text, kMostBytes - all.size())).append("\n");
    all = with_blanks(all);
    std::array<CLD2::Language, 3> languages{};
    std::array<int, 3> percent{};
    std::array<double, 3> scores{};
    bool is_sure = true;
    const auto detect = [&](int flags) {
        int letters = 0, valid = 0;
        bool is_reliable = false;
        const CLD2::CLDHints hints{nullptr, nullptr, CLD2::UNKNOWN_ENCODING, CLD2::UNKNOWN_LANGUAGE};
        CLD2::ExtDetectLanguageSummaryCheckUTF8(all.data(), static_cast<int>(all.size()), true, &hints, flags,
                                                languages.data(), percent.data(), scores.data(), nullptr, &letters,
                                                &is_reliable, &valid);
        return is_reliable && languages.front() != CLD2::UNKNOWN_LANGUAGE;
    };
    if (!detect(0)) {
        is_sure = false;
        detect(kBestEffort);
    }
    std::vector<DetectedLanguage> found;
    for (std::size_t i = 0; i < languages.size(); ++i) {
        if (languages[i] == CLD2::UNKNOWN_LANGUAGE || percent[i] <= 0) continue;
        const std::string name = CLD2::LanguageCode(languages[i]);
        const icu::Locale locale = locale_of(name);
        UErrorCode error = U_ZERO_ERROR;
        auto code = locale.isBogus() ? name : locale.toLanguageTag<std::string>(error);
        if (U_FAILURE(error)) code = name;
        found.push_back({std::move(code), language_tags(name), is_sure ? percent[i] : percent[i] / 2.0});
    }
    return found;
}

LanguageTags language_tags(const std::string& name) {
    const icu::Locale locale = locale_of(name);
    if (locale.isBogus()) return {name, {}};
    const icu::Locale likely = with_script(locale);
    std::string language = likely.getLanguage();
    if (language == "nb") language = "no";  // Norwegian without more is Bokmål
    return {std::move(language), likely.getScript()};
}

std::string language_title(const std::string& name) {
    const icu::Locale locale = locale_of(name);
    if (locale.isBogus()) return name;
    const icu::Locale likely = with_script(icu::Locale(locale.getLanguage()));
    const bool is_likely =
        *locale.getScript() == '\0' || std::string_view(locale.getScript()) == std::string_view(likely.getScript());
    const icu::Locale shown = is_likely
                                  ? icu::Locale(locale.getLanguage())
                                  : icu::Locale((std::string(locale.getLanguage()) + "_" + locale.getScript()).c_str());
    icu::UnicodeString title;
    shown.getDisplayName(icu::Locale::getEnglish(), title);
    std::string text;
    title.toUTF8String(text);
    return text == locale.getLanguage() ? name : text;
}

}  // namespace vkformer::serve
