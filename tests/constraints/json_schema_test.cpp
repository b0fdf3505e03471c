// SPDX-License-Identifier: MIT
#include "constraints/json_schema.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "constraints/grammar_case.hpp"
#include "constraints/schema_validator.hpp"
#include "support/catch.h"
#include "support/refused.hpp"

namespace vkformer::tests {
namespace {

using constraints::json_schema_grammar;
using nlohmann::json;

/// Plain arrays, with nullptr behind the last: so many strings in lists of lists take a compiler minutes.
struct SchemaCase {
    const char* schema;
    const char* fit[12];
    const char* other[16];
};
std::vector<std::string> texts_in(std::span<const char* const> list) {
    return {list.begin(), std::ranges::find(list, nullptr)};
}

constexpr SchemaCase kSchemaCases[] = {
    {R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name","age"]})",
     {R"({"name":"a","age":1})", R"({"name": "é\n\"\u00e9\ud83d\ude00", "age": -12})",
      "{\n  \"name\": \"\",\n  \"age\": 0}", "{ \"name\":\"\",\"age\":0 }"},
     {R"({"age":1,"name":"a"})", R"({"name":"a"})", R"({"name":"a","age":1.5})", R"({"name":"a","age":01})",
      R"({"name":"a","age":1,"b":2})", R"({"name":"\ud83d","age":1})", "{\"name\":\"\n\",\"age\":1}",
      R"({"name":"a","age":1} )", R"([])", R"({"name":"a","age":1,})", R"({"name":"a" ,"age":1})"}},
    {R"({"properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"required":["b"]})",
     {R"({"b":2})", R"({"a":1,"b":2})", R"({"a":1,"b":2,"c":3})", R"({"b":2,"c":3})"},
     {R"({})", R"({"a":1})", R"({"a":1,"c":3})", R"({"c":3,"b":2})", R"({,"b":2})"}},
    {R"({"properties":{"a":{"const":1},"b":{"const":2}}})",
     {"{}", R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2})", "{ }"},
     {R"({"b":2,"a":1})", R"({"x":1})", "{,}"}},
    {R"({"type":"object"})", {"{}", R"({"a":[1,2.5e3,{"b":null}],"":true})"}, {"[]", "1", R"({"a"})", R"({a:1})"}},
    {R"({"properties":{"ab":{"const":1},"é":{"const":2}},"additionalProperties":{"type":"integer"}})",
     {"{}", R"({"ab":1})", R"({"a":5})", R"({"abc":5,"x":6})", R"({"ab":1,"é":2,"b":3})", R"({"è":4})"},
     {R"({"ab":2})", R"({"x":"y"})", R"({"a":1,"ab":1})", R"({"é":3})", R"({"":1})", R"({"\u0061b":7})"}},
    {R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})",
     {"[1]", "[1,2]", "[1, 2, 3]", "[\n  1,\n  2\n]"},
     {"[]", "[1,2,3,4]", "[1,]", "[,1]", "[\"a\"]", "[1 2]"}},
    {R"({"type":"array","items":{"type":"boolean"}})", {"[]", "[ ]", "[true,false,true,true]"}, {"[1]", "["}},
    {R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"}},
    {R"({"prefixItems":[{"type":"integer"},{"type":"string"}],"items":false,"minItems":2})",
     {R"([1,"a"])"},
     {"[1]", R"([1,"a",2])", R"(["a",1])"}},
    {R"({"prefixItems":[{"type":"integer"}],"items":{"type":"string"},"minItems":1})",
     {"[1]", R"([1,"a"])", R"([1,"a","b","c"])"},
     {"[]", R"(["a"])", "[1,2]"}},
    {R"({"enum":["red","green",1,null,{"a":[1]},"rot\n"]})",
     {"\"red\"", "\"green\"", "1", "null", R"({"a":[1]})", R"("rot\n")"},
     {"red", "\"re\"", "2", "nul", "\"\""}},
    {R"({"type":"string","enum":["a",1,"b"]})", {"\"a\"", "\"b\""}, {"1"}},
    {R"({"const":"x\"y"})", {R"("x\"y")"}, {"\"x\"", "\"xy\""}},
    {R"({"type":["string","null"]})", {"null", "\"\""}, {"1", "nul"}},
    {R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":2}]})",
     {"7", "\"ab\"", "\"\\u00e9b\"", "\"\\ud83d\\ude00x\""},
     {"\"abc\"", "7.5", "true"}},
    {R"({"type":"object","properties":{"a":{"const":1}},"anyOf":[{"required":["a"]},{"properties":{"b":{"const":2}},"required":["b"]}]})",
     {R"({"a":1})", R"({"a":1,"b":2})", R"({"b":2})"},
     {"{}"}},
    {R"({"oneOf":[{"properties":{"kind":{"const":"a"},"x":{"type":"integer"}},"required":["kind","x"]},
                      {"properties":{"kind":{"const":"b"}},"required":["kind"]}]})",
     {R"({"kind":"a","x":1})", R"({"kind":"b"})"},
     {R"({"kind":"a"})", R"({"kind":"b","x":1})"}},
    {R"({"allOf":[{"$ref":"#/$defs/A"},{"properties":{"b":{"const":2}},"required":["b"]}],"$defs":{"A":{"type":"object","properties":{"a":{"const":1}}}}})",
     {R"({"b":2})", R"({"a":1,"b":2})"},
     {R"({"a":1})"}},
    {R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["v","next"]}}})",
     {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":{"v":3,"next":null}}})"},
     {R"({"v":1})", R"({"v":1,"next":1})"}},
    {R"({"type":"array","items":{"$ref":"#"}})", {"[]", "[[],[[]]]"}, {"[1]", "[[]"}},
    {R"({"minLength":2,"maxLength":3})", {"\"ab\"", "\"abc\"", "\"éé\"", "\"\\n\\n\""}, {"\"a\"", "\"abcd\"", "1"}},
    {R"({"type":"string","minLength":2})", {"\"ab\"", "\"abcdefgh\""}, {"\"a\""}},
    {R"({"type":"string","pattern":"^[A-Z]{2}\\d+$"})", {"\"AB1\"", "\"AB123\""}, {"\"A1\"", "\"AB1 \"", "\"xAB1\""}},
    {R"({"type":"string","pattern":"b+"})", {"\"b\"", "\"abc\"", "\"\\nb\\u0041\""}, {"\"a\"", "\"\""}},
    {R"({"type":"string","pattern":"^a|b$"})", {"\"a\"", "\"ax\"", "\"xb\""}, {"\"xa\"", "\"bx\""}},
    {R"({"type":"string","pattern":"^[\"\\\\\\n]+$"})", {R"("\"\\\n")"}, {R"("a")", R"("""")", R"("\")"}},
    {R"({"type":"integer","minimum":0,"maximum":255})",
     {"0", "1", "9", "10", "99", "199", "200", "249", "255"},
     {"-1", "256", "260", "300", "1000", "00", "01", "-0", "1.0"}},
    {R"({"type":"integer","minimum":-17,"maximum":23})",
     {"-17", "-1", "0", "5", "19", "23"},
     {"-18", "24", "30", "-20", "-100", "-0", "- 1"}},
    {R"({"type":"integer","exclusiveMinimum":10,"exclusiveMaximum":13})", {"11", "12"}, {"10", "13", "1", "110"}},
    {R"({"type":"integer","minimum":1})", {"1", "9", "10", "123456789012345678"}, {"0", "-1", "1234567890123456789"}},
    {R"({"type":"integer","maximum":-5})", {"-5", "-6", "-10", "-99"}, {"-4", "0", "5", "-0"}},
    {R"({"type":"number","minimum":0,"maximum":1})",
     {"0", "1", "0.5", "0.999", "1.0", "1.000", "0.0"},
     {"1.1", "1.0001", "-0.1", "2", "10", ".5", "1.", "1e0"}},
    {R"({"type":"number","exclusiveMinimum":-1.25,"maximum":3.5})",
     {"-1.2", "-1.249", "-1", "-0.5", "0", "3.5", "3.49", "3", "3.50"},
     {"-1.25", "-1.3", "-1.250", "3.51", "4", "-2", "-0", "-0.0"}},
    {R"({"type":"integer","minimum":0.5,"maximum":2.5})", {"1", "2"}, {"0", "3"}},
    {R"({"type":"number"})",
     {"0", "-1", "1.5", "-0.25e+10", "1E5", "12e-3"},
     {"01", "+1", "1.", ".1", "1e999", "-", "1e", "NaN"}},
    {R"({"type":"string","format":"date"})",
     {"\"2024-02-28\"", "\"1999-12-31\""},
     {"\"2024-02-30\"", "\"2024-13-01\"", "\"24-01-01\"", "\"2023-04-31\""}},
    {R"({"type":"string","format":"date-time"})",
     {"\"2024-01-31T23:59:59Z\"", "\"2024-01-31T00:00:00.123+01:00\""},
     {"\"2024-01-31\"", "\"2024-01-31T24:00:00Z\"", "\"2024-01-31T23:59:59\""}},
    {R"({"type":"string","format":"uuid"})", {"\"123e4567-e89b-12d3-a456-426614174000\""}, {"\"123e4567\""}},
    {R"({"type":"string","format":"email"})", {"\"a.b+c@example.org\""}, {"\"a@\"", "\"@b.c\"", "\"a b@c.de\""}},
    {R"({"type":"string","format":"ipv4"})", {"\"192.168.0.255\""}, {"\"256.1.1.1\"", "\"1.1.1\""}},
    {R"({"type":"string","format":"uri"})", {"\"https://example.org:80/a/b.html\""}, {"\"example\""}},
    {R"({"properties":{"a":false,"b":true}})", {"{}", R"({"b":[1]})"}, {R"({"a":1})"}},
    {R"({"required":["z"]})", {R"({"z":1})", R"({"z":1,"a":2})"}, {"{}", R"({"a":1})"}},
    {R"({"properties":{"z":{"const":1},"a":{"const":2}},"required":["z","a"],"minProperties":2,"maxProperties":2,"additionalProperties":false})",
     {R"({"z":1,"a":2})"},
     {R"({"a":2,"z":1})"}},
    {R"({"title":"T","description":"d","default":1,"examples":[2],"type":"boolean","$schema":"x","$id":"y","$comment":"z","x-y":1})",
     {"true", "false"},
     {"1"}},
    {R"(true)", {"1", "\"a\"", "null", "[1, {}]", R"({"a":1})"}, {"", "a"}},
    {R"({"$defs":{"a/b~c":{"const":1}},"$ref":"#/$defs/a~1b~0c"})", {"1"}, {"2"}},
};

TEST_CASE("schemas accept what they say", "[constraints][schema]") {
    for (const SchemaCase& sample : kSchemaCases) {
        CAPTURE(sample.schema);
        constraints::Automaton automaton(must(json_schema_grammar(sample.schema)));
        const SchemaValidator validator(json::parse(sample.schema));
        for (const std::string& text : texts_in(sample.fit)) {
            CAPTURE(text);
            CHECK(fit_of(automaton, text) == Fit::whole);
            CHECK(validator.is_valid(json::parse(text)));
        }
        for (const std::string& text : texts_in(sample.other)) {
            CAPTURE(text);
            CHECK(fit_of(automaton, text) != Fit::whole);
        }
    }
}

TEST_CASE("what is drawn by a schema is valid by it", "[constraints][schema]") {
    std::mt19937 random(7);
    const auto vocabulary = words_and_bytes({"\": ", "\", \"", "{\"", "\"}", "null", "true", "12", "0.", "-", "\": {\"",
                                             "],", "é", "\xE2\x82", "  ", "name", "age"});
    for (const SchemaCase& sample : kSchemaCases) {
        CAPTURE(sample.schema);
        const auto constraint =
            std::make_shared<constraints::TokenConstraint>(must(json_schema_grammar(sample.schema)), vocabulary);
        const SchemaValidator validator(json::parse(sample.schema));
        std::size_t ended = 0;
        for (int i = 0; i < 40; ++i) {
            const std::string text = drawn_text(constraint, random);
            if (text.empty()) continue;
            ++ended;
            CAPTURE(text);
            const json value = json::parse(text, nullptr, false);
            REQUIRE_FALSE(value.is_discarded());
            CHECK(validator.is_valid(value));
        }
        CHECK(ended > 3);
    }
}

TEST_CASE("any JSON object is drawn", "[constraints][schema]") {
    std::mt19937 random(11);
    const auto constraint = std::make_shared<constraints::TokenConstraint>(must(constraints::json_object_grammar()),
                                                                           words_and_bytes({"{}", "\":", "[[[["}));
    std::size_t ended = 0;
    for (int i = 0; i < 100; ++i) {
        const std::string text = drawn_text(constraint, random);
        if (text.empty()) continue;
        ++ended;
        CAPTURE(text);
        CHECK(json::parse(text, nullptr, false).is_object());
    }
    CHECK(ended > 20);
}

/// And words of the message.
constexpr std::pair<const char*, const char*> kRefusedSchemas[] = {
    {R"({"not":{}})", "\"not\" is not supported"},
    {R"({"properties":{"a":{"items":{"if":{}}}}})", "/properties/a"},
    {R"({"type":"object","patternProperties":{}})", "patternProperties"},
    {R"({"type":"object","propertyNames":{}})", "propertyNames"},
    {R"({"unevaluatedProperties":false})", "unevaluatedProperties"},
    {R"({"multipleOf":2})", "multipleOf"},
    {R"({"contains":{}})", "contains"},
    {R"({"type":"array","uniqueItems":true})", "uniqueItems"},
    {R"({"type":"text"})", "no type"},
    {R"({"type":[]})", "empty"},
    {R"({"type":"string","format":"idn-email"})", "idn-email"},
    {R"-({"type":"string","pattern":"(?=a)"})-", "(?="},
    {R"({"type":"string","pattern":"a","maxLength":3})", "beside another rule"},
    {R"({"type":"string","minLength":-1})", "minLength"},
    {R"({"type":"string","maxLength":1.5})", "maxLength"},
    {R"({"type":"integer","minimum":"1"})", "minimum"},
    {R"({"type":"integer","minimum":1e30})", "digits"},
    {R"({"type":"integer","minimum":5,"maximum":4})", "no text"},
    {R"({"type":"integer","minimum":5,"exclusiveMinimum":4})", "same side"},
    {R"({"enum":[]})", "no text"},
    {R"({"enum":1})", "enum"},
    {R"({"enum":["a"],"minLength":1})", "beside other rules"},
    {R"(false)", "no text"},
    {R"({"properties":{"a":false},"required":["a"]})", "no text"},
    {R"({"required":["a"],"additionalProperties":false})", "no text"},
    {R"({"$ref":"#/$defs/none"})", "not there"},
    {R"({"$ref":"http://example.org/x"})", "places of the schema itself"},
    {R"({"$ref":"#"})", "begins with itself"},
    {R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", "begins with itself"},
    {R"({"type":"array","items":{"$ref":"#"},"minItems":1})", "no text"},
    {R"({"$ref":"#","minLength":1})", "without end"},
    {R"({"properties":{"a":{"$ref":"#","required":["a"]}}})", "without end"},
    {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "at once"},
    {R"({"oneOf":[{"type":"string"},{"type":"string","maxLength":3}]})", "at once"},
    {R"({"oneOf":[{"minimum":5},{"type":"string"}]})", "at once"},  // the first says nothing of strings
    {R"({"oneOf":[{"properties":{"a":{"const":1}},"required":["a"]},{"type":"null"}]})", "at once"},
    {R"({"anyOf":[]})", "anyOf"},
    {R"({"allOf":[{"type":"string"},{"type":"null"}]})", "two values"},
    {R"({"allOf":[{"properties":{"a":{}},"additionalProperties":false},{"properties":{"b":{}}}]})",
     "additionalProperties"},
    {R"({"items":[{}]})", "prefixItems"},
    {R"({"minProperties":3})", "minProperties"},
    {R"({"maxProperties":3})", "maxProperties"},
    {R"({"properties":1})", "properties"},
    {R"({"required":"a"})", "required"},
    {R"([])", "neither an object"},
    {R"({"type":"object")", "the schema"},
    {R"({"type":"array","maxItems":100000000})", "too large"},
    {R"({"type":"string","minLength":1000000000})", "too large"},
    {R"({"type":"object","properties":{"a":{"type":"string","pattern":"a{1,1000000}"}}})", "too large"},
};

TEST_CASE("schemas are refused by name", "[constraints][schema]") {
    for (const auto& [schema, words] : kRefusedSchemas) {
        CAPTURE(schema);
        check_refused(json_schema_grammar(schema), ErrorCode::InvalidArgument, words);
    }
}

TEST_CASE("hostile schemas are refused, and soon", "[constraints][schema]") {
    const auto refuse = [](const std::string& schema) {
        CAPTURE(schema.substr(0, 200));
        const auto made = json_schema_grammar(schema);
        REQUIRE_FALSE(made);
        CHECK(made.error().code == ErrorCode::InvalidArgument);
        CHECK(made.error().message.size() < 600);
    };
    std::string deep;
    for (int i = 0; i < 100'000; ++i) deep += R"({"items":)";
    refuse(deep);
    refuse(std::string(2'000'000, ' '));
    // 2^40 ways through allOf and anyOf, and inlined references.
    for (const std::string joining : {"allOf", "anyOf", "oneOf"}) {
        std::string chain = R"({"$ref":"#/$defs/d0","$defs":{)";
        for (int i = 0; i < 40; ++i) {
            const std::string next = R"({"$ref":"#/$defs/d)" + std::to_string(i + 1) + R"(","minLength":1})";
            chain += R"("d)" + std::to_string(i) + R"(":{")" + joining + R"(":[)" + next + "," + next + "]},";
        }
        refuse(chain + R"("d40":{"type":"string","minLength":1}}})");
    }
    // Large lists, again and again.
    std::string many = R"({"allOf":[)", list = R"(["x")";
    for (int i = 0; i < 20'000; ++i) list += ",\"x" + std::to_string(i) + "\"";
    list += "]";
    for (int i = 0; i < 20'000; ++i) many += R"({"$ref":"#/$defs/b"},)";
    refuse(many + R"({"enum":)" + list + R"(}],"$defs":{"b":{"enum":)" + list + "}}}");
    std::string members = R"({"properties":{)";
    for (int i = 0; i < 30'000; ++i) members += "\"p" + std::to_string(i) + "\":{},";
    refuse(members + R"("last":{}}})");
    std::string required = R"({"required":["a")";
    for (int i = 0; i < 30'000; ++i) required += ",\"p" + std::to_string(i) + "\"";
    refuse(required + "]}");
    refuse(R"({"const":")" + std::string(200'000, 'x') + "\"}");
    refuse(R"({"properties":{")" + std::string(200'000, 'x') + R"(":{}},"additionalProperties":true})");
}

TEST_CASE("texts nest as deep as is bounded, and no deeper", "[constraints][schema]") {
    constraints::Automaton automaton(must(json_schema_grammar(R"({"type":"array","items":{"$ref":"#"}})")));
    CHECK(fit_of(automaton, std::string(100, '[') + std::string(100, ']')) == Fit::whole);
    CHECK(fit_of(automaton, std::string(1000, '[')) == Fit::no);
}

}  // namespace
}  // namespace vkformer::tests
