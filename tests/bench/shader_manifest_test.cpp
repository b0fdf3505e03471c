// SPDX-License-Identifier: MIT
#include "bench/shader_manifest.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/must.hpp"

namespace vkformer::tests {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

TEST_CASE("a shader's manifest is read", "[bench][manifest]") {
    const auto manifest = must(bench::parse_shader_manifest(json::parse(R"({
        "entry_point": "go", "defines": ["TILE=8", "FAST"], "constants": {"0": 64, "3": 0.5, "4": true, "5": -1},
        "reference": {"op": "add", "shape": "2x8"},
        "buffers": [{"binding": 0, "operand": "a"}, {"binding": 2, "result": 0},
                    {"binding": 1, "dtype": "f16", "count": 7, "fill": "random"},
                    {"binding": 5, "dtype": "i32", "count": 1, "fill": 3}, {"binding": 6, "dtype": "f32", "count": 2, "fill": "nan"}],
        "push": [16, 1.5], "groups": [2, 3], "work": {"flops": 100, "read": 64}})"),
                                                            "m.json"));
    CHECK(manifest.entry_point == "go");
    CHECK(manifest.defines == std::vector<std::string>{"TILE=8", "FAST"});
    CHECK(manifest.constants == std::map<std::uint32_t, std::uint32_t>{
                                    {0, 64}, {3, std::bit_cast<std::uint32_t>(0.5f)}, {4, 1}, {5, 0xFFFFFFFFu}});
    CHECK(manifest.reference->dtype.empty());
    REQUIRE(manifest.buffers.size() == 5);
    CHECK(manifest.buffers[0].operand == "a");
    CHECK(manifest.buffers[1].result == 0u);
    CHECK(manifest.buffers[2].random);
    CHECK(manifest.buffers[3].value == 3);
    CHECK(std::isnan(manifest.buffers[4].value));
    CHECK(manifest.groups == std::array<std::uint32_t, 3>{2, 3, 1});
    CHECK(manifest.work->flops == 100);
    REQUIRE(manifest.push.size() == 8);
    float second = 0;
    std::memcpy(&second, manifest.push.data() + 4, 4);
    CHECK(second == 1.5f);
}

TEST_CASE("a shader's manifest that is wrong is refused, with the field", "[bench][manifest][errors]") {
    const auto [text, what] = GENERATE(Catch::Generators::table<std::string, std::string>({
        {"[]", "m.json is no object"},
        {"{}", "lacks groups"},
        {R"({"groups": []})", "groups"},
        {R"({"groups": [0]})", "groups[0] is no whole number from 1"},
        {R"({"groups": [1.5]})", "groups[0]"},
        {R"({"groups": [1, 1, 1, 1]})", "at most 3"},
        {R"({"groups": [1], "group": 3})", "unknown field \"group\""},
        {R"({"groups": [1], "buffers": {}})", "no list"},
        {R"({"groups": [1], "buffers": [1]})", "buffers[0] is no object"},
        {R"({"groups": [1], "buffers": [{"dtype": "f32", "count": 1}]})", "lacks binding"},
        {R"({"groups": [1], "buffers": [{"binding": 99, "dtype": "f32", "count": 1}]})", "binding is no whole number"},
        {R"({"groups": [1], "buffers": [{"binding": 0}]})", "needs one of operand, result"},
        {R"({"groups": [1], "buffers": [{"binding": 0, "operand": "x"}]})", "there is no reference"},
        {R"({"groups": [1], "buffers": [{"binding": 0, "dtype": "f64", "count": 1}]})", "not f32, f16 or i32"},
        {R"({"groups": [1], "buffers": [{"binding": 0, "dtype": "f32", "count": 1e9}]})", "count"},
        {R"({"groups": [1], "buffers": [{"binding": 0, "dtype": "f32", "count": 99999999999}]})", "count"},
        {R"({"groups": [1], "buffers": [{"binding": 0, "dtype": "f32", "count": 1, "fill": "ones"}]})", "fill"},
        {R"({"groups": [1], "buffers": [{"binding": 0, "dtype": "i32", "count": 1, "fill": "nan"}]})",
         "fills whole numbers"},
        {R"({"groups": [1], "buffers": [{"binding": 0, "dtype": "i32", "count": 1, "fill": 1e300}]})", "fill"},
        {R"({"groups": [1], "buffers": [{"binding": 1, "dtype": "f32", "count": 1}, {"binding": 1, "dtype": "f32", "count": 1}]})",
         "binding 1 is taken"},
        {R"({"groups": [1], "constants": {"x": 1}})", "no id of a constant"},
        {R"({"groups": [1], "constants": {"1": "1"}})", "true or false"},
        {R"({"groups": [1], "constants": {"1": 99999999999}})", "32 bits"},
        {R"({"groups": [1], "push": [1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3]})",
         "at most 32"},
        {R"({"groups": [1], "reference": "add"})", "reference is no object"},
        {R"({"groups": [1], "reference": {"op": "add"}})", "lacks shape"},
        {R"({"groups": [1], "work": {"flops": -1}})", "flops"},
        {R"({"groups": [1], "entry_point": 4})", "entry_point is no text"},
    }));
    CAPTURE(text);
    const auto manifest = bench::parse_shader_manifest(json::parse(text), "m.json");
    REQUIRE_FALSE(manifest);
    CHECK(manifest.error().code == ErrorCode::CorruptFile);
    CHECK_THAT(manifest.error().message, ContainsSubstring("m.json") && ContainsSubstring(what));
}

}  // namespace
}  // namespace vkformer::tests
