// SPDX-License-Identifier: MIT
#include "serve/language_detector.hpp"

#include <catch2/catch.hpp>

namespace vkformer::serve {
namespace {

std::string first_of(const std::vector<std::string>& texts) {
    const auto found = detect_languages(texts);
    return found.empty() ? std::string() : found.front().code;
}

std::string tags_of(const std::string& name) {
    const LanguageTags tags = language_tags(name);
    return tags.script.empty() ? tags.language : tags.language + "-" + tags.script;
}

TEST_CASE("Texts are told by their language", "[serve][languages]") {
    if (!can_detect_languages()) return;
    CHECK(first_of({"Guten Morgen, wie geht es Ihnen heute?"}) == "de");
    CHECK(first_of({"The cat sat on the mat and looked at the dog."}) == "en");
    CHECK(first_of({"Bonjour tout le monde, comment allez-vous ?"}) == "fr");
    CHECK(first_of({"Доброе утро, как у вас сегодня дела?"}) == "ru");
    CHECK(first_of({"שלום לכולם, מה שלומכם היום?"}) == "he");  // cld2 calls it iw
    CHECK(first_of({"繁體中文字測試，這是一個關於語言的測試"}) == "zh-Hant");
    CHECK(first_of({"これは日本語の文章です。"}) == "ja");
    CHECK(first_of({"Hello"}) == "en");
    CHECK(first_of({"", "12345 !?", "\n"}).empty());
    CHECK(first_of({}).empty());
    CHECK(first_of({"\xff\xfe\xff"}).empty());
    // Marks that are no text: a line break of word processors, a terminal's escape, a next line, what is no character.
    CHECK(first_of({"Guten\vMorgen, wie\x1b[1m geht es\xc2\x85Ihnen heute\xef\xbf\xbf\xf0\x9f\xbf\xbe?"}) == "de");
    CHECK(first_of({"Guten", "Morgen", "wie geht es", "Ihnen"}) == "de");  // all together
}

TEST_CASE("A detected language says how sure it is", "[serve][languages]") {
    if (!can_detect_languages()) return;
    const std::vector<std::string> sure = {"Guten Morgen, wie geht es Ihnen heute?"}, unsure = {"Hello"};
    const std::vector<std::string> both = {"Das ist ein langer Satz, der nur dazu da ist, dass er erkannt wird.",
                                           "Ceci est une longue phrase qui existe seulement pour être reconnue."};
    CHECK(detect_languages(sure).at(0).confidence > 90);
    CHECK(detect_languages(unsure).at(0).confidence <= 50);
    const auto found = detect_languages(both);
    REQUIRE(found.size() == 2);
    CHECK(found[0].confidence + found[1].confidence <= 100);
    CHECK(found[0].confidence >= found[1].confidence);
}

TEST_CASE("What is read of long texts ends with a character", "[serve][languages]") {
    if (!can_detect_languages()) return;
    const std::vector<std::string> words = {"доброе", "утро",   "сегодня", "хорошая", "погода", "мы",
                                            "идём",   "гулять", "потому",  "что",     "на",     "улице",
                                            "светит", "солнце", "птицы",   "поют"};
    std::string text;  // not the same sentence again and again, which the detector passes over
    for (std::uint32_t i = 0, random = 1; i < 20000; ++i, random = random * 1664525 + 1013904223)
        text += words[random >> 28] + " ";
    for (const std::size_t first : {0, 1, 2}) CHECK(first_of({std::string(first, ' ') + text}) == "ru");
    CHECK(first_of({std::string(64 * 1024, ' '), "Guten Morgen, wie geht es Ihnen heute?"}).empty());
}

TEST_CASE("Names of one language mean the same", "[serve][languages]") {
    if (!can_detect_languages()) {
        CHECK(tags_of("deu_Latn") == "deu_Latn");
        return;
    }
    for (const char* const name : {"de", "deu_Latn", "de_DE", "de-DE", "deu"}) CHECK(tags_of(name) == "de-Latn");
    for (const char* const name : {"en", "eng_Latn", "en_XX"}) CHECK(tags_of(name) == "en-Latn");
    for (const char* const name : {"zh", "zho_Hans", "zh_CN", "cmn_Hans"}) CHECK(tags_of(name) == "zh-Hans");
    for (const char* const name : {"zho_Hant", "zh-Hant", "zh_TW"}) CHECK(tags_of(name) == "zh-Hant");
    for (const char* const name : {"ar", "arb_Arab", "ar_AR"}) CHECK(tags_of(name) == "ar-Arab");
    for (const char* const name : {"no", "nob_Latn", "nb"}) CHECK(tags_of(name) == "no-Latn");
    for (const char* const name : {"he", "iw", "heb_Hebr"}) CHECK(tags_of(name) == "he-Hebr");
    for (const char* const name : {"", "iso8601", "../..", "a", "x-none", "\xff"}) CHECK(tags_of(name) == name);
}

TEST_CASE("Languages have names in English", "[serve][languages]") {
    if (!can_detect_languages()) return;
    CHECK(language_title("de") == "German");
    CHECK(language_title("de_DE") == "German");
    CHECK(language_title("eng_Latn") == "English");
    CHECK(language_title("zho_Hans") == "Chinese");
    CHECK(language_title("zho_Hant") == "Chinese (Traditional)");
    CHECK(language_title("srp_Cyrl") == "Serbian");
    CHECK(language_title("dates") == "dates");
    CHECK(language_title("iso8601") == "iso8601");
    CHECK(language_title("").empty());
}

}  // namespace
}  // namespace vkformer::serve
