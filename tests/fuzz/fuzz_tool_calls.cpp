// SPDX-License-Identifier: MIT
/// Answers of language models with calls of tools in them: the form and the places of the cuts come first. What is read does not depend on
/// where an answer was cut, and the arguments of a call that came whole are an object.
#include <nlohmann/json.hpp>

#include "fuzz.hpp"
#include "serve/tool_calls.hpp"

using namespace vkformer;
using namespace vkformer::serve;

namespace {

/// What a client puts together.
struct Heard {
    std::string content;
    std::vector<std::pair<std::string, std::string>> calls;
    std::size_t ended = 0;
    bool operator==(const Heard&) const = default;

    void take(const std::vector<AnswerPart>& parts) {
        for (const AnswerPart& part : parts) {
            switch (part.kind) {
            case AnswerPart::Kind::content: content += part.text; break;
            case AnswerPart::Kind::call:
                fuzz::require(part.call == calls.size() && ended == calls.size());
                calls.emplace_back(part.text, "");
                break;
            case AnswerPart::Kind::arguments:
                fuzz::require(part.call + 1 == calls.size() && ended < calls.size());
                calls.back().second += part.text;
                break;
            case AnswerPart::Kind::call_end:
                fuzz::require(ended < calls.size());
                ++ended;
                break;
            }
        }
    }
};

Heard hear(CallFormat format, bool streams, std::string_view text, std::size_t piece) {
    CallReader reader(format, {"a", "get_weather"}, streams);
    Heard heard;
    for (std::size_t at = 0; at < text.size(); at += piece) heard.take(reader.push(text.substr(at, piece)));
    heard.take(reader.finish());
    fuzz::require(heard.ended == heard.calls.size() && reader.calls() == heard.calls.size());
    return heard;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    constexpr CallFormat kFormats[] = {CallFormat::none, CallFormat::tagged, CallFormat::listed, CallFormat::bare};
    const CallFormat format = kFormats[data[0] % 4];
    const std::size_t piece = 1 + data[1] % 16;
    const auto text = fuzz::text_of(data + 2, size - 2);
    for (const bool streams : {false, true}) {
        const Heard whole = hear(format, streams, text, std::max<std::size_t>(text.size(), 1));
        fuzz::require(whole == hear(format, streams, text, piece));
        if (format == CallFormat::none) fuzz::require(whole.content == text && whole.calls.empty());
        for (const auto& [name, arguments] : whole.calls) {
            fuzz::require(!name.empty());
            if (!streams) fuzz::require(nlohmann::json::parse(arguments, nullptr, false).is_object());
        }
    }
    return 0;
}
