// SPDX-License-Identifier: MIT
#include "sound/subtitles.hpp"

#include <cmath>
#include <cstdio>

namespace vkformer::sound {
namespace {

/// "00:01:02.345", with the separator that a format has before the milliseconds.
std::string clock_time(double seconds, char separator) {
    const auto ms = static_cast<long long>(std::llround(seconds * 1000));
    char text[48];
    std::snprintf(text, sizeof text, "%02lld:%02lld:%02lld%c%03lld", ms / 3'600'000, ms / 60'000 % 60, ms / 1000 % 60,
                  separator, ms % 1000);
    return text;
}

/// What a player shows: no spaces around, and nothing that would end or begin a time.
std::string cue_text(const std::string& text) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    std::string cue = first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
    for (std::size_t at; (at = cue.find("-->")) != cue.npos;) cue.replace(at, 3, "->");
    for (char& c : cue)
        if (c == '\n' || c == '\r') c = ' ';
    return cue;
}

/// WebVTT's own signs, spelt: "&lt;" of what would begin a tag.
std::string escaped(const std::string& text) {
    std::string result;
    for (const char c : text) result += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
    return result;
}

}  // namespace

std::string as_srt(const Transcription& transcription) {
    std::string text;
    std::size_t number = 0;
    for (const SpeechSegment& segment : transcription.segments)
        text += std::to_string(++number) + "\n" + clock_time(segment.start, ',') + " --> " +
                clock_time(segment.end, ',') + "\n" + cue_text(segment.text) + "\n\n";
    return text;
}

std::string as_vtt(const Transcription& transcription) {
    std::string text = "WEBVTT\n\n";
    for (const SpeechSegment& segment : transcription.segments)
        text += clock_time(segment.start, '.') + " --> " + clock_time(segment.end, '.') + "\n" +
                escaped(cue_text(segment.text)) + "\n\n";
    return text;
}

}  // namespace vkformer::sound
