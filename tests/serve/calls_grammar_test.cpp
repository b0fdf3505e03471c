// SPDX-License-Identifier: MIT
// Answers that may call tools: free but for their calls, which are what CallReader and the schemas say.
#include "serve/calls_grammar.hpp"

#include <map>
#include <random>
#include <string>
#include <vector>

#include "constraints/grammar_case.hpp"
#include "constraints/schema_validator.hpp"
#include "support/catch.h"
#include "support/refused.hpp"

namespace vkformer::tests {
namespace {

using namespace serve;

/// A tree of names, and a tool that takes anything.
const std::map<std::string, std::string>& arguments() {
    static const std::map<std::string, std::string> schemas = {
        {"grow", R"({"type": "object", "additionalProperties": false, "required": ["leaf"], "properties":
                  {"leaf": {"enum": ["a", "b"]}, "rest": {"type": "array", "maxItems": 2, "items": {"$ref": "#"}}}})"},
        {"add", R"({"type": "object"})"}};
    return schemas;
}

GrammarPtr grammar_of(CallFormat format) {
    const bool is_bare = format == CallFormat::bare;
    nlohmann::ordered_json calls = nlohmann::ordered_json::array();
    for (const auto& [name, schema] : arguments()) {
        nlohmann::ordered_json own = nlohmann::ordered_json::parse(schema);
        const std::string key = is_bare ? "parameters" : "arguments";
        const std::string at = std::string("#") + (format == CallFormat::listed ? "/items" : "") + "/anyOf/" +
                               std::to_string(calls.size()) + "/properties/" + key;
        if (own.contains("properties")) own["properties"]["rest"]["items"]["$ref"] = at;
        calls.push_back({{"type", "object"},
                         {"additionalProperties", false},
                         {"required", {"name", key}},
                         {"properties", {{"name", {{"const", name}}}, {key, own}}}});
    }
    nlohmann::ordered_json schema = {{"anyOf", calls}};
    if (format == CallFormat::listed) schema = {{"type", "array"}, {"minItems", 1}, {"items", schema}};
    return must(calls_grammar(format, schema.dump(), arguments()));
}

/// All bytes, marks as words and as special tokens, some of which are none of the format's, and an end.
std::shared_ptr<const constraints::Vocabulary> vocabulary_of(CallFormat format) {
    text::TokenTexts texts;
    for (int byte = 0; byte < 256; ++byte) texts.bytes.emplace_back(1, static_cast<char>(byte));
    for (int i = 0; i < 60; ++i) {
        texts.bytes.emplace_back(call_mark(format));
        if (i % 2 == 0) texts.special.push_back(256 + i);
    }
    for (const char* const word : {"<|other|>", "</tool_call>", "[CALL_ID]", "[ARGS]"}) {
        texts.special.push_back(static_cast<std::int32_t>(texts.bytes.size()));
        texts.bytes.emplace_back(word);
    }
    texts.bytes.emplace_back("<end>");
    const auto size = texts.bytes.size();
    return std::make_shared<const constraints::Vocabulary>(std::move(texts),
                                                           std::vector{static_cast<std::int32_t>(size - 1)}, size);
}

/// A text of tokens that are drawn, strings and lists ended rather often; empty where none ended.
std::string drawn_answer(const std::shared_ptr<constraints::TokenConstraint>& constraint, std::mt19937& random) {
    const auto& vocabulary = constraint->vocabulary();
    constraints::ConstrainedText text(constraint);
    const auto stream = constraints::stream(vocabulary, true);
    std::string made;
    for (int i = 0; i < 300; ++i) {
        const auto allowed = must(text.allowed());
        if (!allowed->may_go_on || (allowed->may_end && random() % 8 == 0)) return made + stream->finish();
        auto tokens = tokens_of(*allowed, vocabulary->size());
        std::erase_if(tokens, [&](std::int32_t token) { return vocabulary->is_end(token); });
        std::vector<std::int32_t> closing;
        for (const std::int32_t token : tokens)
            if (token == '"' || token == ']' || token == '}') closing.push_back(token);
        const auto& from = !closing.empty() && !allowed->may_end && random() % 2 == 0 ? closing : tokens;
        const std::int32_t token = from[random() % from.size()];
        must(text.add(token));
        made += stream->push(token);
    }
    return {};
}

TEST_CASE("serve: whatever is drawn of an answer with calls, they fit", "[serve][tools]") {
    const CallFormat format = GENERATE(CallFormat::tagged, CallFormat::listed, CallFormat::bare);
    const auto constraint = std::make_shared<constraints::TokenConstraint>(grammar_of(format), vocabulary_of(format));
    const SchemaValidator tree(nlohmann::json::parse(arguments().at("grow")));
    std::mt19937 random(7);
    std::map<std::string, int> calls;
    int free = 0;
    for (int i = 0; i < 400; ++i) {
        const std::string answer = drawn_answer(constraint, random);
        CAPTURE(static_cast<int>(format), answer);
        CallReader reader(format, {"grow", "add"}, false);
        auto parts = reader.push(answer);
        for (auto& part : reader.finish()) parts.push_back(std::move(part));
        std::string name;
        for (const AnswerPart& part : parts) {
            if (part.kind == AnswerPart::Kind::call) name = part.text;
            if (part.kind == AnswerPart::Kind::content) {
                CHECK(part.text.find(call_mark(format)) == part.text.npos);
                ++free;
            }
            if (part.kind != AnswerPart::Kind::arguments) continue;
            ++calls[name];
            const nlohmann::json given = nlohmann::json::parse(part.text);
            CHECK((name == "grow" ? tree.is_valid(given) : given.is_object()));
        }
    }
    CAPTURE(static_cast<int>(format), calls["grow"], calls["add"], free);
    CHECK((calls.size() == 2 && calls["grow"] > 20 && calls["add"] > 20 && free > 20));
}

TEST_CASE("serve: named calls follow each other by their marks", "[serve][tools]") {
    const std::string special(1, constraints::kSpecialByte), mark = special + "[ARGS]";
    struct Answer {
        std::string text;
        Fit several, one;
    };
    const std::vector<Answer> answers = {
        {"add[ARGS]{\"x\": [1, {}]}", Fit::whole, Fit::whole},
        {"grow" + mark + "{\"leaf\": \"a\", \"rest\": [{\"leaf\": \"b\"}]}", Fit::whole, Fit::whole},
        {"add" + special + "[CALL_ID]a1B2c3D4e" + mark + " {}", Fit::whole, Fit::whole},
        {"add[ARGS]{}[TOOL_CALLS]grow[ARGS]{\"leaf\": \"b\"}", Fit::whole, Fit::no},
        {"add[ARGS]{}" + special + "[TOOL_CALLS]add" + mark + "{}", Fit::whole, Fit::no},
        {"add[ARGS]{}[TOOL_CALLS]", Fit::begins, Fit::no},
        {"", Fit::begins, Fit::begins},
        {"add{}", Fit::no, Fit::no},
        {"add[CALL_ID]12[ARGS]", Fit::no, Fit::no},
        {"[TOOL_CALLS]add", Fit::no, Fit::no},
        {"[{\"name\"", Fit::no, Fit::no},
        {"subtract[ARGS]{", Fit::no, Fit::no},
        {"grow[ARGS]{\"leaf\": \"c\"", Fit::no, Fit::no},
        {"add[ARGS]{} so", Fit::no, Fit::no},
    };
    for (const auto& [text, several, one] : answers) {
        CAPTURE(text);
        constraints::Automaton many(must(named_calls_grammar(arguments(), false))),
            single(must(named_calls_grammar(arguments(), true)));
        CHECK(fit_of(many, text) == several);
        CHECK(fit_of(single, text) == one);
    }
    check_refused(named_calls_grammar({{"add", "["}}, false), ErrorCode::InvalidArgument, "schema");
}

TEST_CASE("serve: free text is free, and a call one that fits", "[serve][tools]") {
    const std::string special(1, constraints::kSpecialByte);
    const std::string grown = R"("name": "grow", "arguments": {"leaf": "a", "rest": [{"leaf": "b"}]}})",
                      spoilt = R"("name": "grow", "arguments": {"leaf": "c"}})",
                      added = R"("name": "add", "arguments": {"x": [1, {}]}})";
    struct Answer {
        CallFormat format;
        std::string text;
        Fit fit;
    };
    const auto as_bare = [](std::string text) {
        for (std::size_t at; (at = text.find("arguments")) != text.npos;) text.replace(at, 9, "parameters");
        return text;
    };
    using enum CallFormat;
    const std::vector<Answer> answers = {
        {tagged, "", Fit::whole},
        {tagged, "a < b <tool_<tool_cal", Fit::whole},
        {tagged, "{\"any\": 1} \xFF\x80 é" + special + "<|other|>", Fit::whole},
        {tagged, "So:\n<tool_call>\n{" + grown + "\n</tool_call>\nand <tool_call>{" + added + "</tool_call>.",
         Fit::whole},
        {tagged, special + "<tool_call>\n{" + grown + "\n" + special + "</tool_call>", Fit::whole},
        {tagged, "<<tool_call>\n", Fit::begins},
        {tagged, "<tool_call>\n{" + added, Fit::begins},
        {tagged, "<tool_call>{" + spoilt + "</tool_call>", Fit::no},
        {tagged, special + "<tool_call>{" + spoilt + "</tool_call>", Fit::no},
        {tagged, "<tool_call>hm", Fit::no},
        {tagged, "<tool_call>{\"name\": \"sub\"", Fit::no},
        {tagged, "<tool_call>{" + added + special + "<|other|>", Fit::no},
        {listed, "Well [1] [TOOL_CALLS [TOOL_CALLS] [{" + grown + ", {" + added + "] so", Fit::whole},
        {listed, "[TOOL_CALLS]add[ARGS]{}[TOOL_CALLS]grow" + special + "[ARGS]{\"leaf\": \"b\"}", Fit::whole},
        {listed, "[TOOL_CALLS]add{\"a\": 1}", Fit::whole},
        {listed, "[TOOL_CALLS]add[CALL_ID]a1B2c3D4e[ARGS]{} so", Fit::whole},
        {listed, "[TOOL_CALLS]add[CALL_ID]a1B2c3D4ef", Fit::no},
        {listed, "[TOOL_CALLS][{" + spoilt + "]", Fit::no},
        {listed, "[TOOL_CALLS]grow[ARGS]{\"leaf\": \"c\"", Fit::no},
        {listed, "[TOOL_CALLS]subtract[ARGS]{", Fit::no},
        {listed, "[TOOL_CALLS][]", Fit::no},
        {bare, "Say {" + as_bare(spoilt), Fit::whole},
        {bare, "\n {" + as_bare(grown) + "; {" + as_bare(added), Fit::whole},
        {bare, "Hm <|python_tag|>{" + as_bare(added), Fit::whole},
        {bare, special + "<|python_tag|>{" + as_bare(grown), Fit::whole},
        {bare, " {" + as_bare(spoilt), Fit::no},
        {bare, "<|python_tag|>{" + as_bare(spoilt), Fit::no},
        {bare, "<|python_tag|>print(1)", Fit::no},
        {bare, "{\"answer\"", Fit::no},
        {bare, "{" + as_bare(added) + " more", Fit::no},
    };
    std::map<CallFormat, GrammarPtr> grammars;
    for (const auto& [format, text, fit] : answers) {
        CAPTURE(static_cast<int>(format), text);
        if (!grammars[format]) grammars[format] = grammar_of(format);
        constraints::Automaton automaton(grammars[format]);
        CHECK(fit_of(automaton, text) == fit);
    }
}

TEST_CASE("serve: calls without a schema are refused", "[serve][tools]") {
    check_refused(calls_grammar(CallFormat::tagged, "{\"not\": {}}", {}), ErrorCode::InvalidArgument, "not");
    check_refused(calls_grammar(CallFormat::listed, "{}", {{"add", "["}}), ErrorCode::InvalidArgument, "schema");
}

}  // namespace
}  // namespace vkformer::tests
