// SPDX-License-Identifier: MIT
#include "formats/config.hpp"

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.h"
#include "support/must.hpp"
#include "support/refused.hpp"
#include "support/temporary_folder.hpp"

namespace vkformer::tests {
namespace {

using namespace formats;
using Catch::Matchers::ContainsSubstring;

constexpr std::string_view kText = R"({
    "d_model": 512, "dropout": 0.1, "scale_embedding": true, "activation_function": "swish", "max_length": null,
    "negative": -3, "huge": 4294967296, "whole": 2.0, "word": "abc", "architectures": ["MarianMTModel"],
    "eos_token_id": 0, "eos_token_ids": [0, 7], "bad_words_ids": [[58100], [1, 2]], "mixed": [1, "a"], "ragged": [1, [2]],
    "nested": {"factor": 8.0, "kind": "x"}, "control": "a\nb"
})";

Config config() { return *Config::parse(kText, "config.json"); }

}  // namespace

TEST_CASE("config: typed values, defaults, null as absent", "[formats][config]") {
    const Config c = config();
    CHECK(*c.unsigned_integer("d_model") == 512);
    CHECK(*c.unsigned_integer("d_model", {.min = 512, .max = 512}) == 512);
    CHECK(*c.unsigned_integer("missing", {.fallback = 7}) == 7);
    CHECK(*c.unsigned_integer("max_length", {.fallback = 20, .min = 1}) == 20);
    CHECK(*c.integer("negative") == -3);
    CHECK(*c.integer("huge") == 4294967296);
    CHECK(*c.real("dropout") == 0.1);
    CHECK(*c.real("d_model") == 512.0);
    CHECK(*c.real("missing", {.fallback = 1e-5}) == 1e-5);
    CHECK(*c.boolean("scale_embedding"));
    CHECK_FALSE(*c.boolean("missing", false));
    CHECK(*c.string("activation_function") == "swish");
    CHECK(*c.string("missing", "relu") == "relu");
    CHECK(*c.strings("architectures") == std::vector<std::string>{"MarianMTModel"});
    CHECK(c.strings("missing")->empty());
    CHECK(*c.token_ids("eos_token_id") == std::vector{0});
    CHECK(*c.token_ids("eos_token_ids") == std::vector{0, 7});
    CHECK(c.token_ids("missing")->empty());
    CHECK(*c.token_id_lists("bad_words_ids") == std::vector<std::vector<std::int32_t>>{{58100}, {1, 2}});
    CHECK(c.token_id_lists("missing")->empty());
    CHECK_FALSE(c.has("max_length"));
    CHECK(c.has("d_model"));
    CHECK(*c.object("nested")->real("factor") == 8.0);
    CHECK(c.object("missing")->names().empty());
}

TEST_CASE("config: messages name file, field, value and expectation", "[formats][config]") {
    const Config c = config();
    CHECK(message_of(c.unsigned_integer("word", {.min = 1})) ==
          R"(config.json: "word" is "abc", expected a positive integer)");
    CHECK(message_of(c.unsigned_integer("missing")) ==
          R"(config.json: "missing" is missing, expected a non-negative integer)");
    CHECK(message_of(c.unsigned_integer("max_length")) ==
          R"(config.json: "max_length" is missing, expected a non-negative integer)");
    CHECK(message_of(c.unsigned_integer("d_model", {.min = 1, .max = 256})) ==
          R"(config.json: "d_model" is 512, expected an integer from 1 to 256)");
    CHECK(message_of(c.unsigned_integer("negative")) ==
          R"(config.json: "negative" is -3, expected a non-negative integer)");
    CHECK(message_of(c.unsigned_integer("huge", {.fallback = 1})) ==
          R"(config.json: "huge" is 4294967296, expected a non-negative integer)");
    CHECK(message_of(c.unsigned_integer("whole")) == R"(config.json: "whole" is 2.0, expected a non-negative integer)");
    CHECK(message_of(c.unsigned_integer("scale_embedding")) ==
          R"(config.json: "scale_embedding" is true, expected a non-negative integer)");
    CHECK(message_of(c.integer("word")) == R"(config.json: "word" is "abc", expected an integer)");
    CHECK(message_of(c.integer("negative", {.min = 5})) ==
          R"(config.json: "negative" is -3, expected an integer of at least 5)");
    CHECK(message_of(c.real("dropout", {.min = 0.5, .max = 1})) ==
          R"(config.json: "dropout" is 0.1, expected a number from 0.5 to 1.0)");
    CHECK(message_of(c.real("word")) == R"(config.json: "word" is "abc", expected a number)");
    CHECK(message_of(c.boolean("d_model")) == R"(config.json: "d_model" is 512, expected true or false)");
    CHECK(message_of(c.string("d_model")) == R"(config.json: "d_model" is 512, expected a text)");
    CHECK(message_of(c.strings("mixed")) == R"(config.json: "mixed" is [1,"a"], expected a list of texts)");
    CHECK(message_of(c.token_ids("mixed")) ==
          R"(config.json: "mixed" is [1,"a"], expected an integer or a list of integers)");
    CHECK(message_of(c.token_id_lists("ragged")) ==
          R"(config.json: "ragged" is [1,[2]], expected a list of lists of integers)");
    CHECK(message_of(c.object("word")) == R"(config.json: "word" is "abc", expected an object)");
    CHECK(message_of(c.object("nested")->real("kind")) == R"(config.json: "nested": "kind" is "x", expected a number)");
    CHECK(message_of(c.real("control")) == R"(config.json: "control" is "a\x0ab", expected a number)");

    const Error refused = c.unsupported("activation_function", "relu, gelu");
    CHECK(refused.code == ErrorCode::UnsupportedConfig);
    CHECK(refused.message == R"(config.json: "activation_function" is "swish", supported: relu, gelu)");
}

TEST_CASE("config: unknown fields can be listed", "[formats][config]") {
    const Config c = *Config::parse(R"({"b":1,"a":null,"c":{},"d":0})", "config.json");
    CHECK(c.names() == std::vector<std::string>{"b", "c", "d"});
    constexpr std::array<std::string_view, 2> known = {"b", "d"};
    CHECK(c.unknown_names(known) == std::vector<std::string>{"c"});
}

TEST_CASE("config: ranges may be infinite, as Python or as transformers 5 writes them", "[formats][config]") {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const Config c = *Config::parse(
        R"({"a":[0.5, Infinity],"b":[-Infinity,{"__float__": "Infinity"}],"c":[1,2],"d":[2,1],"e":[1],"f":["Infinity \"Infinity", 1],)"
        R"("g":[0,NaN],"h":[0,{"__float__":"NaN"}],"i":[0,{"__float__":"Infinity","x":1}],"j":Infinity,"k":[0,1,2],"l":null,"m":"x\\","n":[0,Infinity]})",
        "config.json");
    using Range = std::optional<std::pair<double, double>>;
    CHECK(*c.range("a") == Range({0.5, kInfinity}));
    CHECK(*c.range("b") == Range({-kInfinity, kInfinity}));
    CHECK(*c.range("c") == Range({1, 2}));
    CHECK(*c.range("l") == Range());
    CHECK(*c.range("n") == Range({0, kInfinity}));
    for (const char* const bad : {"d", "e", "f", "g", "h", "i", "j", "k"})
        CHECK_THAT(message_of(c.range(bad)), ContainsSubstring('"' + std::string(bad) + '"') &&
                                                 ContainsSubstring("expected a list of two numbers"));
    CHECK(c.strings("f").error().code == ErrorCode::CorruptFile);  // the text is what it was
    CHECK_THAT(message_of(c.strings("f")), ContainsSubstring(R"(Infinity \"Infinity)"));
    CHECK_THAT(message_of(c.real("j")), ContainsSubstring("\"j\""));
    CHECK_FALSE(Config::parse(R"({"a":Infinit})", "x"));
    const TemporaryFolder folder;
    folder.write("config.json", R"({"a": [0, Infinity]})");
    CHECK(*must(Config::open(folder / "config.json")).range("a") == Range({0, kInfinity}));
    CHECK_FALSE(Config::parse(R"({"a":"Infinity)", "x"));
}

TEST_CASE("config: files that are no JSON object", "[formats][config]") {
    const auto parse_message = [](std::string_view text) { return message_of(Config::parse(text, "config.json")); };
    CHECK_THAT(parse_message(""), ContainsSubstring("config.json: parse error"));
    CHECK_THAT(parse_message("[1,2]"), ContainsSubstring("config.json: is [1,2], expected an object"));
    CHECK_THAT(parse_message("3"), ContainsSubstring("expected an object"));
    CHECK_THAT(parse_message(R"({"a":1,"a":2})"), ContainsSubstring("\"a\" occurs twice"));
    CHECK_THAT(parse_message(R"({"a":{"b":1,"b":2}})"), ContainsSubstring("\"b\" occurs twice"));
    CHECK_THAT(parse_message(R"({"a":1e999})"), ContainsSubstring("config.json: "));
    CHECK_THAT(parse_message("{\"a\":\"\xC3\"}"), ContainsSubstring("config.json: "));
    CHECK_THAT(parse_message(std::string(1'000'000, '[')), ContainsSubstring("nested deeper than 64"));
    CHECK_THAT(parse_message(std::string_view("{}\0x", 4)), ContainsSubstring("zero byte"));
    CHECK_THAT(parse_message(R"({"a":1)"), ContainsSubstring("config.json: parse error"));
    const std::string whole(kText);
    for (std::size_t size = 0; size + 1 < whole.size(); ++size) CHECK_FALSE(Config::parse(whole.substr(0, size), "x"));

    CHECK(Config::open("/no/such/config.json").error().code == ErrorCode::FileNotFound);
    CHECK(Config::open_if_present("/no/such/config.json")->names().empty());
}

}  // namespace vkformer::tests
