// SPDX-License-Identifier: MIT
// Calls of tools in answers: every family's form, cut anywhere, broken and hostile.
#include "serve/tool_calls.hpp"

#include <random>
#include <string>
#include <vector>

#include "support/catch.h"

namespace vkformer::tests {
namespace {

using namespace serve;

/// What was read of an answer.
struct Heard {
    std::string content;
    std::vector<std::pair<std::string, std::string>> calls;  // names and arguments
    std::size_t ended = 0, broken = 0;
    bool operator==(const Heard&) const = default;

    void take(const std::vector<AnswerPart>& parts) {
        for (const AnswerPart& part : parts) {
            CHECK((part.kind == AnswerPart::Kind::call_end || !part.text.empty()));
            switch (part.kind) {
            case AnswerPart::Kind::content: content += part.text; break;
            case AnswerPart::Kind::call:
                CHECK((part.call == calls.size() && ended == calls.size()));
                calls.emplace_back(part.text, "");
                break;
            case AnswerPart::Kind::arguments:
                REQUIRE(part.call + 1 == calls.size());
                calls.back().second += part.text;
                break;
            case AnswerPart::Kind::call_end:
                ++ended;
                if (part.is_broken) ++broken;
                break;
            }
        }
        REQUIRE(calls.size() - ended <= 1);
    }
};

Heard hear(CallFormat format, const std::vector<std::string>& pieces, bool streams) {
    CallReader reader(format, {"add", "weather"}, streams);
    Heard heard;
    for (const std::string& piece : pieces) heard.take(reader.push(piece));
    heard.take(reader.finish());
    CHECK((heard.ended == heard.calls.size() && reader.calls() == heard.calls.size()));
    return heard;
}

std::vector<std::string> letters(const std::string& text) {
    std::vector<std::string> pieces;
    for (const char c : text) pieces.emplace_back(1, c);
    return pieces;
}

struct Spoken {
    CallFormat format;
    std::string text, content;
    std::vector<std::pair<std::string, std::string>> calls;
};

constexpr auto kTagged = CallFormat::tagged, kListed = CallFormat::listed, kBare = CallFormat::bare;

const std::vector<Spoken>& whole_answers() {
    static const std::vector<Spoken> answers = {
        {kTagged, "Nothing to call.\n", "Nothing to call.\n", {}},
        {kTagged, "", "", {}},
        {kTagged,
         "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": [2, {}]}}\n</tool_call>",
         "",
         {{"add", "{\"a\": 1, \"b\": [2, {}]}"}}},
        {kTagged,
         "Let me see.\n\n<tool_call>{\"name\":\"add\",\"arguments\":{}}</tool_call>\n",
         "Let me see.",
         {{"add", "{}"}}},
        {kTagged,
         "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"K\\u00f6ln } \\\" </tool_call>\"}}\n"
         "</tool_call>\n<tool_call>\n{\"arguments\": {\"a\": -1.5e3}, \"name\": \"add\"}\n</tool_call>",
         "",
         {{"weather", "{\"city\": \"K\\u00f6ln } \\\" </tool_call>\"}"}, {"add", "{\"a\": -1.5e3}"}}},
        {kTagged, "<tool_call>{\"name\": \"add\"}</tool_call>", "", {{"add", "{}"}}},
        {kTagged,
         "<tool_call>{\"name\": \"add\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>",
         "",
         {{"add", "{\"a\": 1}"}}},
        {kTagged,
         "<tool_call>{\"id\": [1, {\"name\": \"no\"}], \"name\": \"unknown\", \"arguments\": {}}</tool_call> so",
         " so",
         {{"unknown", "{}"}}},
        {kTagged, "<tool_call>{\"name\": \"add\", \"arguments\": {}}", "", {{"add", "{}"}}},
        {kTagged, "a < b <tool_cal", "a < b <tool_cal", {}},
        {kListed, "[TOOL_CALLS][{\"name\": \"add\", \"arguments\": {\"a\": 1}}]", "", {{"add", "{\"a\": 1}"}}},
        {kListed,
         "Well: [TOOL_CALLS] [{\"name\": \"add\", \"arguments\": {\"a\": \"[]\"}}, {\"name\": \"weather\", "
         "\"arguments\": {}, \"id\": \"123456789\"}] done",
         "Well: done",
         {{"add", "{\"a\": \"[]\"}"}, {"weather", "{}"}}},
        {kListed,
         "[TOOL_CALLS]add[ARGS]{\"a\": {\"b\": 2}}[TOOL_CALLS]weather{\"c\": 3}",
         "",
         {{"add", "{\"a\": {\"b\": 2}}"}, {"weather", "{\"c\": 3}"}}},
        {kListed,
         "[TOOL_CALLS]add[CALL_ID]a1B2c3D4e[ARGS]{\"a\": 1}\n[TOOL_CALLS] weather[CALL_ID]x [ARGS]",
         "\n[TOOL_CALLS] weather[CALL_ID]x [ARGS]",
         {{"add", "{\"a\": 1}"}}},
        {kListed,
         "[TOOL_CALLS]weather[CALL_ID]012345678[ARGS] {}[TOOL_CALLS]add[CALL_ID]9{\"b\": 2}",
         "",
         {{"weather", "{}"}, {"add", "{\"b\": 2}"}}},
        {kListed,
         "[1, 2] and {\"name\": \"add\", \"arguments\": {}}",
         "[1, 2] and {\"name\": \"add\", \"arguments\": {}}",
         {}},
        {kBare, "{\"name\": \"add\", \"parameters\": {\"a\": 1}}", "", {{"add", "{\"a\": 1}"}}},
        {kBare, "\n {\"type\": \"function\", \"name\": \"add\", \"parameters\": {}}\n", "", {{"add", "{}"}}},
        {kBare,
         "<|python_tag|>{\"name\": \"add\", \"parameters\": {\"a\": 1}}; {\"name\": \"weather\", \"parameters\": {}}",
         "",
         {{"add", "{\"a\": 1}"}, {"weather", "{}"}}},
        {kBare, "Say {\"name\": \"add\", \"parameters\": {}}", "Say {\"name\": \"add\", \"parameters\": {}}", {}},
        {kBare, "{\"name\": \"nobody\", \"parameters\": {}}", "{\"name\": \"nobody\", \"parameters\": {}}", {}},
        {kBare, "{\"answer\": [1, 2]}", "{\"answer\": [1, 2]}", {}},
        {CallFormat::none,
         "<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>",
         "<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>",
         {}},
    };
    return answers;
}

}  // namespace

TEST_CASE("serve: calls of tools are found however an answer is cut", "[serve][tools]") {
    for (const Spoken& spoken : whole_answers()) {
        CAPTURE(static_cast<int>(spoken.format), spoken.text);
        for (const bool streams : {false, true}) {
            CAPTURE(streams);
            const Heard expected = {spoken.content, spoken.calls, spoken.calls.size()};
            CHECK(hear(spoken.format, {spoken.text}, streams) == expected);
            CHECK(hear(spoken.format, letters(spoken.text), streams) == expected);
            for (std::size_t cut = 0; cut <= spoken.text.size(); ++cut) {
                CAPTURE(cut);
                CHECK(hear(spoken.format, {spoken.text.substr(0, cut), spoken.text.substr(cut)}, streams) == expected);
            }
        }
    }
}

TEST_CASE("serve: of an answer that ends too early nothing is lost", "[serve][tools]") {
    for (const Spoken& spoken : whole_answers())
        for (std::size_t end = 0; end < spoken.text.size(); ++end) {
            const std::string text = spoken.text.substr(0, end);
            CAPTURE(static_cast<int>(spoken.format), text);
            const Heard whole = hear(spoken.format, {text}, false), streamed = hear(spoken.format, letters(text), true);
            CHECK(hear(spoken.format, letters(text), false) == whole);
            if (whole.calls.empty()) CHECK(whole.content == text);
            for (std::size_t i = 0; i < whole.calls.size(); ++i) CHECK(whole.calls[i] == spoken.calls[i]);
            // A stream has begun calls that were not whole: with their arguments as far as they came.
            REQUIRE(streamed.calls.size() >= whole.calls.size());
            for (std::size_t i = 0; i < streamed.calls.size(); ++i) {
                CHECK(streamed.calls[i].first == spoken.calls[i].first);
                CHECK(spoken.calls[i].second.starts_with(streamed.calls[i].second));
            }
        }
}

TEST_CASE("serve: calls that are broken are content", "[serve][tools]") {
    const auto check = [](CallFormat format, const std::string& text, const std::string& content, std::size_t calls) {
        CAPTURE(static_cast<int>(format), text);
        for (const auto& pieces : {std::vector{text}, letters(text)}) {
            const Heard heard = hear(format, pieces, false);
            CHECK(heard.content == content);
            CHECK(heard.calls.size() == calls);
        }
    };
    for (const char* const broken :
         {"<tool_call>", "<tool_call></tool_call>", "<tool_call>call me</tool_call>", "<tool_call>[]</tool_call>",
          "<tool_call>{}</tool_call>", "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>",
          "<tool_call>{\"name\": 1, \"arguments\": {}}</tool_call>",
          "<tool_call>{\"name\": \"add\", \"arguments\": 1}</tool_call>",
          "<tool_call>{\"name\": \"add\", \"arguments\": [1}]}</tool_call>",
          "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": tru}}</tool_call>",
          "<tool_call>{\"name\": \"add\" \"arguments\": {}}</tool_call>",
          "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": \"\n\"}}</tool_call>",
          "<tool_call>{\"name\": \"add\", 'arguments': {}}</tool_call>", "<tool_call>\n<function=add>\n</tool_call>"})
        check(kTagged, broken, broken, 0);
    const std::string good = "<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>";
    check(kTagged, "<tool_call>oops" + good, "<tool_call>oops", 1);
    check(kTagged, "<tool_call>{\"name\": " + good, "<tool_call>{\"name\": ", 1);
    check(kTagged, good + "}" + good, "}", 2);
    check(kTagged, good + good, "", 2);
    check(kListed, "[TOOL_CALLS]", "[TOOL_CALLS]", 0);
    check(kListed, "[TOOL_CALLS]add", "[TOOL_CALLS]add", 0);
    check(kListed, "[TOOL_CALLS]add[ARGS]", "[TOOL_CALLS]add[ARGS]", 0);
    check(kListed, "[TOOL_CALLS]add[CALL]{}", "[TOOL_CALLS]add[CALL]{}", 0);
    check(kListed, "[TOOL_CALLS]add[CALL_ID]a", "[TOOL_CALLS]add[CALL_ID]a", 0);
    check(kListed, "[TOOL_CALLS]add[CALL_ID]a[ARGS", "[TOOL_CALLS]add[CALL_ID]a[ARGS", 0);
    check(kListed, "[TOOL_CALLS]add[ARGS]x{}", "[TOOL_CALLS]add[ARGS]x{}", 0);
    const std::string blanks = "[TOOL_CALLS]add[ARGS]" + std::string(300, '\n') + "{}";
    check(kListed, blanks, blanks, 0);
    const std::string long_id = "[TOOL_CALLS]add[CALL_ID]" + std::string(1000, 'a') + "[ARGS]{}";
    check(kListed, long_id, long_id, 0);
    check(kListed, "[TOOL_CALLS][[]]", "[TOOL_CALLS][[]]", 0);
    check(kListed, "[TOOL_CALLS][{\"name\": \"add\", \"arguments\": {}}, nothing]", ", nothing]", 1);
    check(kListed, "[TOOL_CALLS]" + std::string(1000, 'a') + "{}", "[TOOL_CALLS]" + std::string(1000, 'a') + "{}", 0);
    check(kBare, "<|python_tag|>print(1)", "<|python_tag|>print(1)", 0);
    const std::string deep = "<tool_call>{\"name\": \"add\", \"arguments\": " + std::string(100'000, '[');
    check(kTagged, deep, deep, 0);

    // A stream has told the name before: then what comes stays with it, and what follows does not.
    const Heard spoilt =
        hear(kTagged, letters("<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": <b>}}</tool_call>c" + good), true);
    REQUIRE(spoilt.calls.size() == 2);
    CHECK((spoilt.calls[0].second == "{\"a\": <b>}}" && spoilt.content == "c" && spoilt.calls[1].second == "{}"));
    const Heard longer =
        hear(kTagged, letters("<tool_call>{\"name\": \"add\", \"arguments\": {}, x}</tool_call>"), true);
    CHECK((longer.calls.size() == 1 && longer.calls[0].second == "{}" && longer.content == ", x}</tool_call>"));
    const Heard cut = hear(kTagged, letters("<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": "), true);
    CHECK((cut.calls.size() == 1 && cut.calls[0].second == "{\"a\": "));
    CHECK((spoilt.broken == 1 && longer.broken == 0 && cut.broken == 1));
}

TEST_CASE("serve: whatever a model writes is read alike in pieces", "[serve][tools]") {
    const std::vector<std::string> words = {"<tool_call>",
                                            "</tool_call>",
                                            "[TOOL_CALLS]",
                                            "[CALL_ID]",
                                            "[ARGS]",
                                            "<|python_tag|>",
                                            "{\"name\": \"add\", ",
                                            "\"arguments\": ",
                                            "\"parameters\": ",
                                            "{",
                                            "}",
                                            "[",
                                            "]",
                                            ",",
                                            ":",
                                            ";",
                                            "\"",
                                            "\\",
                                            " ",
                                            "\n",
                                            "1",
                                            "true",
                                            "add",
                                            "\"name\"",
                                            "é",
                                            "<",
                                            "{\"a\": 1}"};
    std::mt19937 random(28);
    for (int round = 0; round < 4000; ++round) {
        const auto format = static_cast<CallFormat>(random() % 4);
        std::string text;
        for (std::size_t count = random() % 24; count > 0; --count) text += words[random() % words.size()];
        CAPTURE(round, static_cast<int>(format), text);
        const Heard whole = hear(format, {text}, false);
        CHECK(hear(format, letters(text), false) == whole);
        CHECK(hear(format, letters(text), true) == hear(format, {text}, true));
        if (whole.calls.empty()) CHECK(whole.content == text);
    }
}

TEST_CASE("serve: a long answer is read in time in proportion to it", "[serve][tools]") {
    // Quadratic time would be hours.
    const std::size_t count = 50'000;
    const auto format = GENERATE(kTagged, kListed, kBare);
    const bool streams = GENERATE(false, true);
    for (const char* const word :
         {"<tool_call>", "{", " ", "<tool_call>{\"", "[TOOL_CALLS]a", "<|python_tag|>{\"a\":"}) {
        CAPTURE(static_cast<int>(format), streams, word);
        CallReader reader(format, {"add"}, streams);
        std::size_t bytes = 0;
        const auto count_bytes = [&](const std::vector<AnswerPart>& parts) {
            for (const AnswerPart& part : parts) bytes += part.text.size();
        };
        for (std::size_t i = 0; i < count; ++i) count_bytes(reader.push(word));
        count_bytes(reader.finish());
        CHECK(bytes == count * std::string_view(word).size());
    }
}

TEST_CASE("serve: a template says how its calls look", "[serve][tools]") {
    CHECK(call_format("{{ '<tool_call>' }}") == CallFormat::tagged);
    CHECK(call_format("{{ '[TOOL_CALLS]' }}") == CallFormat::listed);
    CHECK(call_format("{{ '<|python_tag|>' }}") == CallFormat::bare);
    CHECK(call_format("in the form {\"name\": a name, \"parameters\": its arguments}") == CallFormat::bare);
    CHECK(call_format("{{ messages[0].content }}") == CallFormat::none);
}

}  // namespace vkformer::tests
